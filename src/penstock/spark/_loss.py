"""Reports records that were lost before they were read: as an error with their number, or as a warning."""

from __future__ import annotations

import logging
from typing import Final

from penstock.errors import RemoteError
from penstock.model import Partition

__all__ = ["DataLoss", "Losses", "loss"]

_log = logging.getLogger("penstock.spark")


class DataLoss(RemoteError):
    """The log no longer has records that the query has not read yet."""


class Losses:
    """Handles the losses of one run of a query: raises DataLoss, or warns once per loss and counts."""

    def __init__(self, *, fail: bool) -> None:
        self._fail = fail
        self._said: set[tuple[Partition, int, str]] = set()
        self.offsets = 0
        """Offsets skipped so far. It is too small if a whole partition is gone, whose records cannot be counted."""

    def report(self, partition: Partition, offset: int, lost: int, what: str) -> None:
        """``lost`` offsets from ``offset`` on are gone; ``what`` is the reason. Raises DataLoss."""
        self._tell(partition, offset, lost, what, _LOST)

    def leave(self, partition: Partition, offset: int, left: int, what: str) -> None:
        """The same for offsets that exist but will not be read. Raises DataLoss."""
        self._tell(partition, offset, left, what, _LEFT)

    def _tell(self, partition: Partition, offset: int, lost: int, what: str, fate: str) -> None:
        if self._fail:
            raise loss(partition, offset, what, fate)
        if (partition, offset, what) not in self._said:
            self._said.add((partition, offset, what))
            self.offsets += lost
            _log.warning("continuing without records of %s from offset %d on: %s", partition, offset, what)


_LOST: Final = "are lost"
_LEFT: Final = "are left behind"


def loss(partition: Partition, offset: int, what: str, fate: str = _LOST) -> DataLoss:
    """The error for records that are gone, or will not be read."""
    return DataLoss(
        f"unread records {fate}: {what}",
        topic=partition.topic,
        partition=partition.id,
        offset=offset,
        node=partition.node or None,
        hint='Start with a new checkpoint, or set failOnDataLoss to "warn" to go on without them',
    )
