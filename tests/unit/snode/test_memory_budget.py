"""What strangers claim, send slowly or never read takes no more memory than the node allows, and others are served."""

from __future__ import annotations

import asyncio
import logging
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.config import SnodeConfig, parse_listener
from penstock.interfaces.framing import Framing
from penstock.model import Partition
from penstock.net.buffers import ReceiveBuffer, allocate
from penstock.protocols.kafka.wire.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from penstock.protocols.kafka.wire.framing import MAX_FRAME_BYTES, KafkaFraming, request
from penstock.protocols.kafka.wire.metadata import ApiVersionsRequest
from penstock.protocols.tubemq.wire import rpc as tube
from penstock.protocols.tubemq.wire.rpc import TubeFraming
from penstock.snode import Node
from tests.unit.kafka_front.kit import batch

MB = 1 << 20
KAFKA_CLAIM = MAX_FRAME_BYTES.to_bytes(4, "big") + b"\0"
TUBE_CLAIM = struct.pack(">Iiii", tube.TOKEN, 1, 2, tube.MAX_FRAME_BYTES) + b"\0"
SMALL = b"".join(request(ApiVersionsRequest(), 0, "canary")(7))
LIMIT = 16 * MB

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is measured by /proc")


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def node(memory: int = LIMIT) -> AsyncIterator[Node]:
    listen = tuple(parse_listener(f"{scheme}://127.0.0.1:0") for scheme in ("kafka", "tubemq"))
    async with Node(SnodeConfig(listen=listen, memory_bytes=memory, drain_ms=100)) as made:
        try:
            yield made
        finally:
            for writer in _writers:
                writer.transport.abort()
            await asyncio.gather(*(writer.wait_closed() for writer in _writers), return_exceptions=True)
            _writers.clear()


_writers: list[asyncio.StreamWriter] = []


async def connect(node: Node, scheme: str = "kafka") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = node.address(scheme)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    _writers.append(writer)
    return reader, writer


async def canary(node: Node) -> None:
    """A client of small requests, on a connection of its own."""
    reader, writer = await connect(node)
    writer.write(SMALL)
    size = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), 10), "big")
    await reader.readexactly(size)


async def sent(writers: list[asyncio.StreamWriter], node: Node) -> None:
    """Return when the node has taken in what was written; it was asked behind it."""
    for writer in writers:
        await writer.drain()
    await canary(node)


@pytest.mark.parametrize(("scheme", "claim"), [("kafka", KAFKA_CLAIM), ("tubemq", TUBE_CLAIM)])
def test_a_size_that_is_only_claimed_takes_no_memory(scheme: str, claim: bytes) -> None:
    async def main() -> None:
        async with node() as made:
            await canary(made)
            before = resident()
            writers = [(await connect(made, scheme))[1] for _ in range(20)]
            for writer in writers:
                writer.write(claim)
            await sent(writers, made)
            assert resident() - before < 40 * MB

    asyncio.run(main())


@pytest.mark.parametrize(
    ("framing", "claim"),
    [(KafkaFraming(answers=True), KAFKA_CLAIM), (TubeFraming(answers=True), TUBE_CLAIM)],
    ids=["kafka", "tubemq"],
)
def test_a_broker_that_claims_a_large_answer_takes_no_memory_of_its_client(framing: Framing, claim: bytes) -> None:
    intake = ReceiveBuffer(framing)
    allocate(MB)  # loads what it allocates with
    before = resident()
    intake.space()[: len(claim)] = claim
    assert list(intake.received(len(claim))) == []
    assert len(intake.space()) > 20 * MB
    assert resident() - before < 10 * MB


def test_frames_that_come_and_stop_are_hung_up_on_when_memory_is_short(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with node() as made:
            stalled = []
            for _ in range(8):
                reader, writer = await connect(made)
                writer.write(KAFKA_CLAIM + bytes(3 * MB))
                stalled.append(asyncio.ensure_future(reader.read()))
            before = resident()
            await canary(made)
            ended, _ = await asyncio.wait(stalled, timeout=20, return_when=asyncio.FIRST_COMPLETED)
            assert ended
            await canary(made)
            assert made._budget.used < LIMIT + MB
            assert resident() - before < 3 * LIMIT

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert any("memory_bytes" in record.getMessage() for record in caplog.records)


def test_answers_that_nobody_reads_stay_within_the_budget_and_others_are_served(tmp_path: Path) -> None:
    """Each of these clients asks for 50 MB and reads nothing."""

    async def main() -> None:
        async with node(32 * MB) as made:
            await made.enode.create_topic("t", 1, {})
            for _ in range(60):
                await made.enode.append(Partition("t", 0), batch([bytes(900_000)]))
            await made.enode.create_topic("small", 1, {})
            await made.enode.append(Partition("small", 0), batch([b"x"]))
            for _ in range(30):
                _, writer = await connect(made)
                writer.write(fetch("t", 50 * MB))
                await canary(made)
                assert made._budget.used <= 34 * MB
            reader, writer = await connect(made)
            writer.write(fetch("small", 50 * MB))
            size = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), 10), "big")
            assert b"x" in await reader.readexactly(size)

    asyncio.run(main())


def fetch(topic: str, size: int) -> bytes:
    part = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=size)
    topics = [FetchRequestTopic(topic=topic, partitions=[part])]
    return b"".join(request(FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=size, topics=topics), 11, "me")(8))


def test_a_client_that_reads_slowly_gets_all_of_a_large_answer() -> None:
    async def main() -> None:
        async with node(512 * MB) as made:
            await made.enode.create_topic("t", 1, {})
            for _ in range(30):
                await made.enode.append(Partition("t", 0), batch([bytes(900_000)]))
            reader, writer = await connect(made)
            writer.write(fetch("t", 50 * MB))
            size = int.from_bytes(await reader.readexactly(4), "big")
            assert size > 27_000_000
            left = size
            while left:
                left -= len(await reader.read(min(left, 100_000)))
            while made._budget.used:  # the last of it is on its way
                await canary(made)

    asyncio.run(asyncio.wait_for(main(), 30))
