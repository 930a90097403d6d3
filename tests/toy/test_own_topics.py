"""What nodes over a cluster remember lies in that cluster, apart from its own groups and from one another's."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.client import Admin, Consumer, Producer
from penstock.errors import ServerError
from penstock.interfaces import NewTopic
from penstock.model import Committed, Partition
from penstock.testing import Broker
from tests.toy.cluster import toy_cluster

AT = Partition("t", 0)
OWN = {"__penstock_1__consumer_offsets", "__penstock_2__consumer_offsets"}


def committed(broker: Broker, group: str) -> int | None:
    with Admin(broker.address) as admin:
        found = admin.committed(group, [AT]).get(AT)
    return None if found is None else found.offset


def commit(broker: Broker, group: str, offset: int) -> None:
    with Admin(broker.address) as admin:
        admin.commit(group, {AT: Committed(offset)})


def test_two_nodes_over_a_cluster_keep_their_groups_apart_and_find_them_again(tmp_path: Path) -> None:
    with toy_cluster(f"file:{tmp_path}") as cluster:
        one = Broker(cluster.address, offsets_partitions=2, node_id=1)
        two = Broker(cluster.address, offsets_partitions=2, node_id=2)
        with one, two:
            with Admin(one.address) as admin:
                admin.create_topics([NewTopic("t", 1)])
            with Producer(one.address) as producer:
                for _ in range(5):
                    producer.send("t", b"x").result(30)
            commit(one, "g", 1)
            commit(two, "g", 2)
            with Consumer(f"{cluster.address}/t", group="g", auto_offset_reset="earliest") as consumer:
                batch = consumer.poll(20)  # in the cluster's own group of that name
                consumer.commit(batch)
            assert (committed(one, "g"), committed(two, "g")) == (1, 2)
            one.restart()
            two.restart()
            assert (committed(one, "g"), committed(two, "g")) == (1, 2)
            with Admin(one.address) as admin:
                assert set(admin.topics(internal=True)) > OWN
                assert OWN.isdisjoint(admin.topics())
                with pytest.raises(ServerError):
                    admin.delete_topics(["__penstock_2__consumer_offsets"])
        with Consumer(f"{cluster.address}/t", group="g") as consumer:
            (partition,) = consumer.partitions_for("t")
            found = consumer.committed([partition])[partition]
            assert found is not None
            assert found.offset == len(batch)
