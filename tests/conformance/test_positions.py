"""Where a consumer reads: seek, pause, resets, times."""

from __future__ import annotations

import pytest

from penstock.client import Admin, Consumer, NoOffset, Producer
from penstock.errors import OffsetOutOfRange, UsageError
from penstock.model import Partition
from tests.conformance.conftest import CONSUMER, Log
from tests.conformance.reading import read, values


@pytest.fixture
def topic(log: Log) -> str:
    """Ten records in partition 0, one in partition 1."""
    name = log.topic(2)
    with Producer(log.address) as producer:
        for number in range(10):
            producer.send(name, b"%d" % number, partition=0, timestamp_ms=1_000 * number)
            producer.flush()
        producer.send(name, b"other", partition=1)
    return name


def test_seek_goes_anywhere_and_drops_what_was_fetched(log: Log, topic: str) -> None:
    zero = Partition(topic, 0)
    with Consumer(log.address, **CONSUMER) as consumer:
        consumer.assign([zero])
        assert values(read(consumer, 3)) == [b"0", b"1", b"2"]
        assert consumer.position(zero) == 3
        consumer.seek(zero, 8)
        assert consumer.position(zero) == 8
        assert values(read(consumer, 2)) == [b"8", b"9"]
        consumer.seek_to_beginning()
        assert values(read(consumer, 1)) == [b"0"]
        consumer.seek_to_end([zero])
        assert consumer.position(zero) == 10
        assert not consumer.poll(0.2)


def test_assign_takes_offsets_and_keeps_others_out(log: Log, topic: str) -> None:
    with Consumer(log.address, **CONSUMER) as consumer:
        consumer.assign({Partition(topic, 0): 7})
        assert values(read(consumer, 3)) == [b"7", b"8", b"9"]
        assert consumer.assignment() == {Partition(topic, 0)}
        consumer.assign([Partition(topic, 0), Partition(topic, 1)])
        assert values(read(consumer, 1)) == [b"other"]
        with pytest.raises(UsageError, match="unsubscribe"):
            consumer.subscribe([topic])


def test_paused_partitions_stay_silent_and_lose_nothing(log: Log, topic: str) -> None:
    zero, one = Partition(topic, 0), Partition(topic, 1)
    with Consumer(log.address, **CONSUMER) as consumer:
        consumer.assign([zero, one])
        read(consumer, 1)
        consumer.seek(zero, 0)
        consumer.seek(one, 0)
        consumer.pause([zero])
        assert consumer.paused() == {zero}
        assert values(read(consumer, 1)) == [b"other"]
        assert not consumer.poll(0.2)
        consumer.resume([zero])
        assert values(read(consumer, 10)) == [b"%d" % number for number in range(10)]


def test_a_new_group_starts_where_it_is_told_to(log: Log, topic: str, group: str) -> None:
    with Consumer(log.at(topic), group=group + "-a", auto_offset_reset="earliest", **CONSUMER) as consumer:
        assert len(read(consumer, 11)) == 11
    with Consumer(log.at(topic), group=group + "-b", auto_offset_reset="latest", **CONSUMER) as consumer:
        assert not consumer.poll(0.5)
        assert {consumer.position(partition) for partition in consumer.assignment()} == {1, 10}
    without = Consumer(log.at(topic), group=group + "-c", auto_offset_reset="none", **CONSUMER)
    with without, pytest.raises(NoOffset, match=group):
        read(without, 1)


def test_times_and_ends_are_found(log: Log, topic: str) -> None:
    zero, one = Partition(topic, 0), Partition(topic, 1)
    with Consumer(log.address, **CONSUMER) as consumer:
        consumer.assign([zero])
        assert consumer.beginning_offsets([zero, one]) == {zero: 0, one: 0}
        assert consumer.end_offsets([zero, one]) == {zero: 10, one: 1}
        found = consumer.offsets_for_times({zero: 4_500})[zero]
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (5, 5_000)
        assert consumer.offsets_for_times({zero: 99_000})[zero] is None
        assert consumer.partitions_for(topic) == (zero, one)


def test_an_offset_that_is_not_there_resets_or_raises(log: Log, topic: str) -> None:
    zero = Partition(topic, 0)
    with Consumer(log.address, auto_offset_reset="earliest", **CONSUMER) as consumer:
        consumer.assign({zero: 500})
        assert values(read(consumer, 1)) == [b"0"]
    with Consumer(log.address, auto_offset_reset="none", **CONSUMER) as consumer:
        consumer.assign({zero: 500})
        with pytest.raises(OffsetOutOfRange):
            read(consumer, 1)
        consumer.seek(zero, 9)
        assert values(read(consumer, 1)) == [b"9"]


def test_new_partitions_are_found_and_read_from_their_beginning(log: Log) -> None:
    topic = log.topic(1)
    with Consumer(log.at(topic), **CONSUMER) as consumer, Admin(log.address) as admin:
        assert not consumer.poll(0.2)
        admin.add_partitions(topic, 3)
        with Producer(log.address) as producer:
            producer.send(topic, b"late", partition=2).result(10)
        assert values(read(consumer, 1)) == [b"late"]
