"""Framing: how a byte stream is cut into frames, and how other protocols are recognised by their first bytes.

No I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct

from penstock.errors import ProtocolViolation

__all__ = ["HTTP_2", "ForeignProtocol", "SizedBodies", "looks_like_tls", "not_ours", "spoken"]

Buffer = bytes | bytearray | memoryview
Buffers = Sequence[Buffer]
"""Bytes to write, in order, without joining them first."""


class Stretch(Protocol):
    """Bytes stored elsewhere, such as in a file, which are read only when they can be sent. They do not change."""

    def __len__(self) -> int: ...

    def read(self) -> Buffer:
        """Return all of them. Raises PenstockError if they can no longer be read."""
        ...

    def read_into(self, start: int, space: memoryview) -> None:
        """Fill ``space`` with the bytes from ``start`` on. Raises PenstockError."""
        ...


Pieces = Sequence[Buffer | Stretch]
"""Bytes to write, in order. A `Stretch` is read as the peer takes it."""


def joined(pieces: Pieces) -> bytes:
    """Return all bytes in memory, for callers that look at them. Raises PenstockError."""
    return b"".join(piece if isinstance(piece, Buffer) else piece.read() for piece in pieces)


class Frame(Struct):
    """One whole message, without its framing. Do not change it.

    ``correlation`` is the id of the request that this frame answers, or for a request the id that its answer must
    carry. ``reply`` is False for what the peer started itself: a request at a server, a push at a client. ``body``
    stays valid as long as it is referenced.
    """

    correlation: int
    reply: bool
    body: memoryview


class Framing(Protocol):
    """Cuts frames out of a stream; raises ProtocolViolation for impossible lengths before it allocates anything."""

    def need(self) -> int:
        """Bytes wanted next; 0 for those that have arrived, however many."""
        ...

    def feed(self, chunk: memoryview) -> Frame | None:
        """Take exactly ``need()`` bytes, or if that is 0 at least one; a Frame when one is complete."""
        ...


@runtime_checkable
class TakesWhole(Protocol):
    """A Framing that can take a whole frame at once, as most small frames arrive."""

    def whole(self, view: memoryview, most: int) -> Frame | int:
        """Return the frame if ``view`` is exactly one, and no part of another was fed. Its body is a copy.

        If ``view`` is the beginning of a frame of at most ``most`` bytes, return how many bytes are missing; call again
        when more have arrived. Otherwise, and where the bytes may be wrong, return 0; feed them then.
        """
        ...


# Other protocols by their first bytes, so that the error for a wrong port says what was found there.
HTTP_2: Final = "HTTP/2, as gRPC does"
_TLS_RECORDS: Final = range(0x14, 0x18)
_WEB: Final = (b"HTTP", b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"<!DO", b"<htm", b"<HTM")


class ForeignProtocol(ProtocolViolation):
    """A client of a node speaks another protocol, usually because it has the wrong port."""


def spoken(first: bytes, greetings: Mapping[bytes, str]) -> str:
    """Name a protocol by the first four bytes of a connection; "" if it is unknown.

    ``greetings``: the first bytes of each log protocol's connections, and the protocol's name.
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
    """Return the error for a peer that speaks ``said`` instead of the protocol of ``ours``.

    ``port`` advises a client which port to use instead. A node could not choose; ``advice`` is for its log.
    """
    what = f"the other side speaks {said}, not {ours}'s protocol"
    if not port:
        return ForeignProtocol(what, hint=advice or f"Give that client another port, or use one of {ours}'s")
    return ProtocolViolation(what, hint="Say tls=true" if said == "TLS" else port)


def looks_like_tls(first: bytes) -> bool:
    """Whether the bytes begin a TLS record: its type and major version, which is always 3."""
    return len(first) >= 2 and first[0] in _TLS_RECORDS and first[1] == 3


_SIZE = 4
_SIZE_OF = struct.Struct(">i")

Refusal = Callable[[bytes], ProtocolViolation | None]
"""Returns an error if a connection's first bytes are those of another protocol."""


class SizedBodies:
    """Cuts bodies behind a 4-byte size, big-endian and signed, as Kafka and RocketMQ do.

    A size outside ``least`` to ``limit`` raises an error that names the protocol (``whose``), before anything is
    allocated for it. ``foreign`` is asked first if the very first size is invalid.
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
        """Bytes needed next: those of a size, or of the body that it announced."""
        return self._body or _SIZE

    def feed(self, chunk: memoryview) -> memoryview | None:
        """Take exactly ``need()`` bytes; return a body when it is complete. Raises ProtocolViolation."""
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
        """Return a copy of the body if ``view`` is exactly one with its size, and no part of another was fed.

        If ``view`` is the beginning of one of up to ``most`` bytes, size included, return how many bytes are missing;
        else 0.
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
