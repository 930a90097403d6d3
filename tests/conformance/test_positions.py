"""Where a consumer reads: seek, pause, resets, times."""

from __future__ import annotations

import pytest

from penstock.client import Admin, Consumer, NoOffset, Producer
from penstock.errors import OffsetOutOfRange, UsageError
from tests.conformance.abilities import Ability, needs
from tests.conformance.conftest import CONSUMER, Log
from tests.conformance.filling import Filled, fill
from tests.conformance.reading import held, poll_until, read, values


@pytest.fixture
def filled(log: Log) -> Filled:
    """Ten records in one partition, then one in another; there may be further, empty ones."""
    topic = log.topic(2)
    zero, one = log.partitions(topic)[:2]
    ten = fill(log, topic, 0, 10, zero)
    last = fill(log, topic, 99, 100, one)
    return Filled(topic, [zero, one], ten.offsets + last.offsets, last.end)


def test_seek_goes_anywhere_and_drops_what_was_fetched(log: Log, filled: Filled) -> None:
    zero = filled.partitions[0]
    with Consumer(log.address, **CONSUMER) as consumer:
        consumer.assign([zero])
        assert values(read(consumer, 3)) == [b"0", b"1", b"2"]
        assert filled.offsets[2] < consumer.position(zero) <= filled.offsets[3]
        consumer.seek(zero, filled.offsets[8])
        assert consumer.position(zero) == filled.offsets[8]
        assert values(read(consumer, 2)) == [b"8", b"9"]
        consumer.seek_to_beginning()
        assert values(read(consumer, 1)) == [b"0"]
        consumer.seek_to_end([zero])
        assert consumer.position(zero) == filled.end[zero]
        fill(log, filled.topic, 10, 11, zero)
        assert values(read(consumer, 1)) == [b"10"]  # and nothing before it


def test_assign_takes_offsets_and_keeps_others_out(log: Log, filled: Filled) -> None:
    zero, one = filled.partitions
    with Consumer(log.address, **CONSUMER) as consumer:
        consumer.assign({zero: filled.offsets[7]})
        assert values(read(consumer, 3)) == [b"7", b"8", b"9"]
        assert consumer.assignment() == {zero}
        consumer.assign([zero, one])
        assert values(read(consumer, 1)) == [b"99"]
        with pytest.raises(UsageError, match="unsubscribe"):
            consumer.subscribe([filled.topic])


def test_paused_partitions_stay_silent_and_lose_nothing(log: Log, filled: Filled) -> None:
    zero, one = filled.partitions
    with Consumer(log.address, **CONSUMER) as consumer:
        consumer.assign([zero, one])
        read(consumer, 1)
        consumer.seek_to_beginning([zero, one])
        consumer.pause([zero])
        assert consumer.paused() == {zero}
        assert values(read(consumer, 1)) == [b"99"]
        fill(log, filled.topic, 100, 101, one)
        assert values(read(consumer, 1)) == [b"100"]  # and none of those that have been there all the time
        consumer.resume([zero])
        assert values(read(consumer, 10)) == [b"%d" % number for number in range(10)]


def test_a_new_group_starts_where_it_is_told_to(log: Log, filled: Filled, group: str) -> None:
    topic = filled.topic
    with Consumer(log.at(topic), group=group + "-a", auto_offset_reset="earliest", **CONSUMER) as consumer:
        assert len(read(consumer, 11)) == 11
    with Consumer(log.at(topic), group=group + "-b", auto_offset_reset="latest", **CONSUMER) as consumer:
        poll_until(lambda: len(held(consumer, topic)) == len(log.partitions(topic)), consumers=[consumer])
        assert [consumer.position(each) for each in filled.partitions] == [
            filled.end[each] for each in filled.partitions
        ]
        fill(log, topic, 100, 101, filled.partitions[1])
        assert values(read(consumer, 1)) == [b"100"]


@needs(Ability.BEGINS_NOWHERE)
def test_a_new_group_begins_nowhere_if_it_is_told_so(log: Log, filled: Filled, group: str) -> None:
    consumer = Consumer(log.at(filled.topic), group=group, auto_offset_reset="none", **CONSUMER)
    with consumer, pytest.raises(NoOffset, match=group):
        read(consumer, 1)


def test_ends_are_found(log: Log, filled: Filled) -> None:
    zero, one = filled.partitions
    with Consumer(log.address, **CONSUMER) as consumer:
        assert consumer.beginning_offsets([zero, one]) == {zero: filled.offsets[0], one: filled.offsets[10]}
        assert consumer.end_offsets([zero, one]) == {zero: filled.end[zero], one: filled.end[one]}
        assert list(consumer.partitions_for(filled.topic)) == log.partitions(filled.topic)


@needs(Ability.FINDS_TIMES, Ability.FINDS_OWN_TIMES)
def test_times_are_found(log: Log, filled: Filled) -> None:
    zero = filled.partitions[0]
    with Consumer(log.address, **CONSUMER) as consumer:
        consumer.assign([zero])
        found = consumer.offsets_for_times({zero: 4_500})[zero]
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (filled.offsets[5], 5_000)
        assert consumer.offsets_for_times({zero: 99_000})[zero] is None


def test_an_offset_that_is_not_there_resets_or_raises(log: Log, filled: Filled) -> None:
    zero = filled.partitions[0]
    beyond = 50 * filled.end[zero]
    with Consumer(log.address, auto_offset_reset="earliest", **CONSUMER) as consumer:
        consumer.assign({zero: beyond})
        assert values(read(consumer, 1)) == [b"0"]
    with Consumer(log.address, auto_offset_reset="none", **CONSUMER) as consumer:
        consumer.assign({zero: beyond})
        with pytest.raises(OffsetOutOfRange):
            read(consumer, 1)
        consumer.seek(zero, filled.offsets[9])
        assert values(read(consumer, 1)) == [b"9"]


def test_new_partitions_are_found_and_read_from_their_beginning(log: Log) -> None:
    topic = log.topic(1)
    before = log.partitions(topic)
    with Consumer(log.at(topic), **CONSUMER) as consumer, Admin(log.address) as admin:
        poll_until(lambda: consumer.assignment() == set(before), consumers=[consumer])
        admin.add_partitions(topic, 3)
        added = [place for place, each in enumerate(log.partitions(topic)) if each not in before]
        assert len(added) >= 2
        with Producer(log.writing) as producer:
            producer.send(topic, b"late", partition=added[-1]).result(10)
        assert values(read(consumer, 1)) == [b"late"]
