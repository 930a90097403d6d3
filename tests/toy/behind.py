"""A toy cluster in memory whose nodes answer what a test says, and a node in front of it; time is virtual."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from penstock.config import ListenAddress, SnodeConfig
from penstock.interfaces import Buffers, Frame, Peer
from penstock.interfaces.front import Front
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.network import MemoryNetwork
from penstock.net.server import Listener, serve
from penstock.protocols import register
from penstock.snode import Node
from tests.toy.dialect import Said, ToyDialect
from tests.toy.framing import ANSWER, REQUEST, ToyFraming, framed, pack, unpack
from tests.toy.options import ToyNodeConfig
from tests.toy.registration import PROTOCOL

NODES = ("node-a", "node-b")
HERE = Endpoint("127.0.0.1", 7007)


@dataclass(eq=False)
class Came:
    """A frame that reached a node behind; the test answers it, or does not."""

    node: str
    peer: Peer
    frame: Frame
    answered: asyncio.Future[Buffers | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def body(self) -> bytes:
        return bytes(self.frame.body)

    @property
    def said(self) -> Said:
        return unpack(self.frame)[0]

    def answer(self, body: bytes) -> None:
        self.answered.set_result(framed(ANSWER, self.frame.correlation, body))


class Behind:
    """A name server and its nodes. ``came`` is what they were sent, but for questions about routes."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.came: list[Came] = []
        self._more = asyncio.Event()
        self._listeners: dict[str, Listener] = {}

    async def start(self, name: str) -> Endpoint:
        listener = self._listeners[name] = await serve(
            _Front(self, name), Endpoint("127.0.0.1", 0), network=self.network
        )
        return listener.endpoint

    async def kill(self, name: str) -> None:
        await self._listeners.pop(name).close(0)

    async def stop(self) -> None:
        for name in list(self._listeners):
            await self.kill(name)

    def routes(self) -> Said:
        return {
            name: {"host": listener.endpoint.host, "port": listener.endpoint.port, "topics": {}}
            for name, listener in self._listeners.items()
            if name in NODES
        }

    async def arrived(self, count: int) -> list[Came]:
        """All that came, when there are so many."""
        async with asyncio.timeout(60):
            while len(self.came) < count:
                self._more.clear()
                await self._more.wait()
        return self.came

    def take(self, came: Came) -> None:
        self.came.append(came)
        self._more.set()


class _Front(Front):
    scheme = "toy"

    def __init__(self, behind: Behind, name: str) -> None:
        self._behind = behind
        self._name = name

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    def session(self, peer: Peer) -> _Session:
        return _Session(self._behind, self._name, peer)


class _Session:
    ordered = False
    at_once = False

    def __init__(self, behind: Behind, name: str, peer: Peer) -> None:
        self._behind = behind
        self._name = name
        self._peer = peer

    def framing(self) -> ToyFraming:
        return ToyFraming()

    async def handle(self, frame: Frame) -> Buffers | None:
        said, _ = unpack(frame)
        if said["do"] == "routes":
            return pack(ANSWER, frame.correlation, {"nodes": self._behind.routes()})
        came = Came(self._name, self._peer, frame)
        self._behind.take(came)
        return None if said.get("oneway") else await came.answered

    def lost(self) -> None:
        return


class Line:
    """One client's connection to the node in front: bodies go as they are given, answers come as they are."""

    def __init__(self, behind: Behind) -> None:
        self.dialect = ToyDialect()
        self._channel = AsyncioChannel(self.dialect, network=behind.network)

    async def asked(self, body: bytes, *, timeout_s: float = 30.0) -> asyncio.Task[bytes]:
        """The request is written when this returns; the task is its answer."""
        connection = (await self._channel.link(HERE)).connection
        pending = connection.start(lambda number: framed(REQUEST, number, body), timeout_s=timeout_s)

        async def answer() -> bytes:
            return bytes((await pending.reply()).body)

        return asyncio.ensure_future(answer())

    async def say(self, body: bytes) -> None:
        await (await self._channel.link(HERE)).connection.send(lambda number: framed(REQUEST, number, body))

    async def close(self) -> None:
        await self._channel.close()


@asynccontextmanager
async def handing_on() -> AsyncIterator[Behind]:
    """Two nodes behind, and a node in front of them that hands on."""
    register(PROTOCOL)
    behind = Behind()
    names = await behind.start("names")
    for name in NODES:
        await behind.start(name)
    config = SnodeConfig(store=f"toy://{names}", listen=(ListenAddress("toy", HERE),), fronts=(ToyNodeConfig(),))
    try:
        async with Node(config, network=behind.network):
            yield behind
    finally:
        await behind.stop()
