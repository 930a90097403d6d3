"""A commit that waits for nothing first: written at once, told of, and in every unusual case what `commit` comes to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

import pytest

from penstock.errors import PenstockError, ServerError
from penstock.interfaces import CommitRest, GroupOptions
from penstock.model import Committed, Partition
from penstock.protocols.kafka.client.classic_member import KafkaMembership, State
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.client.consumer_member import KafkaEpochMembership
from penstock.protocols.kafka.wire.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.unit.client.virtual_time import passing, run
from tests.unit.kafka_client.scripted import Stage, go, stage
from tests.unit.kafka_client.scripted_coordinator import EVENTS, Coordinator, member_of
from tests.unit.kafka_client.scripted_newer import NewerCoordinator, newer_member

QUICK = KafkaOptions(retry_backoff_ms=1, retry_backoff_max_ms=2, unknown_topic_patience_ms=20)
ONE: Mapping[Partition, Committed] = {EVENTS[0]: Committed(1)}
CODES = (0, 3, 12, 14, 15, 16, 22, 25, 27, 28, 30, 82, 110, 113)

Membership: TypeAlias = KafkaMembership | KafkaEpochMembership
Way: TypeAlias = Callable[[Membership, Mapping[Partition, Committed]], Coroutine[Any, Any, None]]


async def usual(member: Membership, offsets: Mapping[Partition, Committed]) -> None:
    await member.commit(offsets)


async def at_once(member: Membership, offsets: Mapping[Partition, Committed]) -> None:
    answer: asyncio.Future[CommitRest | None] = asyncio.get_running_loop().create_future()
    assert member.commit_at_once(offsets, answer.set_result)
    rest = await answer
    if rest is not None:
        await rest()


async def joined(it: Stage, *, newer: bool, codes: tuple[int, ...]) -> Membership:
    """One that has a connection to its coordinator; its next commits are answered with these codes, then with 0."""
    coordinator: Any = NewerCoordinator(it) if newer else Coordinator(it)
    member: Membership = member_of(it, instance_id="i")
    if newer:
        options = GroupOptions("group", instance_id="i", protocol="consumer")
        member = KafkaEpochMembership(it.client._coordinator("group"), options, "m")  # else its id is drawn by lot
    await member.join(["events"], [], "")
    await member.commit(ONE)
    it.broker.seen.clear()
    coordinator.codes["commit"] = iter(codes)
    return member


async def outcome(way: Way, member: Membership, offsets: Mapping[Partition, Committed] = ONE) -> object:
    """What a commit comes to, and what the member says of itself then."""
    error: PenstockError | None = None
    try:
        await way(member, offsets)
    except PenstockError as raised:
        error = raised
    told = None if error is None else (type(error), str(error), error.hint, getattr(error, "code", None))
    return told, member.state, member.member_id


def asked(it: Stage) -> list[object]:
    return [(name, request, version) for name, request, version in it.broker.seen if name != "ApiVersions"]


async def compared(
    *, newer: bool, codes: tuple[int, ...] = (), answer: Any = None, options: KafkaOptions = QUICK
) -> tuple[object, list[object]]:
    """The outcome of a commit and what was asked for it, the same in either way; also what a heartbeat says then."""
    found = []
    for way in (usual, at_once):
        async with stage(options) as it:
            member = await joined(it, newer=newer, codes=codes)
            if answer is not None:
                it.broker.answers["OffsetCommit"] = answer(it)
            told = await outcome(way, member)
            requests = asked(it)
            try:
                beat: object = await member.heartbeat()
            except PenstockError as error:
                beat = (type(error), str(error))
            found.append(((told, beat), requests))
    assert found[0] == found[1]
    return found[1]


@pytest.mark.parametrize("newer", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_every_code_comes_to_the_same_as_in_the_usual_way(code: int, newer: bool) -> None:
    async def body() -> None:
        if newer and code == 113:
            return  # waits for a heartbeat: below
        _, requests = await compared(newer=newer, codes=(code,))
        retried = code in (3, 14, 15, 16)
        assert len([name for name, *_ in requests if name == "OffsetCommit"]) == 1 + retried  # type: ignore[misc]

    go(body())


@pytest.mark.parametrize("newer", [False, True])
@pytest.mark.parametrize("codes", [(14, 16, 0), (16, 25), (14, 14, 82), (15, 27), (16, 12)])
def test_so_do_several_in_a_row(codes: tuple[int, ...], newer: bool) -> None:
    go(same(newer=newer, codes=codes))


async def same(**how: Any) -> None:
    await compared(**how)


def says(*codes: tuple[str, int, int], throttle_ms: int = 0) -> Any:
    """Always answers so: topics, partitions, codes."""

    def of(it: Stage) -> Any:
        def answer(request: Any, version: int) -> object:
            topics = [
                OffsetCommitResponseTopic(
                    name=topic, partitions=[OffsetCommitResponsePartition(partition_index=number, error_code=code)]
                )
                for topic, number, code in codes
            ]
            return OffsetCommitResponse(throttle_time_ms=throttle_ms, topics=topics)

        return answer

    return of


def lost_first(it: Stage) -> Any:
    """The first one's connection goes; the coordinator is known to be reached again."""
    good, times = it.broker.answers["OffsetCommit"], [0]

    def answer(request: Any, version: int) -> object:
        times[0] += 1
        if times[0] == 1:
            it.client._coordinators["group"].hang_up()
            return None
        return good(request, version)

    return answer


