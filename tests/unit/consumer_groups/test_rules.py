"""Rules of KIP-848's coordinator that are easily missed, each seen on a real broker or read in the KIP."""

from __future__ import annotations

import pytest

from penstock.interfaces.admin import RebalanceCause, RebalanceEnding
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import CommitIdentity, Leaver
from penstock.protocols.kafka.groups.consumer_group import Beat, ConsumerGroupSettings, MemberState, Topic
from tests.unit.consumer_groups.world import REBALANCE_S, SESSION_S, Follower, T, U, World

ALL = [(T, 0), (T, 1), (T, 2)]


def pair() -> tuple[World, Follower, Follower]:
    """``a`` has everything and has not heard yet that ``b`` is there."""
    world, a, b = World(), Follower("a"), Follower("b")
    world.follow(a)
    world.follow(b)
    return world, a, b


# Two owners never.


def test_nobody_gets_what_another_has_not_given_up() -> None:
    world, a, b = pair()
    assert (b.epoch, b.owned) == (3, frozenset())
    assert world.beat(b).assigned is None
    told = world.beat(a)
    assert (told.epoch, told.assigned) == (2, ALL[:2])
    assert world.beat(b).assigned is None
    assert world.beat(a, ALL).epoch == 2  # says that it still has it
    assert world.beat(b).assigned is None
    assert world.beat(a, ALL[:2]).epoch == 3
    assert world.beat(b).assigned == [(T, 2)]


def test_who_says_nothing_of_what_it_owns_has_given_up_nothing() -> None:
    world, a, b = pair()
    world.beat(a)
    for _ in range(3):
        assert world.beat(a).epoch == 2
    assert world.beat(b).assigned is None


def test_who_is_told_to_give_up_and_comes_anew_has_given_up() -> None:
    world, a, b = pair()
    world.beat(a)
    assert world.join(a).assigned == ALL[:2]
    assert world.beat(b).assigned == [(T, 2)]


def test_what_was_to_go_and_is_the_members_own_again_needs_nobodys_leave() -> None:
    world, a, b = pair()
    world.beat(a)
    world.beat(b, epoch=-1)
    assert world.beat(a, ALL[:2]).assigned == ALL


# Time.


def test_who_is_not_heard_of_loses_everything() -> None:
    world, a, b = pair()
    world.settle(a, b)
    world.pass_time(SESSION_S - 1)
    world.follow(b)
    world.pass_time(1)
    assert [*world.group().members] == ["b"]
    assert world.follow(b).assigned == ALL
    assert world.follow(a).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_give_up_in_time_is_taken_out_though_it_beats() -> None:
    world, a, b = pair()
    world.beat(a)
    for _ in range(int(REBALANCE_S) - 1):
        world.pass_time(1)
        assert not world.beat(a, ALL).error
        world.beat(b)
    world.pass_time(1)
    assert world.beat(a, ALL).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.beat(b).assigned == ALL


def test_who_gave_up_in_time_is_not_taken_out() -> None:
    world, a, b = pair()
    world.beat(a)
    world.beat(a, ALL[:2])
    for _ in range(int(REBALANCE_S) + 1):
        world.pass_time(1)
        assert not world.follow(a).error
        world.follow(b)


# Epochs.


