"""A synchronous consumer that waits for records receives them itself, in the thread that polls.

Otherwise the loop's thread would wake for each answer, write the next request and wake the polling thread. Where
records come one at a time, that is a third of the cost. So once a few polls have waited for small answers, reads under
way are lent to the polling thread (`interfaces.client.LentRead`). Anything unusual or large goes back to the loop,
which continues to read as before. Between polls no thread receives on a lent connection; the loop can do work for a
poll only after all lent reads are back.

CallerThreadPoll waits; CallerThreadFetcher holds the lent reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from typing import TYPE_CHECKING, Final

from penstock.client.consumer.fetcher import LITTLE_BYTES, FetchCycle, Fetcher
from penstock.client.runtime.waiting import LONGEST_S, Notifier, ended
from penstock.concurrency.locks import LOOP, READER, TryLock
from penstock.interfaces import LentRead
from penstock.records import Messages

if TYPE_CHECKING:
    from penstock.client.consumer.engine import ConsumerEngine

__all__ = ["CallerThreadFetcher", "CallerThreadPoll"]

_BEGIN_AFTER: Final = 3
"""Lend after so many more polls that waited for a small answer than polls that did not."""

_END_AFTER: Final = -8
"""Take back after so many more polls that did not wait: the loop may fetch ahead for them."""

_NOT_AGAIN_FOR: Final = 64
"""After a failure, lending is tried again after at most so many waiting polls."""


class WakeupPipe:
    """Wakes a thread that waits for file descriptors. From any thread, and in a signal handler."""

    def __init__(self) -> None:
        self._heard, self._rope = socket.socketpair()
        self._heard.setblocking(False)
        self._rope.setblocking(False)
        self.fileno = self._heard.fileno()

    def put(self, what: None) -> None:
        """Wake the thread; same signature as a queue's."""
        del what
        with contextlib.suppress(OSError):  # it is already signalled, or closed
            self._rope.send(b"\0")

    def quiet(self) -> None:
        """Clear the signal."""
        with contextlib.suppress(OSError):
            self._heard.recv(4_096)

    def close(self) -> None:
        """Close both sockets."""
        self._heard.close()
        self._rope.close()


