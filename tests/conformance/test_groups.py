"""Groups: sharing, committing, going on where others stopped, and what listeners hear."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from penstock.client import Admin, Consumer, Producer, RebalanceListener
from penstock.errors import FencedError, UsageError
from penstock.model import Partition
from tests.conformance.conftest import CONSUMER, Log
from tests.conformance.reading import poll_until, read, values


def fill(log: Log, topic: str, count: int, partitions: int = 1) -> None:
    with Producer(log.address) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % partitions)


class Heard(RebalanceListener):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, frozenset[int]]] = []

    def assigned(self, partitions: Collection[Partition]) -> None:
        self.events.append(("assigned", frozenset(each.id for each in partitions)))

    def revoked(self, partitions: Collection[Partition]) -> None:
        self.events.append(("revoked", frozenset(each.id for each in partitions)))


def test_a_group_goes_on_where_it_committed(log: Log, group: str) -> None:
    topic = log.topic()
    fill(log, topic, 10)
    zero = Partition(topic, 0)
    with Consumer(log.at(topic), group=group, **CONSUMER) as consumer:
        read(consumer, 4)
        consumer.commit()
        read(consumer, 3)
        # Logs that have leader epochs remember in which one the record before it was written.
        assert {partition: each.offset for partition, each in consumer.committed([zero]).items()} == {zero: 4}
    with Consumer(log.at(topic), group=group, **CONSUMER) as consumer:
        assert values(read(consumer, 2)) == [b"4", b"5"]
        consumer.commit({zero: 9})
    with Consumer(log.at(topic), group=group, **CONSUMER) as consumer:
        assert values(read(consumer, 1)) == [b"9"]


def test_a_batch_is_committed_and_nothing_after_it(log: Log, group: str) -> None:
    topic = log.topic()
    fill(log, topic, 10)
    with Consumer(log.at(topic), group=group, **CONSUMER) as consumer:
        batch = consumer.poll(10, max_records=3)
        consumer.poll(10, max_records=3)
        consumer.commit(batch)
    with Admin(log.address) as admin:
        assert admin.committed(group)[Partition(topic, 0)].offset == len(batch)
        lag = admin.lag(group)[Partition(topic, 0)]
    assert (lag.committed, lag.end, lag.offsets) == (len(batch), 10, 10 - len(batch))
    assert lag.seconds is not None


def test_asynchronous_commits_call_back_in_the_polling_thread(log: Log, group: str) -> None:
    topic = log.topic()
    fill(log, topic, 3)
    told: list[tuple[dict[Partition, int], object]] = []
    with Consumer(log.at(topic), group=group, **CONSUMER) as consumer:
        read(consumer, 3)
        consumer.commit_async(
            callback=lambda offsets, error: told.append(({p: c.offset for p, c in offsets.items()}, error))
        )
        poll_until(lambda: bool(told), consumer)
    assert told == [({Partition(topic, 0): 3}, None)]


def test_automatic_commits_cover_what_was_handled_and_nothing_else(log: Log, group: str) -> None:
    topic = log.topic()
    fill(log, topic, 10)
    options = {**CONSUMER, "enable_auto_commit": True, "auto_commit_interval_ms": 60_000}

    def crash() -> None:
        with Consumer(log.at(topic), group=group, **options) as consumer:
            read(consumer, 4)
            consumer.poll(5, max_records=3)
            raise RuntimeError  # the last three were returned, and nobody knows whether they were dealt with

    with pytest.raises(RuntimeError):
        crash()
    with Consumer(log.at(topic), group=group, **options) as consumer:
        assert values(read(consumer, 2)) == [b"4", b"5"]
    with Consumer(log.at(topic), group=group, **options) as consumer:
        assert values(read(consumer, 1)) == [b"6"]


def test_members_share_a_topic_and_take_over_from_who_leaves(log: Log, group: str) -> None:
    topic = log.topic(4)
    heard = Heard()
    with Consumer(log.address, group=group, **CONSUMER) as first:
        first.subscribe([topic], heard)
        poll_until(lambda: len(first.assignment()) == 4, first)
        with Consumer(log.at(topic), group=group, **CONSUMER) as second:
            poll_until(lambda: len(first.assignment()) == 2 and len(second.assignment()) == 2, first, second)
            assert not first.assignment() & second.assignment()
            fill(log, topic, 40, 4)
            found: set[bytes | None] = set()
            while len(found) < 40:
                for consumer in (first, second):
                    batch = consumer.poll(0.1)
                    consumer.commit(batch)
                    assert not found & {record.value for record in batch}
                    found |= {record.value for record in batch}
        poll_until(lambda: len(first.assignment()) == 4, first)
        assert not first.poll(0.2)
    everything = frozenset(range(4))
    owned: set[int] = set()
    history = []
    for event, partitions in heard.events:
        owned = owned | partitions if event == "assigned" else owned - partitions
        history.append(frozenset(owned))
    assert history[-2:] == [everything, frozenset()]
    assert any(len(each) == 2 for each in history)


def test_a_seek_in_the_listener_wins_over_the_committed_offset(log: Log, group: str) -> None:
    topic = log.topic()
    fill(log, topic, 10)

    class Seeks(RebalanceListener):
        def assigned(self, partitions: Collection[Partition]) -> None:
            for partition in partitions:
                consumer.seek(partition, 6)

    with Consumer(log.address, group=group, **CONSUMER) as consumer:
        consumer.subscribe([topic], Seeks())
        assert values(read(consumer, 1)) == [b"6"]


def test_the_listener_can_commit_what_is_being_revoked(log: Log, group: str) -> None:
    topic = log.topic()
    fill(log, topic, 5)

    class Commits(RebalanceListener):
        def revoked(self, partitions: Collection[Partition]) -> None:
            consumer.commit()

    with Consumer(log.address, group=group, **CONSUMER) as consumer:
        consumer.subscribe([topic], Commits())
        read(consumer, 3)
    with Admin(log.address) as admin:
        assert admin.committed(group)[Partition(topic, 0)].offset == 3


def test_a_second_process_with_the_same_instance_id_fences_the_first(log: Log, group: str) -> None:
    topic = log.topic(2)
    options = {**CONSUMER, "group_instance_id": "one"}
    first = Consumer(log.at(topic), group=group, **options)
    with first, Consumer(log.at(topic), group=group, **options) as second:
        poll_until(lambda: len(first.assignment()) == 2, first)
        poll_until(lambda: len(second.assignment()) == 2, second)
        with pytest.raises(FencedError):
            poll_until(lambda: False, first)
        assert first.assignment() == frozenset()
        with pytest.raises(FencedError):
            first.commit({Partition(topic, 0): 0})


def test_operators_see_groups_and_can_delete_empty_ones(log: Log, group: str) -> None:
    topic = log.topic(2)
    with Admin(log.address) as admin:
        with Consumer(log.at(topic), group=group, **CONSUMER) as consumer:
            poll_until(lambda: len(consumer.assignment()) == 2, consumer)
            described = admin.describe_group(group)
            assert described.state == "Stable"
            assert [member.partitions for member in described.members] == [consumer.assignment()]
            consumer.commit({Partition(topic, 0): 0})
        assert group in {each.group for each in admin.groups()}
        admin.delete_groups([group])
        assert group not in {each.group for each in admin.groups()}
        assert admin.describe_group(group).state == "Dead"


def test_a_consumer_without_a_group_cannot_commit(log: Log) -> None:
    topic = log.topic()
    with Consumer(log.at(topic), **CONSUMER) as consumer:
        consumer.poll(0.1)
        with pytest.raises(UsageError, match="group=NAME"):
            consumer.commit({Partition(topic, 0): 0})
