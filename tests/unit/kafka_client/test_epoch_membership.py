"""A member of a newer group: what its heartbeats say, what the engine is told of their answers, and its end."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import FencedError, ServerError, UsageError
from penstock.interfaces import GroupOptions, Verdict
from penstock.interfaces.client import Dropped
from penstock.model import Assignment, Committed
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.client.consumer_member import State, new_member_id
from tests.unit.kafka_client.scripted import go, metadata, stage
from tests.unit.kafka_client.scripted_newer import EVENTS, ID, UNANSWERED, NewerCoordinator, beats, newer_member

QUICK = KafkaOptions(retry_backoff_ms=1, retry_backoff_max_ms=2, unknown_topic_patience_ms=20)
ALL = frozenset(EVENTS)


def test_the_first_heartbeat_says_everything_and_later_ones_what_is_new() -> None:
    async def body() -> None:
        async with stage(KafkaOptions(retry_backoff_ms=1, rack="here")) as it:
            coordinator = NewerCoordinator(it)
            member = newer_member(it, rebalance_timeout_ms=9_000, remote_assignor="range", instance_id="one")
            assert await member.join(["events", "a"], [], "") == Assignment(1, ALL)
            assert member.heartbeat_interval_s == 0, "what it owns now is said at once"
            await member.heartbeat()
            assert member.heartbeat_interval_s == 0.7
            coordinator.epoch = 2
            await member.heartbeat()
            first, owns, nothing = beats(it)
            assert (first.group_id, first.member_id, first.member_epoch) == ("group", member.member_id, 0)
            assert (first.instance_id, first.rack_id, first.server_assignor) == ("one", "here", "range")
            assert (first.rebalance_timeout_ms, first.subscribed_topic_names) == (9_000, ("a", "events"))
            assert first.topic_partitions == ()
            assert [(each.topic_id, each.partitions) for each in owns.topic_partitions] == [(ID, (0, 1, 2))]
            for each in (owns, nothing):
                assert (each.instance_id, each.rack_id, each.server_assignor) == ("one", None, None)
                assert (each.rebalance_timeout_ms, each.subscribed_topic_names) == (-1, None)
            assert (nothing.member_epoch, nothing.topic_partitions, member.epoch) == (1, None, 2)

    go(body())


@pytest.mark.parametrize("code", [14, 16, 13, UNANSWERED])
def test_after_trouble_a_heartbeat_comes_soon_and_says_everything_again(code: int) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it, beat=[0, code])
            member = newer_member(it)
            await member.join(["events"], [], "")
            await member.heartbeat()
            assert (await member.heartbeat()).verdict is Verdict.STEADY
            assert 0 < member.heartbeat_interval_s < 0.1
            assert (await member.heartbeat()).verdict is Verdict.STEADY
            assert member.heartbeat_interval_s == 0.7
            *_, again = beats(it)
            assert (again.member_epoch, again.rebalance_timeout_ms) == (1, 300_000)
            assert again.subscribed_topic_names == ("events",)
            assert again.topic_partitions[0].partitions == (0, 1, 2)

    go(body())


def test_what_others_shall_have_is_given_up_said_at_once_and_others_are_kept() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator = NewerCoordinator(it)
            member = newer_member(it)
            await member.join(["events"], [], "")
            await member.heartbeat()
            coordinator.target = frozenset({0})
            for _ in range(2):  # it is said until the engine comes; till then all is still this member's
                assert (await member.heartbeat()).verdict is Verdict.REJOIN
            assert beats(it)[-1].topic_partitions[0].partitions == (0, 1, 2)
            assert member.must_revoke(EVENTS) == {EVENTS[1], EVENTS[2]}
            coordinator.epoch = 2
            assert await member.join(["events"], EVENTS[:1], "") == Assignment(2, frozenset(EVENTS[:1]))
            assert beats(it)[-1].topic_partitions[0].partitions == (0,)
            assert (await member.heartbeat()).verdict is Verdict.STEADY
            assert member.state is State.STABLE

    go(body())


def test_what_it_was_to_own_for_a_moment_only_is_said_not_to_be_owned() -> None:
    """Else the coordinator would wait until this member has given up what it never took."""

    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator = NewerCoordinator(it, [0])
            member = newer_member(it)
            await member.join(["events"], [], "")
            await member.heartbeat()
            for target in ({0, 1}, {0}):
                coordinator.target = frozenset(target)
                assert (await member.heartbeat()).verdict is Verdict.REJOIN
            assert await member.join(["events"], EVENTS[:1], "") == Assignment(1, frozenset(EVENTS[:1]))
            assert beats(it)[-1].topic_partitions[0].partitions == (0,)

    go(body())


def test_what_is_new_is_taken_by_a_join_and_what_it_is_to_give_up_by_then_is_told_at_once() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator = NewerCoordinator(it, [0])
            member = newer_member(it)
            await member.join(["events"], [], "")
            await member.heartbeat()
            coordinator.target = frozenset({0, 1})
            assert (await member.heartbeat()).verdict is Verdict.REJOIN
            assert member.must_revoke(EVENTS[:1]) == frozenset()
            coordinator.target = frozenset({1, 2})
            assert await member.join(["events"], EVENTS[:1], "") == Assignment(1, ALL)
            assert (member.state, member.heartbeat_interval_s) == (State.RECONCILING, 0)
            assert (await member.heartbeat()).verdict is Verdict.REJOIN
            assert [each.partitions for each in beats(it)[-1].topic_partitions] == [(0, 1, 2)], "it has them all"
            assert member.must_revoke(ALL) == {EVENTS[0]}

    go(body())


@pytest.mark.parametrize("code", [25, 110, 69])
def test_who_is_dropped_has_lost_everything_and_joins_as_the_same_member(code: int) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it, beat=[code])
            member = newer_member(it)
            await member.join(["events"], [], "")
            for _ in range(2):
                assert (await member.heartbeat()).verdict is Verdict.LOST
            assert (member.state, member.epoch) == (State.UNJOINED, -1)
            assert member.must_revoke(EVENTS) == frozenset(), "lost, not given up"
            with pytest.raises(Dropped):
                await member.join(["events"], EVENTS, "")
            await member.join(["events"], [], "")
            first, _, again = beats(it)
            assert (again.member_id, again.member_epoch, again.topic_partitions) == (first.member_id, 0, ())
            assert (await member.heartbeat()).verdict is Verdict.STEADY

    go(body())


@pytest.mark.parametrize("keeps", [True, False])
def test_who_is_dropped_while_it_says_what_it_owns(keeps: bool) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it, beat=[0, 110])
            member = newer_member(it)
            await member.join(["events"], [], "")
            await member.heartbeat()
            if keeps:
                with pytest.raises(Dropped):
                    await member.join(["events"], EVENTS, "")
                assert member.state is State.UNJOINED
            else:
                assert await member.join(["events"], [], "") == Assignment(1, ALL)
                assert beats(it)[-1].member_epoch == 0

    go(body())


def test_another_process_with_the_instance_id_ends_this_one() -> None:
    async def body() -> None:
        for codes in ({"beat": [82]}, {"commit": [82]}):
            async with stage(QUICK) as it:
                NewerCoordinator(it, **codes)
                member = newer_member(it, instance_id="one")
                await member.join(["events"], [], "")
                with pytest.raises(FencedError):
                    await (member.heartbeat() if "beat" in codes else member.commit({EVENTS[0]: Committed(1)}))
                with pytest.raises(UsageError):
                    await member.join(["events"], [], "")
                await member.leave("it is over")
                assert beats(it)[-1].member_epoch >= 0, "the place is another one's, who must not be told away"

    go(body())


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (35, "group_protocol=classic"),
        (69, "classic protocol"),
        (81, "group.max.size"),
        (111, "other member with this instance id"),
        (112, "group.consumer.assignors"),
        (128, "RE2"),
    ],
)
def test_a_join_that_is_refused_says_what_to_do_and_can_be_tried_again(code: int, hint: str) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it, join=[code])
            member = newer_member(it, instance_id="one")
            with pytest.raises(ServerError) as refused:
                await member.join(["events"], [], "")
            assert refused.value.code == code
            assert hint in str(refused.value)
            assert await member.join(["events"], [], "") == Assignment(1, ALL)

    go(body())


def test_a_broker_that_does_not_know_heartbeats_like_these() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it)
            it.broker.highest[68] = -1
            with pytest.raises(ServerError, match=r"ConsumerGroupHeartbeat.*group_protocol=classic"):
                await newer_member(it).join(["events"], [], "")

    go(body())


def test_a_heartbeat_that_is_refused_is_said_and_the_member_stays() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it, beat=[29])
            member = newer_member(it)
            await member.join(["events"], [], "")
            with pytest.raises(ServerError, match="TOPIC_AUTHORIZATION_FAILED"):
                await member.heartbeat()
            assert (await member.heartbeat()).verdict is Verdict.STEADY

    go(body())


@pytest.mark.parametrize(("leave", "epochs"), [([], [0, 0, -2, 0]), ([14], [0, 0, -2, 0, -2, 0])])
def test_a_static_member_whose_answer_got_lost_steps_aside_for_itself(leave: list[int], epochs: list[int]) -> None:
    """The coordinator has taken it in, so that its instance id is held, by itself."""

    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it, join=[UNANSWERED, *[111] * (len(leave) + 1), 0], leave=leave)
            member = newer_member(it, instance_id="one")
            assert await member.join(["events"], [], "") == Assignment(1, ALL)
            assert [each.member_epoch for each in beats(it)] == epochs
            assert len({each.member_id for each in beats(it)}) == 1

    go(body())


def test_a_static_member_whose_place_is_anothers_says_so() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it, join=[UNANSWERED, 111, 111], leave=[82])
            with pytest.raises(ServerError, match="UNRELEASED_INSTANCE_ID"):
                await newer_member(it, instance_id="one").join(["events"], [], "")

    go(body())


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("one", -2)])
def test_leaving_tells_the_group(instance_id: str | None, epoch: int) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it, leave=[0, 25, 30])
            member = newer_member(it, instance_id=instance_id)
            await member.leave("it has not joined")
            assert not beats(it)
            for _ in range(2):  # also where the group does not know it any more
                await member.join(["events"], [], "")
                await member.leave("done")
                assert beats(it)[-1].member_epoch == epoch
                assert (await member.heartbeat()).verdict is Verdict.LOST
            await member.join(["events"], [], "")
            with pytest.raises(ServerError, match="GROUP_AUTHORIZATION_FAILED"):
                await member.leave("done")

    go(body())


def test_who_gave_up_joining_leaves_all_the_same() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator, waits = NewerCoordinator(it), asyncio.Event()
            member = newer_member(it)
            it.broker.answers["ConsumerGroupHeartbeat"] = lambda request, version: waits.set()
            joining = asyncio.ensure_future(member.join(["events"], [], ""))
            await waits.wait()
            joining.cancel()
            with pytest.raises(asyncio.CancelledError):
                await joining
            assert member.state is State.UNJOINED
            it.broker.answers["ConsumerGroupHeartbeat"] = coordinator.beat
            await member.leave("closing")
            assert beats(it)[-1].member_epoch == -1

    go(body())


def test_other_topics_are_said_and_only_their_partitions_taken() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it)
            member = newer_member(it)
            await member.join(["events"], [], "")
            assert not await member.stale(["events"])
            assert await member.stale(["others"])
            # The coordinator has not shared out anew yet.
            assert await member.join(["others"], [], "") == Assignment(1, frozenset())
            told = beats(it)[-1]
            assert (told.subscribed_topic_names, told.topic_partitions) == (("others",), ())

    go(body())


def test_a_topic_that_no_broker_can_name_yet_is_waited_for() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator = NewerCoordinator(it)
            answer = it.broker.answers["Metadata"]
            it.broker.answers["Metadata"] = metadata({1: it.endpoint}, {})
            member = newer_member(it)
            assert await member.join(["events"], [], "") == Assignment(1, frozenset())
            assert (await member.heartbeat()).verdict is Verdict.STEADY
            it.broker.answers["Metadata"] = answer
            assert (await member.heartbeat()).verdict is Verdict.REJOIN
            assert await member.join(["events"], [], "") == Assignment(1, ALL)
            # From now on a broker that knows less takes nothing away.
            it.broker.answers["Metadata"] = metadata({1: it.endpoint}, {})
            await it.client.topics(["events"], fresh=True)
            assert (await member.heartbeat()).verdict is Verdict.STEADY
            assert coordinator.target == {0, 1, 2}

    go(body())


def test_a_topic_made_anew_under_its_name_is_given_up_and_taken_again() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator, other = NewerCoordinator(it), b"o" * 16
            member = newer_member(it)
            await member.join(["events"], [], "")
            await member.heartbeat()
            leaders = {"events": dict.fromkeys(range(3), (1, 0))}
            it.broker.answers["Metadata"] = metadata({1: it.endpoint}, leaders, {"events": other})
            coordinator.topic_id, coordinator.target = other, frozenset({0})
            assert (await member.heartbeat()).verdict is Verdict.REJOIN
            assert member.must_revoke(EVENTS) == ALL
            assert await member.join(["events"], [], "") == Assignment(1, frozenset(EVENTS[:1]))
            await member.heartbeat()
            assert [each.topic_id for each in beats(it)[-1].topic_partitions] == [other]

    go(body())


def test_a_group_needs_a_name_and_every_member_one_of_its_own() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            with pytest.raises(UsageError):
                it.client.membership(GroupOptions("", protocol="consumer"))
            assert len({newer_member(it).member_id for _ in range(20)}) == 20

    go(body())
    assert new_member_id(lambda: 0.5) == "gAAAAIAAAACAAAAAgAAAAA"
