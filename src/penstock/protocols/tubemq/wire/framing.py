"""TubeMQ's frames: a token, a serial number, a count of blocks, and the blocks, each behind its length.

Only the blocks' contents, put together, mean anything; where one ends is without meaning. Source: Apache InLong TubeMQ
2.x, RPC protocol (``RpcConstants``, ``NettyProtocolEncoder``/``NettyProtocolDecoder``): writers cut at 8192 bytes,
readers take any length and at most 3584 blocks. Here the sum of the lengths is bounded by what such a frame can hold;
Java leaves it open, and a count of 0 makes it wait for ever.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from penstock.errors import ProtocolViolation, UsageError
from penstock.interfaces.framing import Buffer, Buffers, Frame, not_ours, spoken
from penstock.protocols.tubemq.config import GREETING

__all__ = ["BLOCK_BYTES", "MAX_BLOCKS", "MAX_FRAME_BYTES", "TOKEN", "TubeFraming", "frame", "framed_head"]

TOKEN: Final = int.from_bytes(GREETING, "big")
BLOCK_BYTES: Final = 8192
MAX_BLOCKS: Final = 3584
MAX_FRAME_BYTES: Final = MAX_BLOCKS * BLOCK_BYTES

_HEAD: Final = struct.Struct(">Iii")
_HEAD_AND_LENGTH: Final = struct.Struct(">Iiii")
_LENGTH: Final = struct.Struct(">i")
_BEFORE: Final = _HEAD_AND_LENGTH.size
_unpack: Final = _HEAD_AND_LENGTH.unpack_from


class TubeFraming:
    """Cuts frames; ``answers`` True for a client (reads responses), False for a server (reads requests)."""

    _most_blocks = MAX_BLOCKS

    __slots__ = ("_answers", "_blocks", "_left", "_length", "_limit", "_need", "_serial", "_size")

    def __init__(self, *, answers: bool, limit: int = MAX_FRAME_BYTES) -> None:
        self._answers = answers
        self._limit = limit
        self._serial = 0
        self._restart()
        self._need = _HEAD.size

    def need(self) -> int:
        return self._need

    def feed(self, chunk: memoryview) -> Frame | None:
        """The head with the first length, then blocks, each together with the next one's length.

        Only of the first frame the head comes alone: who speaks something else may have said no more.
        """
        if self._left < 0:
            return self._head(chunk)
        if self._length < 0:
            return self._next_block(*_LENGTH.unpack(chunk))
        block, rest = chunk[: self._length], chunk[self._length :]
        self._blocks.append(block)
        return self._next_block(*_LENGTH.unpack(rest)) if self._left else self._complete()

    def whole(self, view: memoryview, most: int) -> Frame | int:
        """``penstock.interfaces.framing.TakesWhole``: frames of one block, but not a connection's first."""
        have = len(view) - _BEFORE
        if have < 0 or self._left >= 0 or self._need != _BEFORE:
            return 0
        token, serial, count, length = _unpack(view)
        if token != TOKEN or count != 1 or not 0 < length <= self._limit:
            return 0
        if length == have:
            return Frame(serial, self._answers, memoryview(bytes(view[_BEFORE:])))
        missing: int = length - have
        return missing if missing > 0 and length <= most - _BEFORE else 0

    def _restart(self) -> None:
        self._need = _HEAD_AND_LENGTH.size
        self._left = self._length = -1
        self._size = 0
        self._blocks: list[memoryview] = []

    def _head(self, chunk: memoryview) -> Frame | None:
        token, self._serial, count = _HEAD.unpack_from(chunk)
        if token != TOKEN:
            raise self._foreign(bytes(chunk[:4]), token)
        if not 1 <= count <= self._most_blocks:
            raise ProtocolViolation(f"a frame of {count} blocks; 1 to {MAX_BLOCKS} are allowed")
        self._left = count
        if len(chunk) > _HEAD.size:
            return self._next_block(*_LENGTH.unpack_from(chunk, _HEAD.size))
        self._need = _LENGTH.size
        return None

    def _foreign(self, head: bytes, token: int) -> ProtocolViolation:
        from penstock.protocols import greetings  # not above: the registry imports this folder

        if said := spoken(head, greetings()):
            port = "Give the port of a TubeMQ master, not its web port" if self._answers else ""
            return not_ours(said, "TubeMQ", port)
        return ProtocolViolation(
            f"a frame begins with {token:#010x}; TubeMQ's begin with {TOKEN:#010x}",
            hint="Is the other side speaking TubeMQ, without TLS?",
        )

    def _next_block(self, length: int) -> Frame | None:
        if not 0 <= length <= self._limit - self._size:
            raise ProtocolViolation(
                f"a block of {length} bytes after {self._size} bytes of frame {self._serial}; "
                f"a frame holds {self._limit} at most"
            )
        self._left -= 1
        self._length = length
        self._size += length
        self._need = length + (_LENGTH.size if self._left else 0)
        return None if self._need else self._complete()

    def _complete(self) -> Frame:
        blocks = self._blocks
        body = blocks[0] if len(blocks) == 1 else memoryview(b"".join(blocks))
        complete = Frame(self._serial, self._answers, body)
        self._restart()
        return complete


def frame(serial: int, content: Buffers) -> Buffers:
    """Return the buffers of a frame around ``content``, at least one byte; nothing is copied.

    Raises UsageError for more than a frame can hold.
    """
    size = sum(map(len, content))
    if not 0 < size <= MAX_FRAME_BYTES:
        raise UsageError(f"a frame of {size} bytes; 1 to {MAX_FRAME_BYTES} are allowed")
    if size <= BLOCK_BYTES:
        return [framed_head(serial, size), *content]
    count = -(-size // BLOCK_BYTES)
    head = _HEAD_AND_LENGTH.pack(TOKEN, serial, count, min(size, BLOCK_BYTES))
    return [head, *_cut(content, size)]


def framed_head(serial: int, size: int) -> bytes:
    """Return what comes before the one block of a frame around ``size`` bytes, 1 to `BLOCK_BYTES`."""
    return _HEAD_AND_LENGTH.pack(TOKEN, serial, 1, size)


def _cut(content: Buffers, size: int) -> Iterator[Buffer]:
    """Yield ``content`` with a length before each block but the first."""
    room = BLOCK_BYTES
    for piece in content:
        view = memoryview(piece)
        at = 0
        while at < len(view):
            if not room:
                room = min(size, BLOCK_BYTES)
                yield _LENGTH.pack(room)
            taken = view[at : at + room]
            yield taken
            at += len(taken)
            room -= len(taken)
            size -= len(taken)
