"""What operators do to groups: see how far behind they are, put them elsewhere, have things forgotten."""

from __future__ import annotations

import pytest

from penstock.client import Admin, Consumer, ResetTo
from penstock.errors import UsageError
from penstock.model import Partition
from tests.conformance.abilities import Ability, needs
from tests.conformance.conftest import CONSUMER, Log
from tests.conformance.filling import Filled, fill
from tests.conformance.reading import poll_until, read, values


def left_behind(log: Log, group: str, count: int = 10) -> tuple[Filled, Partition]:
    """A group that read all of a topic's first partition and left."""
    topic = log.topic()
    partition = log.partitions(topic)[0]
    filled = fill(log, topic, 0, count, partition)
    with Consumer(log.at(topic), group=group, **CONSUMER) as consumer:
        read(consumer, count)
        consumer.commit()
    return filled, partition


def test_a_group_that_is_put_back_reads_again(log: Log, group: str) -> None:
    filled, partition = left_behind(log, group)
    with Admin(log.address) as admin:
        plan = admin.reset_offsets(group, ResetTo.earliest(), partitions=[partition])
        (move,) = plan.moves
        assert (plan.executed, move.before, move.after, move.why) == (
            False,
            filled.end[partition],
            filled.offsets[0],
            "",
        )
        assert admin.committed(group)[partition].offset == filled.end[partition]
        done = admin.reset_offsets(group, ResetTo.earliest(), partitions=[partition], execute=True)
        assert (done.executed, done.moves) == (True, plan.moves)
    with Consumer(log.at(filled.topic), group=group, **CONSUMER) as consumer:
        assert values(read(consumer, 10)) == [b"%d" % number for number in range(10)]


def test_a_group_that_is_put_behind_everything_reads_what_comes(log: Log, group: str) -> None:
    filled, partition = left_behind(log, group)
    fill(log, filled.topic, 10, 20, partition)
    with Admin(log.address) as admin:
        admin.reset_offsets(group, ResetTo.latest(), topics=[filled.topic], execute=True)
    fill(log, filled.topic, 20, 25, partition)
    with Consumer(log.at(filled.topic), group=group, **CONSUMER) as consumer:
        assert set(values(read(consumer, 5))) == {b"%d" % number for number in range(20, 25)}


@needs(Ability.BEGINS_NOWHERE)
def test_where_a_group_has_committed_nothing_its_lag_is_not_known(log: Log, group: str) -> None:
    topic = log.topic(partitions=2)
    first, *others = log.partitions(topic)
    fill(log, topic, 0, 5, first)
    with Consumer(log.at(topic), group=group, enable_auto_commit=False, **CONSUMER) as consumer:
        last = read(consumer, 5)[-1]
        with Admin(log.address) as admin:
            before = {each.partition: (each.committed, each.lag, each.seconds) for each in admin.group_offsets(group)}
            assert set(before.values()) <= {(None, None, None)}  # none at all where a log does not say who reads what
            assert admin.lag(group) == {}
            consumer.commit({first: last.offset + 1})
            lags = {each.partition: each.lag for each in admin.group_offsets(group)}
            assert {partition: lags.get(partition) for partition in [first, *others]} == {
                first: 0,
                **dict.fromkeys(others),
            }
            assert {partition: lag.offsets for partition, lag in admin.lag(group).items()} == {first: 0}


def test_what_was_exported_is_what_it_goes_back_to(log: Log, group: str) -> None:
    filled, partition = left_behind(log, group)
    with Admin(log.address) as admin:
        before = {at: committed.offset for at, committed in admin.committed(group).items()}
        admin.reset_offsets(group, ResetTo.earliest(), execute=True)
        plan = admin.reset_offsets(group, ResetTo.to(before), execute=True)
        assert {move.partition: move.after for move in plan.moves} == before
        assert admin.committed(group)[partition].offset == filled.end[partition]


@needs(Ability.FINDS_TIMES, Ability.FINDS_OWN_TIMES)
def test_a_group_goes_back_to_a_time(log: Log, group: str) -> None:
    filled, partition = left_behind(log, group)
    with Admin(log.address) as admin:
        plan = admin.reset_offsets(group, ResetTo.time(3_500), partitions=[partition])
        assert plan.moves[0].after == filled.offsets[4]
        late = admin.reset_offsets(group, ResetTo.time(3_000_000), partitions=[partition])
        assert (late.moves[0].after, late.moves[0].why) == (filled.end[partition], "no record is so young: the end")


