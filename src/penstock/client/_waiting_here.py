"""Waiting here: a poll of a synchronous consumer that waits in its own thread, where the loop has nothing to do for it.

What comes is received by the loop, which rings; or, once a few polls have waited, by this thread itself
(`_own_reading`). What must not live here: what has to be done on the loop (`_consumer_engine.ready`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.client._news import News
from penstock.client._own_reading import OwnReading
from penstock.client._waiting import ended
from penstock.columnar import Messages

if TYPE_CHECKING:
    from penstock.client._consumer_engine import ConsumerEngine

__all__ = ["WaitingHere"]

_MOMENT_S: Final = 0.01
"""The loop has reads in hand that were lent: for a few steps."""


class WaitingHere:
    """Of one engine. Made on the loop; waited in one thread at a time."""

    def __init__(self, engine: ConsumerEngine, loop: asyncio.AbstractEventLoop, news: News) -> None:
        self._engine = engine
        self._loop = loop
        self._news = news
        self._own: OwnReading | None = None

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

    def _waited(self, own: OwnReading | None, deadline: float) -> bool | None:
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

    def _rung(self, own: OwnReading | None, deadline: float) -> bool | None:
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

    def _received(self, own: OwnReading, deadline: float) -> bool:
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

    def _made(self) -> OwnReading | None:
        if (fetcher := self._engine.consumption.fetcher) is not None:
            self._own = OwnReading(self._loop, fetcher, self._news)
        return self._own
