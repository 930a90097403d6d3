"""A fourth protocol, for the tests alone: the seams' first judge.

It is shaped like none of Kafka: answers come in any order, the server pushes events of its own accord, and a master
hands out partitions (disconnect first, connect once the old owner let go). It is built on the same seams with no edit
elsewhere, so that whatever it cannot do shows a seam that is wrong.
"""
