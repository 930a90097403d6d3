"""Groups: sharing, committing, going on where others stopped, and what listeners hear."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from penstock.client import Admin, Consumer, RebalanceListener
from penstock.errors import FencedError, UsageError
from penstock.model import Partition
from penstock.records import Messages
from tests.conformance.abilities import Ability, needs
from tests.conformance.conftest import Log
from tests.conformance.filling import fill
from tests.conformance.reading import held, poll_until, read, values


class Heard(RebalanceListener):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, frozenset[Partition]]] = []

    def assigned(self, partitions: Collection[Partition]) -> None:
        self.events.append(("assigned", frozenset(partitions)))

    def revoked(self, partitions: Collection[Partition]) -> None:
        self.events.append(("revoked", frozenset(partitions)))


def numbers(first: int, end: int) -> set[bytes]:
    return {b"%d" % number for number in range(first, end)}


def topic_of_one(log: Log) -> tuple[str, Partition]:
    """A topic, and the partition of it that tests of one partition use."""
    topic = log.topic()
    return topic, log.partitions(topic)[0]


def offsets(consumer: Consumer, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Of what is committed the offsets alone: logs that have leader epochs remember them, too."""
    found = consumer.committed(partitions)
    return {partition: each.offset for partition, each in found.items() if each is not None}


def test_a_group_goes_on_where_it_committed(log: Log, group: str) -> None:
    topic = log.topic()
    before = fill(log, topic, 0, 6)
    with Consumer(log.at(topic), group=group, **log.consumer) as consumer:
        assert set(values(read(consumer, 6))) == numbers(0, 6)
        consumer.commit()
        assert offsets(consumer, before.partitions) == before.end
        fill(log, topic, 6, 10)
        read(consumer, 4)  # and not a word of them
    with Consumer(log.at(topic), group=group, **log.consumer) as consumer:
        assert set(values(read(consumer, 4))) == numbers(6, 10)


@needs(Ability.COMMITS_ANY_OFFSET)
def test_a_group_goes_on_in_the_middle_of_what_it_read(log: Log, group: str) -> None:
    topic, partition = topic_of_one(log)
    with Consumer(log.address, group=group, **log.consumer) as consumer:
        filled = fill(log, topic, 0, 10, partition)
        consumer.subscribe([topic])
        read(consumer, 4)
        consumer.commit()
        read(consumer, 3)
        assert offsets(consumer, [partition]) == {partition: filled.offsets[4]}
    with Consumer(log.at(topic), group=group, **log.consumer) as consumer:
        assert values(read(consumer, 2)) == [b"4", b"5"]
        consumer.commit({partition: filled.offsets[9]})
    with Consumer(log.at(topic), group=group, **log.consumer) as consumer:
        assert values(read(consumer, 1)) == [b"9"]


def test_a_batch_is_committed_and_nothing_after_it(log: Log, group: str) -> None:
    topic, partition = topic_of_one(log)
    fill(log, topic, 0, 5, partition)
    with Consumer(log.at(topic), group=group, **log.consumer) as consumer:
        batch = whole(consumer, 5)
        consumer.commit(batch)
        filled = fill(log, topic, 5, 10, partition)
        read(consumer, 3)
    with Admin(log.address) as admin:
        assert admin.committed(group)[partition].offset == filled.offsets[0]
        lag = admin.lag(group)[partition]
    assert (lag.committed, lag.end) == (filled.offsets[0], filled.end[partition])
    assert lag.offsets > 0


@needs(Ability.COUNTS_RECORDS, Ability.FINDS_TIMES, Ability.FINDS_OWN_TIMES)
def test_lag_is_told_in_records_and_in_seconds(log: Log, group: str) -> None:
    topic, partition = topic_of_one(log)
    fill(log, topic, 0, 10, partition)
    with Consumer(log.at(topic), group=group, **log.consumer) as consumer:
        batch = whole(consumer, 10)
        consumer.commit(batch[:4])
    with Admin(log.address) as admin:
        lag = admin.lag(group)[partition]
    assert lag.offsets == 6
    assert lag.seconds is not None


def whole(consumer: Consumer, count: int) -> Messages:
    """Records of one partition as one batch, whatever pieces they come in."""
    found: list[Messages] = []
    poll_until(lambda: sum(map(len, found)) == count, take=found, consumers=[consumer])
    return Messages.concat(found)


def test_asynchronous_commits_call_back_in_the_polling_thread(log: Log, group: str) -> None:
    topic, partition = topic_of_one(log)
    filled = fill(log, topic, 0, 3, partition)
    told: list[tuple[dict[Partition, int], object]] = []
    with Consumer(log.at(topic), group=group, **log.consumer) as consumer:
        read(consumer, 3)
        consumer.commit_async(
            callback=lambda offsets, error: told.append(({p: c.offset for p, c in offsets.items()}, error))
        )
        poll_until(lambda: bool(told), consumers=[consumer])
    ((offsets, error),) = told
    assert error is None
    assert offsets[partition] == filled.end[partition]


