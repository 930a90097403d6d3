"""Ids for idempotent producers, each given out once, ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Protocol, runtime_checkable

__all__ = ["GivesProducerIds", "ProducerIds"]


@runtime_checkable
class GivesProducerIds(Protocol):
    """What Kafka's enode adds to its relay: ids of the cluster behind, whose other producers have some, too."""

    async def producer_id(self) -> int:
        """An id that nobody has. Raises UpstreamLost."""
        ...


class ProducerIds:
    """The node's epoch in the high half and a counter in the low half of an i64.

    Kafka keeps blocks of ids in its metadata log; here the epoch, which is durable and grows with each start, does the
    same with nothing to write. An epoch's four billion ids last longer than any process. Where a Kafka cluster is
    behind, it is ``asked``: its log tells producers apart by their ids, and gives them out itself.
    """

    def __init__(self, epoch: int, asked: Callable[[], Awaitable[int]] | None = None) -> None:
        self._next = count(epoch << 32)
        self._asked = asked

    def new(self) -> int:
        """An id that nobody has, for a transactional producer of this node's own."""
        return next(self._next)

    async def idempotent(self) -> int:
        """An id that nobody has. Raises UpstreamLost."""
        return next(self._next) if self._asked is None else await self._asked()
