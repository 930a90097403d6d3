"""Calls of the log are lost where clients may not just ask again: what must hold all the same, and what may happen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from penstock.errors import UpstreamLost
from penstock.interfaces.enode import FetchPart, fetch_one
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.wire.metadata import MetadataRequest
from penstock.protocols.kafka.wire.topics import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
)
from penstock.records.scalar_codec import Noted, entries_of
from tests.late_enode import Plan, planned
from tests.unit.distances import in_virtual_time
from tests.unit.kafka_front.group_kit import commit, committed, member
from tests.unit.kafka_front.kit import Kit, batch, serving
from tests.unit.kafka_front.test_fetch import asking
from tests.unit.kafka_front.transaction_kit import FIRST, Writer, fetch, latest, seen

pytestmark = pytest.mark.near  # each has a plan of its own

SEEDS = 10


def far(plan: Plan, test: Callable[[Kit], Awaitable[None]]) -> None:
    async def main() -> None:
        async with serving() as kit:
            kit.store.create_topic("t", 1)
            await test(kit)

    with planned(plan):
        in_virtual_time(main())


async def values(kit: Kit) -> list[bytes | None]:
    """Of the records of "t", in the order of their offsets."""
    found = await fetch_one(kit.enode, FetchPart(Partition("t", 0), 0, 1 << 20))
    return [each.value for each in entries_of(found.read()) if isinstance(each, Noted)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_without_sequences_nothing_acknowledged_is_lost_and_some_may_be_there_twice(seed: int) -> None:
    async def test(kit: Kit) -> None:
        told = {b"%d" % number: await kit.produce("t", batch([b"%d" % number])) for number in range(30)}
        assert {each.error_code for each in told.values()} == {ErrorCode.NONE}
        stored = await values(kit)
        assert {value: stored[each.base_offset] for value, each in told.items()} == {value: value for value in told}
        last = {value: row for row, value in enumerate(stored)}
        assert list(last) == list(told)
        assert list(last.values()) == sorted(last.values())
        doubles.append(len(stored) - len(told))

    doubles: list[int] = []
    far(Plan(seed, lost_answers=15, lost_requests=15, doubles=True), test)
    assert doubles[0] > 0  # or this has shown nothing


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_session_of_fetches_brings_every_record_once(seed: int) -> None:
    async def test(kit: Kit) -> None:
        for number in range(12):
            await kit.produce("t", batch([b"%d" % number]))
        session, epoch, at, seen = 0, 0, 0, list[bytes | None]()
        for _ in range(200):
            request = asking(at, size=1, session_id=session, session_epoch=epoch)
            answer = await kit._ask(request, 12, "me")
            assert answer.error_code == 0
            session, epoch = answer.session_id, epoch + 1
            for part in (part for topic in answer.responses for part in topic.partitions):
                assert part.error_code in (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                for each in entries_of(bytes(part.records or b"")):
                    assert isinstance(each, Noted)
                    seen.append(each.value)
                    at = each.position + 1
            if at == 12:
                break
        assert seen == await values(kit)

    far(Plan(seed, lost_answers=15, lost_requests=15), test)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_readers_see_what_was_committed_although_markers_may_be_there_twice(seed: int) -> None:
    async def test(kit: Kit) -> None:
        writer = Writer(kit.client(), version=FIRST)
        assert await writer.init() == 0
        for number in range(8):
            assert await writer.write("t", b"%d" % number) == 0
            assert await writer.end(commit=number % 2 == 0) == 0
        found = await fetch_one(kit.enode, FetchPart(Partition("t", 0), 0, 1 << 20))
        stored = {each.position: each.value for each in entries_of(found.read()) if isinstance(each, Noted)}
        assert [stored[at] for at in seen(await fetch(kit, "t"))] == [b"0", b"2", b"4", b"6"]

    far(Plan(seed, lost_answers=15, lost_requests=15, doubles=True), test)


def once(kit: Kit, call: str, *, answered: bool = False) -> None:
    """The next call of that name is lost, or its answer is."""
    left = 1
    inner = getattr(kit.enode, call)

    async def lossy(*arguments: object, **named: object) -> object:
        nonlocal left
        left -= 1
        result = await inner(*arguments, **named) if answered or left < 0 else None
        if left >= 0:
            raise UpstreamLost("the connection broke")
        return result

    setattr(kit.enode, call, lossy)


def near(test: Callable[[Kit], Awaitable[None]]) -> None:
    async def main() -> None:
        async with serving() as kit:
            kit.store.create_topic("t", 1)
            await test(kit)

    in_virtual_time(main())


def test_a_topic_that_was_made_or_grown_or_deleted_without_an_answer_is() -> None:
    async def test(kit: Kit) -> None:
        once(kit, "create_topic", answered=True)
        topic = CreateTopicsRequestTopic(name="u", num_partitions=2, replication_factor=1)
        made = (await kit.ask(CreateTopicsRequest(topics=[topic]), 7)).topics[0]
        found = kit.store.topic("u")
        assert found is not None
        assert (made.error_code, made.topic_id) == (0, found.id)
        once(kit, "add_partitions", answered=True)
        growing = CreatePartitionsRequest(topics=[CreatePartitionsRequestTopic(name="u", count=3, assignments=None)])
        assert (await kit.ask(growing, 3)).results[0].error_code == 0
        once(kit, "delete_topic", answered=True)
        assert (await kit.ask(DeleteTopicsRequest(topic_names=["u"]), 5)).responses[0].error_code == 0
        assert kit.store.topic("u") is None

    near(test)


@pytest.mark.parametrize("call", ["create_topic", "add_partitions", "delete_topic"])
def test_what_did_not_happen_is_not_told_as_done(call: str) -> None:
    async def test(kit: Kit) -> None:
        once(kit, call)
        topic = CreateTopicsRequestTopic(name="u", num_partitions=2, replication_factor=1)
        growing = CreatePartitionsRequestTopic(name="t", count=3, assignments=None)
        answer = {
            "create_topic": lambda: kit.ask(CreateTopicsRequest(topics=[topic]), 7),
            "add_partitions": lambda: kit.ask(CreatePartitionsRequest(topics=[growing]), 3),
            "delete_topic": lambda: kit.ask(DeleteTopicsRequest(topic_names=["t"]), 5),
        }[call]
        told = await answer()
        rows = getattr(told, {"create_topic": "topics", "add_partitions": "results"}.get(call, "responses"))
        assert rows[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [(each.name, each.partitions) for each in kit.store.topics()] == [("t", 1)]

    near(test)


def test_a_deleted_topics_offsets_go_although_the_log_is_lost_for_a_moment() -> None:
    async def test(kit: Kit) -> None:
        assert await commit(kit, 7) == 0
        once(kit, "append")
        assert (await kit.ask(DeleteTopicsRequest(topic_names=["t"]), 5)).responses[0].error_code == 0
        assert await committed(kit) == (-1, "", -1)

    near(test)


def test_an_end_whose_last_note_is_lost_is_an_end() -> None:
    async def test(kit: Kit) -> None:
        writer = Writer(kit.client(), version=FIRST)
        assert (await writer.init(), await writer.write("t", b"a")) == (0, 0)
        keeper = kit.front._shared.transactions
        inner = keeper.markers.write

        async def write(it: object) -> None:
            await inner(it)  # type: ignore[arg-type]
            once(kit, "append")

        keeper.markers.write = write  # type: ignore[method-assign, assignment]
        assert await writer.end(commit=True) == 0
        assert [each.state for each in keeper.all()] == ["CompleteCommit"]
        assert await latest(kit, "t") == 2

    near(test)


def test_members_need_not_join_again_where_their_groups_description_is_lost_on_the_way() -> None:
    async def test(kit: Kit) -> None:
        once(kit, "append")
        assert (await member(kit)).generation_id == 1
        assert list(await kit.offsets.saved_groups()) == ["g"]

    near(test)


def test_all_topics_are_named_although_the_log_is_lost_for_a_moment() -> None:
    async def test(kit: Kit) -> None:
        once(kit, "topics")
        answer = await kit.ask(MetadataRequest(topics=None), 9)
        assert [(each.name, each.error_code) for each in answer.topics] == [("t", 0)]
        once(kit, "places")
        answer = await kit.ask(MetadataRequest(topics=None), 9)
        assert [(each.name, each.error_code) for each in answer.topics] == [("t", ErrorCode.LEADER_NOT_AVAILABLE)]

    near(test)


def test_commits_whose_topics_cannot_be_looked_up_are_told_to_try_again() -> None:
    async def test(kit: Kit) -> None:
        for version in (4, 5, 9):
            once(kit, "topic")
            assert await commit(kit, 7, version=version) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await commit(kit, 7, version=version) == 0
        writer = Writer(kit.client(), version=FIRST)
        assert await writer.init() == 0
        once(kit, "topic")
        assert await writer.add(("t", 0)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert await writer.add(("t", 0)) == [0]

    near(test)
