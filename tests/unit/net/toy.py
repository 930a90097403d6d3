"""A protocol of a dozen lines, for tests of transports: length, correlation, kind, text."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

from penstock.errors import ProtocolViolation
from penstock.interfaces import Buffers, Connection, Frame, Outgoing, Peer

HEAD = struct.Struct(">ii?")
LIMIT = 8 * 1024 * 1024


def encode(correlation: int, text: bytes, *, reply: bool) -> Buffers:
    return [HEAD.pack(HEAD.size - 4 + len(text), correlation, reply), text]


def ask(text: bytes) -> Outgoing:
    return lambda correlation: encode(correlation, text, reply=False)


class ToyFraming:
    def __init__(self) -> None:
        self._wanted: int | None = None

    def need(self) -> int:
        return 4 if self._wanted is None else self._wanted

    def feed(self, chunk: memoryview) -> Frame | None:
        if self._wanted is None:
            (length,) = struct.unpack(">i", chunk)
            if not 5 <= length <= LIMIT:
                raise ProtocolViolation(f"a length of {length}")
            self._wanted = length
            return None
        self._wanted = None
        correlation, reply = struct.unpack_from(">i?", chunk)
        return Frame(correlation, reply, chunk[5:])


class ToyDialect:
    """Greets with a word and keeps the answer; shouts back at what is pushed."""

    def __init__(self) -> None:
        self.pushes: list[bytes] = []

    def framing(self) -> ToyFraming:
        return ToyFraming()

    async def greet(self, connection: Connection) -> str:
        frame = await connection.call(ask(b"hello"), timeout_s=5)
        return bytes(frame.body).decode()

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        del connection
        self.pushes.append(bytes(frame.body))
        return None


class ToySession:
    """Answers each word with itself in capitals, and obeys a few commands."""

    def __init__(self, front: ToyFront, peer: Peer) -> None:
        self.ordered = front.ordered
        self.at_once = front.at_once
        self._front = front
        self._peer = peer

    def framing(self) -> ToyFraming:
        return ToyFraming()

    async def handle(self, frame: Frame) -> Buffers | None:
        text = bytes(frame.body)
        self._front.seen.append(text)
        word, _, rest = text.partition(b" ")
        if word == b"park":
            await self._front.gate.wait()
        elif word == b"big":
            return encode(frame.correlation, bytes(int(rest)), reply=True)
        elif word == b"silent":
            return None
        elif word == b"push":
            self._peer.push(encode(0, rest, reply=False))
        elif word == b"violate":
            raise ProtocolViolation("as asked")
        elif word == b"crash":
            raise RuntimeError("as asked")
        elif word == b"stray":
            return encode(frame.correlation + 1_000, b"", reply=True)
        return encode(frame.correlation, text.upper(), reply=True)

    def lost(self) -> None:
        self._front.lost += 1


class ToyFront:
    scheme = "toy"

    def __init__(self, *, ordered: bool = True, at_once: bool = True) -> None:
        self.ordered = ordered
        self.at_once = at_once
        self.seen: list[bytes] = []
        self.lost = 0
        self.gate = asyncio.Event()

    async def start(self) -> None: ...

    def session(self, peer: Peer) -> ToySession:
        return ToySession(self, peer)

    async def stop(self) -> None:
        self.gate.set()


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Let the loop turn until something is true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0)


async def turn_the_loop(times: int = 100) -> None:
    """Give everything that can happen at once the chance to happen."""
    for _ in range(times):
        await asyncio.sleep(0)