class CallerThreadFetcher:
    """The lent reads of one consumer. Created in ``wait`` by the polling thread; used by one thread at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fetcher: Fetcher, news: Notifier) -> None:
        self._loop = loop
        self._fetcher = fetcher
        self.straight = fetcher.straight
        self._news = news
        self._hold = TryLock()
        self._inside = False
        self._reads: dict[int, tuple[FetchCycle, LentRead]] = {}
        self._score = self._failed = 0
        self._closed = False
        self._poll: select.poll
        self.bell: WakeupPipe | None = None

    @property
    def lent(self) -> bool:
        """Whether reads are lent, as far as known. May be read at any time."""
        return bool(self._reads)

    # In the thread that polls.

    def enter(self) -> bool:
        """Whether reads are lent; if so, they belong to this thread until ``leave``."""
        if self._inside:  # a signal handler may raise anywhere, even before the previous ``leave``
            self.leave()
        if not self._reads:
            return False
        self._inside = True
        if not self._hold.take(READER):
            self._inside = False
            return False
        return True

    def leave(self) -> None:
        """The loop may take reads back."""
        self._hold.leave(READER)
        self._inside = False
        if self._score < 0:
            self._score += 1
        if self._closed:
            self.close()

    def wait(self, seconds: float) -> None:
        """Block until data or a wakeup comes, for at most ``seconds`` or one slice, and receive it."""
        bell = self.bell
        assert bell is not None
        for fileno, _ in self._poll.poll(1_000 * (seconds if 0.0 <= seconds < LONGEST_S else LONGEST_S)):
            if fileno == bell.fileno:
                bell.quiet()
                continue
            if (lent := self._reads.get(fileno)) is None:
                continue
            round_, read = lent
            try:
                answers = read.receive()
                if answers is not None and (rest := self._fetcher.went_on(round_, answers, read)) is not None:
                    read.give_back(rest)
            except BaseException:
                read.break_off()
                self._forget_what_is_over()
                raise
            if read.over:
                self._forget_what_is_over()

    def give_back(self) -> None:
        """Return all reads to the loop."""
        for _, read in self._reads.values():
            read.give_back()
        self._forget_what_is_over()

    def waited(self, size: int) -> None:
        """A poll has waited for so many bytes from the loop. After a few such small answers, have reads lent."""
        if size > LITTLE_BYTES:
            self._score = min(self._score, 0)
            return
        self._score += 1
        if self._score >= _BEGIN_AFTER:
            self._score = 0
            self._loop.call_soon_threadsafe(self._lend)

    def did_not_wait(self) -> None:
        """A poll has found records at once."""
        if self._score > _END_AFTER:
            self._score -= 1
        elif self._reads and self.enter():
            self.give_back()
            self.leave()

    def _forget_what_is_over(self) -> None:
        for fileno, (_, read) in list(self._reads.items()):
            if read.over:
                with contextlib.suppress(KeyError):
                    self._poll.unregister(fileno)
                self._reads.pop(fileno, None)
                read.forget()

    # On the loop.

    def _lend(self) -> None:
        if self._closed or not self._hold.take(LOOP):
            return
        try:
            lent = self._fetcher.lend(self._hold) if self._has_bell() else []
            if not lent:
                self._failed = min(2 * self._failed + 1, _NOT_AGAIN_FOR)
                self._score = -self._failed
                return
            self._failed = 0
            for round_, read in lent:
                self._poll.register(read.fileno, select.POLLIN)
                self._reads[read.fileno] = round_, read
        finally:
            self._hold.leave(LOOP)
            self._news.ring()

    def _has_bell(self) -> bool:
        """Create the pipe on first use; False if no file descriptors are left."""
        if self.bell is None:
            try:
                bell = WakeupPipe()
            except OSError:
                return False
            self._poll = select.poll()
            self._poll.register(bell.fileno, select.POLLIN)
            self.bell = bell
        return True

    def close(self) -> None:
        """Stop, after the connections have ended. On the loop, or when the polling thread leaves later."""
        self._closed = True
        if self._hold.take(LOOP):
            self._forget_what_is_over()
            if self.bell is not None:
                self.bell.close()
            self._hold.leave(LOOP)


# A poll of a synchronous consumer that waits in its own thread, while the loop has nothing to do for it. The loop
# receives and wakes it, or, after a few waiting polls, this thread receives by itself (CallerThreadFetcher).
_MOMENT_S: Final = 0.01
"""How long the loop may hold lent reads: for a few steps."""


class CallerThreadPoll:
    """The waiting of one engine. Created on the loop; one thread waits at a time."""

    def __init__(self, engine: ConsumerEngine, loop: asyncio.AbstractEventLoop, news: Notifier) -> None:
        self._engine = engine
        self._loop = loop
        self._news = news
        self._own: CallerThreadFetcher | None = None

    def wait(self, deadline: float) -> bool:
        """True when something may have come, False when the loop has to be asked.

        The loop also determines why nothing came by ``deadline`` (loop time).
        """
        engine, own = self._engine, self._own or self._made()
        if ended.run_loop is not None:
            if own is not None and own.enter():
                own.give_back()
                own.leave()
            return False
        if own is not None and own.straight.held is not None:
            return True  # an interrupt has ended the poll that received it
        member = engine.rebalancing.member if engine.rebalancing else None
        if member is not None:
            member.poll_begins()
        engine.empty_reason = None
        try:
            while (found := self._waited(own, deadline)) is None:
                pass
            return found
        finally:
            self._news.take_bell_down()
            if member is not None:
                member.poll_ends()

    def take(self) -> Messages | None:
        """The record that the last wait received directly; None if records went to the buffer."""
        own = self._own
        return None if own is None else own.straight.take(self._engine.partitions)

    def did_not_wait(self) -> None:
        """A poll has found records at once."""
        if self._own is not None:
            self._own.did_not_wait()

    def close(self) -> None:
        """On the loop, once all connections are closed."""
        if self._own is not None:
            self._own.close()

    def _waited(self, own: CallerThreadFetcher | None, deadline: float) -> bool | None:
        """As ``wait``; None if reads were lent meanwhile."""
        if own is None or not own.enter():
            self._news.hang_bell()
            found = self._rung(own, deadline)
            if own is not None and found is not None and (found or self._loop.time() >= deadline):
                own.waited(self._engine.partitions.buffered_bytes)
            return found
        try:
            self._news.hang_bell(own.bell)
            found = self._received(own, deadline)
            if not found and self._loop.time() < deadline:
                own.give_back()  # the loop needs them for the work that it is asked for next
            return found
        finally:
            own.leave()

    def _rung(self, own: CallerThreadFetcher | None, deadline: float) -> bool | None:
        engine = self._engine
        while not engine.needs_service and engine.patience is None:
            if not engine.partitions.quiet():
                return engine.consumption.busy and engine.partitions.anything_to_take()
            left = deadline - self._loop.time()
            if left <= 0 or not engine.consumption.busy:
                return False
            lent = own is not None and own.lent
            self._news.wait_here(min(left, _MOMENT_S) if lent else left)
            if engine.partitions.anything_to_take():
                return True  # other events are left to the next poll
            if own is not None and own.lent:
                return None
        return False

    def _received(self, own: CallerThreadFetcher, deadline: float) -> bool:
        engine = self._engine
        looked = False
        while not engine.needs_service and engine.patience is None:
            if not engine.partitions.quiet():
                return engine.consumption.busy and engine.partitions.anything_to_take()
            left = deadline - self._loop.time()
            if left <= 0 and looked:
                return False
            own.wait(max(0.0, left))
            looked = True
            if own.straight.held is not None or engine.partitions.anything_to_take():
                return True
        return False

    def _made(self) -> CallerThreadFetcher | None:
        if (fetcher := self._engine.consumption.fetcher) is not None:
            self._own = CallerThreadFetcher(self._loop, fetcher, self._news)
        return self._own
