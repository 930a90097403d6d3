"""Fetch of one partition without a session, in all versions with names: limits, epochs, waiting, errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.errors import ProtocolViolation
from penstock.protocols.kafka.wire.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from penstock.protocols.kafka.wire.framing import read_response, request
from tests.unit.kafka_front.kit import Client, Kit, batch, run
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
    "no wait": {"max_wait_ms": 0},
    "with a replica id": {"replica_id": 3},
}
FIRST, SECOND, LARGE = batch([b"x"] * 20), batch([b"x" * 70, b"y", b"z"]), batch([b"x" * 50_000])
ONLY_FIRST = {"no byte of the partition", "less than none", "no byte in all", "one byte", "one byte in all", "some"}
SIZES = {
    **dict.fromkeys(ONLY_FIRST, len(FIRST)),
    "from the last record": len(SECOND),
    "all, which stays in its file": 3 * len(LARGE),
    "nothing there yet": 0,
    "nothing is enough": 0,
}
"""Bytes of records; all other cases get both batches."""
REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "no such topic": (3, {"topic": "missing"}),
    "no topic": (3, {"topic": ""}),
    "no such partition": (3, {"partition": 2}),
    "a negative partition": (3, {"partition": -1}),
    "beyond the end": (1, {"offset": 24}),
    "before the beginning": (1, {"offset": -1}),
    "an epoch that is over": (74, {"epoch": 0}),
    "an epoch to come": (75, {"epoch": 9}),
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
    await kit.produce(NAME, FIRST, SECOND)
    await kit.produce(NAME, LARGE, LARGE, LARGE, partition=1)


async def part_of(client: Client, version: int, **given: Any) -> FetchResponsePartition:
    found = await client.send(asked(version, **given))
    assert found is not None
    answer = read_response(FetchResponse, version, found[4:])
    assert (answer.error_code, answer.session_id) == (0, 0)
    (part,) = answer.responses[0].partitions
    return part


async def a_while() -> None:
    """Long enough to begin to wait."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.near
@pytest.mark.parametrize("version", range(4, 13))
@pytest.mark.parametrize("case", CASES)
def test_whole_batches_are_answered_within_the_limits(case: str, version: int) -> None:
    async def test(kit: Kit) -> None:
        await fill(kit)
        for _ in range(2):
            part = await part_of(kit.client(), version, **CASES[case])
            log = kit.store.log(NAME, part.partition_index)
            assert (part.error_code, part.high_watermark, part.last_stable_offset) == (
                0,
                log.end_offset,
                log.end_offset,
            )
            assert len(part.records) == SIZES.get(case, len(FIRST) + len(SECOND))
            committed = CASES[case].get("isolation_level")
            assert part.aborted_transactions == (() if committed else None)

    run(test)


@pytest.mark.near
@pytest.mark.parametrize("version", range(4, 13))
@pytest.mark.parametrize("case", REFUSED)
def test_a_partition_that_cannot_be_read_gets_its_own_error(case: str, version: int) -> None:
    code, given = REFUSED[case]

    async def test(kit: Kit) -> None:
        await fill(kit)
        part = await part_of(kit.client(), version, **given)
        assert part.error_code == (0 if version < 9 and "epoch" in given else code)

    run(test)


@pytest.mark.near
@pytest.mark.parametrize("version", [7, 9, 11])
def test_a_request_that_is_cut_off_is_not_answered(version: int) -> None:
    async def test(kit: Kit) -> None:
        await fill(kit)
        whole = asked(version, rack_id="r1")
        for end in range(12, len(whole)):
            with pytest.raises(ProtocolViolation):
                await kit.client().send(whole[:end])
        assert await kit.client().send(whole + b"\0") is not None  # what follows is ignored

    run(test)


@pytest.mark.near
@pytest.mark.parametrize("version", [7, 9, 11, 12])
def test_open_and_aborted_transactions_bound_what_is_read(version: int) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic(NAME, 1)
        writer = Writer(kit.client())
        await writer.init()
        stable = aborted = 0
        for commit in (True, False, False):
            await writer.write(NAME, b"a", b"b")
            part = await part_of(kit, version, offset=0, **COMMITTED)
            assert (part.last_stable_offset, len(part.aborted_transactions or ())) == (stable, aborted)
            await writer.end(commit=commit)
            stable, aborted = stable + 3, aborted + (not commit)
            part = await part_of(kit, version, offset=0, **COMMITTED)
            assert (part.last_stable_offset, len(part.aborted_transactions or ())) == (stable, aborted)
            assert (await part_of(kit, version, offset=0)).aborted_transactions is None

    run(test)


@pytest.mark.near
def test_a_waiting_fetch_is_answered_when_there_is_enough() -> None:
    record = b"new"

    async def test(kit: Kit) -> None:
        await fill(kit)
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
def test_a_fetch_that_waits_in_vain_is_answered_with_the_end_of_the_log(gone: bool) -> None:
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
def test_a_fetch_whose_topic_is_deleted_meanwhile_is_answered_with_the_error() -> None:
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
def test_a_fetch_is_counted_and_takes_its_steps_of_the_loop() -> None:
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
