"""Lent: a connection whose answers one thread receives by itself, so that no other wakes for them and then wakes it.

The transport does not read meanwhile. The thread has a descriptor of its own for the same socket: the loop may close
the transport's at any time. Neither waits for the other: what the loop has to do is posted to it, and what it must not
do while the thread is at work it does only with the hold.

What must not live here: what is asked and what answers mean.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.net._buffers import Intake
from penstock.net._links import LARGEST_CORRELATION
from penstock.net._pending import AsyncioTold
from penstock.seams.channel import Outgoing
from penstock.seams.framing import Frame
from penstock.seams.hold import LOOP, Hold

if TYPE_CHECKING:
    from penstock.net._asyncio_connection import AsyncioConnection

__all__ = ["Lent", "own_socket"]

_CAN_WAIT: Final = hasattr(select, "poll")
_MOMENT_MS: Final = 1
"""For the rest of a small answer."""


def own_socket(transport: asyncio.Transport) -> socket.socket | None:
    """A socket of one's own for the same connection; None where its bytes are not what was sent, or there is no room
    for another descriptor."""
    there = transport.get_extra_info("socket")
    if there is None or not _CAN_WAIT or transport.get_extra_info("sslcontext") is not None:
        return None
    try:
        own = socket.socket(fileno=os.dup(there.fileno()))
    except OSError:
        return None
    own.setblocking(False)
    return own


class Lent:
    """``penstock.seams.channel.LentConnection``."""

    __slots__ = (
        "_connection", "_first", "_hold", "_intake", "_loop", "_now", "_rest", "_sock", "_told", "fileno", "held_s",
        "over",
    )  # fmt: skip

    def __init__(
        self,
        connection: AsyncioConnection,
        loop: asyncio.AbstractEventLoop,
        intake: Intake,
        sock: socket.socket,
        correlation: int,
        told: AsyncioTold,
        hold: Hold,
    ) -> None:
        """``told`` waits for the answer to ``correlation``."""
        self._connection = connection
        self._loop = loop
        self._intake = intake
        self._sock = sock
        self._first = self._now = correlation
        self._told = told
        self._hold = hold
        self._rest = select.poll()
        self._rest.register(sock, select.POLLIN)
        self.fileno = sock.fileno()
        self.held_s = 0.0
        """For how long the peer may keep the answer that it owes."""
        self.over = False

    # In the thread.

    def receive(self) -> Frame | None:
        """See `LentConnection`."""
        while True:
            try:
                count = self._sock.recv_into(self._intake.space())
            except (BlockingIOError, InterruptedError):
                return None
            except OSError:
                count = 0
            if not count:
                self.give_back()  # the loop finds the same, and knows whom to tell
                return None
            frame = self._intake.only(count)
            if not frame:
                self._back(self._now, partial(self._connection.buffer_updated, count))
                return None
            self._connection.received += count
            if not isinstance(frame, int):
                break
            if not self._rest_came(frame):
                return None
        if frame.correlation != self._now or not frame.reply:
            self.give_back(frame)
            return None
        return frame

    def _rest_came(self, missing: int) -> bool:
        """Whether what is missing of a small answer comes within a moment. A broker of Kafka writes its head, its
        records and its end one after the other: each of them would wake this thread."""
        self._wake_for(missing)
        try:
            return bool(self._rest.poll(_MOMENT_MS))
        finally:
            self._wake_for(1)

    def _wake_for(self, least: int) -> None:
        """Of fewer bytes ``poll`` says nothing; where the system does not know of that, it speaks of any."""
        try:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)
        except OSError:
            return

    def send(self, request: Outgoing, *, timeout_s: float, held_s: float) -> bool:
        """See `LentConnection`."""
        if self.over:
            return False
        connection = self._connection
        correlation = connection.last % LARGEST_CORRELATION + 1
        buffers = request(correlation)
        data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        try:
            count = self._sock.send(data)
        except OSError:
            count = 0  # the loop tries it, and meets what there is to meet
        connection.last = self._now = correlation
        connection.last_used = now = self._loop.time()
        connection.sent += len(data)
        self.held_s = held_s
        self._told.until = now + timeout_s
        if count < len(data):
            self._back(correlation, partial(connection.write_rest, bytes(data[count:])))
        return True

    def give_back(self, frame: Frame | None = None, then: Callable[[], None] | None = None) -> None:
        """See `LentConnection`."""
        if frame is not None:
            self._back(self._now, partial(self._connection.hear, frame))
        else:
            self._back(self._now if then is None else None, then)

    def break_off(self, then: Callable[[], None]) -> None:
        """See `LentConnection`."""

        def broken() -> None:
            self._connection.returned(self._first, self._now)
            then()
            self._connection.abort()
            self._sock.close()

        if not self.over:
            self.over = True
            self._post(broken)

    def forget(self) -> None:
        """See `LentConnection`."""
        self._sock.close()

    def _back(self, under_way: int | None, work: Callable[[], None] | None) -> None:
        def back() -> None:
            if self._connection.returned(self._first, under_way) and work is not None:
                work()
            self._sock.close()

        if not self.over:
            self.over = True
            self._post(back)

    def _post(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and everything on it
            self._loop.call_soon_threadsafe(work)

    # On the loop.

    def recall(self) -> bool:
        """Take it back, if the thread is not at work here; whether that was so."""
        if self.over or not self._hold.take(LOOP):
            return False
        self.over = True
        try:
            self._connection.returned(self._first, self._now)
            self._sock.close()
        finally:
            self._hold.leave(LOOP)
        return True

    def ended(self) -> None:
        """The connection has; a thread that waits is woken."""
        self.over = True
        if self._hold.take(LOOP):
            self._sock.close()
            self._hold.leave(LOOP)
        else:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
