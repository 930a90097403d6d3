"""What one connection has to send: small answers at once, large ones lump by lump, as the client takes them.

Of an answer that lies in files nothing is in memory but the lump that is on its way. What must not live here: which
connection is hung up on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from penstock.errors import PenstockError
from penstock.net._buffers import join_small
from penstock.net._copying import Copying
from penstock.seams.framing import Buffer, Pieces, Stretch

__all__ = ["Outgoing", "Sending"]

_AT_ONCE: Final = 64 * 1024
"""Answers up to so many bytes are not worth any care."""


class Sending(Protocol):
    """What a connection is told."""

    def sent_on(self) -> None:
        """Some more of a large answer has gone, or all of it."""
        ...

    def cannot_send_on(self, error: PenstockError) -> None:
        """The rest of an answer cannot be read; what comes next would be taken for it."""
        ...


class Outgoing:
    """One a connection; ``high_water`` is the transport's. ``lump``: how many bytes may be in memory now."""

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
        self, transport: asyncio.Transport, high_water: int, turn: Copying, lump: Callable[[], int], owner: Sending
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
        """Bytes in memory that wait here, not counting the transport's."""
        self.sent = 0
        """Bytes that were given to the transport."""
        transport.set_write_buffer_limits(high=high_water)

    @property
    def busy(self) -> bool:
        """Whether the client has to read on before it gets more."""
        return self._paused or bool(self._pieces)

    def put(self, pieces: Pieces) -> None:
        """Send this behind everything else."""
        if len(pieces) == 1 and type(only := pieces[0]) is bytes and not self._pieces:  # most answers
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
            # So it tells when all has gone that it was given, not some time before.
            self._transport.set_write_buffer_limits(high=0)
        begins = not self._pieces
        self._pieces.extend(piece for piece in pieces if len(piece))
        self.held += size
        if begins:
            self._go()

    def gather(self) -> None:
        """Keep small answers until `send_gathered`: one call of the system takes them all."""
        self._gathers = True

    def send_gathered(self) -> None:
        """Send what was kept."""
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
        """Call ``end`` when all was handed to the transport."""
        self._write_gathered()
        self._end = end
        if not self._pieces:
            end()

    def clear(self) -> None:
        """Send nothing of it."""
        self._pieces.clear()
        self._gathered.clear()
        self.held = 0
        self._paused = False

    def pause(self) -> None:
        """The transport has enough for now."""
        self._paused = True

    def resume(self) -> None:
        """It can take more."""
        self._paused = False
        if self._pieces:
            self._go()

    def _go(self) -> None:
        if self._transport.is_closing():
            return  # amid an answer: the client is gone, and the connection is about to be told
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
        """Take as much of the pieces as goes into ``space``; returns how much that was."""
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
