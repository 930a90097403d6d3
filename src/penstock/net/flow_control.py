"""Limits on what a node's connections send, copy and hold.

`Outgoing` sends one connection's answers in chunks, `CopyBudget` limits how many bytes are copied per loop iteration,
and `Budget` limits the bytes that all connections hold together.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from penstock.concurrency.background import LoopTurn
from penstock.errors import PenstockError
from penstock.interfaces.framing import Buffer, Pieces, Stretch
from penstock.net.buffers import join_small

__all__ = ["LITTLE", "LUMP_BYTES", "Budget", "ChunkPool", "CopyBudget", "Holder", "Outgoing", "Sending"]

# Chunks: memory for bytes on their way out, reused when nothing references it. Fresh memory costs as much as the copy.
#
# Python itself knows whether a chunk is still referenced: a transport that has not sent all of it keeps a view of it,
# and a bytearray with a view cannot change its size. That holds for every event loop, and for TLS. The number of bytes
# that a transport says it holds is less reliable, since event loops count differently.
LUMP_BYTES: Final = 1 << 20
"""How much is copied before the budget is checked again; the socket of a client that reads takes it at once."""

_KEPT: Final = 4
"""The maximum of chunks kept. Clients that read slowly have further ones, which are freed with them."""


class ChunkPool:
    """A pool of chunks; one per node."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def borrow(self) -> bytearray:
        """Return an unreferenced chunk, a used one if possible."""
        for place, lump in enumerate(self._kept):
            if _unseen(lump):
                return self._kept.pop(place)
        return bytearray(LUMP_BYTES)

    def give_back(self, lump: bytearray) -> None:
        """Return a chunk that the caller no longer uses; a transport still may."""
        if len(self._kept) == _KEPT:
            self._kept.pop(0)
        self._kept.append(lump)


def _unseen(lump: bytearray) -> bool:
    """Whether nothing has a view of it."""
    try:
        lump.pop()
    except BufferError:
        return False
    lump.append(0)
    return True


# How many bytes all connections of a node copy in one iteration of the event loop.
_BYTES: Final = 2 << 20
"""Copied from a file to a socket within a millisecond or two."""


class CopyBudget(LoopTurn):
    """The budget of bytes to copy per loop iteration, and the pool of chunks; one per node."""

    def __init__(self) -> None:
        super().__init__(_BYTES, _soon)
        self.lumps = ChunkPool()


