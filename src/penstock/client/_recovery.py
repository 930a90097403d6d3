"""Recovery: what becomes of batches that failed, once nothing of their partition is under way.

What must not live here: when it is asked for, and what is sent instead (`_delivering`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from penstock.client._lateness import too_late
from penstock.client._queues import Flight, PartitionQueue
from penstock.config import ProducerConfig
from penstock.errors import ErrorKind, PenstockError, ServerError
from penstock.seams import Sender

__all__ = ["Recovery", "Settle"]

Settle: TypeAlias = Callable[[Flight, int, int, PenstockError | None], None]
"""Tells a batch's rows: base offset and the log's timestamp in ms, -1 where there is none; and the error."""


class Recovery:
    """Of one producer; the failed batches are a queue's ``retries``. ``now`` is the loop's clock.

    ``dropping`` is what they fail with while their transaction is given up.
    """

    def __init__(self, sender: Sender, config: ProducerConfig, now: Callable[[], float], settle: Settle) -> None:
        self._sender = sender
        self._config = config
        self._now = now
        self._settle = settle
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
        """Put two halves in the place of the oldest failed batch; those behind it get numbers after theirs."""
        first, *behind = queue.retries
        for flight in behind:
            assert flight.packed is not None
            await self._sender.abandon(flight.packed)
        queue.retries.clear()
        queue.retries.extend([*first.halves(), *behind])
        for flight in queue.retries:
            flight.packed = self._sender.pack(queue.partition, flight.rows, self._config.compression)
            flight.error = None
        queue.retry_at = 0.0


def _is_too_large(error: PenstockError) -> bool:
    return isinstance(error, ServerError) and error.kind is ErrorKind.TOO_LARGE
