"""A node whose topics are kept by a toy cluster of two: Kafka's clients go on while one of the two is killed."""

from __future__ import annotations

from pathlib import Path

from penstock.client import Admin, Consumer, Producer
from penstock.client._loading import load
from penstock.protocols import protocol
from penstock.seams import NewTopic
from penstock.testing import Broker
from tests.toy.cluster import toy_cluster

for role in ("consumer", "producer"):
    load(protocol("kafka"), role)  # two threads that parse at once are too much for some Pythons

RECORDS = 400


def test_every_acknowledged_record_is_read_once_though_a_node_was_killed_and_came_back(tmp_path: Path) -> None:
    with toy_cluster(f"file:{tmp_path}") as cluster, Broker(cluster.address, offsets_partitions=2) as snode:
        with Admin(snode.address) as admin:
            admin.create_topics([NewTopic("t", 4)])
        with Producer(snode.address, retry_backoff_ms=20) as producer:
            sent = [producer.send("t", b"%d" % number, partition=number % 4) for number in range(RECORDS // 2)]
            sent[-1].result(30)
            cluster.nodes[0].kill()
            sent += [
                producer.send("t", b"%d" % number, partition=number % 4) for number in range(RECORDS // 2, RECORDS)
            ]
            sent[-1].result(30)  # the other node goes on
            cluster.start(cluster.nodes[0])
            for each in sent:
                each.result(30)
        with Consumer(f"{snode.address}/t", group="g", auto_offset_reset="earliest") as consumer:
            found: list[bytes | None] = []
            while len(found) < RECORDS:
                batch = consumer.poll(10)
                assert batch, f"only {len(found)} of {RECORDS} came"
                found += [record.value for record in batch]
                consumer.commit(batch)
            with Producer(snode.address) as producer:
                for number in range(4):
                    producer.send("t", b"last", partition=number).result(30)
            last: list[bytes | None] = []
            while len(last) < 4:
                last += [record.value for record in consumer.poll(10)]
            assert last == [b"last"] * 4  # nothing came a second time in any partition before its last one
        assert sorted(found, key=lambda value: int(value or b"")) == [b"%d" % number for number in range(RECORDS)]