def _soon(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(callback)  # looked up late: a node is made before its loop runs


_AT_ONCE: Final = 64 * 1024
"""Answers up to this size are written directly."""


class Sending(Protocol):
    """The part of a connection that `Outgoing` calls."""

    def sent_on(self) -> None:
        """Some more of a large answer was sent, or all of it."""
        ...

    def cannot_send_on(self, error: PenstockError) -> None:
        """The rest of an answer cannot be read.

        The connection must end, or later bytes would be taken for that rest.
        """
        ...


class Outgoing:
    """What one connection sends.

    ``high_water`` is the transport's limit; ``lump`` returns how large a chunk may be now.
    """

    __slots__ = (
        "_at",
        "_end",
        "_gathered",
        "_gathers",
        "_high_water",
        "_lump",
        "_owner",
        "_paused",
        "_pieces",
        "_transport",
        "_turn",
        "held",
        "sent",
    )

    def __init__(
        self, transport: asyncio.Transport, high_water: int, turn: CopyBudget, lump: Callable[[], int], owner: Sending
    ) -> None:
        self._transport = transport
        self._high_water = high_water
        self._turn = turn
        self._lump = lump
        self._owner = owner
        self._pieces: deque[Buffer | Stretch] = deque()
        self._gathered: list[Buffer] = []
        self._gathers = False
        self._at = 0
        self._paused = False
        self._end: Callable[[], None] | None = None
        self.held = 0
        """Bytes in memory that wait here, without those in the transport."""
        self.sent = 0
        """Bytes that were passed to the transport."""
        transport.set_write_buffer_limits(high=high_water)

    @property
    def busy(self) -> bool:
        """Whether the client has to read before it gets more."""
        return self._paused or bool(self._pieces)

    def put(self, pieces: Pieces) -> None:
        """Send this after everything else."""
        if len(pieces) == 1 and isinstance(only := pieces[0], bytes | bytearray) and not self._pieces:  # most answers
            size = len(only)
            if not self._gathers and size <= _AT_ONCE:
                self.sent += size
                self._transport.write(only)
                return
            if self._gathers:
                self._gathered.append(only)
                self.held += size
                if self.held > _AT_ONCE:
                    self._write_gathered()
                return
        buffers = [piece for piece in pieces if isinstance(piece, Buffer)]
        size = sum(map(len, buffers))
        if not self._pieces:
            if len(buffers) == len(pieces) and size <= _AT_ONCE:
                self._gathered += buffers
                self.held += size
                if not self._gathers or self.held > _AT_ONCE:
                    self._write_gathered()
                return
            self._write_gathered()
            # So the transport reports when all its bytes are sent, not some time before.
            self._transport.set_write_buffer_limits(high=0)
        begins = not self._pieces
        self._pieces.extend(piece for piece in pieces if len(piece))
        self.held += size
        if begins:
            self._go()

    def gather(self) -> None:
        """Hold back small answers until `send_gathered`, so that one system call sends them all."""
        self._gathers = True

    def send_gathered(self) -> None:
        """Send what was held back."""
        self._gathers = False
        self._write_gathered()

    def _write_gathered(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            size = sum(map(len, gathered))
            self.held -= size
            self.sent += size
            if len(gathered) == 1:
                self._transport.write(gathered[0])
                return
            for buffer in join_small(gathered):
                self._transport.write(buffer)

    def finish(self, end: Callable[[], None]) -> None:
        """Call ``end`` when everything was passed to the transport."""
        self._write_gathered()
        self._end = end
        if not self._pieces:
            end()

    def clear(self) -> None:
        """Drop everything that waits."""
        self._pieces.clear()
        self._gathered.clear()
        self.held = 0
        self._paused = False

    def pause(self) -> None:
        """The transport is full."""
        self._paused = True

    def resume(self) -> None:
        """The transport can take more."""
        self._paused = False
        if self._pieces:
            self._go()

    def _go(self) -> None:
        if self._transport.is_closing():
            return  # in the middle of an answer: the client is gone, and connection_lost is about to be called
        try:
            while self._pieces and not self._paused:
                if self._turn.over:
                    self._turn.wait(self._go)
                    break
                self._send_lump()
        except PenstockError as error:
            self.clear()
            self._owner.cannot_send_on(error)
            return
        if not self._pieces:
            self._transport.set_write_buffer_limits(high=self._high_water)
            if self._end is not None:
                self._end()
        self._owner.sent_on()

    def _send_lump(self) -> None:
        lump = self._turn.lumps.borrow()
        with memoryview(lump) as space, space[: self._lump()] as room:
            count = self._fill(room)
        self._turn.spend(count)
        self.sent += count
        self._transport.write(memoryview(lump)[:count])
        self._turn.lumps.give_back(lump)

    def _fill(self, space: memoryview) -> int:
        """Copy as much of the pieces as fits into ``space``; return the number of bytes."""
        done = 0
        while self._pieces and done < len(space):
            piece = self._pieces[0]
            count = min(len(space) - done, len(piece) - self._at)
            if isinstance(piece, Buffer):
                self.held -= count
                space[done : done + count] = memoryview(piece)[self._at : self._at + count]
            else:
                piece.read_into(self._at, space[done : done + count])
            done += count
            self._at += count
            if self._at == len(piece):
                self._pieces.popleft()
                self._at = 0
        return done


# The budget: bytes that all connections of a node hold together, in requests being received or served and in unsent
# answers. Memory that a front needs to decompress a request counts, too.
#
# A connection that holds little is not limited and never waits. When the others together exceed the budget, their
# sockets are not read until there is room. Those that have neither sent nor read anything for a second are closed, the
# longest inactive first. So clients that announce much, send a byte now and then, or never read cannot block others.
_log = logging.getLogger("penstock.node")

LITTLE: Final = 64 * 1024
"""What a connection may hold without being counted; also what a small request needs."""

_STALLED_S: Final = 1.0
_LOOK_S: Final = 0.1


class Holder(Protocol):
    """A connection as the budget sees it."""

    progressed: float
    """When it last finished a request, or received or sent more than a little, on the node's clock (`ServingClock`)."""

    def weigh(self) -> None:
        """Report to the budget what is held now."""
        ...

    def budget_changed(self) -> None:
        """The budget has become exhausted, or no longer is."""
        ...

    def cut_off(self) -> None:
        """Free what is held, now."""
        ...


class Budget:
    """The bytes that all connections of a node may hold; one per node, for all its listeners."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: dict[Holder, int] = {}
        self._used = 0
        self._exhausted = False
        self._look: asyncio.TimerHandle | None = None
        self._hung_up = 0
        self.turn = CopyBudget()
        self.now: Callable[[], float] | None = None
        """The clock of `Holder.progressed`; set by the first listener, since a budget is made before its loop runs."""

    @property
    def free(self) -> int:
        """Bytes that are left; never below 0."""
        return max(0, self.limit - self._used)

    @property
    def used(self) -> int:
        """Bytes held by connections that hold more than a little."""
        return self._used

    @property
    def exhausted(self) -> bool:
        """Whether connections that hold more than a little have to wait."""
        return self._exhausted

    @contextmanager
    def reserved(self, size: int) -> Iterator[None]:
        """A context in which ``size`` bytes are taken by work that cannot be cut off."""
        self.keep(size)
        try:
            yield
        finally:
            self.keep(-size)

    def keep(self, change: int) -> None:
        """Count ``change`` more bytes (fewer if negative) as taken by work that cannot be cut off."""
        self._used += change
        if self._exhausted or self._used >= self.limit:
            self._judge()

    def hold(self, holder: Holder, size: int) -> None:
        """``holder`` now holds ``size`` bytes, instead of its earlier number."""
        before = self._held.get(holder, 0)
        if size <= LITTLE:
            if not before:
                return
            del self._held[holder]
            size = 0
        else:
            self._held[holder] = size
        self._used += size - before
        self._judge()

    def _judge(self) -> None:
        exhausted = self._used >= (self.limit if not self._exhausted else self.limit * 7 // 8)
        if exhausted == self._exhausted:
            return
        self._exhausted = exhausted
        if exhausted:
            self._look = asyncio.get_running_loop().call_later(_LOOK_S, self._hang_up_stalled)
        elif self._look is not None:
            self._look.cancel()
            self._tell()
        for holder in list(self._held):
            holder.budget_changed()

    def _hang_up_stalled(self) -> None:
        """Close inactive connections until there is room; those that make progress are left alone."""
        loop = asyncio.get_running_loop()
        for holder in list(self._held):
            holder.weigh()
        now = self.now() if self.now is not None else loop.time()
        for holder in sorted(self._held, key=lambda each: each.progressed):
            if not self._exhausted or now - holder.progressed < _STALLED_S:
                break
            self._hung_up += 1
            holder.cut_off()
            self.hold(holder, 0)
        if self._exhausted:
            self._look = loop.call_later(_LOOK_S, self._hang_up_stalled)

    def _tell(self) -> None:
        if self._hung_up:
            _log.warning(
                "requests and unread answers took all of %d bytes (memory_bytes); "
                "hung up on %d clients that neither sent nor read on",
                self.limit,
                self._hung_up,
            )
            self._hung_up = 0
