"""A member of a newer group commits, and asks for what is committed, in its epoch, whichever that is by then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.errors import ServerError
from penstock.interfaces import Verdict
from penstock.model import Committed
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.client.consumer_member import State
from tests.unit.kafka_client.scripted import go, stage
from tests.unit.kafka_client.scripted_newer import EVENTS, NewerCoordinator, newer_member

QUICK = KafkaOptions(retry_backoff_ms=1, retry_backoff_max_ms=2, unknown_topic_patience_ms=20)


def test_a_commit_goes_out_in_the_members_epoch_and_again_in_the_next() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator = NewerCoordinator(it, commit=[0, 113, 113, 0])
            member = newer_member(it, instance_id="one")
            with pytest.raises(ServerError, match="UNKNOWN_MEMBER_ID"):
                await member.commit({EVENTS[0]: Committed(1)})
            await member.join(["events"], [], "")
            await member.commit({EVENTS[0]: Committed(1)})
            coordinator.epoch, heard_twice, answer = 5, asyncio.Event(), it.broker.answers["OffsetCommit"]

            def counted(request: Any, version: int) -> object:
                if len(it.broker.asked("OffsetCommit")) == 3:
                    heard_twice.set()
                return answer(request, version)

            it.broker.answers["OffsetCommit"] = counted
            committing = asyncio.ensure_future(member.commit({EVENTS[0]: Committed(2)}))
            await asyncio.wait_for(heard_twice.wait(), 10)  # the coordinator has gone on, which we have not heard yet
            await member.heartbeat()
            await committing
            commits = it.broker.asked("OffsetCommit")
            assert [each.generation_id_or_member_epoch for each in commits] == [1, 1, 1, 5]
            assert {(each.member_id, each.group_instance_id) for each in commits} == {(member.member_id, "one")}

    go(body())


def test_a_commit_of_who_was_dropped_is_raised_and_the_engine_told() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it, commit=[25])
            member = newer_member(it)
            await member.join(["events"], [], "")
            with pytest.raises(ServerError, match="UNKNOWN_MEMBER_ID"):
                await member.commit({EVENTS[0]: Committed(1)})
            assert (await member.heartbeat()).verdict is Verdict.LOST

    go(body())


def test_a_commit_that_is_told_first_what_a_heartbeat_was_about_to_say() -> None:
    """The heartbeat's answer comes when the member knows already that it is none any more."""

    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it, commit=[25])
            member = newer_member(it)
            await member.join(["events"], [], "")
            results = await asyncio.gather(
                member.commit({EVENTS[0]: Committed(1)}), member.heartbeat(), return_exceptions=True
            )
            assert isinstance(results[0], ServerError)
            assert (await member.heartbeat()).verdict is Verdict.LOST
            assert (member.state, member.epoch) == (State.UNJOINED, -1)

    go(body())


def test_offsets_are_asked_for_in_the_members_epoch_while_it_has_one() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it, fetch=[0, 113, 0, 25, 0, 0])
            member = newer_member(it)
            await member.join(["events"], [], "")
            for _ in range(3):
                await it.client.committed("group", EVENTS)
            await member.leave("done")
            await it.client.committed("group", EVENTS)
            asked = [
                (each.member_id, each.member_epoch) for (each,) in (r.groups for r in it.broker.asked("OffsetFetch"))
            ]
            me, nobody = (member.member_id, 1), (None, -1)
            assert asked == [me, me, me, me, nobody, nobody]

    go(body())
