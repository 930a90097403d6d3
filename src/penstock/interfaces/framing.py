"""Framing: how a byte stream is cut into frames, and what the first bytes of another protocol look like. No I/O."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from penstock._dataclasses import dataclass
from penstock.errors import ProtocolViolation

__all__ = ["HTTP_2", "ForeignProtocol", "SizedBodies", "looks_like_tls", "not_ours", "spoken"]

Buffer = bytes | bytearray | memoryview
Buffers = Sequence[Buffer]
"""Bytes to write, in order, without joining them first."""


class Stretch(Protocol):
    """Bytes that lie somewhere else, where they stay until there is room for them; they do not change meanwhile."""

    def __len__(self) -> int: ...

    def read(self) -> Buffer:
        """All of them. Raises PenstockError where they cannot be read any more."""
        ...

    def read_into(self, start: int, space: memoryview) -> None:
        """Fill ``space`` with those from byte ``start`` on. Raises PenstockError."""
        ...


Pieces = Sequence[Buffer | Stretch]
"""Bytes to write, in order; those of stretches are read as the other end takes them."""


def joined(pieces: Pieces) -> bytes:
    """All of it in memory, for who has to look at it. Raises PenstockError."""
    return b"".join(piece if isinstance(piece, Buffer) else piece.read() for piece in pieces)


@dataclass(slots=True)
class Frame:
    """One whole message, framing stripped; nobody changes it. Not frozen: there is one a request, and that takes five
    times as long to make.

    ``correlation`` names the request that this frame answers (or, for a request, the id its answer must carry);
    ``reply`` is False for what the peer started itself: a request seen by a server, a push seen by a client.
    ``body`` stays valid as long as somebody holds it.
    """

    correlation: int
    reply: bool
    body: memoryview


class Framing(Protocol):
    """Cuts frames out of a stream; raises ProtocolViolation for lengths that lie, before anything is allocated."""

    def need(self) -> int:
        """Bytes wanted next, at least 1."""
        ...

    def feed(self, chunk: memoryview) -> Frame | None:
        """Take exactly ``need()`` bytes; a Frame when one is complete."""
        ...


@runtime_checkable
class TakesWhole(Protocol):
    """A Framing that can take a frame at once, which most small ones come as."""

    def whole(self, view: memoryview, most: int) -> Frame | int:
        """The frame, if ``view`` is all of one and nothing else, and nothing of another was fed; its body is a copy.

        Where it is the beginning of one of at most so many bytes, how many are missing: then it is asked again when
        more has come. 0 where it is neither, and where there may be something to complain about: then it is to be fed.
        """
        ...


# What the first bytes of somebody say who speaks something else: so that a wrong port is told as what it is.
HTTP_2: Final = "HTTP/2, as gRPC does"
_TLS_RECORDS: Final = range(0x14, 0x18)
_WEB: Final = (b"HTTP", b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"<!DO", b"<htm", b"<HTM")


class ForeignProtocol(ProtocolViolation):
    """A client of a node speaks another protocol, mostly because it was given a wrong port."""


def spoken(first: bytes, greetings: Mapping[bytes, str]) -> str:
    """A protocol by the first four bytes of a connection; "" if they tell nothing.

    ``greetings`` are those of logs: how their connections begin, and whose they are.
    """
    if looks_like_tls(first):
        return "TLS"
    if first.startswith(b"PRI "):
        return HTTP_2
    if first.startswith(_WEB):
        return "HTTP"
    if first.startswith(b"SSH-"):
        return "SSH"
    for greeting, whose in greetings.items():
        if first.startswith(greeting):
            return f"{whose}'s protocol"
    if len(first) == 4 and first[:3].isdigit() and first[3:] in b" -":
        return "a protocol of mail or files"
    return ""


def not_ours(said: str, ours: str, port: str = "", advice: str = "") -> ProtocolViolation:
    """Return the error for a side that was `spoken` for, instead of the protocol of ``ours``.

    ``port`` says which port to give instead, to a client, which chose one. A server was called; ``advice`` is for its
    log.
    """
    what = f"the other side speaks {said}, not {ours}'s protocol"
    if not port:
        return ForeignProtocol(what, hint=advice or f"Give that client another port, or use one of {ours}'s")
    return ProtocolViolation(what, hint="Say tls=true" if said == "TLS" else port)


def looks_like_tls(first: bytes) -> bool:
    """The head of a TLS record: its type and the major version, which is 3 in all of them."""
    return len(first) >= 2 and first[0] in _TLS_RECORDS and first[1] == 3


# Bodies behind a 4-byte size, big-endian and signed: how Kafka and RocketMQ both cut a stream.
#
# A size out of bounds ends the connection before anything is allocated for it.
_SIZE = 4
_SIZE_OF = struct.Struct(">i")

Refusal = Callable[[bytes], ProtocolViolation | None]
"""The error for the first bytes of a connection, if they say who speaks something else."""


class SizedBodies:
    """Cuts bodies of ``least`` to ``limit`` bytes; ``whose`` protocol it is says the error for any other size.

    ``foreign`` is asked when the very first size makes no sense.
    """

    __slots__ = ("_body", "_first", "_foreign", "_least", "_limit", "_whose")

    def __init__(self, whose: str, foreign: Refusal, *, least: int, limit: int) -> None:
        self._whose = whose
        self._foreign = foreign
        self._least = least
        self._limit = limit
        self._body = 0
        self._first = True

    def need(self) -> int:
        """Bytes wanted next: those of a size, or of the body that it announced."""
        return self._body or _SIZE

    def feed(self, chunk: memoryview) -> memoryview | None:
        """Take exactly ``need()`` bytes; a body when it is whole. Raises ProtocolViolation."""
        if self._body:
            self._body = 0
            return chunk
        size = int.from_bytes(chunk, "big", signed=True)
        if not self._least <= size <= self._limit or (self._first and looks_like_tls(bytes(chunk))):
            raise self._refused(bytes(chunk), size)
        self._body = size
        self._first = False
        return None

    def whole(self, view: memoryview, most: int) -> memoryview | int:
        """A copy of the body, where ``view`` is one with its size, and nothing of another was fed.

        Where it is the beginning of one of up to ``most`` bytes with its size, how many are missing; else 0.
        """
        have = len(view) - _SIZE
        if self._first or self._body or have < self._least:
            return 0
        size: int = _SIZE_OF.unpack_from(view)[0]
        if size == have:
            return memoryview(bytes(view))[_SIZE:] if size <= self._limit else 0
        return size - have if have < size <= self._limit and size <= most - _SIZE else 0

    def _refused(self, head: bytes, size: int) -> ProtocolViolation:
        foreign = self._foreign(head) if self._first else None
        return foreign or ProtocolViolation(
            f"a frame of {size} bytes; {self._least} to {self._limit} are allowed",
            hint=f"Is the other side speaking {self._whose}, without TLS?",
        )
