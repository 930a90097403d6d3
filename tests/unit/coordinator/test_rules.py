"""Rules of Kafka's classic coordinator that are easily missed, each seen on a real broker or read in its source."""

import pytest

from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import CommitIdentity, GroupSettings, State
from penstock.protocols.kafka.groups.classic_transitions import restored
from tests.unit.coordinator.world import BOTH, OTHER_RANGE, RANGE, REBALANCE_S, SESSION_S, STICKY, World

# The first round.


def test_the_first_round_waits_and_waits_again_while_members_arrive() -> None:
    world = World()
    first = world.join(version=3)
    world.pass_time(2)
    second = world.join(version=3)
    world.pass_time(2)  # 4 s: the first delay of 3 s is over, but somebody came meanwhile
    assert not first.joins
    world.pass_time(2)
    assert first.joined.generation == second.joined.generation == 1


def test_the_first_round_does_not_wait_longer_than_the_rebalance_timeout() -> None:
    world = World()
    first = world.join(version=3)
    for _ in range(40):
        world.join(version=3)
        world.pass_time(2)
    assert first.joined.generation == 1


def test_without_a_delay_a_lonely_member_begins_at_once() -> None:
    world = World(GroupSettings(initial_rebalance_delay_ms=0))
    _, asked = world.new_member()
    world.pass_time(0)
    assert asked.joined.generation == 1


# Joining.