def test_an_answer_that_was_lost_does_not_fence_its_member() -> None:
    world, a, b = pair()
    world.settle(a, b)
    assert world.beat(a, ALL[:1], epoch=2).epoch == 3
    assert world.beat(a, ALL, epoch=2).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.beat(a, epoch=2).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.beat(a, epoch=4).error is ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("epoch", "number", "code"),
    [
        (3, 0, ErrorCode.NONE),
        (3, 2, ErrorCode.NONE),  # of a partition that is another's: the epoch is right
        (2, 0, ErrorCode.NONE),  # was on its way
        (2, 2, ErrorCode.STALE_MEMBER_EPOCH),
        (1, 0, ErrorCode.STALE_MEMBER_EPOCH),
        (4, 0, ErrorCode.STALE_MEMBER_EPOCH),
        (-1, 0, ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
def test_offsets_are_committed_in_the_epoch_in_which_partitions_were_given(
    epoch: int, number: int, code: ErrorCode
) -> None:
    world, a, b = pair()
    world.settle(a, b)
    assert world.commit(a, number, generation=epoch) is code


def test_commits_before_member_epochs_are_told_so() -> None:
    world, a, b = pair()
    fault = world.coordinator.commit_fault(CommitIdentity("g", a.epoch, "a"), [], knows_epochs=False)
    assert fault is ErrorCode.UNSUPPORTED_VERSION
    assert world.commit(b, member_id="") is ErrorCode.UNKNOWN_MEMBER_ID


# Static members.


def test_a_static_member_that_went_for_a_while_finds_what_it_had() -> None:
    world, a = World(), Follower("a", "i")
    world.settle(a)
    assert world.beat(a, epoch=-2).epoch == -2
    other = Follower("b")
    for _ in range(3):
        assert not world.follow(other).assigned
    again = Follower("a2", "i")
    assert world.follow(again).assigned == ALL[:2]
    assert world.follow(other).assigned == ALL[2:]
    assert [*world.group().members] == ["a2", "b"]
    assert world.follow(a).error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_forgotten_after_its_session() -> None:
    world, a = World(), Follower("a", "i")
    world.follow(a)
    world.pass_time(SESSION_S - 1)
    world.beat(a, epoch=-2)
    world.pass_time(1)
    assert world.group().state == "Empty"


def test_a_full_group_still_takes_back_its_static_member() -> None:
    world = World(ConsumerGroupSettings(max_size=1))
    world.follow(a := Follower("a", "i"))
    assert world.follow(Follower("b")).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.beat(a, epoch=-2)
    assert world.follow(Follower("c", "i")).assigned == ALL


def test_an_operator_takes_members_out_by_either_name() -> None:
    world, _, _ = pair()
    world.follow(Follower("c", "i"))
    leavers = [Leaver("", "i"), Leaver("", "i"), Leaver("a", "i"), Leaver("b"), Leaver("x"), Leaver("", "j")]
    codes = world.coordinator.leave("g", leavers, world.now)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert codes == [0, unknown, ErrorCode.FENCED_INSTANCE_ID, 0, unknown, unknown]
    assert [*world.group().members] == ["a"]
    assert world.coordinator.leave("missing", leavers, world.now) is None


# Topics.


def test_new_partitions_and_new_topics_are_shared_out_without_anybody_asking() -> None:
    world, a = World(t=1), Follower("a", names=("t", "u"))
    world.settle(a)
    world.topics["t"] = Topic(T, 2)
    world.pass_time(2)
    world.settle(a)
    assert a.owned == {(T, 0), (T, 1)}
    world.topics["u"] = Topic(U, 1)
    world.pass_time(2)
    world.settle(a)
    assert a.owned == {(T, 0), (T, 1), (U, 0)}


def test_a_topic_that_was_made_anew_is_another_one() -> None:
    world, a = World(t=2), Follower("a")
    world.settle(a)
    world.topics["t"] = Topic(b"n" * 16, 2)
    world.pass_time(2)
    world.settle(a)
    assert a.owned == {(b"n" * 16, 0), (b"n" * 16, 1)}


def test_topics_are_not_looked_at_more_often_than_is_of_use() -> None:
    world, a = World(), Follower("a")
    world.follow(a)
    beat = Beat(group="g", member_id="a", epoch=a.epoch)
    assert world.coordinator.wanted(beat, world.now) is None
    world.pass_time(1.0)
    assert world.coordinator.wanted(beat, world.now) is not None


def test_members_with_patterns_read_what_they_mean() -> None:
    world = World(**{"orders-1": 1, "orders-2": 1, "my-orders-1": 1})
    a, b = Follower("a", names=None, pattern="orders-."), Follower("b", names=("my-orders-1",), pattern="orders-2|x")
    world.settle(a, b)
    mine = {name: (topic.id, 0) for name, topic in world.topics.items()}
    assert mine["orders-1"] in a.owned
    assert mine["my-orders-1"] in b.owned
    assert a.owned | b.owned == set(mine.values())
    world.topics["orders-3"] = Topic(b"3" * 16, 1)
    world.pass_time(2)
    world.settle(a, b)
    assert (b"3" * 16, 0) in a.owned


@pytest.mark.parametrize("pattern", ["(", "a)|(b", "[", r"\Qa", "x{9999}", "(?=a)"])
def test_what_is_no_pattern_is_refused_and_changes_nothing(pattern: str) -> None:
    world = World()
    answer = world.follow(Follower("a", names=None, pattern=pattern))
    assert answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert pattern in (answer.message or "")
    assert world.coordinator.group("g") is None


def test_a_pattern_that_would_take_python_for_ever_takes_no_time() -> None:
    world = World(**{"a" * 200: 1})
    world.settle(a := Follower("a", names=None, pattern="(a*)*b|(a|a)*c|(a+)+$"))
    assert len(a.owned) == 1


# Assignors.


def test_the_assignor_that_most_ask_for_is_taken_and_nobody_moves_for_an_opinion() -> None:
    world, a, b = World(t=4), Follower("a", assignor="range"), Follower("b", assignor="range")
    world.settle(a, b)
    assert world.group().assignor == "range"
    epoch = world.group().epoch
    world.beat(a, assignor="uniform")
    world.beat(b, assignor="uniform")
    assert world.group().epoch == epoch
    c = Follower("c", names=("t",))
    world.settle(a, b, c)
    assert world.group().assignor == "uniform"


# The log.


def test_a_restarted_node_goes_on_in_the_same_epochs() -> None:
    world, a, b = pair()
    world.beat(a)
    before = world.group()
    world.restart()
    after = world.group()
    assert (after.epoch, after.target_epoch, after.owners) == (before.epoch, before.target_epoch, before.owners)
    assert after.members == before.members
    assert after.members["a"].state is MemberState.UNREVOKED
    assert world.beat(b).assigned is None
    assert world.beat(a, ALL[:2]).epoch == 3
    assert world.beat(b).assigned == [(T, 2)]
    assert world.group().epoch == 3


def test_times_start_afresh_after_a_restart() -> None:
    world, a, b = pair()
    world.beat(a)
    world.pass_time(SESSION_S - 1)
    world.restart()
    world.pass_time(SESSION_S - 1)
    assert not world.beat(a, ALL).error
    assert not world.beat(b).error
    world.pass_time(REBALANCE_S - SESSION_S + 1)
    assert world.beat(a, ALL).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_was_deleted_leaves_nothing_in_the_log() -> None:
    world, a, b = pair()
    assert world.coordinator.delete("g") is ErrorCode.NON_EMPTY_GROUP
    world.beat(a, epoch=-1)
    world.beat(b, epoch=-1)
    assert world.group().state == "Empty"
    assert world.coordinator.delete("g") is ErrorCode.NONE
    world.save()
    assert not world.log.groups
    assert not world.log.members


def test_what_the_log_refused_is_written_the_next_time() -> None:
    world, a = World(), Follower("a")
    world.follow(a)
    world.coordinator.leave("g", [Leaver("a")], world.now)
    whose = world.coordinator.changes("g")
    assert world.coordinator.take_changes("g")
    assert not world.coordinator.has_changes("g")
    world.coordinator.give_back("g", whose)
    world.save()
    assert not world.log.members


# The account.


def test_rebalances_are_accounted_for() -> None:
    world, a, b = pair()
    world.time += 2
    world.settle(a, b)
    first, second = world.told
    assert [each.why for each in first.reasons] == [RebalanceCause.JOINED]
    assert (second.ending, second.generation, second.members) == (RebalanceEnding.ASSIGNED, 3, 2)
    assert second.protocol == "uniform"
    assert [(each.member, each.lost_total, each.gained_total) for each in second.moved] == [("a", 1, 0), ("b", 0, 1)]
    assert second.join_ms == 2_000
    world.beat(a, epoch=-1)
    world.pass_time(SESSION_S)
    left, *_ = world.told[2:]
    assert left.ending is RebalanceEnding.DESERTED
    assert [each.why for each in left.reasons] == [RebalanceCause.LEFT, RebalanceCause.EXPIRED]


# Large groups.


def test_a_large_group_is_shared_out_for_all_who_came_within_a_second() -> None:
    world = World(ConsumerGroupSettings(large_from=4), t=12)
    members = [Follower(f"m{number}") for number in range(10)]
    shared_out = set()
    for who in members:
        world.follow(who)
        shared_out.add(world.group().target_epoch)
    assert len(shared_out) == 3  # at once for the first ones, then not any more
    assert world.group().state == "Assigning"
    assert (members[-1].epoch, members[-1].owned) == (world.group().target_epoch, frozenset())
    world.pass_time(0.9)
    world.follow(members[0])
    assert world.group().state == "Assigning"
    world.pass_time(0.1)
    world.settle(*members)
    assert sorted(len(who.owned) for who in members) == [1] * 8 + [2] * 2
    assert {who.epoch for who in members} == {world.group().epoch}


def test_who_leaves_a_large_group_is_replaced_a_second_later_at_most() -> None:
    world = World(ConsumerGroupSettings(large_from=2), t=4)
    a, b, c = (Follower(name) for name in "abc")
    for who in (a, b, c):
        world.follow(who)
    world.pass_time(1.0)
    world.settle(a, b, c)
    world.beat(c, epoch=-1)
    world.follow(a)
    assert world.group().state == "Assigning"
    world.pass_time(1.0)
    world.settle(a, b)
    assert sorted(len(who.owned) for who in (a, b)) == [2, 2]
