"""Fetches that need not wait for anything: asked at once, told when they come, and otherwise as those that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from penstock.errors import ConnectionLost, OffsetOutOfRange, ProtocolViolation
from penstock.interfaces import Fetched, ReadFrom, ReadLimits
from penstock.model import Node, Partition
from penstock.protocols.kafka.wire.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from penstock.protocols.kafka.wire.records import encode
from tests.unit.kafka_client.scripted import Stage, go, metadata, stage
from tests.unit.kafka_client.test_batches_sent_at_once import few

P = Partition("events", 0)
LIMITS = ReadLimits(0, 1, 1 << 20)
READ = ReadFrom(P, 0, 1 << 20)


async def heard_of(on: Stage, node: Node) -> Sequence[Fetched] | Exception | None:
    """What is told of a read at once; None if it has to be waited for."""
    told: asyncio.Future[Sequence[Fetched] | Exception] = asyncio.get_running_loop().create_future()
    return await told if on.client.read_at_once(node, [READ], LIMITS, told.set_result) else None


def says(error_code: int = 0) -> Any:
    data = bytes(encode(few(b"a", b"b").columns(), timestamp_ms=1))

    def answer(request: Any, version: int) -> FetchResponse:
        topic = request.topics[0]
        part = FetchResponsePartition(partition_index=0, error_code=error_code, high_watermark=2, records=data)
        named = FetchResponseTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=[part])
        return FetchResponse(responses=[named])

    return answer


async def ready(on: Stage) -> Node:
    on.broker.answers |= {"Metadata": metadata({1: on.endpoint}, {P.topic: {P.id: (1, 0)}}), "Fetch": says()}
    await on.client.topics([P.topic])
    node = on.client.leader(P)
    assert node is not None
    return node


def test_once_there_is_a_connection_a_read_waits_for_nothing() -> None:
    async def work() -> None:
        async with stage() as on:
            node = await ready(on)
            assert await heard_of(on, node) is None
            waited = await on.client.read(node, [READ], LIMITS)
            heard = await heard_of(on, node)
            assert not isinstance(heard, Exception)
            assert heard is not None
            assert [message.value for message in heard[0].decode()[0]] == [b"a", b"b"]
            assert (heard[0].next_offset, heard[0].size) == (waited[0].next_offset, waited[0].size)
            first, second = on.broker.asked("Fetch")
            assert first == second

    go(work())


def test_what_goes_wrong_is_told() -> None:
    async def work() -> None:
        async with stage() as on:
            node = await ready(on)
            await on.client.read(node, [READ], LIMITS)
            on.broker.answers["Fetch"] = says(error_code=1)
            heard = await heard_of(on, node)
            assert isinstance(heard, Sequence)
            assert isinstance(heard[0].error, OffsetOutOfRange)
            on.broker.answers["Fetch"] = lambda _, __: b"\xff" * 40
            assert isinstance(await heard_of(on, node), ProtocolViolation)
            assert on.client.leader(P) is None or await heard_of(on, node) is None

    go(work())


def test_a_lost_connection_is_told_and_the_leader_is_not_trusted_any_more() -> None:
    async def work() -> None:
        async with stage() as on:
            node = await ready(on)
            await on.client.read(node, [READ], LIMITS)
            on.broker.answers["Fetch"] = lambda _, __: None
            waiting = asyncio.ensure_future(heard_of(on, node))
            await asyncio.sleep(0)
            await on.client.close()
            assert isinstance(await waiting, ConnectionLost)
            assert on.client.leader(P) is None

    go(work())
