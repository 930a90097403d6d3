"""Stop: how another thread, or a signal's handler, ends what a blocking client waits for.

A socket is woken by shutting it down, a pause by a queue. The resolution of a name cannot be interrupted: who waits for
one hears of the stop when it is over. Nothing here takes a lock, since a handler may find its own thread anywhere.
What must not live here: who may stop, and what is closed afterwards.
"""

from __future__ import annotations

import contextlib
import socket
from queue import Empty, SimpleQueue

from penstock.errors import Closed

__all__ = ["Stop"]


class Stop:
    """One for all channels of a client. It cannot be undone."""

    def __init__(self) -> None:
        self.said = False
        self._pausing: SimpleQueue[None] = SimpleQueue()
        self._sockets: set[socket.socket] = set()

    def say(self) -> None:
        """End what waits, and all that would: from now on it raises Closed. For any thread, and any moment."""
        self.said = True
        self._pausing.put(None)
        for each in list(self._sockets):
            with contextlib.suppress(OSError):
                # The plain socket's: TLS's own throws its state away, under whoever is using it.
                socket.socket.shutdown(each, socket.SHUT_RDWR)

    def check(self) -> None:
        """Raise Closed if it was said."""
        if self.said:
            raise Closed("the client was closed meanwhile")

    def pause(self, seconds: float) -> None:
        """Block for a while. Raises Closed."""
        self.check()
        if seconds > 0:
            with contextlib.suppress(Empty):
                self._pausing.get(timeout=seconds)
                self._pausing.put(None)  # for whoever pauses as well
            self.check()

    def hold(self, sock: socket.socket) -> None:
        """Somebody is about to wait for this socket. Raises Closed; only then nobody wakes it."""
        self._sockets.add(sock)
        self.check()

    def drop(self, sock: socket.socket) -> None:
        """It is about to be closed."""
        self._sockets.discard(sock)
