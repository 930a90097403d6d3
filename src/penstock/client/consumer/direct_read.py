"""Own reading: a synchronous consumer that waits for records receives them itself, in the thread that polls.

The loop's thread would wake for each answer, write the next request and wake the one that polls: where a record comes
now and then, that is a third of what it costs. So once a few polls have waited for little, reads that are under way are
lent to the thread (`interfaces.client.LentRead`); whatever is unusual, or more than a little, goes back to the loop,
and reading goes on there as ever. Between polls nobody receives: what the loop does for a poll it can do only once all
are back.
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
"""Polls that have waited for a little, more than have not."""

_END_AFTER: Final = -8
"""Polls that have not, more than have: the loop may fetch ahead for them."""

_NOT_AGAIN_FOR: Final = 64
"""Polls that wait, at most, until it is tried again where it could not be."""


class WakeupPipe:
    """Wakes a thread that waits for descriptors. Rung from any thread, and by a signal's handler."""

    def __init__(self) -> None:
        self._heard, self._rope = socket.socketpair()
        self._heard.setblocking(False)
        self._rope.setblocking(False)
        self.fileno = self._heard.fileno()

    def put(self, what: None) -> None:
        """Ring; as a queue's."""
        del what
        with contextlib.suppress(OSError):  # it rings already, or nobody waits any more
            self._rope.send(b"\0")

    def quiet(self) -> None:
        """It has been heard."""
        with contextlib.suppress(OSError):
            self._heard.recv(4_096)

    def close(self) -> None:
        """Nobody waits any more."""
        self._heard.close()
        self._rope.close()


class CallerThreadFetcher:
    """One consumer's. Made where ``wait`` is called, in the thread that polls; one thread at a time does."""

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
        """Whether reads are, as far as is known. May be asked at any time."""
        return bool(self._reads)

    # In the thread that polls.

    def enter(self) -> bool:
        """Whether reads are lent; then they are this thread's until it leaves."""
        if self._inside:  # a handler may raise anywhere, also before one has left
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
        """Block until something has come or the bell rings, for ``seconds`` or a moment at most, and take it in."""
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
        """The loop goes on with all of them."""
        for _, read in self._reads.values():
            read.give_back()
        self._forget_what_is_over()

    def waited(self, size: int) -> None:
        """A poll has waited for what the loop received, so many bytes; have reads lent if it goes on with a few."""
        if size > LITTLE_BYTES:
            self._score = min(self._score, 0)
            return
        self._score += 1
        if self._score >= _BEGIN_AFTER:
            self._score = 0
            self._loop.call_soon_threadsafe(self._lend)

    def did_not_wait(self) -> None:
        """A poll has found something at once."""
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
        """Hang it, the first time; False where there is no room for it."""
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
        """Nobody reads any more: after the connections have ended. On the loop, or where the thread leaves after it."""
        self._closed = True
        if self._hold.take(LOOP):
            self._forget_what_is_over()
            if self.bell is not None:
                self.bell.close()
            self._hold.leave(LOOP)


# Waiting here: a poll of a synchronous consumer that waits in its own thread, where the loop has nothing to do for it.
#
# What comes is received by the loop, which rings; or, once a few polls have waited, by this thread itself
# (`_own_reading`).
_MOMENT_S: Final = 0.01
"""The loop has reads in hand that were lent: for a few steps."""


class CallerThreadPoll:
    """Of one engine. Made on the loop; waited in one thread at a time."""

    def __init__(self, engine: ConsumerEngine, loop: asyncio.AbstractEventLoop, news: Notifier) -> None:
        self._engine = engine
        self._loop = loop
        self._news = news
        self._own: CallerThreadFetcher | None = None

    def wait(self, deadline: float) -> bool:
        """True when something may have come, False when the loop has to be asked, which also says why nothing has come
        by ``deadline`` (loop time)."""
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
        """What the last wait has received for this poll alone; None where that was put to what was fetched."""
        own = self._own
        return None if own is None else own.straight.take(self._engine.partitions)

    def did_not_wait(self) -> None:
        """A poll has found something at once."""
        if self._own is not None:
            self._own.did_not_wait()

    def close(self) -> None:
        """On the loop, once there are no connections any more."""
        if self._own is not None:
            self._own.close()

    def _waited(self, own: CallerThreadFetcher | None, deadline: float) -> bool | None:
        """As ``wait``; None where reads were lent meanwhile."""
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
                own.give_back()  # what the loop is asked for now, it could not do without
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
                return True  # what else has come meanwhile is the next poll's
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
