"""A node whose topics are kept by a toy cluster of two: Kafka's clients go on while one of the two is killed."""

from __future__ import annotations

from pathlib import Path

from penstock.client import Consumer, Producer
from penstock.client.runtime.imports import load
from penstock.protocols import protocol
from penstock.testing import Broker
from tests.toy.cluster import toy_cluster
from tests.toy.killed_node import VALUES, read, written_while_a_node_was_killed

for role in ("consumer", "producer"):
    load(protocol("kafka"), role)  # two threads that parse at once are too much for some Pythons


def test_every_acknowledged_record_is_read_once_though_a_node_was_killed_and_came_back(tmp_path: Path) -> None:
    with toy_cluster(f"file:{tmp_path}") as cluster, Broker(cluster.address, offsets_partitions=2) as snode:
        written_while_a_node_was_killed(cluster, snode.address, partitions=4)
        with Consumer(f"{snode.address}/t", group="g", auto_offset_reset="earliest") as consumer:
            found = read(consumer, len(VALUES))
            with Producer(snode.address) as producer:
                for number in range(4):
                    producer.send("t", b"last", partition=number).result(30)
            # Nothing came a second time in any partition before its last one.
            assert read(consumer, 4) == [b"last"] * 4
        assert sorted(found, key=int) == VALUES
