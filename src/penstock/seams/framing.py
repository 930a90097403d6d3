"""Framing: how one protocol cuts a byte stream into frames. One instance per connection and direction, no I/O.

A transport asks ``need()``, receives exactly that many bytes into one buffer and gives them to ``feed()``. So large
bodies land in their final place once, and nothing is allocated that the protocol has not checked against its limit.
Kafka needs 4, then the body; RocketMQ 4, then the rest; TubeMQ 12, then 4 and a block, block by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from penstock._dataclasses import dataclass

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
