"""Receiving straight into place and sending without joining, for all transports. No sockets here.

A large body is received directly into the buffer that its frame will reference. Small frames share one scratch buffer
per connection and are copied out of it, because ``Frame.body`` must stay valid as long as it is referenced.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Iterator

from penstock.interfaces.framing import Buffer, Buffers, Frame, Framing, TakesWhole

__all__ = ["ReceiveBuffer", "allocate", "allocate_mapped", "join_small"]

_SCRATCH_BYTES = 32 * 1024
_DIRECT_BYTES = 16 * 1024
_POOL_BYTES = 64 * 1024
_JOIN_BYTES = 64 * 1024


def allocate(count: int) -> memoryview:
    """Return ``count`` writable bytes; large ones come from Arrow's pool, which reuses memory and does not zero it.

    The pool does not touch the memory either, so a size that a peer claims takes none until its bytes arrive. Before
    Arrow is imported, large ones are mapped, because this runs on a loop, which must not wait for an import.
    """
    if count < _POOL_BYTES:
        return memoryview(bytearray(count))
    from_pool = getattr(sys.modules.get("pyarrow"), "allocate_buffer", None)
    return allocate_mapped(count) if from_pool is None else memoryview(from_pool(count)).cast("B")


def allocate_mapped(count: int) -> memoryview:
    """Return ``count`` writable bytes without Arrow; large ones take memory only where they are written to.

    So a size that a peer claims costs nothing until its bytes arrive, and yet each byte is received into its place.
    """
    if count < _POOL_BYTES:
        return memoryview(bytearray(count))
    return memoryview(mmap.mmap(-1, count))


def join_small(buffers: Buffers) -> Iterator[Buffer]:
    """Return the same bytes in fewer pieces: adjacent small buffers are joined, large ones pass through uncopied."""
    if len(buffers) == 1:
        yield buffers[0]
        return
    small: list[Buffer] = []
    size = 0
    for buffer in buffers:
        length = len(buffer)
        if length >= _JOIN_BYTES:
            if small:
                yield b"".join(small)
                small, size = [], 0
            yield buffer
        elif length:
            small.append(buffer)
            size += length
    if small:
        yield small[0] if len(small) == 1 else b"".join(small)


class ReceiveBuffer:
    """Turns reads of any size into the exact chunks that a framing asks for.

    It has two modes. *Scratch*: ``_body`` is None, and bytes ``[_start, _end)`` of the scratch buffer are unread.
    *Direct*: ``_body`` is filled up to ``_filled``, and the scratch buffer is empty.
    """

    __slots__ = ("_allocate", "_body", "_end", "_fed", "_filled", "_framing", "_scratch", "_start", "_whole")

    def __init__(self, framing: Framing, allocator: Callable[[int], memoryview] = allocate) -> None:
        self._framing = framing
        self._whole = framing.whole if isinstance(framing, TakesWhole) else None
        self._allocate = allocator
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._start = 0
        self._end = 0
        self._body: memoryview | None = None
        self._filled = 0
        self._fed = 0

    @property
    def pending(self) -> int:
        """Bytes received of an incomplete frame."""
        return self._fed + (self._end - self._start if self._body is None else self._filled)

    def drop(self) -> None:
        """Free the received bytes; the connection has ended."""
        self._body = None
        self._scratch = memoryview(b"")
        self._start = self._end = self._filled = self._fed = 0

    def space(self) -> memoryview:
        """The buffer for the next read; never empty."""
        if self._body is not None:
            return self._body[self._filled :]
        return self._scratch[self._end :]

    def only(self, count: int) -> Frame | int:
        """Return the frame that ends with the ``count`` bytes read into ``space()``, if it is all there is, as with
        most small answers. Otherwise return how many bytes are missing, or 0: call ``received`` then."""
        whole = self._whole
        if whole is None or self._start or self._fed or self._body is not None:
            return 0
        end = self._end + count
        found = whole(self._scratch[:end], _DIRECT_BYTES)
        if isinstance(found, Frame):
            self._end = 0
        elif found:
            self._end = end
        return found

    def received(self, count: int) -> Iterator[Frame]:
        """Yield frames completed by ``count`` bytes read into ``space()``.

        Raises ProtocolViolation after the good ones.
        """
        if self._body is not None:
            self._filled += count
            if self._filled < len(self._body):
                return
            body, self._body = self._body, None
            self._filled = 0
            frame = self._feed(body)
            if frame is not None:
                yield frame
        else:
            self._end += count
        while (need := self._framing.need() or max(1, self._end - self._start)) <= self._end - self._start:
            chunk = memoryview(bytes(self._scratch[self._start : self._start + need]))
            self._start += need
            frame = self._framing.feed(chunk)
            self._fed = 0 if frame is not None else self._fed + need
            if frame is not None:
                yield frame
        if self._start == self._end and need <= _DIRECT_BYTES:
            self._start = self._end = 0
        else:
            self._make_room(need)

    def _feed(self, chunk: memoryview) -> Frame | None:
        frame = self._framing.feed(chunk)
        self._fed = 0 if frame is not None else self._fed + len(chunk)
        return frame

    def _make_room(self, need: int) -> None:
        rest = self._scratch[self._start : self._end]
        if need > _DIRECT_BYTES:
            self._body = self._allocate(need)
            self._filled = len(rest)
            self._body[: self._filled] = rest
            self._start = self._end = 0
        elif self._start:
            self._scratch[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