@pytest.mark.parametrize("newer", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        says(("events", 0, 0), throttle_ms=7),
        says(("events", 1, 0)),
        says(),
        says(("events", 0, 0), ("events", 1, 0)),
        says(("others", 0, 0)),
        says(("events", 0, 0), ("others", 0, 25)),
        lambda _: lambda request, version: b"\xff" * 40,
        lost_first,
    ],
)
def test_answers_that_are_not_plain_come_to_the_same(answer: Any, newer: bool) -> None:
    go(same(newer=newer, answer=answer))


@pytest.mark.parametrize("newer", [False, True])
def test_the_time_for_all_attempts_begins_with_the_first_one(newer: bool) -> None:
    """Of 5 s an attempt may take 3: the second one is the last."""
    options = KafkaOptions(retry_backoff_ms=1, retry_backoff_max_ms=2, request_timeout_ms=3_000, api_timeout_ms=5_000)

    async def body() -> None:
        (told, _), requests = await compared(newer=newer, answer=lambda _: lambda *_: None, options=options)  # type: ignore[misc]
        assert "RequestTimeout" in str(told)
        assert len([name for name, *_ in requests if name == "OffsetCommit"]) == 2  # type: ignore[misc]

    run(body())


def test_a_member_with_an_older_epoch_commits_again_in_the_one_that_it_hears_of() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator: Any = NewerCoordinator(it)
            member = newer_member(it)
            await member.join(["events"], [], "")
            await member.commit(ONE)
            it.broker.seen.clear()
            coordinator.codes["commit"], coordinator.epoch = iter([113]), 5
            committing = asyncio.ensure_future(at_once(member, ONE))
            await member.heartbeat()
            await committing
            assert [each.generation_id_or_member_epoch for each in it.broker.asked("OffsetCommit")] == [1, 5]

    go(body())


@pytest.mark.parametrize("newer", [False, True])
def test_who_is_somebody_else_by_then_is_told_that_it_failed_and_stays_what_it_is(newer: bool) -> None:
    """The answer is about the generation that was committed in: it takes nothing from the new one."""

    async def body() -> None:
        async with stage(QUICK) as it:
            member = await joined(it, newer=newer, codes=(25,))
            answer, let = it.broker.answers["OffsetCommit"], asyncio.Event()

            def late(request: Any, version: int) -> object:
                async def wait() -> object:
                    await let.wait()
                    return answer(request, version)

                return wait()

            it.broker.answers["OffsetCommit"] = late
            committing = asyncio.ensure_future(at_once(member, ONE))
            await asyncio.sleep(0)
            member._identity = type(member._identity)("somebody new", 9, "i")
            let.set()
            state = member.state
            with pytest.raises(ServerError, match="UNKNOWN_MEMBER_ID"):
                await committing
            assert (member.state, member._identity.member_id) == (state, "somebody new")

    go(body())


def test_nothing_is_begun_where_something_has_to_be_waited_for() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            Coordinator(it)
            member = member_of(it, instance_id="i")
            heard: list[object] = []
            assert not member.commit_at_once(ONE, heard.append)  # it has not joined
            await member.join(["events"], [], "")
            it.broker.seen.clear()
            for offsets in ({}, {EVENTS[0]: Committed(1), EVENTS[1]: Committed(2)}, {EVENTS[0]: Committed(-1)}):
                assert not member.commit_at_once(offsets, heard.append)
            it.client._coordinators["group"].forget()
            assert not member.commit_at_once(ONE, heard.append)  # nobody knows whom to ask
            await member.commit(ONE)
            it.client._coordinators["group"].hang_up()
            assert not member.commit_at_once(ONE, heard.append)  # and here there is no connection
            assert len(it.broker.asked("OffsetCommit")) == 1
            assert not heard

    go(body())


@pytest.mark.parametrize("newer", [False, True])
def test_who_is_not_in_its_group_begins_nothing(newer: bool) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            member = await joined(it, newer=newer, codes=())
            other: Any = it.broker.answers
            waiting = asyncio.Event()

            async def held(request: Any, version: int) -> None:
                await waiting.wait()

            other |= {"JoinGroup": held}
            if newer:
                await member.leave("")
            else:
                joining = asyncio.ensure_future(member.join(["events"], [], ""))
                await asyncio.sleep(0)
                assert member.state is State.JOINING
            assert not member.commit_at_once(ONE, lambda _: None)
            with pytest.raises(ServerError):
                await member.commit(ONE)
            if not newer:
                joining.cancel()
            waiting.set()
            assert not it.broker.asked("OffsetCommit")

    go(body())


def test_an_old_broker_is_committed_to_at_once_in_its_version() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            it.broker.highest[8] = 5
            Coordinator(it)
            member = member_of(it)
            await member.join(["events"], [], "")
            await member.commit(ONE)
            heard: list[object] = []
            assert member.commit_at_once(ONE, heard.append)
            await passing(0.1)
            assert heard == [None]
            assert len(it.broker.asked("OffsetCommit")) == 2

    run(body())


def test_what_is_told_is_told_later_and_once() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            member = await joined(it, newer=False, codes=())
            heard: list[object] = []
            assert member.commit_at_once(ONE, heard.append)
            assert heard == []
            await passing(0.1)
            assert heard == [None]
            assert [each.generation_id_or_member_epoch for each in it.broker.asked("OffsetCommit")] == [1]

    run(body())
