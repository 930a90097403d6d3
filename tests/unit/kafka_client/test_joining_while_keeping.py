"""A member of cooperative assignors joins and keeps what it owns: what it tells, commits and loses meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import ServerError
from penstock.interfaces.client import Dropped
from penstock.model import Committed
from penstock.protocols.kafka.client.classic_member import KafkaMembership, State
from penstock.protocols.kafka.wire.consumer_protocol import read_subscription
from tests.unit.kafka_client.scripted import Stage, go, stage
from tests.unit.kafka_client.scripted_coordinator import EVENTS, QUICK, Coordinator, member_of, sent

COMMIT = {EVENTS[0]: Committed(1)}
COOPERATIVE = ("cooperative-sticky",)


async def turns() -> None:
    """Whoever can go on without waiting for time does so."""
    for _ in range(20):
        await asyncio.sleep(0)


async def parked(it: Stage, member: KafkaMembership) -> Callable[[], asyncio.Task[Any]]:
    """The member has its partitions and joins again; the coordinator does not answer that until it is told to."""
    await member.join(["events"], [], "")
    answer, waits = it.broker.answers["JoinGroup"], asyncio.Event()

    def park(request: Any, version: int) -> object:
        waits.set()
        return None

    it.broker.answers["JoinGroup"] = park
    joining = asyncio.ensure_future(member.join(["events"], EVENTS, ""))
    await waits.wait()

    def again() -> asyncio.Task[Any]:
        it.broker.answers["JoinGroup"] = answer
        return joining

    return again


@pytest.mark.parametrize(
    ("assignors", "kept"),
    [
        (COOPERATIVE, True),
        (("range", "cooperative-sticky"), False),
        (("sticky",), False),
        (("roundrobin", "range"), False),
    ],
)
def test_members_keep_what_they_own_if_all_their_assignors_are_cooperative(
    assignors: tuple[str, ...], kept: bool
) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            member = member_of(it, assignors=assignors)
            assert member.must_revoke(EVENTS) == (frozenset() if kept else set(EVENTS))

    go(body())


def test_every_assignor_is_offered_with_its_own_user_data_and_what_is_owned() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it).name = "cooperative-sticky"
            member = member_of(it, assignors=("cooperative-sticky", "sticky", "range"))
            await member.join(["events"], [], "")
            await member.join(["events"], EVENTS, "")
            first, second = it.broker.asked("JoinGroup")
            assert [each.name for each in first.protocols] == ["cooperative-sticky", "sticky", "range"]
            told = [read_subscription(each.metadata) for each in second.protocols]
            assert [bytes(each.user_data or b"none") for each in told] == [b"\0\0\0\1", b"none", b"none"]
            assert [each.generation_id for each in told] == [1] * 3
            assert all([list(of.partitions) for of in each.owned_partitions] == [[0, 1, 2]] for each in told)

    go(body())


def test_a_commit_goes_past_a_join_that_waits_in_the_generation_before() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it)
            member = member_of(it, assignors=COOPERATIVE)
            again = await parked(it, member)
            await member.commit(COMMIT)
            assert sent(it)[-1] == ("OffsetCommit", "member", 1)
            assert member.state is State.JOINING
            again().cancel()

    go(body())


def test_a_commit_that_the_group_outran_is_made_in_the_next_generation() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it, commit=[22, 27])
            member = member_of(it, assignors=COOPERATIVE)
            again = await parked(it, member)
            committing = asyncio.ensure_future(member.commit(COMMIT))
            await turns()
            joining = again()
            assert member._coordinator._aside is not None
            member._coordinator._aside.close()
            await asyncio.gather(joining, committing)
            assert {each[-1] for each in sent(it) if each[0] == "OffsetCommit"} >= {1}
            await member.commit(COMMIT)
            assert sent(it)[-1] == ("OffsetCommit", "member", 2)

    go(body())


def test_a_commit_waits_until_it_is_known_who_gets_what() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it)
            member = member_of(it, assignors=COOPERATIVE)
            await member.join(["events"], [], "")
            sync, waits = it.broker.answers["SyncGroup"], asyncio.Event()
            it.broker.answers["SyncGroup"] = lambda request, version: waits.set()
            joining = asyncio.ensure_future(member.join(["events"], EVENTS, ""))
            await waits.wait()
            committing = asyncio.ensure_future(member.commit(COMMIT))
            await turns()
            assert (member.state, committing.done()) == (State.SYNCING, False)
            it.broker.answers["SyncGroup"] = sync
            assert member._coordinator._aside is not None
            member._coordinator._aside.close()
            await asyncio.gather(joining, committing)
            assert {each[-1] for each in sent(it) if each[0] == "OffsetCommit"} <= {2, 3}  # and never in the first

    go(body())


@pytest.mark.parametrize("codes", [{"join": [0, 25]}, {"join": [0, 22]}, {"sync": [0, 22]}, {"sync": [0, 25]}])
def test_what_it_kept_is_lost_once_the_group_went_on_without_it(codes: dict[str, list[int]]) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it, **codes)
            member = member_of(it, assignors=COOPERATIVE)
            await member.join(["events"], [], "")
            with pytest.raises(Dropped):
                await member.join(["events"], EVENTS, "")
            with pytest.raises(ServerError, match="UNKNOWN_MEMBER_ID"):
                await member.commit(COMMIT)
            with pytest.raises(Dropped):
                await member.join(["events"], EVENTS, "")
            await member.join(["events"], [], "")
            assert read_subscription(it.broker.asked("JoinGroup")[-1].protocols[0].metadata).generation_id == -1

    go(body())


def test_a_rebalance_that_begins_anew_takes_nothing_away() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it, join=[0, 27, 14], sync=[0, 27])
            member = member_of(it, assignors=COOPERATIVE)
            await member.join(["events"], [], "")
            assert (await member.join(["events"], EVENTS, "")).partitions == set(EVENTS)

    go(body())


def test_a_join_that_nobody_waits_for_any_more_is_hung_up_on() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it)
            member = member_of(it, assignors=COOPERATIVE)
            joining = (await parked(it, member))()
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
            await member.leave("done")
            assert len(it.broker.asked("LeaveGroup")) == 1

    go(body())
