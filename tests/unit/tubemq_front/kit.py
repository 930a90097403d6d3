"""A TubeMQ front over a log in memory, asked by messages instead of sockets: encode, frame, handle, decode."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from penstock.concurrency.runtime import Deferred, arrived
from penstock.interfaces.enode import Abilities
from penstock.interfaces.framing import Buffers, Frame
from penstock.interfaces.front import Peer
from penstock.interfaces.node import NodeIdentity, Services
from penstock.model import Endpoint
from penstock.net.runtime import AsyncioRuntime
from penstock.protocols import protocol
from penstock.protocols.tubemq.errors import Code, row_of
from penstock.protocols.tubemq.server.context import TubeFrontOptions
from penstock.protocols.tubemq.server.front import TubeFront
from penstock.protocols.tubemq.server.session import TubeSession
from penstock.protocols.tubemq.wire import messages, protobuf
from penstock.protocols.tubemq.wire.rpc import (
    GET_MESSAGE,
    REGISTER_PARTITION,
    SEND_MESSAGE,
    Method,
    TubeFraming,
    read_answer,
    request,
)
from penstock.snode.committed_offsets import OffsetsService
from penstock.snode.journals import JournalService
from penstock.store import Store, open_store
from tests.late_enode import far
from tests.unit.again import Again
from tests.waiting_enode import WaitingEnode

Q = TypeVar("Q", bound=protobuf.Message)
A = TypeVar("A", bound=protobuf.Message)
_LOST = Code.SERVICE_UNAVAILABLE
assert row_of(_LOST).retriable


class Client:
    """One connection to a front."""

    def __init__(self, front: TubeFront, again: Again) -> None:
        self.hung_up = False
        self.again = again
        self.pushed = b""
        self._serial = 0
        self.session: TubeSession = front.session(Peer(Endpoint("127.0.0.1", 50_000), self._push, self._hang_up))

    def _push(self, buffers: Buffers) -> None:
        self.pushed += b"".join(buffers)

    def _hang_up(self) -> None:
        self.hung_up = True

    async def ask(self, method: Method[Q, A], message: Q, *, service: int | None = None) -> A:
        """The answer to a message; where it was lost on the way, it is sent again."""

        async def once() -> A:
            return await self._ask(method, message, service)

        return await self.again.until_right(once, lambda answer: getattr(answer, "err_code", 0) == _LOST)

    async def _ask(self, method: Method[Q, A], message: Q, service: int | None) -> A:
        self._serial += 1
        serial = self._serial
        framed = request(method, message, timeout_ms=10_000, service=service)(serial)
        answered = await self.send(b"".join(framed))
        assert answered is not None
        assert answered.correlation == serial
        return read_answer(method, answered)

    def begin(self, data: bytes) -> Coroutine[Any, Any, Buffers | Deferred[Buffers] | None]:
        """What the session does of a framed request that comes alone, as a connection has it done."""
        frame = self.session.framing().whole(memoryview(data), len(data))
        return self.session.handle(frame if isinstance(frame, Frame) else self._cut(data))

    async def send(self, data: bytes) -> Frame | None:
        """A whole framed request; the answer, unframed."""
        buffers = await arrived(await self.session.handle(self._cut(data)))
        return None if buffers is None else unframed(b"".join(buffers))

    def _cut(self, data: bytes) -> Frame:
        framing = self.session.framing()
        view, frame = memoryview(data), None
        while view:
            need = framing.need() or len(view)
            frame, view = framing.feed(view[:need]), view[need:]
        assert frame is not None
        return frame


def unframed(data: bytes) -> Frame:
    """The one frame in ``data``."""
    framing, view = TubeFraming(answers=True), memoryview(data)
    while True:
        need = framing.need()
        frame, view = framing.feed(view[:need]), view[need:]
        if frame is not None:
            assert not view
            return frame


class Kit(Client):
    """A front, everything below it, and a first client. Tests ask ``enode`` at once, however far away it is."""

    def __init__(
        self, store: Store, options: TubeFrontOptions, runtime: AsyncioRuntime, able: Abilities | None = None
    ) -> None:
        self.store = store
        self.runtime = runtime
        self.enode = WaitingEnode(store, runtime, able)
        enode = far(self.enode, runtime)
        make = protocol("kafka").offsets
        assert make is not None
        self.journals = JournalService(enode, runtime)
        self.offsets = OffsetsService(self.journals, make(), partitions=1)
        identity = NodeIdentity(1, store.cluster_id, {"tubemq": Endpoint("127.0.0.1", 8_715)}, store.epoch)
        self.front = TubeFront(Services(identity, runtime, enode, self.offsets, self.journals), options)
        super().__init__(self.front, Again(enode, runtime))

    def client(self) -> Client:
        """Another connection."""
        return Client(self.front, self.again)

    async def balance(self) -> None:
        """What the front does now and then; and again where that failed."""
        await self.again.until_done(self.front.balance)

    # What most tests begin with.

    async def put(self, *payloads: bytes, topic: str = "demo", partition: int = 0, flag: int = 0) -> list[int]:
        """Send messages; their offsets."""
        return [(await self.put_one(payload, topic, partition, flag)).append_offset for payload in payloads]

    async def put_one(self, payload: bytes, topic: str, partition: int, flag: int) -> messages.SendMessageResponseB2P:
        """Send a message, and see that it is taken."""
        message = sent(payload, topic_name=topic, partition_id=partition, flag=flag)
        answer = await self.ask(SEND_MESSAGE, message)
        assert answer.success, answer.err_msg
        return answer

    async def book(self, client: str = "c", group: str = "g", **more: Any) -> messages.RegisterResponseB2C:
        """Register a partition of "demo"."""
        return await self.ask(REGISTER_PARTITION, booking(client, group, **more))

    async def get(self, client: str = "c", group: str = "g", **more: Any) -> messages.GetMessageResponseB2C:
        """Get messages of partition 0 of "demo"."""
        fields = {"partition_id": 0, "topic_name": "demo", "last_pack_consumed": False, **more}
        return await self.ask(GET_MESSAGE, messages.GetMessageRequestC2B(client_id=client, group_name=group, **fields))


def sent(payload: bytes, **more: Any) -> messages.SendMessageRequestP2B:
    fields = {"topic_name": "demo", "partition_id": 0, "flag": 0, "check_sum": -1, **more}
    return messages.SendMessageRequestP2B(client_id="p", data=payload, sent_addr=0x7F000001, **fields)


def booking(client: str, group: str, **more: Any) -> messages.RegisterRequestC2B:
    fields = {"op_type": 31, "topic_name": "demo", "partition_id": 0, "read_status": 0, **more}
    return messages.RegisterRequestC2B(client_id=client, group_name=group, **fields)


def bodies(answer: messages.GetMessageResponseB2C) -> list[bytes]:
    """Payloads of an answer's messages."""
    return [message.pay_load_data for message in answer.messages]


@asynccontextmanager
async def serving(
    options: TubeFrontOptions | None = None, store: Store | None = None, able: Abilities | None = None
) -> AsyncIterator[Kit]:
    """A started front with topic "demo" of two partitions; its store is closed at the end unless it was given."""
    opened = store or open_store("memory:")
    failures: list[BaseException] = []
    runtime = AsyncioRuntime(failures.append)
    kit = Kit(opened, options or TubeFrontOptions(), runtime, able)
    if (await kit.enode.topic("demo")) is None:
        opened.create_topic("demo", 2)
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
    options: TubeFrontOptions | None = None,
    able: Abilities | None = None,
) -> None:
    """Run ``test`` with a started front."""

    async def main() -> None:
        async with serving(options, able=able) as kit:
            await test(kit)

    asyncio.run(main())
