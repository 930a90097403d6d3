"""What a log cannot do it refuses in words, or is known for; and what its row claims to be lacking is."""

from __future__ import annotations

import pytest

from penstock.client import Admin, Consumer, Producer
from penstock.errors import PenstockError, ServerError, UsageError
from tests.conformance.abilities import Ability, lacks, needs
from tests.conformance.conftest import CONSUMER, LOGS, Log
from tests.conformance.filling import fill
from tests.conformance.reading import poll_until, read


@lacks(Ability.COUNTS_RECORDS)
def test_neighbours_are_further_apart(log: Log) -> None:
    topic = log.topic()
    filled = fill(log, topic, 0, 5, log.partitions(topic)[0])
    assert all(later - before > 1 for before, later in zip(filled.offsets, filled.offsets[1:], strict=False))


@lacks(Ability.COMMITS_ANY_OFFSET)
def test_an_offset_in_no_batch_is_refused(log: Log, group: str) -> None:
    topic = log.topic()
    partition = log.partitions(topic)[0]
    filled = fill(log, topic, 0, 5, partition)
    with Consumer(log.at(topic), group=group, **CONSUMER) as consumer:
        read(consumer, 5)
        with pytest.raises(UsageError, match="confirms batches"):
            consumer.commit({partition: filled.end[partition] + 1_000})


@lacks(Ability.TAKES_INSTANCE_IDS)
def test_a_name_for_a_member_is_refused(log: Log, group: str) -> None:
    topic = log.topic()
    with pytest.raises(PenstockError, match="group_instance_id"):
        Consumer(log.at(topic), group=group, group_instance_id="one", **CONSUMER).poll(5)


@lacks(Ability.FENCES_BY_NAME)
def test_a_name_that_another_member_has_is_waited_for(log: Log, group: str) -> None:
    topic = log.topic(2)
    everything = set(log.partitions(topic))
    options = {**log.consumer, "group_instance_id": "one"}
    with Consumer(log.at(topic), group=group, **options) as second:
        with Consumer(log.at(topic), group=group, **options) as first:
            poll_until(lambda: first.assignment() == everything, consumers=[first])
            with pytest.raises(ServerError, match="Stop the other member with this instance id"):
                second.poll(5)
            assert first.assignment() == everything
        poll_until(lambda: second.assignment() == everything, consumers=[second])


@lacks(Ability.BEGINS_NOWHERE)
def test_a_group_without_a_beginning_is_refused(log: Log, group: str) -> None:
    topic = log.topic()
    with pytest.raises(PenstockError, match="auto_offset_reset"):
        Consumer(log.at(topic), group=group, auto_offset_reset="none", **CONSUMER).poll(5)


@lacks(Ability.FORGETS_OFFSETS)
def test_a_log_that_forgets_whole_groups_says_so(log: Log, group: str) -> None:
    partition = log.partitions(log.topic())[0]
    with Admin(log.address) as admin, pytest.raises(UsageError, match="forget"):
        admin.delete_offsets(group, [partition])


@lacks(Ability.REMOVES_MEMBERS)
def test_a_log_that_throws_nobody_out_says_so(log: Log, group: str) -> None:
    with Admin(log.address) as admin:
        with pytest.raises(UsageError, match="cannot remove members"):
            admin.remove_members(group, ["one"])
        with pytest.raises(UsageError, match="cannot remove members"):
            admin.remove_members(group)


@lacks(Ability.FINDS_TIMES)
def test_a_question_for_a_time_is_refused(log: Log) -> None:
    topic = log.topic()
    partition = log.partitions(topic)[0]
    with Consumer(log.address, **CONSUMER) as consumer, pytest.raises(UsageError, match="no offsets by time"):
        consumer.offsets_for_times({partition: 4_500})


@needs(Ability.FINDS_TIMES)
@lacks(Ability.FINDS_OWN_TIMES)
def test_times_that_are_looked_for_are_those_of_storing(log: Log) -> None:
    topic = log.topic(1)
    (partition,) = log.partitions(topic)[:1]
    with Producer(log.writing) as producer:
        offset = producer.send(topic, b"old", partition=0, timestamp_ms=1_000).result(10).offset
    with Consumer(log.address, **CONSUMER) as consumer:
        found = consumer.offsets_for_times({partition: 99_000})[partition]
    assert found is not None
    assert found.offset == offset


def test_every_lack_has_a_reason_and_a_test_of_this_file() -> None:
    shown = {
        mark.args[0] for each in globals().values() for mark in getattr(each, "pytestmark", ()) if mark.name == "lacks"
    }
    assert {ability for row in LOGS.values() for ability in row.lacks} <= shown
    assert all(reason for row in LOGS.values() for reason in row.lacks.values())
