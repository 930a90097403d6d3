"""A Kafka front over a log in memory, asked by messages instead of sockets: encode, frame, handle, decode."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from penstock.concurrency.limits import UNLIMITED, Memory
from penstock.interfaces.enode import Abilities
from penstock.interfaces.framing import Frame, joined
from penstock.interfaces.front import Peer
from penstock.interfaces.node import NodeIdentity, Services
from penstock.model import Endpoint
from penstock.net.runtime import AsyncioRuntime
from penstock.protocols.kafka.server.front import KafkaFront, KafkaSession
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.wire.framing import api_of, read_response, request
from penstock.protocols.kafka.wire.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)
from penstock.protocols.kafka.wire.stored_records import OffsetsLog
from penstock.records.batch import crc32c
from penstock.snode.committed_offsets import OffsetsService
from penstock.snode.journals import JournalService
from penstock.store import Store, open_store
from tests.late_enode import far
from tests.unit.again import Again
from tests.unit.kafka_front.asking_again import Asked, lost_parts
from tests.waiting_enode import WaitingEnode


class Client:
    """One connection to a front."""

    def __init__(self, front: KafkaFront, again: Again, host: str = "127.0.0.1") -> None:
        self.hung_up = False
        self.again = again
        peer = Peer(Endpoint(host, 50_000), lambda buffers: None, self.hang_up)
        self.session: KafkaSession = front.session(peer)

    def hang_up(self) -> None:
        self.hung_up = True

    async def ask(self, message: Any, version: int, client_id: str = "me") -> Any:
        """The answer to ``message``; None where there is none. What was lost on the way is asked for again."""
        asked = Asked(message)

        async def once() -> Any:
            return asked.take(await self._ask(asked.message, version, client_id))

        return await self.again.until_right(once, lost_parts)

    async def _ask(self, message: Any, version: int, client_id: str) -> Any:
        answer = await self.send(b"".join(request(message, version, client_id)(7)))
        if answer is None:
            return None
        key = message.API.key
        pair = api_of(key)
        assert pair is not None
        return read_response(pair.response, version, memoryview(answer)[4:])

    async def send(self, data: bytes) -> bytes | None:
        """A whole framed request, the whole framed answer."""
        correlation = int.from_bytes(data[8:12], "big", signed=True)
        pieces = await self.session.handle(Frame(correlation, False, memoryview(data)[4:]))
        return None if pieces is None else joined(pieces)


class Kit(Client):
    """A front, everything below it, and a first client. Tests ask ``enode`` at once, however far away it is."""

    def __init__(
        self,
        store: Store,
        options: KafkaFrontOptions,
        runtime: AsyncioRuntime,
        able: Abilities | None = None,
        memory: Memory = UNLIMITED,
    ) -> None:
        self.store = store
        self.runtime = runtime
        self.enode = WaitingEnode(store, runtime, able)
        enode = far(self.enode, runtime)
        self.journals = JournalService(enode, runtime)
        self.offsets = OffsetsService(self.journals, OffsetsLog(), partitions=4)
        identity = NodeIdentity(1, store.cluster_id, {"kafka": Endpoint("127.0.0.1", 9_092)}, store.epoch)
        self.front = KafkaFront(Services(identity, runtime, enode, self.offsets, self.journals, memory), options)
        super().__init__(self.front, Again(enode, runtime))

    def client(self, host: str = "127.0.0.1") -> Client:
        """Another connection, from there."""
        return Client(self.front, self.again, host)

    async def produce(
        self, topic: str, *batches: bytes, version: int = 9, acks: int = -1, partition: int = 0
    ) -> ProduceResponsePartition:
        """Each batch in a request of its own; the last one's answer."""
        answer: ProduceResponse | None = None
        for batch in batches:
            part = ProduceRequestPartition(index=partition, records=batch)
            topics = [ProduceRequestTopic(name=topic, partition_data=[part])]
            answer = await self.ask(ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=topics), version)
        assert answer is not None
        result: ProduceResponsePartition = answer.responses[0].partition_responses[0]
        return result


@asynccontextmanager
async def serving(
    options: KafkaFrontOptions | None = None,
    store: Store | None = None,
    able: Abilities | None = None,
    memory: Memory = UNLIMITED,
) -> AsyncIterator[Kit]:
    """A started front; its store is closed at the end unless it was given."""
    opened = store or open_store("memory:")
    failures: list[BaseException] = []
    runtime = AsyncioRuntime(failures.append)
    kit = Kit(opened, options or KafkaFrontOptions(), runtime, able, memory)
    await kit.offsets.load()
    await kit.front.start()
    try:
        yield kit
    finally:
        await kit.front.stop()
        await runtime.stop()
        if store is None:
            opened.close()
    assert not failures


def run(
    test: Callable[[Kit], Coroutine[Any, Any, None]],
    options: KafkaFrontOptions | None = None,
    able: Abilities | None = None,
    memory: Memory = UNLIMITED,
) -> None:
    """Run ``test`` with a started front."""

    async def main() -> None:
        async with serving(options, able=able, memory=memory) as kit:
            await test(kit)

    asyncio.run(main())


def varint(value: int) -> bytes:
    bits = (value << 1) ^ (value >> 63)
    out = bytearray()
    while bits > 127:
        out.append(bits & 127 | 128)
        bits >>= 7
    return bytes([*out, bits])


def record(delta: int, key: bytes | None, value: bytes | None, time_delta: int = 0) -> bytes:
    body = b"\0" + varint(time_delta) + varint(delta)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += b"\0"
    return varint(len(body)) + body


def batch(
    values: Sequence[bytes | None] = (b"v",),
    *,
    key: bytes | None = b"k",
    base_offset: int = 0,
    magic: int = 2,
    attributes: int = 0,
    last_delta: int | None = None,
    count: int | None = None,
    time_ms: int = 1_700_000_000_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    records: bytes | None = None,
    crc_flip: int = 0,
    length_flip: int = 0,
) -> bytes:
    """A record batch v2, right unless told otherwise. ``producer`` is (id, epoch, first sequence)."""
    if records is None:
        records = b"".join(record(delta, key, value) for delta, value in enumerate(values))
    count = len(values) if count is None else count
    last_delta = count - 1 if last_delta is None else last_delta
    head = struct.pack(">hiqqqhii", attributes, last_delta, time_ms, time_ms, *producer, count)
    crc = crc32c(head + records) ^ crc_flip
    size = 9 + len(head) + len(records) + length_flip
    return struct.pack(">qiibI", base_offset, size, -1, magic, crc) + head + records
