"""Recovery: what becomes of batches that failed, once nothing of their partition is under way.

What must not live here: when it is asked for, and what is sent instead (`_delivering`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from penstock.client._lateness import too_late
from penstock.client._queues import Flight, PartitionQueue
from penstock.columnar.few import FewRows, Rows
from penstock.config import ProducerConfig
from penstock.errors import ErrorKind, PenstockError, ServerError
from penstock.seams import Sender
from penstock.seams.batch_limits import BatchLimits

__all__ = ["Recovery", "Settle"]

Settle: TypeAlias = Callable[[Flight, int, int, PenstockError | None], None]
"""Tells a batch's rows: base offset and the log's timestamp in ms, -1 where there is none; and the error."""


class Recovery:
    """Of one producer; the failed batches are a queue's ``retries``. ``now`` is the loop's clock.

    ``dropping`` is what they fail with while their transaction is given up. ``limits`` are told of batches that were
    too large.
    """

    def __init__(
        self,
        sender: Sender,
        config: ProducerConfig,
        now: Callable[[], float],
        settle: Settle,
        limits: BatchLimits,
    ) -> None:
        self._sender = sender
        self._config = config
        self._now = now
        self._settle = settle
        self._limits = limits
        self.dropping: PenstockError | None = None

    async def decide(self, queue: PartitionQueue) -> None:
        """Decide about the oldest failed batch of a partition, now that none is under way.

        Only about that one: giving a batch up numbers those behind it anew, and one before it that is stored, but not
        acknowledged yet, would be stored a second time under its new number.
        """
        while queue.retries and (error := queue.retries[0].error) is not None:
            flight = queue.retries[0]
            assert flight.packed is not None
            if self.dropping is not None:
                await self.drop_failed(queue)
            elif flight.born + self._config.delivery_timeout_ms / 1_000 <= self._now():
                await self.give_up_late(queue)
            elif (packed := await self._sender.recover(flight.packed, error)) is not None:
                flight.packed, flight.error = packed, None
            elif _is_too_large(error) and flight.rows.num_rows > 1:
                await self._split(queue)
            else:
                queue.retries.popleft()
                if _is_too_large(error):
                    error.message += f": a record that takes {flight.packed.size:,} bytes as a batch of its own"
                self._settle(flight, -1, -1, error)

    async def give_up_late(self, queue: PartitionQueue) -> None:
        """The delivery time of the oldest failed batch is over.

        It may be stored, and so may those behind it of which nothing was heard: numbered anew they could be stored
        twice, so they are given up with it. What the log has refused is not stored, and goes on.
        """
        failed = list(queue.retries)
        queue.retries.clear()
        for place, flight in enumerate(failed):
            if place and isinstance(flight.error, ServerError):
                queue.retries.append(flight)
                continue
            assert flight.packed is not None
            await self._sender.abandon(flight.packed)
            error = too_late(queue.partition, self._config.delivery_timeout_ms, flight.reason)
            self._settle(flight, -1, -1, error)

    async def drop_failed(self, queue: PartitionQueue) -> None:
        """The transaction of the failed batches is given up, and they with it."""
        while queue.retries:
            flight = queue.retries.popleft()
            assert flight.packed is not None
            await self._sender.abandon(flight.packed)
            self._settle(flight, -1, -1, self.dropping or flight.reason)

    async def _split(self, queue: PartitionQueue) -> None:
        """Cut the oldest failed batch, and those behind it, into batches that the server is likely to take.

        Those behind it get numbers after its pieces.
        """
        first, *behind = queue.retries
        target = self._limits.refused(queue.partition.topic, _weight(first), self._now())
        for flight in behind:
            assert flight.packed is not None
            await self._sender.abandon(flight.packed)
        queue.retries.clear()
        for flight in (first, *behind):
            queue.retries.extend(_pieces(flight, target))
        for flight in queue.retries:
            flight.packed = self._sender.pack(queue.partition, flight.rows, self._config.compression)
            flight.error = None
        queue.retry_at = 0.0


def _pieces(flight: Flight, target: int) -> Iterator[Flight]:
    """The batch, halved until no piece of several records weighs more than ``target`` bytes."""
    if flight.rows.num_rows < 2 or _weight(flight) <= target:
        yield flight
        return
    for half in flight.halves():
        yield from _pieces(half, target)


def _weight(flight: Flight) -> int:
    """About how many bytes its rows have, as `PartitionQueue.take` counts: by the average of what was put in together.

    At least their own bytes. Else one long record among short ones would seem short, and its batches would be halved
    until the target is far below what the server takes.
    """
    average = sum(segment.run.size * segment.rows // segment.run.count for segment in flight.segments)
    return max(average, _payload(flight.rows))


def _payload(rows: Rows) -> int:
    if not isinstance(rows, FewRows):
        return int(rows.nbytes)
    return sum(len(each) for column in (rows.keys, rows.values) for each in column if each is not None)


def _is_too_large(error: PenstockError) -> bool:
    return isinstance(error, ServerError) and error.kind is ErrorKind.TOO_LARGE
