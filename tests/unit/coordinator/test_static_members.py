"""Static members (KIP-345): they come back under a new id, and their old selves are fenced."""

from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import JoinedMember, Leaver, State
from tests.unit.coordinator.world import RANGE, REBALANCE_S, World


def test_a_static_member_comes_back_without_a_rebalance_and_its_old_self_is_fenced() -> None:
    world = World()
    old = world.join(instance="i", version=5)
    world.finish_join_phase()
    old_id = old.joined.member_id
    world.settle([old_id])
    asked = world.join(instance="i")
    assert not asked.joins  # not before the new id is in the log
    world.log_answers()
    back = asked.joined
    assert (back.generation, back.leader, back.skip_assignment) == (1, back.member_id, True)
    assert back.members == (JoinedMember(back.member_id, "i", RANGE[0][1]),)
    assert world.heartbeat(old_id, 1, "i") is ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(old_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(old_id, 1, "i") is ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(old_id, 1, instance="i").synced.error is ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(back.member_id, 1, instance="i").synced.assignment == old_id.encode()


def test_before_version_nine_a_returned_leader_is_told_that_another_leads() -> None:
    world = World()
    old = world.join(instance="i", version=5)
    world.finish_join_phase()
    world.settle([old.joined.member_id])
    asked = world.join(instance="i", version=8)
    world.log_answers()
    assert (asked.joined.leader, asked.joined.members) == (old.joined.member_id, ())
    assert asked.joined.skip_assignment is False


def test_a_takeover_that_the_log_refuses_has_not_happened() -> None:
    world = World()
    old = world.join(instance="i", version=5)
    world.finish_join_phase()
    world.settle([old.joined.member_id])
    asked = world.join(instance="i")
    world.log_answers(accepted=False)
    assert asked.joined.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.heartbeat(old.joined.member_id, 1, "i") is ErrorCode.NONE


def test_who_waits_under_the_old_id_is_fenced_too() -> None:
    world = World()
    first = world.join(instance="i", version=5)
    second = world.join(instance="i", version=5)
    assert first.joined.error is ErrorCode.FENCED_INSTANCE_ID
    world.finish_join_phase()
    assert second.joined.generation == 1


def test_an_absent_static_member_keeps_its_place_until_its_session_ends() -> None:
    world = World()
    static = world.join(instance="i", version=5, session_s=1_000)
    world.finish_join_phase()
    static_id = static.joined.member_id
    world.settle([static_id])
    _, other = world.new_member()
    world.pass_time(REBALANCE_S)
    assert other.joined.generation == 2
    assert static_id in world.group().members


def test_an_operator_removes_a_static_member_by_its_instance() -> None:
    world = World()
    world.join(instance="i", version=5)
    world.finish_join_phase()
    codes = world.coordinator.leave("g", [Leaver("", "i"), Leaver("", "j"), Leaver("")], world.now)
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.group().state is State.EMPTY
