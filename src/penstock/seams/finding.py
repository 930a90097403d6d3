"""FindsRecords: what a LogClient can do whose servers find single records by what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from penstock.model import Record

__all__ = ["FindsRecords"]


@runtime_checkable
class FindsRecords(Protocol):
    """A log that has an index of keys, or ids of records."""

    async def find_by_key(self, topic: str, key: str, times_ms: tuple[int, int], most: int) -> Sequence[Record]:
        """At most so many with this key, of a time between these two (ms since 1970 UTC, both included), oldest first.

        Raises ServerError.
        """
        ...

    async def find_by_id(self, topic: str, record_id: str) -> Sequence[Record]:
        """Those with this id, oldest first: several where a producer has sent one again. Raises ServerError."""
        ...
