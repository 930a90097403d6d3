"""RebalanceCause a group was rebalanced, who was slow and what moved, as its coordinator remembers it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.groups.rebalance_history import NAMED, ROUNDS, Account, sentence
from penstock.interfaces.admin import Rebalance, RebalanceCause, RebalanceEnding, RebalanceMove, RebalanceReason
from penstock.model import Partition
from penstock.protocols.kafka.groups.classic_group import Leaver
from penstock.protocols.kafka.wire import coordinator_admin
from penstock.protocols.kafka.wire.consumer_protocol import MemberAssignment, TopicPartitions, write_assignment
from tests.unit.coordinator.world import OTHER_RANGE, REBALANCE_S, SESSION_S, World


def assigned(*partitions: int) -> bytes:
    return write_assignment(MemberAssignment(assigned_partitions=[TopicPartitions(topic="t", partitions=partitions)]))


def told(world: World) -> Rebalance:
    return world.group().account.rebalances()[-1]


def whys(rebalance: Rebalance) -> list[tuple[RebalanceCause, str]]:
    return [(reason.why, reason.member) for reason in rebalance.reasons]


def settle(world: World, members: list[str], *shares: bytes) -> None:
    generation = world.group().generation
    for member in members:
        world.sync(member, generation, dict(zip(members, shares, strict=True)))
    world.log_answers()


def rejoin(world: World, *members: str) -> None:
    for member in members:
        world.join(member)


def test_a_round_tells_who_joined_who_was_last_and_how_long_each_phase_took() -> None:
    world = World()
    one, _ = world.new_member()
    world.pass_time(1)
    two, _ = world.new_member()
    world.finish_join_phase()
    world.pass_time(2)
    settle_begins = world.sync(one, 1, {one: assigned(0), two: assigned(1, 2)})
    world.pass_time(0.5)
    world.log_answers()
    assert settle_begins.synced.assignment == assigned(0)
    found = told(world)
    assert whys(found) == [(RebalanceCause.JOINED, one), (RebalanceCause.JOINED, two)]
    assert (found.ending, found.generation, found.members, found.leader) == (RebalanceEnding.ASSIGNED, 1, 2, one)
    assert (found.join_ms, found.assign_ms, found.store_ms, found.last_joined) == (6_000, 2_000, 500, two)
    assert {(each.member, each.gained_total) for each in found.moved} == {(one, 1), (two, 2)}
    assert sentence(found) == (
        f"generation 1 of 2 members after 8.5 s; because {one} joined, {two} joined; 6.0 s until all had joined"
        f" ({two} was last); 2.0 s until {one} had assigned; 500 ms until it was stored;"
        f" {two} lost 0 and gained 2, {one} lost 0 and gained 1"
    )


def two_at_work(world: World) -> tuple[str, str]:
    one, two = world.completing(2)
    settle(world, [one, two], assigned(0), assigned(1))
    return one, two


def test_what_a_member_loses_another_gains() -> None:
    world = World()
    one, two = two_at_work(world)
    world.coordinator.leave("g", [Leaver(two, reason="consumer poll timeout has expired.")], world.now)
    rejoin(world, one)
    settle(world, [one], assigned(0, 1))
    found = told(world)
    assert found.reasons == (
        RebalanceReason(RebalanceCause.LEFT, two, "client", said="consumer poll timeout has expired."),
    )
    moved = (Partition("t", 1),)
    assert set(found.moved) == {RebalanceMove(one, (), moved, 0, 1), RebalanceMove(two, moved, (), 1, 0)}
    assert f'{two} left, saying "consumer poll' in sentence(found)


def test_a_silent_member_is_named_with_how_long_it_was_silent() -> None:
    world = World()
    one, two = two_at_work(world)
    world.pass_time(SESSION_S - 1)
    world.heartbeat(one, 1)
    world.pass_time(1)
    assert [(each.why, each.after_ms) for each in told(world).reasons] == [(RebalanceCause.EXPIRED, SESSION_S * 1_000)]
    assert told(world).ending is RebalanceEnding.UNDER_WAY
    assert f"{two} was not heard of for 10.0 s" in sentence(told(world))


def test_who_does_not_join_again_in_time_is_why_it_took_so_long() -> None:
    world = World()
    one, two = two_at_work(world)
    world.join(one)  # the leader wants to assign anew
    for _ in range(10):
        world.pass_time(REBALANCE_S / 10)
        world.heartbeat(two, 1) if two in world.group().members else None
    found = told(world)
    assert whys(found) == [(RebalanceCause.LEADER_ASKED, one), (RebalanceCause.NOT_JOINED, two)]
    assert found.join_ms == REBALANCE_S * 1_000
    assert "did not join again within 60.0 s" in sentence(found)


def test_who_does_not_sync_is_why_the_next_round_begins() -> None:
    world = World()
    one, two = world.completing(2)
    world.sync(one, 1, {one: assigned(0)})
    for _ in range(10):
        world.pass_time(REBALANCE_S / 10)
        world.heartbeat(two, 1) if two in world.group().members else None
    first, second = world.group().account.rebalances()
    assert (first.ending, first.generation) == (RebalanceEnding.GIVEN_UP, 1)
    assert whys(second) == [(RebalanceCause.NOT_SYNCED, two)]
    assert "given up" in sentence(first)


def test_another_subscription_is_told_apart_from_other_partitions_of_ones_own() -> None:
    world = World()
    one, two = two_at_work(world)
    world.join(two, protocols=OTHER_RANGE)
    assert whys(told(world)) == [(RebalanceCause.CHANGED, two)]
    rejoin(world, one)
    settle(world, [one, two], assigned(0), b"")
    (name, metadata) = OTHER_RANGE[0]
    world.join(two, protocols=((name, metadata[:-2] + b"\0\1r"),))
    assert whys(told(world)) == [(RebalanceCause.OWNS_OTHERS, two)]


def test_of_a_group_that_shares_no_partitions_nobody_says_what_moved() -> None:
    world = World()
    says = [(("sessioned", b"\0\1first"),), (("sessioned", b"\0\1second"),)]
    one, _ = world.new_member(kind="connect", protocols=says[0])
    world.finish_join_phase()
    for generation, shares in ((1, b"\0\1tasks"), (2, b"\0\1other tasks")):
        world.sync(one, generation, {one: shares})
        world.log_answers()
        found = told(world)
        assert (found.ending, found.moved, found.moved_total) == (RebalanceEnding.ASSIGNED, (), -1)
        assert "moved" not in sentence(found)
        world.join(one, kind="connect", protocols=says[generation % 2])
    assert whys(found) == [(RebalanceCause.CHANGED_METADATA, one)]


def test_the_log_is_named_when_it_refused() -> None:
    world = World()
    one, _ = world.completing(2)
    world.sync(one, 1, {one: assigned(0)})
    world.log_answers(accepted=False)
    assert whys(told(world)) == [(RebalanceCause.LOG_REFUSED, one)]


def test_a_group_that_was_left_by_all_says_so() -> None:
    world = World()
    one, two = two_at_work(world)
    world.leave(one, two)
    found = told(world)
    assert (found.ending, whys(found)) == (
        RebalanceEnding.DESERTED,
        [(RebalanceCause.LEFT, one), (RebalanceCause.LEFT, two)],
    )
    assert sentence(found).startswith("no members any more; because")


def test_a_static_member_that_comes_back_as_it_was_begins_nothing() -> None:
    world = World()
    first = world.join(instance="i")
    world.finish_join_phase()
    settle(world, [first.joined.member_id], assigned(0))
    world.join(instance="i")
    world.log_answers()
    assert len(world.group().account.rebalances()) == 1
    again = world.group().static_ids["i"]
    world.join(again, instance="i")  # its leader asks
    settle(world, [again], assigned(0))
    assert told(world).moved == ()  # what the old id had, the new one has


def many(data: bytes) -> list[Partition]:
    return [Partition("t", data[0] * 100 + each) for each in range(99)] if data else []


def test_what_is_remembered_has_an_end() -> None:
    kept = Account()
    for generation in range(ROUNDS + 5):
        for number in range(NAMED + 3):
            kept.note(RebalanceReason(RebalanceCause.JOINED, f"{number}" + "x" * 9_999))
        kept.begin(1.0, 1)
        kept.formed(1.0, generation, 99, "l" * 9_999, "range")
        owned = {f"m{each}": bytes([generation]) for each in range(NAMED + 3)}
        kept.assigned(1.0, owned, many)
    found = kept.rebalances()
    assert len(found) == ROUNDS
    assert all(len(each.reasons) == NAMED and each.reasons_total == NAMED + 3 for each in found)
    assert all(len(each.moved) == NAMED and each.moved_total == NAMED + 3 for each in found)
    assert all(len(move.gained) == NAMED and move.gained_total == 99 for each in found for move in each.moved)
    assert len(coordinator_admin.written_rebalances(found)) < 400_000


def test_an_account_arrives_as_it_was_sent() -> None:
    world = World()
    _, two = two_at_work(world)
    world.leave(two)
    found = world.group().account.rebalances()
    assert coordinator_admin.read_rebalances(coordinator_admin.written_rebalances(found)) == list(found)


@pytest.mark.parametrize("text", ["", "{", "[1]", "[{}]", '{"a":1}', '[{"ending":"x","reasons":[],"moved":[]}]', "3"])
def test_an_account_that_is_none_is_a_violation(text: str) -> None:
    with pytest.raises(coordinator_admin.ProtocolViolation):
        coordinator_admin.read_rebalances(text)


def test_names_cannot_break_the_line() -> None:
    one = Rebalance(
        began_ms=0, reasons=(RebalanceReason(RebalanceCause.LEFT, "a\nERROR", said="b\x1b[0m\r"),), reasons_total=1
    )
    assert sentence(one).isprintable()
    assert sentence(replace(one, reasons=(), reasons_total=0)).endswith("because of something that is not known")
