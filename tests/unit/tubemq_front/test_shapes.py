"""Topics of several partitions a store, as TubeMQ makes them: ids that stay, whoever adds partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock import Admin, LogRange, NewTopic, Partition, Producer, RangeReader
from penstock.protocols.tubemq.server.settings import shape_of
from penstock.protocols.tubemq.wire.strings import partition_ids
from penstock.testing import Broker

LISTENERS = ["tubemq://127.0.0.1:0", "kafka://127.0.0.1:0"]


def test_each_partition_is_a_store_where_nobody_said_otherwise() -> None:
    assert shape_of((), 3).ids == (0, 10_000, 20_000)
    assert (shape_of((), 3).stores, shape_of((), 3).partitions) == (3, 1)
    assert shape_of(((2, 4),), 3).ids == (0, 10_000, 20_000)  # of a topic that was made anew, and is smaller


def test_partitions_keep_their_ids_while_a_topic_grows() -> None:
    assert shape_of(((1, 3),), 3).ids == (0, 1, 2)
    assert shape_of(((1, 3),), 5).ids == (0, 1, 2, 3, 4)  # two more by Kafka's clients
    assert shape_of(((3, 1), (3, 2)), 6).ids == (0, 10_000, 20_000, 1, 10_001, 20_001)
    assert shape_of(((2, 2), (3, 2)), 6).ids == (0, 1, 10_000, 10_001, 20_000, 20_001)
    partly = shape_of(((2, 2),), 5)
    assert (partly.stores, partly.partitions, partly.ids) == (2, 2, (0, 1, 10_000, 10_001))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5), st.integers(0, 5))
def test_whatever_the_steps_ids_are_those_of_the_shape_and_earlier_ones_stay(
    grows: list[tuple[int, int]], more: int
) -> None:
    steps = [(1, 2)]
    for stores, partitions in grows:
        steps.append((steps[-1][0] + stores, steps[-1][1] + partitions))
    total = steps[-1][0] * steps[-1][1]
    found = shape_of(tuple(steps), total + more)
    assert sorted(found.ids) == sorted(partition_ids(found.stores, found.partitions))
    assert all(found.ids[number] == each for each, number in found.numbers.items())
    for place in range(1, len(steps)):
        before = shape_of(tuple(steps[:place]), steps[place - 1][0] * steps[place - 1][1])
        assert found.ids[: len(before.ids)] == before.ids


def test_a_topic_of_three_partitions_is_one_store_for_tubemq_and_three_partitions_for_kafka() -> None:
    with Broker(listen=LISTENERS) as node:
        address = node.url("tubemq")
        with Admin(address) as admin, Admin(node.url("kafka")) as other:
            admin.create_topics([NewTopic("made", 3)])
            assert ids(admin, "made") == [0, 1, 2]
            other.add_partitions("made", 4)
            assert ids(admin, "made") == [0, 1, 2, 3]
            admin.add_partitions("made", 5)
            assert ids(admin, "made") == [0, 1, 2, 3, 4]
            assert len(other.topics(["made"])["made"].partitions) == 5
        with Producer(address) as producer:
            places = [producer.send("made", b"%d" % each, partition=each).result(10) for each in range(5)]
            assert [(place.partition, place.offset) for place in places] == [(each, 0) for each in range(5)]
        with RangeReader(address) as reader, RangeReader(node.url("kafka")) as same:
            for each in range(5):
                (ours,) = reader.read(LogRange("made", each, 0, 28, "1"))
                (theirs,) = same.read(LogRange("made", each, 0, 1))
                assert ours.value.to_pylist() == theirs.value.to_pylist() == [b"%d" % each]
        with Admin(address) as admin:
            admin.commit("group", {Partition("made", 4, "1"): 28})
            assert admin.committed("group", [Partition("made", 4, "1")])[Partition("made", 4, "1")].offset == 28


def test_shapes_live_on_over_a_restart(tmp_path: object) -> None:
    store = f"file:{tmp_path}/node"
    with Broker(store, listen=LISTENERS) as node, Admin(node.url("tubemq")) as admin:
        admin.create_topics([NewTopic("made", 3)])
    with Broker(store, listen=LISTENERS) as node, Admin(node.url("tubemq")) as admin:
        assert ids(admin, "made") == [0, 1, 2]


def ids(admin: Admin, topic: str) -> list[int]:
    """As clients are told them."""
    return [info.partition.id for info in admin.topics([topic])[topic].partitions]
