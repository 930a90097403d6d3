"""Joining a group: what a member sends after each answer of the coordinator, until it has its partitions."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import FencedError, ServerError
from penstock.protocols.kafka.client.classic_member import State
from tests.unit.kafka_client.scripted import go, stage
from tests.unit.kafka_client.scripted_coordinator import EVENTS, QUICK, Coordinator, member_of, sent


def test_a_leader_shares_out_the_topics_as_they_are() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it)
            member = member_of(it)
            assignment = await member.join(["events", "not there"], [], "start")
            assert assignment.partitions == set(EVENTS)
            assert (assignment.generation, member.member_id, member.state) == (1, "member", State.STABLE)
            assert sent(it) == [("JoinGroup", "", -1), ("SyncGroup", "member", 1)]
            (join,) = it.broker.asked("JoinGroup")
            assert (join.rebalance_timeout_ms, join.reason) == (300_000, "start")

    go(body())


def test_a_follower_takes_what_it_is_given_and_may_get_nothing() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator = Coordinator(it)
            coordinator.follower_of = "somebody else"
            assert (await member_of(it).join(["events"], [], "")).partitions == frozenset()
            (sync,) = it.broker.asked("SyncGroup")
            assert not sync.assignments

    go(body())


JOIN, AGAIN, SYNC = ("JoinGroup", "", -1), ("JoinGroup", "member", -1), ("SyncGroup", "member", 1)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ({"join": [79]}, [JOIN, ("JoinGroup", "given", -1), ("SyncGroup", "given", 1)]),
        ({"join": [14, 27]}, [JOIN, JOIN, JOIN, SYNC]),
        ({"join": [25, 22]}, [JOIN, JOIN, JOIN, SYNC]),
        ({"sync": [27]}, [JOIN, SYNC, AGAIN, ("SyncGroup", "member", 2)]),
        ({"sync": [22]}, [JOIN, SYNC, AGAIN, ("SyncGroup", "member", 2)]),
        ({"sync": [25]}, [JOIN, SYNC, JOIN, ("SyncGroup", "member", 2)]),
        ({"sync": [14]}, [JOIN, SYNC, AGAIN, ("SyncGroup", "member", 2)]),
    ],
    ids=str,
)
def test_a_join_goes_on_after_each_answer_that_passes(
    codes: dict[str, list[int]], expected: list[tuple[str, str, int]]
) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it, **codes)
            assert (await member_of(it).join(["events"], [], "")).partitions == set(EVENTS)
            assert sent(it) == expected

    go(body())


@pytest.mark.parametrize("codes", [{"join": [16]}, {"sync": [15]}, {"join": [-1]}, {"find": [15, 14]}], ids=str)
def test_a_coordinator_that_moved_is_looked_for(codes: dict[str, list[int]]) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it, **codes)
            assert (await member_of(it).join(["events"], [], "")).partitions == set(EVENTS)
            assert len(it.broker.asked("FindCoordinator")) == (3 if "find" in codes else 2)

    go(body())


@pytest.mark.parametrize(
    ("codes", "error", "state"),
    [
        ({"join": [82]}, FencedError, State.FENCED),
        ({"sync": [82]}, FencedError, State.FENCED),
        ({"join": [23]}, ServerError, State.UNJOINED),
        ({"join": [30]}, ServerError, State.UNJOINED),
        ({"sync": [30]}, ServerError, State.UNJOINED),
        ({"find": [30]}, ServerError, State.UNJOINED),
    ],
    ids=str,
)
def test_a_join_that_cannot_succeed_is_raised(
    codes: dict[str, list[int]], error: type[Exception], state: State
) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it, **codes)
            member = member_of(it)
            with pytest.raises(error, match="group 'group'"):
                await member.join(["events"], [], "")
            assert member.state is state

    go(body())


def test_an_assignment_by_an_older_subscription_is_not_taken() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator = Coordinator(it)
            member = member_of(it)
            await member.join(["events"], [], "")
            coordinator.follower_of = "somebody else"
            coordinator.assigned = (
                bytes.fromhex("0000 00000001 0005") + b"other" + bytes.fromhex("00000001 00000000 ffffffff")
            )
            joining = asyncio.ensure_future(member.join(["events"], [], ""))
            while coordinator.generation < 3:  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0)
            coordinator.assigned = b""
            assert (await joining).partitions == frozenset()

    go(body())
