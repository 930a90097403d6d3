"""Shares: which partitions are one member's own where nobody shares out for the members, and how it gets them.

Its share of all (`Allocated`), or what the application chose (`Chosen`), one by one. What must not live here: talking
to the master, and giving back (`client_balanced`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, Protocol, TypeAlias

from penstock.errors import PenstockError, ServerError
from penstock.model import Node, Offset, Partition
from penstock.protocols.tubemq.client.allocation import share_of
from penstock.protocols.tubemq.client.enrolment import Enrolment
from penstock.protocols.tubemq.client.holdings import GIVEN_UP_AT_ONCE

__all__ = ["Allocated", "Chosen", "NodeOf", "Share"]

NodeOf: TypeAlias = Callable[[Partition], Awaitable[Node]]
"""A partition's broker. Raises ServerError if there is no such partition (404), or it may not be read (422)."""

_TRIES: Final = 2
_GUARD_S: Final = 5.0
"""So long a partition that somebody else holds (410), or that we may not have (415), is not asked for again."""


class Share(Protocol):
    """What one enrolled member is to have."""

    def of(self, readable: Iterable[Partition]) -> frozenset[Partition]:
        """Those of the partitions which may be read now that this member may hold."""
        ...

    def want(self, mine: Iterable[Partition], now: float) -> None:
        """Ask for those that nobody has asked for yet. ``now``: the channel's clock, in seconds."""
        ...

    def gained(self, partitions: Collection[Partition]) -> None:
        """Brokers have given these, without ``book``: tell the engine if it has not asked for them itself."""
        ...

    def revoked(self, partition: Partition) -> None:
        """This one may not be held any more: tell the engine, if it can do something about it."""
        ...

    async def book(self, partition: Partition, at: int | Offset | None) -> int:
        """As ``Balancing.book``."""
        ...


class Allocated:
    """A share of all partitions, as the numbers of members say."""

    def __init__(self, enrolment: Enrolment, node_of: NodeOf) -> None:
        del node_of
        self._enrolment = enrolment
        self._tube = enrolment.shared.options.tube
        self._again_at: dict[Partition, float] = {}
        self.book = enrolment.book

    def of(self, readable: Iterable[Partition]) -> frozenset[Partition]:
        """Every ``source_count``-th."""
        return share_of(readable, self._tube.source_count, self._tube.node_id)

    def want(self, mine: Iterable[Partition], now: float) -> None:
        """All that are led, each once in 5 s: somebody else may still have it."""
        for partition in mine:
            node = self._enrolment.shared.placements.leader(partition)
            free = self._enrolment.holdings.get(partition) is None and self._again_at.get(partition, 0.0) <= now
            if node is not None and free:
                self._again_at[partition] = now + _GUARD_S
                self._enrolment.holdings.want(partition, node)

    def gained(self, partitions: Collection[Partition]) -> None:
        """The engine begins to read them."""
        self._enrolment.gained |= set(partitions)

    def revoked(self, partition: Partition) -> None:
        """The engine gives it back when it is through with it."""
        if partition in self._enrolment.told:
            self._enrolment.revoked.add(partition)


class Chosen:
    """What the application chose."""

    def __init__(self, enrolment: Enrolment, node_of: NodeOf) -> None:
        self._enrolment = enrolment
        self._channel = enrolment.shared.channel
        self._tube = enrolment.shared.options.tube
        self._node_of = node_of
        self._again_at: dict[Partition, float] = {}

    def of(self, readable: Iterable[Partition]) -> frozenset[Partition]:
        """Anything."""
        return frozenset(readable)

    def want(self, mine: Iterable[Partition], now: float) -> None:
        """Nothing by itself."""

    def gained(self, partitions: Collection[Partition]) -> None:
        """The engine has what it booked."""

    def revoked(self, partition: Partition) -> None:
        """What cannot be read any more is lost in the end: nobody else waits for it."""

    async def book(self, partition: Partition, at: int | Offset | None) -> int:
        """Take a partition; at ``at``, if that is said. Raises ServerError: 404, 422, 410, 415.

        One that was refused because somebody else has it is not asked for again within 5 s: the call waits so long.
        """
        holding = self._enrolment.holdings.get(partition)
        if holding is not None and holding.held and at is None:
            return holding.offset
        await self._channel.sleep(max(0.0, self._again_at.get(partition, 0.0) - self._channel.monotonic()))
        node = await self._node_of(partition)
        for attempt in range(1, _TRIES + 1):
            holding = self._enrolment.holdings.want(partition, node)
            try:
                offset = await self._enrolment.holdings.register(holding, at, rounds=_TRIES)
            except PenstockError as error:
                if isinstance(error, ServerError) and error.code in GIVEN_UP_AT_ONCE:
                    self._again_at[partition] = self._channel.monotonic() + _GUARD_S
                    error.retriable = False  # the application is to hear of it, though it will be tried again
                    raise
                if attempt == _TRIES:
                    raise
                await self._channel.sleep(self._tube.register_backoff_ms / 1_000)
            else:
                self._enrolment.told.add(partition)
                return offset
        raise AssertionError("the last attempt raises")