def test_a_new_members_id_counts_until_its_session_would_end() -> None:
    world = World()
    members = world.stable(1)
    pending = world.join().joined.member_id
    world.join(members[0])
    world.pass_time(SESSION_S - 1)
    assert world.group().state is State.PREPARING  # waits for the one that was given an id
    world.pass_time(1)
    assert world.group().state is State.COMPLETING
    assert world.join(pending).joined.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_never_comes_back_is_left_behind_after_the_rebalance_timeout() -> None:
    world = World()
    leader, other = world.stable(2)
    again = world.join(leader)
    generation = world.group().generation
    for _ in range(int(REBALANCE_S // 5) - 1):
        world.pass_time(5)
        assert world.heartbeat(other, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert not again.joins
    world.pass_time(5)
    assert again.joined.generation == generation + 1
    assert [member.member_id for member in again.joined.members] == [leader]
    assert world.heartbeat(other, generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_joins_again_unchanged_disturbs_nobody() -> None:
    world = World()
    leader, follower = world.stable(2)
    answer = world.join(follower).joined
    assert (answer.generation, answer.leader, answer.members) == (1, leader, ())
    assert world.group().state is State.STABLE


def test_a_leader_that_joins_again_unchanged_wants_to_assign_anew() -> None:
    world = World()
    leader, _ = world.stable(2)
    assert not world.join(leader).joins
    assert world.group().state is State.PREPARING


def test_a_lost_answer_is_given_again_while_the_group_waits_for_the_assignment() -> None:
    world = World()
    leader, follower = world.completing(2)
    again = world.join(leader).joined
    assert (again.generation, again.leader, len(again.members)) == (1, leader, 2)
    assert world.join(follower).joined.members == ()
    assert world.group().state is State.COMPLETING


def test_the_protocol_is_one_that_all_members_know() -> None:
    world = World()
    world.join(protocols=BOTH, version=3)
    asked = world.join(protocols=STICKY, version=3)
    refused = world.join(protocols=(("mine", b""),), version=3)
    assert refused.joined.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    world.finish_join_phase()
    assert asked.joined.protocol_name == "sticky"


def test_most_first_choices_win_among_common_protocols() -> None:
    world = World()
    for protocols in (RANGE + STICKY, STICKY + RANGE, STICKY + RANGE):
        world.join(protocols=protocols, version=3)
    world.finish_join_phase()
    assert world.group().protocol_name == "sticky"


@pytest.mark.parametrize("seconds", [0.1, 1_801.0])
def test_session_timeouts_have_bounds(seconds: float) -> None:
    assert World().join(session_s=seconds).joined.error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_errors_echo_the_member_id_as_kafka_does() -> None:
    world = World()
    assert world.join("x").joined.member_id == "x"  # no such group
    world.stable(1)
    assert world.join("x").joined.member_id == "x"  # no such member
    assert world.join("x", protocols=(("mine", b""),)).joined.member_id == "x"
    assert world.join(protocols=(("mine", b""),)).joined.member_id == ""


def test_a_full_group_takes_nobody_and_drops_who_does_not_fit() -> None:
    world = World(GroupSettings(initial_rebalance_delay_ms=3_000, max_size=2))
    world.stable(2)
    answer = world.join(version=3).joined
    assert (answer.error, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert len(world.group().members) == 2


def test_a_group_that_nobody_ever_joined_is_forgotten() -> None:
    world = World()
    world.join()
    world.pass_time(SESSION_S)
    assert world.coordinator.group("g") is None


# Members' lives.


def test_a_joining_member_is_not_timed_by_its_session_because_it_cannot_send_heartbeats() -> None:
    world = World()
    (leader,) = world.stable(1)
    asked = world.join(version=3)
    for _ in range(6):
        world.pass_time(SESSION_S / 2)
        assert world.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(world.group().members) == 2
    world.join(leader)
    assert asked.joined.generation == 2


def test_a_silent_member_is_gone_when_its_session_ends() -> None:
    world = World()
    leader, follower = world.stable(2)
    for _ in range(3):
        world.pass_time(SESSION_S / 2)
        world.heartbeat(leader, 1)
    assert list(world.group().members) == [leader]
    assert world.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_keep_a_session_alive_like_heartbeats() -> None:
    world = World()
    (member,) = world.stable(1)
    for _ in range(5):
        world.pass_time(SESSION_S / 2)
        assert world.commit(member, 1) is ErrorCode.NONE
    assert member in world.group().members


def test_who_waits_for_an_answer_is_alive() -> None:
    world = World()
    leader, follower = world.completing(2)
    asked = world.sync(follower, 1)
    for _ in range(4):
        world.pass_time(SESSION_S / 2)
        world.heartbeat(leader, 1)
    assert follower in world.group().members
    world.sync(leader, 1, {follower: b"x"})
    world.log_answers()
    assert asked.synced.assignment == b"x"


def test_the_first_of_the_rest_leads_when_the_leader_leaves() -> None:
    world = World()
    leader, second, third = world.stable(3)
    world.leave(leader)
    world.join(second)
    answer = world.join(third).joined
    assert (answer.leader, answer.generation) == (second, 2)


# Syncing.


def test_an_assignment_is_handed_out_once_it_is_stored() -> None:
    world = World()
    leader, follower = world.completing(2)
    early = world.sync(follower, 1)
    mine = world.sync(leader, 1, {follower: b"f", "nobody": b"n"})
    assert not early.syncs
    world.log_answers()
    assert (early.synced.assignment, mine.synced.assignment) == (b"f", b"")
    assert world.sync(follower, 1).synced.assignment == b"f"  # asked again: the answer was lost


def test_a_log_that_refuses_sends_everybody_to_join_again() -> None:
    world = World()
    leader, follower = world.completing(2)
    asked = [world.sync(follower, 1), world.sync(leader, 1)]
    world.log_answers(accepted=False)
    assert {each.synced.error for each in asked} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert world.group().state is State.PREPARING


def test_a_late_answer_of_the_log_changes_nothing() -> None:
    world = World()
    leader, follower = world.completing(2)
    world.sync(leader, 1, {follower: b"old"})
    world.join(follower, protocols=OTHER_RANGE)
    world.log_answers()
    assert world.group().state is State.PREPARING


def test_who_does_not_sync_in_time_is_removed() -> None:
    world = World()
    leader, follower = world.completing(2)
    world.sync(leader, 1)
    world.log_answers()
    for _ in range(int(REBALANCE_S // 5) + 1):
        world.pass_time(5)
        world.heartbeat(leader, 1)
        world.heartbeat(follower, 1)
    assert list(world.group().members) == [leader]


@pytest.mark.parametrize(
    ("generation", "names", "code"),
    [
        (2, (None, None), ErrorCode.ILLEGAL_GENERATION),
        (1, ("connect", "range"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (1, ("consumer", "sticky"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_sync_must_fit_its_group(generation: int, names: tuple[str | None, str | None], code: ErrorCode) -> None:
    world = World()
    (member,) = world.completing(1)
    assert world.sync(member, generation, names=names).synced.error is code


# Heartbeats and commits, state by state.


def test_before_a_protocol_is_chosen_none_is_the_wrong_one() -> None:
    world = World()
    member, _ = world.new_member()
    assert world.sync(member, 0, names=("consumer", "range")).synced.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.sync(member, 0, names=("connect", "range")).synced.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_while_the_assignment_is_awaited_heartbeats_pass_and_commits_do_not() -> None:
    world = World()
    (member,) = world.completing(1)
    assert world.heartbeat(member, 1) is ErrorCode.NONE
    assert world.commit(member, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_while_members_join_commits_pass_and_heartbeats_say_so() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(leader)
    assert world.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.commit(follower, 1) is ErrorCode.NONE


def test_nobody_commits_to_a_group_of_others() -> None:
    world = World()
    (member,) = world.stable(1)
    assert world.commit() is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert world.commit("", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.coordinator.may_commit(CommitIdentity("no", 3), world.now) is ErrorCode.GROUP_ID_NOT_FOUND


# The log.


def test_a_group_is_restored_as_it_was_stored() -> None:
    world = World()
    members = world.stable(2)
    group, found = world.group(), restored("g", world.records["g"])
    assert (found.state, found.generation, found.leader) == (State.STABLE, 1, members[0])
    assert (found.protocol_type, found.protocol_name) == ("consumer", "range")
    for member in members:
        assert found.members[member].assignment == group.members[member].assignment
        assert found.members[member].protocols == group.members[member].protocols
    assert found.subscribed == frozenset({"t"})


def test_an_emptied_group_is_stored_as_empty() -> None:
    world = World()
    (member,) = world.stable(1)
    world.leave(member)
    found = restored("g", world.records["g"])
    assert (found.state, found.generation, found.members) == (State.EMPTY, 2, {})


def test_restored_members_have_fresh_sessions() -> None:
    before = World()
    (member,) = before.stable(1)
    after = World()
    after.coordinator.load(before.records, ["simple"], after.now)
    assert after.heartbeat(member, 1) is ErrorCode.NONE
    after.pass_time(SESSION_S)
    assert not after.group().members
    assert after.group("simple").state is State.EMPTY


def test_what_the_group_reads_is_known_from_its_subscriptions() -> None:
    world = World()
    assert not world.coordinator.is_subscribed("g", "t")
    members = world.stable(1)
    assert world.coordinator.is_subscribed("g", "t")
    assert not world.coordinator.is_subscribed("g", "u")
    world.leave(*members)
    assert not world.coordinator.is_subscribed("g", "t")


def test_metadata_that_nobody_understands_may_mean_any_topic() -> None:
    world = World()
    world.stable(1, protocols=(("odd", b"\xff"),))
    assert world.coordinator.is_subscribed("g", "anything")
