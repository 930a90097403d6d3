"""A RocketMQ front over a log in memory, asked by commands instead of sockets: encode, frame, handle, decode."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from penstock.interfaces.framing import Buffers, Frame
from penstock.interfaces.front import Peer
from penstock.interfaces.node import NodeIdentity, Services
from penstock.model import Endpoint
from penstock.net.runtime import AsyncioRuntime
from penstock.protocols import protocol
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.server.cluster import RocketFrontOptions
from penstock.protocols.rocketmq.server.dispatch import RocketSession
from penstock.protocols.rocketmq.server.front import RocketFront
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand, RocketFraming, command_of, encode
from penstock.protocols.rocketmq.wire.message_format import StoredMessage, read_stored
from penstock.protocols.rocketmq.wire.rpc import (
    HEART_BEAT,
    PULL_MESSAGE,
    SEND_MESSAGE_V2,
    Answered,
    Method,
    read_answer,
    request,
)
from penstock.snode.committed_offsets import OffsetsService
from penstock.snode.journals import JournalService
from penstock.store import Store, open_store
from tests.late_enode import far
from tests.unit.again import Again
from tests.waiting_enode import WaitingEnode

Q = TypeVar("Q")
A = TypeVar("A")

BROKER = "penstock-1"
ANYTHING = range(-1, 2_000)
"""Codes, for who looks at them."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Client:
    """One connection to a front."""

    def __init__(self, front: RocketFront, again: Again, name: str) -> None:
        self.hung_up = False
        self.again = again
        self.name = name
        self.pushed: list[RemotingCommand] = []
        self._number = 0
        self.session: RocketSession = front.session(Peer(Endpoint("127.0.0.1", 50_000), self._push, self._hang_up))

    def _push(self, buffers: Buffers) -> None:
        self.pushed.append(command_of(unframed(b"".join(buffers))))

    def _hang_up(self) -> None:
        self.hung_up = True

    async def ask(
        self, method: Method[Q, A], header: Q, body: object = b"", *, accept: Collection[int] = (0,), **more: Any
    ) -> Answered[A]:
        """The answer to a request; where it was lost on the way, it is sent again. Raises ServerError for others."""

        async def once() -> Frame:
            self._number += 1
            answered = await self.send(b"".join(request(method, header, body, **more)(self._number)))
            assert answered is not None
            assert answered.correlation == self._number
            return answered

        frame = await self.again.until_right(once, lambda frame: command_of(frame).code == Code.SYSTEM_BUSY)
        return read_answer(method, frame, accept=accept)

    async def send(self, data: bytes) -> Frame | None:
        """A whole framed request; the answer, unframed."""
        framing = self.session.framing()
        view, frame = memoryview(data), None
        while view:
            need = framing.need()
            frame, view = framing.feed(view[:need]), view[need:]
        assert frame is not None
        buffers = await self.session.handle(frame)
        return None if buffers is None else unframed(b"".join(buffers))

    async def said(self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> RemotingCommand:
        """What is answered to a request as a tool of somebody else writes it, whatever that is."""
        given = {name: str(value) for name, value in (fields or {}).items()}

        async def once() -> RemotingCommand:
            answered = await self.send(b"".join(encode(RemotingCommand(code, 7, fields=given, body=body))))
            assert answered is not None
            return command_of(answered)

        return await self.again.until_right(once, lambda found: found.code == Code.SYSTEM_BUSY)

    # What most tests begin with.

    async def put(self, body: bytes, topic: str = "demo", queue: int = 0, **more: Any) -> m.Sent:
        """Send a message; ``properties`` as a message carries them."""
        fields = {"sys_flag": 0, "born_timestamp": now_ms(), **more}
        header = m.SendMessage(producer_group="p", topic=topic, queue_id=queue, **fields)
        return (await self.ask(SEND_MESSAGE_V2, header, body)).header

    async def pull(
        self, offset: int = 0, topic: str = "demo", queue: int = 0, hold_ms: int = 0, tags: str = "*", **more: Any
    ) -> Answered[m.Pulled]:
        """Pull messages; with ``hold_ms``, wait for them."""
        flags = m.PullFlag.INLINE | (m.PullFlag.SUSPEND if hold_ms else 0)
        fields: dict[str, Any] = {"sys_flag": flags, "max_msg_nums": 32, "subscription": tags, **more}
        header = m.PullMessage(
            consumer_group="g",
            topic=topic,
            queue_id=queue,
            queue_offset=offset,
            suspend_timeout_millis=hold_ms,
            **fields,
        )
        accept = (Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED)
        return await self.ask(PULL_MESSAGE, header, accept=accept)

    async def read(self, offset: int = 0, **more: Any) -> list[StoredMessage]:
        """The messages that a pull brings."""
        return stored(await self.pull(offset, **more))

    async def beat(self, *topics: str, group: str = "g", version: int = 1, producer: str | None = None) -> None:
        """A heartbeat of a consumer of these topics, or of a producer."""
        wanted = tuple(m.SubscriptionData(topic=topic, sub_string="*", sub_version=version) for topic in topics)
        consumers = (m.ConsumerData(group_name=group, subscription_data_set=wanted),) if topics else ()
        producers = () if producer is None else (m.ProducerData(group_name=producer),)
        body = m.HeartbeatData(client_id=self.name, consumer_data_set=consumers, producer_data_set=producers)
        await self.ask(HEART_BEAT, m.NoFields(), body)

    async def subscribe(self, wanted: m.SubscriptionData, group: str = "g") -> None:
        """A heartbeat of a consumer that wants this."""
        consumer = m.ConsumerData(group_name=group, subscription_data_set=(wanted,))
        await self.ask(HEART_BEAT, m.NoFields(), m.HeartbeatData(client_id=self.name, consumer_data_set=(consumer,)))

    def told(self, code: int) -> list[RemotingCommand]:
        """What the front asked or told, of a code."""
        return [each for each in self.pushed if each.code == code]


def stored(answer: Answered[Any]) -> list[StoredMessage]:
    """The messages in an answer's body."""
    return list(read_stored(bytes(answer.body)))


def unframed(data: bytes) -> Frame:
    """The one frame in ``data``."""
    framing, view = RocketFraming(answers=True), memoryview(data)
    while True:
        need = framing.need()
        frame, view = framing.feed(view[:need]), view[need:]
        if frame is not None:
            assert not view
            return frame


class Kit(Client):
    """A front, everything below it, and a first client. Tests ask ``enode`` at once, however far away it is."""

    def __init__(self, store: Store, options: RocketFrontOptions, runtime: AsyncioRuntime) -> None:
        self.store = store
        self.runtime = runtime
        self.enode = WaitingEnode(store, runtime, None)
        enode = far(self.enode, runtime)
        make = protocol("kafka").offsets
        assert make is not None
        self.journals = JournalService(enode, runtime)
        self.offsets = OffsetsService(self.journals, make(), partitions=1)
        identity = NodeIdentity(1, store.cluster_id, {"rocketmq": Endpoint("127.0.0.1", 9_876)}, store.epoch)
        self.front = RocketFront(Services(identity, runtime, enode, self.offsets, self.journals), options)
        super().__init__(self.front, Again(enode, runtime), "first")

    def client(self, name: str = "second") -> Client:
        """Another connection."""
        return Client(self.front, self.again, name)

    async def comes(self, what: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """What ``what`` returns, once that is something; the front does things by itself meanwhile."""
        async with asyncio.timeout(60):
            while not (found := await what()):
                await self.runtime.sleep(0.02)
        return found


@asynccontextmanager
async def serving(options: RocketFrontOptions | None = None, store: Store | None = None) -> AsyncIterator[Kit]:
    """A started front with topic "demo" of two queues; its store is closed at the end unless it was given."""
    opened = store or open_store("memory:")
    failures: list[BaseException] = []
    runtime = AsyncioRuntime(failures.append)
    kit = Kit(opened, options or RocketFrontOptions(), runtime)
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


def run(test: Callable[[Kit], Coroutine[Any, Any, None]], options: RocketFrontOptions | None = None) -> None:
    """Run ``test`` with a started front."""

    async def main() -> None:
        async with serving(options) as kit:
            await test(kit)

    asyncio.run(main())