def test_a_group_with_members_stays_where_it_is(log: Log, group: str) -> None:
    filled, partition = left_behind(log, group)
    with Consumer(log.at(filled.topic), group=group, **CONSUMER) as consumer, Admin(log.address) as admin:
        poll_until(lambda: partition in consumer.assignment(), consumers=[consumer])
        with pytest.raises(UsageError, match="Stop them first"):
            admin.reset_offsets(group, ResetTo.earliest(), execute=True)
        assert admin.committed(group)[partition].offset == filled.end[partition]


def test_a_partition_is_told_with_who_reads_it_and_how_far_behind(log: Log, group: str) -> None:
    filled, partition = left_behind(log, group)
    with Admin(log.address) as admin:
        (found,) = [each for each in admin.group_offsets(group) if each.partition == partition]
        end = filled.end[partition]
        assert (found.committed, found.end, found.lag, found.seconds, found.member) == (end, end, 0, 0.0, None)
        fill(log, filled.topic, 10, 20, partition)
        (found,) = [each for each in admin.group_offsets(group) if each.partition == partition]
        assert found.lag is not None
        assert found.lag > 0
        assert found.seconds is not None
        with Consumer(log.at(filled.topic), group=group, **CONSUMER) as consumer:
            poll_until(lambda: partition in consumer.assignment(), consumers=[consumer])

            def is_told() -> bool:
                found = admin.group_offsets(group, seconds=False)
                return any(each.partition == partition and each.member is not None for each in found)

            poll_until(is_told, consumers=[consumer])  # members tell some servers with their next heartbeat
        with pytest.raises(UsageError, match="no group named"):
            admin.group_offsets(f"{group}-absent")


@needs(Ability.COUNTS_RECORDS)
def test_a_group_is_shifted_by_records_and_not_out_of_the_log(log: Log, group: str) -> None:
    filled, partition = left_behind(log, group)
    with Admin(log.address) as admin:
        plan = admin.reset_offsets(group, ResetTo.shift(-3), partitions=[partition], execute=True)
        assert plan.moves[0].after == filled.offsets[7]
        assert {partition: 3}.items() <= {each.partition: each.lag for each in admin.group_offsets(group)}.items()
        (move,) = admin.reset_offsets(group, ResetTo.shift(1_000), partitions=[partition]).moves
        assert move.after == filled.end[partition]
        assert "behind the end" in move.why


@needs(Ability.FORGETS_OFFSETS)
def test_what_is_forgotten_of_a_group_leaves_the_rest(log: Log, group: str) -> None:
    filled, partition = left_behind(log, group)
    other = log.topic()
    places = log.partitions(other)
    with Admin(log.address) as admin:
        admin.commit(group, admin.beginning_offsets(places))
        admin.delete_offsets(group, log.partitions(filled.topic))
        assert partition not in admin.committed(group)
        assert set(places) <= set(admin.committed(group))


def test_groups_that_are_described_together_say_what_each_says_alone(log: Log, group: str) -> None:
    left_behind(log, group)
    other = f"{group}-other"
    left_behind(log, other)
    with Admin(log.address) as admin:
        told = admin.describe_groups([other, group, f"{group}-absent", group])
        assert list(told) == [other, group, f"{group}-absent"]
        assert not told.failed
        for name in told:
            assert told[name] == admin.describe_group(name)
        with pytest.raises(UsageError, match="groups must be a list"):
            admin.describe_groups(group)


@needs(Ability.REMOVES_MEMBERS)
def test_who_was_thrown_out_is_not_there(log: Log, group: str) -> None:
    topic = log.topic()
    with Consumer(log.at(topic), group=group, group_instance_id="one", **CONSUMER) as consumer:
        poll_until(lambda: bool(consumer.assignment()), consumers=[consumer])
    with Admin(log.address) as admin:  # a static member keeps its place when it leaves
        assert [each.instance_id for each in admin.describe_group(group).members] == ["one"]
        admin.remove_members(group, ["one"])
        assert admin.describe_group(group).members == ()
