"""A member that has joined: heartbeats, commits, leaving, and what the engine is told of each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.errors import ConfigError, FencedError, ProtocolViolation, ServerError, UsageError
from penstock.interfaces import GroupOptions, Verdict
from penstock.model import Committed, Partition
from penstock.protocols.kafka.client.assignors import partitions_assigned, subscriber_of, subscription_bytes
from penstock.protocols.kafka.client.classic_member import State
from penstock.protocols.kafka.wire.groups import HeartbeatResponse, JoinGroupResponseMember
from tests.unit.kafka_client.scripted import go, metadata, stage
from tests.unit.kafka_client.scripted_coordinator import EVENTS, QUICK, Coordinator, member_of, sent


@pytest.mark.parametrize(
    ("code", "verdict", "state", "identity"),
    [
        (0, Verdict.STEADY, State.STABLE, ("member", 1)),
        (27, Verdict.REJOIN, State.STABLE, ("member", 1)),
        (22, Verdict.LOST, State.UNJOINED, ("member", -1)),
        (25, Verdict.LOST, State.UNJOINED, ("", -1)),
        (14, Verdict.STEADY, State.STABLE, ("member", 1)),
        (16, Verdict.STEADY, State.STABLE, ("member", 1)),
    ],
)
def test_a_heartbeat_tells_where_the_member_stands(
    code: int, verdict: Verdict, state: State, identity: tuple[str, int]
) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it, beat=[code])
            member = member_of(it)
            await member.join(["events"], [], "")
            assert (await member.heartbeat()).verdict is verdict
            assert member.state is state
            assert (member._identity.member_id, member._identity.generation) == identity
            # What was said stays said until the engine joins again.
            assert (await member.heartbeat()).verdict is verdict
            await member.join(["events"], [], "")
            assert (await member.heartbeat()).verdict is Verdict.STEADY

    go(body())


def test_heartbeats_go_on_until_the_engine_finds_time_to_join() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it, beat=[27, 27, 27])
            member = member_of(it)
            await member.join(["events"], [], "")
            for _ in range(3):
                assert (await member.heartbeat()).verdict is Verdict.REJOIN
            assert len(it.broker.asked("Heartbeat")) == 3

    go(body())


def test_a_fenced_member_is_told_by_heartbeat_and_commit() -> None:
    async def body() -> None:
        for codes in ({"beat": [82]}, {"commit": [82]}):
            async with stage(QUICK) as it:
                Coordinator(it, **codes)
                member = member_of(it, instance_id="host-1")
                await member.join(["events"], [], "")
                with pytest.raises(FencedError):
                    await (member.heartbeat() if "beat" in codes else member.commit({EVENTS[0]: Committed(1)}))
                assert member.state is State.FENCED
                with pytest.raises(UsageError):
                    await member.join(["events"], [], "")

    go(body())


@pytest.mark.parametrize(("code", "verdict"), [(27, Verdict.REJOIN), (22, Verdict.LOST), (25, Verdict.LOST)])
def test_a_commit_that_failed_is_raised_and_the_next_heartbeat_knows(code: int, verdict: Verdict) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it, commit=[code])
            member = member_of(it)
            await member.join(["events"], [], "")
            with pytest.raises(ServerError) as raised:
                await member.commit({EVENTS[0]: Committed(1)})
            assert raised.value.code == code
            assert (await member.heartbeat()).verdict is verdict

    go(body())


def test_a_commit_goes_out_in_the_members_generation_and_is_retried() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it, commit=[14, 0, 16, 0, 0, 0])
            member = member_of(it)
            await member.join(["events"], [], "")
            await member.commit({EVENTS[0]: Committed(1), EVENTS[1]: Committed(2)})
            assert sent(it)[-3:] == [("OffsetCommit", "member", 1)] * 3

    go(body())


def test_a_commit_without_a_generation_is_refused_here() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it, beat=[25])
            member = member_of(it)
            with pytest.raises(ServerError, match="UNKNOWN_MEMBER_ID"):
                await member.commit({EVENTS[0]: Committed(1)})
            assert not it.broker.asked("OffsetCommit")

    go(body())


def test_an_answer_to_an_older_generation_is_dropped() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator = Coordinator(it)
            member = member_of(it)
            await member.join(["events"], [], "")
            answered = asyncio.Event()

            def late(request: Any, version: int) -> object:
                answered.set()
                return HeartbeatResponse(error_code=25)

            it.broker.answers["Heartbeat"] = late
            beat = asyncio.ensure_future(member.heartbeat())
            await asyncio.sleep(0)
            # The engine joins while the heartbeat is on its way; its answer is about the generation before.
            assignment = await member.join(["events"], [], "")
            assert (await beat).verdict is Verdict.STEADY
            assert answered.is_set()
            assert (assignment.generation, coordinator.generation, member.state) == (2, 2, State.STABLE)

    go(body())


def test_leaving_tells_the_group_unless_the_place_is_static() -> None:
    async def body() -> None:
        for instance_id, told in ((None, 1), ("host-1", 0)):
            async with stage(QUICK) as it:
                Coordinator(it)
                member = member_of(it, instance_id=instance_id)
                await member.join(["events"], [], "")
                await member.leave("done")
                assert len(it.broker.asked("LeaveGroup")) == told
                assert (await member.heartbeat()).verdict is Verdict.LOST
                await member.leave("again")
                assert (await member.join(["events"], [], "")).generation == 2

    go(body())


def test_leaving_a_group_that_forgot_the_member_is_no_error() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it, leave=[25, 30])
            member = member_of(it)
            await member.join(["events"], [], "")
            await member.leave("done")
            await member.join(["events"], [], "")
            with pytest.raises(ServerError, match="GROUP_AUTHORIZATION_FAILED"):
                await member.leave("done")

    go(body())


def test_a_join_that_is_cancelled_does_not_hold_up_what_comes_next() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator = Coordinator(it, join=[79])
            member = member_of(it)
            answer = it.broker.answers["JoinGroup"]
            parked = asyncio.Event()

            def park(request: Any, version: int) -> object:
                if not request.member_id:
                    return answer(request, version)
                parked.set()
                return None

            it.broker.answers["JoinGroup"] = park
            joining = asyncio.ensure_future(member.join(["events"], [], ""))
            await parked.wait()
            assert (await member.heartbeat()).verdict is Verdict.STEADY
            joining.cancel()
            with pytest.raises(asyncio.CancelledError):
                await joining
            assert member.state is State.UNJOINED
            await member.leave("closing")
            (left,) = it.broker.asked("LeaveGroup")
            assert left.members[0].member_id == "given"
            assert coordinator.generation == 0

    go(body())


def test_the_leader_notices_new_partitions_and_everybody_new_topics() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator = Coordinator(it)
            leader = member_of(it)
            await leader.join(["events", "not there"], [], "")
            assert not await leader.stale(["events", "not there"])
            assert await leader.stale(["events"])
            grown = {"events": dict.fromkeys(range(4), (1, 0))}
            it.broker.answers["Metadata"] = metadata({1: it.endpoint}, grown)
            await it.client.topics(["events"], fresh=True)
            assert await leader.stale(["events", "not there"])
            await leader.join(["events", "not there"], [], "")
            it.broker.answers["Metadata"] = metadata({1: it.endpoint}, grown | {"not there": {0: (1, 0)}})
            await it.client.topics(["not there"], fresh=True)
            assert await leader.stale(["events", "not there"])
            coordinator.follower_of = "somebody else"
            follower = member_of(it)
            await follower.join(["events"], [], "")
            assert not await follower.stale(["events"])

    go(body())


def test_an_eager_member_gives_up_everything_before_it_joins() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            assert member_of(it).must_revoke(EVENTS) == set(EVENTS)

    go(body())


def test_options_that_cannot_work_are_refused() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            with pytest.raises(ConfigError, match="no assignor 'rang'"):
                member_of(it, assignors=("rang",))
            with pytest.raises(UsageError):
                it.client.membership(GroupOptions(""))

    go(body())


def test_subscriptions_of_other_versions_are_understood() -> None:
    v0 = bytes.fromhex("0000 00000001 0001 61 ffffffff")
    v9 = bytes.fromhex("0009") + subscription_bytes(["a"], [Partition("a", 1)], 4, "rack")[2:] + b"more"
    for metadata_bytes, owned, generation in ((v0, 0, -1), (v9, 1, 4)):
        told = subscriber_of(JoinGroupResponseMember(member_id="m", metadata=metadata_bytes))
        assert (told.topics, len(told.owned), told.generation) == (frozenset("a"), owned, generation)
    assert partitions_assigned(b"") == frozenset()
    with pytest.raises(ProtocolViolation):
        partitions_assigned(b"\0")