def test_automatic_commits_cover_what_was_handled_and_nothing_else(log: Log, group: str) -> None:
    topic, partition = topic_of_one(log)
    fill(log, topic, 0, 4, partition)
    options = {**log.consumer, "enable_auto_commit": True, "auto_commit_interval_ms": 60_000}

    def crash() -> None:
        with Consumer(log.at(topic), group=group, **options) as consumer:
            read(consumer, 4)
            fill(log, topic, 4, 7, partition)
            read(consumer, 3)
            raise RuntimeError  # the last three were returned, and nobody knows whether they were dealt with

    with pytest.raises(RuntimeError):
        crash()
    with Consumer(log.at(topic), group=group, **options) as consumer:
        assert set(values(read(consumer, 3))) == numbers(4, 7)
    fill(log, topic, 7, 8, partition)
    with Consumer(log.at(topic), group=group, **options) as consumer:
        assert values(read(consumer, 1)) == [b"7"]


def test_members_share_a_topic_and_take_over_from_who_leaves(log: Log, group: str) -> None:
    topic = log.topic(4)
    everything = frozenset(log.partitions(topic))
    half = len(everything) // 2
    heard = Heard()
    with Consumer(log.address, group=group, **log.consumer) as first:
        first.subscribe([topic], heard)
        poll_until(lambda: held(first, topic) == everything, consumers=[first])
        with Consumer(log.at(topic), group=group, **log.consumer) as second:
            both = [first, second]
            poll_until(lambda: len(held(first, topic)) == half == len(held(second, topic)), consumers=both)
            assert not held(first, topic) & held(second, topic)
            fill(log, topic, 0, 40)
            found: set[bytes | None] = set()
            while len(found) < 40:
                for consumer in both:
                    batch = consumer.poll(0.1)
                    consumer.commit(batch)
                    assert not found & {record.value for record in batch}
                    found |= {record.value for record in batch}
        poll_until(lambda: held(first, topic) == everything, consumers=[first])
        fill(log, topic, 40, 80)
        assert set(values(read(first, 40, commit=True))) == numbers(40, 80)  # in no partition anything came before
    owned: set[Partition] = set()
    history = []
    for event, partitions in heard.events:
        owned = owned | partitions if event == "assigned" else owned - partitions
        history.append(frozenset(each for each in owned if each.topic == topic))  # a log may add some of its own
    assert everything in history
    assert history[-1] == frozenset()
    assert any(len(each) == half for each in history)


def test_a_seek_in_the_listener_wins_over_the_committed_offset(log: Log, group: str) -> None:
    topic, partition = topic_of_one(log)
    filled = fill(log, topic, 0, 10, partition)

    class Seeks(RebalanceListener):
        def assigned(self, partitions: Collection[Partition]) -> None:
            if partition in partitions:
                consumer.seek(partition, filled.offsets[6])

    with Consumer(log.address, group=group, **log.consumer) as consumer:
        consumer.subscribe([topic], Seeks())
        assert values(read(consumer, 1)) == [b"6"]


def test_the_listener_can_commit_what_is_being_revoked(log: Log, group: str) -> None:
    topic, partition = topic_of_one(log)
    filled = fill(log, topic, 0, 5, partition)

    class Commits(RebalanceListener):
        def revoked(self, partitions: Collection[Partition]) -> None:
            consumer.commit()

    with Consumer(log.address, group=group, **log.consumer) as consumer:
        consumer.subscribe([topic], Commits())
        read(consumer, 5)
    with Admin(log.address) as admin:
        assert admin.committed(group)[partition].offset == filled.end[partition]


@needs(Ability.TAKES_INSTANCE_IDS, Ability.FENCES_BY_NAME)
def test_a_second_process_with_the_same_instance_id_fences_the_first(log: Log, group: str) -> None:
    topic = log.topic(2)
    partitions = log.partitions(topic)
    options = {**log.consumer, "group_instance_id": "one"}
    first = Consumer(log.at(topic), group=group, **options)
    with first, Consumer(log.at(topic), group=group, **options) as second:
        poll_until(lambda: first.assignment() == set(partitions), consumers=[first])
        poll_until(lambda: second.assignment() == set(partitions), consumers=[second])
        with pytest.raises(FencedError):
            poll_until(lambda: False, consumers=[first])
        assert first.assignment() == frozenset()
        with pytest.raises(FencedError):
            first.commit({partitions[0]: 0})


def test_operators_see_who_is_in_a_group(log: Log, group: str) -> None:
    topic = log.topic(2)
    everything = set(log.partitions(topic))
    with Admin(log.address) as admin, Consumer(log.at(topic), group=group, **log.consumer) as consumer:
        poll_until(lambda: held(consumer, topic) == everything, consumers=[consumer])

        def members() -> list[frozenset[Partition]]:
            told = admin.describe_group(group).members
            return [frozenset(each for each in member.partitions if each.topic == topic) for member in told]

        # What a member reads may be told by its next heartbeat only.
        poll_until(lambda: members() == [held(consumer, topic)], consumers=[consumer])
        assert admin.describe_group(group).state == "Stable"


def test_operators_list_groups_and_delete_empty_ones(log: Log, group: str) -> None:
    topic = log.topic()
    fill(log, topic, 0, 3)
    with Admin(log.address) as admin:
        with Consumer(log.at(topic), group=group, **log.consumer) as consumer:
            read(consumer, 3)
            consumer.commit()
        assert group in {each.group for each in admin.groups()}
        admin.delete_groups([group])
        assert group not in {each.group for each in admin.groups()}
        assert admin.describe_group(group).state == "Dead"


def test_a_consumer_without_a_group_cannot_commit(log: Log) -> None:
    topic, partition = topic_of_one(log)
    with Consumer(log.at(topic), **log.consumer) as consumer:
        consumer.poll(0.1)
        with pytest.raises(UsageError, match="group=NAME"):
            consumer.commit({partition: 0})
