"""Readers: private readers that are kept for the next use, so that reading on in a partition costs one request less.

What is kept is bounded; the oldest is given back to its broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.model import Partition
from penstock.protocols.tubemq.client.private_reader import PrivateReader

if TYPE_CHECKING:
    from penstock.protocols.tubemq.client.shared import Shared

__all__ = ["Readers"]

_MOST_KEPT: Final = 256


class Readers:
    """Private readers of one client."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._kept: list[PrivateReader] = []

    def borrow(self, partition: Partition) -> PrivateReader:
        """A reader of ``partition`` that nobody else uses; give it back, or close it."""
        for reader in self._kept:
            if reader.partition == partition:
                self._kept.remove(reader)
                return reader
        return PrivateReader(self._shared, partition, filters=self._shared.options.filters_of(partition.topic))

    def give_back(self, reader: PrivateReader) -> None:
        """It is not used any more; without anything asked for ahead."""
        reader.abandon()
        self._kept.append(reader)

    async def trim(self) -> None:
        """Close those that are kept beyond the bound."""
        while len(self._kept) > _MOST_KEPT:
            await self._kept.pop(0).close()

    async def close(self) -> None:
        """Close all that are kept."""
        kept, self._kept = self._kept, []
        for reader in kept:
            await reader.close()
