"""SendsBack: what a LogClient can do whose log takes records back that a group could not deal with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from penstock.model import Partition

__all__ = ["SendsBack"]


@runtime_checkable
class SendsBack(Protocol):
    """A log that delivers such records again, later, to the same group."""

    async def send_back(self, group: str, offsets: Mapping[Partition, Sequence[int]], *, delay: int) -> None:
        """``delay`` is one of the log's own levels: 0 leaves it to the log, less than 0 gives the records up.

        Raises UsageError for another level, OffsetOutOfRange, ServerError; what came before it was taken back then.
        """
        ...
