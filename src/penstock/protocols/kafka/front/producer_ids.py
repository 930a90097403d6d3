"""Ids for idempotent producers, each given out once, ever."""

from __future__ import annotations

from itertools import count

__all__ = ["ProducerIds"]


class ProducerIds:
    """The node's epoch in the high half and a counter in the low half of an i64.

    Kafka keeps blocks of ids in its metadata log; here the epoch, which is durable and grows with each start, does the
    same with nothing to write. An epoch's four billion ids last longer than any process.
    """

    def __init__(self, epoch: int) -> None:
        self._next = count(epoch << 32)

    def new(self) -> int:
        """An id that nobody has."""
        return next(self._next)
