"""Readiness: when a partition's rows are to be sent, and when they are too old for it.

What must not live here: to whom, and what becomes of them.
"""

from __future__ import annotations

from typing import Final

from penstock.client._queues import PartitionQueue
from penstock.client.delivery import Run
from penstock.config import ProducerConfig
from penstock.model import Partition

__all__ = ["MOST_SECONDS", "Readiness"]

MOST_SECONDS: Final = 3_600.0
"""Later than anything that is waited for here."""


class Readiness:
    """Of one producer. ``urgent`` makes every row ready to go at once: while someone flushes, or waits for memory.

    ``known_there`` are the partitions whose log knows this producer's numbers. Times are the loop's.
    """

    def __init__(self, config: ProducerConfig, batch_bytes: int, *, numbered: bool) -> None:
        self._batch_bytes = batch_bytes
        self._linger_s = config.linger_ms / 1_000
        self._delivery_s = config.delivery_timeout_ms / 1_000
        self._numbered = numbered
        self.known_there: set[Partition] = set()
        self.urgent = False

    def due(self, queue: PartitionQueue, now: float) -> float:
        """When this queue wants to send next; never, while it must wait for an answer first."""
        if queue.retries or queue.recovering:
            return now + MOST_SECONDS if queue.in_flight or queue.recovering else queue.retry_at
        oldest = queue.oldest
        if oldest is None or (queue.in_flight and not self._may_follow(queue)):
            return now + MOST_SECONDS
        if self.urgent or queue.bytes >= self._batch_bytes:
            return now
        return oldest + self._linger_s

    def has_come(self, run: Run, now: float) -> bool:
        """Whether rows before which there are none have waited long enough, and not too long."""
        return run.born + self._linger_s <= now < run.born + self._delivery_s

    def expiry(self, queue: PartitionQueue, now: float) -> float:
        """When the next of what waits is too old; what is under way is looked at when its answer comes."""
        born = [queue.retries[0].born] if queue.retries and queue.at_rest else []
        born += [] if queue.oldest is None else [queue.oldest]
        return min(born) + self._delivery_s if born else now + MOST_SECONDS

    def _may_follow(self, queue: PartitionQueue) -> bool:
        """Whether a batch may be sent behind one that is not answered yet.

        Only if the log would refuse it, should it overtake the other: because batches are numbered, and because the log
        knows this producer's numbers. It does not before it has stored a first batch. (Overtaking happens: two requests
        wait for a connection, it opens, and a third one finds it open before the two have been woken.)

        And not behind one that is sent again: it may be stored, and the log knows it again only as one of a producer's
        last five, of which four may have followed it the first time.
        """
        if not self._numbered or queue.partition not in self.known_there:
            return False
        return not any(flight.failures for flight in queue.in_flight)
