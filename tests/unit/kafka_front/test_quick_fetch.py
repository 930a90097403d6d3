"""Fetch of one partition without a session is answered from its bytes as the long way would, or is left to that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.interfaces.framing import joined
from penstock.protocols.kafka.server import front
from penstock.protocols.kafka.server.apis import fetch
from penstock.protocols.kafka.wire.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
)
from penstock.protocols.kafka.wire.framing import read_response, request
from tests.unit.kafka_front.kit import Kit, batch, run
from tests.unit.kafka_front.transaction_kit import Writer

NAME = "a-topic"
COMMITTED: dict[str, Any] = {"isolation_level": 1}
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "from the middle of a batch": {"offset": 4},
    "from the last record": {"offset": 22},
    "one byte": {"most": 1},
    "no byte of the partition": {"most": 0},
    "less than none": {"most": -1},
    "no byte in all": {"max_bytes": 0},
    "one byte in all": {"max_bytes": 1},
    "some": {"most": 300},
    "all, which stays in its file": {"most": 1 << 20, "partition": 1, "offset": 0},
    "committed records": COMMITTED,
    "the leader's epoch": {"epoch": 1},
    "nothing there yet": {"offset": 23},
    "less there than is wanted": {"min_bytes": 1 << 20},
    "nothing is enough": {"offset": 23, "min_bytes": 0},
    "a rack": {"rack_id": "r1"},
    "no patience": {"max_wait_ms": 0},
    "of a follower's, whatever that means": {"replica_id": 3},
}
LEFT: dict[str, dict[str, Any]] = {
    "no such topic": {"topic": "nobody"},
    "no topic": {"topic": ""},
    "no such partition": {"partition": 2},
    "a partition below none": {"partition": -1},
    "beyond the end": {"offset": 24},
    "before the beginning": {"offset": -1},
    "an epoch that is over": {"epoch": 0},
    "an epoch to come": {"epoch": 9},
    "a session's first": {"session_epoch": 0},
    "a session's": {"session_id": 5, "session_epoch": 1},
    "a session's last": {"session_id": 5},
    "two topics": {"topics": 2},
    "two partitions": {"parts": 2},
    "nothing": {"topics": 0},
    "something forgotten": {"forgotten_topics_data": [FetchRequestForgottenTopic(topic=NAME, partitions=[1])]},
}


def asked(
    version: int,
    *,
    topic: str = NAME,
    partition: int = 0,
    offset: int = 2,
    most: int = 1 << 20,
    epoch: int = -1,
    topics: int = 1,
    parts: int = 1,
    **given: Any,
) -> bytes:
    part = FetchRequestPartition(
        partition=partition, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=most
    )
    listed = [FetchRequestTopic(topic=topic, partitions=[part] * parts)] * topics
    message = FetchRequest(**{"max_wait_ms": 1, "min_bytes": 1, "topics": listed, **given})
    return b"".join(request(message, version, "me")(0x01020304))


async def fill(kit: Kit) -> None:
    kit.store.create_topic(NAME, 2)
    await kit.produce(NAME, *[batch([b"x"] * 20), batch([b"x" * 70, b"y", b"z"])])
    await kit.produce(NAME, *[batch([b"x" * 50_000])] * 3, partition=1)


def answers(data: bytes) -> tuple[list[bytes | None], bool]:
    """To the same request twice; and whether the quick way answered it."""
    found: list[bytes | None] = []
    quick: list[bool] = []

    async def test(kit: Kit) -> None:
        await fill(kit)
        client = kit.client()
        found.extend([await client.send(data) for _ in range(2)])
        quick.append(await answered(kit, data) is not None)

    run(test)
    return found, quick[0]


async def a_while() -> None:
    """Long enough to begin to wait."""
    for _ in range(5):
        await asyncio.sleep(0)


async def answered(kit: Kit, data: bytes) -> bytes | None:
    pieces = await fetch.fetch_single(kit.front._shared, kit.client().session.line, memoryview(data)[4:])
    return None if pieces is None else joined(pieces)


@pytest.mark.near  # far away nothing is asked twice
@pytest.mark.parametrize("version", range(4, 13))
@pytest.mark.parametrize("case", CASES)
def test_the_quick_answer_is_the_long_one(case: str, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = asked(version, **CASES[case])
    short, quick = answers(data)
    monkeypatch.setattr(front, "single", lambda key: None)
    long, _ = answers(data)
    assert short == long
    assert quick == (7 <= version <= 11)


@pytest.mark.near
@pytest.mark.parametrize("version", [7, 9, 11])
@pytest.mark.parametrize("case", LEFT)
def test_what_is_unusual_is_left_to_the_long_way(case: str, version: int) -> None:
    _, quick = answers(asked(version, **LEFT[case]))
    assert quick == (case.startswith("an epoch") and version < 9)


@pytest.mark.near
@pytest.mark.parametrize("version", [7, 9, 11])
def test_a_request_that_is_cut_off_or_goes_on_is_left_to_the_long_way(version: int) -> None:
    async def test(kit: Kit) -> None:
        await fill(kit)
        whole = asked(version, rack_id="r1")
        for end in range(12, len(whole)):
            assert await answered(kit, whole[:end]) is None
        assert await answered(kit, whole + b"\0") is None
        assert await answered(kit, whole.replace(NAME.encode(), b"\xff" * len(NAME))) is None
        for text in (b"me", b"r1"):  # nobody reads these
            assert await answered(kit, whole.replace(text, b"\xff\xff")) is not None
        assert await answered(kit, whole.replace(b"\0\2me", b"\xff\xfe")) is None
        assert await answered(kit, whole.replace(b"\0\2me", b"\xff\xff")) is not None
        assert await answered(kit, whole) is not None

    run(test)


@pytest.mark.near
@pytest.mark.parametrize("version", [7, 9, 11])
def test_transactions_that_are_open_or_aborted_are_told_as_the_long_way_does(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic(NAME, 1)
        writer = Writer(kit.client())
        await writer.init()
        for commit in (True, False, False):
            await writer.write(NAME, b"a", b"b")
            await both(kit)
            await writer.end(commit=commit)
            await both(kit)

    async def both(kit: Kit) -> None:
        for given in ({}, COMMITTED):
            data = asked(version, offset=0, **given)
            quick = await answered(kit, data)
            assert quick is not None
            with monkeypatch.context() as patched:
                patched.setattr(front, "single", lambda key: None)
                assert await kit.send(data) == quick

    run(test)


@pytest.mark.near
@pytest.mark.parametrize("quick", [True, False])
def test_who_waits_is_answered_when_there_is_enough(quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    record = b"new"

    async def test(kit: Kit) -> None:
        await fill(kit)
        if not quick:
            monkeypatch.setattr(front, "single", lambda key: None)
        size = len(batch([record]))
        waiting = asyncio.ensure_future(kit.send(asked(11, offset=23, max_wait_ms=60_000, min_bytes=size + 1)))
        for _ in range(2):
            await a_while()
            assert not waiting.done()
            await kit.produce(NAME, batch([record]))
        found = await asyncio.wait_for(waiting, 5)
        assert found is not None
        (part,) = read_response(FetchResponse, 11, found[4:]).responses[0].partitions
        assert (part.high_watermark, len(part.records)) == (25, 2 * size)

    run(test)


@pytest.mark.near
@pytest.mark.parametrize("gone", [True, False])
def test_who_waits_in_vain_is_told_where_the_log_ends(gone: bool) -> None:
    async def test(kit: Kit) -> None:
        await fill(kit)
        client = kit.client()
        waiting = asyncio.ensure_future(client.send(asked(11, offset=23, max_wait_ms=60_000 if gone else 50)))
        await a_while()
        assert not waiting.done()
        if gone:
            client.session.lost()
        found = await asyncio.wait_for(waiting, 5)
        assert found is not None
        (part,) = read_response(FetchResponse, 11, found[4:]).responses[0].partitions
        assert (part.error_code, part.high_watermark, len(part.records)) == (0, 23, 0)

    run(test)


@pytest.mark.near
def test_a_topic_that_is_deleted_meanwhile_is_told_by_the_long_way() -> None:
    async def test(kit: Kit) -> None:
        await fill(kit)
        waiting = asyncio.ensure_future(kit.send(asked(11, offset=23, max_wait_ms=60_000)))
        await a_while()
        await kit.enode.delete_topic(NAME)
        found = await asyncio.wait_for(waiting, 5)
        assert found is not None
        (part,) = read_response(FetchResponse, 11, found[4:]).responses[0].partitions
        assert part.error_code == 3

    run(test)


@pytest.mark.near
def test_a_quick_answer_is_counted_and_has_its_turn() -> None:
    async def test(kit: Kit) -> None:
        await fill(kit)
        turns: list[int] = []
        take = kit.front._shared.turns.take

        async def taken(steps: int) -> None:
            turns.append(steps)
            await take(steps)

        kit.front._shared.turns.take = taken  # type: ignore[method-assign]
        found = await kit.send(asked(11))
        assert found is not None
        assert FetchResponse.API.key in kit.front._shared.meter.served
        assert turns == [64 * 1024 // 20_000 + 2]

    run(test)


@pytest.mark.parametrize("version", [7, 11])
def test_far_from_its_log_a_node_asks_once(version: int) -> None:
    async def test(kit: Kit) -> None:
        await fill(kit)
        if not kit.front._shared.enode.near:
            assert await answered(kit, asked(version)) is None

    run(test)
