"""Records through a node over a toy cluster, while one of the cluster's two nodes is killed and comes back."""

from __future__ import annotations

from penstock.client import Admin, Consumer, Producer
from penstock.interfaces import NewTopic
from tests.toy.cluster import ToyCluster

RECORDS = 400
VALUES = [b"%d" % number for number in range(RECORDS)]


def written_while_a_node_was_killed(cluster: ToyCluster, address: str, partitions: int) -> None:
    """Create topic "t" with so many partitions and write `VALUES` to its four, every one acknowledged."""
    with Admin(address) as admin:
        admin.create_topics([NewTopic("t", partitions)])
    with Producer(address, retry_backoff_ms=20) as producer:
        sent = [producer.send("t", value, partition=at % 4) for at, value in enumerate(VALUES[: RECORDS // 2])]
        sent[-1].result(30)
        cluster.nodes[0].kill()
        sent += [producer.send("t", value, partition=at % 4) for at, value in enumerate(VALUES[RECORDS // 2 :])]
        sent[-1].result(30)  # the other node goes on
        cluster.start(cluster.nodes[0])
        for each in sent:
            each.result(30)


def read(consumer: Consumer, count: int) -> list[bytes]:
    """So many values as they come, committed batch by batch. Fails when no more come."""
    found: list[bytes] = []
    while len(found) < count:
        batch = consumer.poll(10)
        assert batch, f"only {len(found)} of {count} came"
        found += [record.value or b"" for record in batch]
        consumer.commit(batch)
    return found
