"""A fourth protocol, for the tests alone: the interfaces' first judge.

It has RocketMQ's shape. A name server tells which nodes there are and what they keep; a partition is a topic, a number
and a node; answers come in any order, and a node pushes a notice when the members of a group change; every member then
works out by itself what it reads, and does so by the clock, too; messages have a format of the toy's own. It is built
on the same interfaces with no edit elsewhere, so that whatever it cannot do shows one that is wrong.
"""
