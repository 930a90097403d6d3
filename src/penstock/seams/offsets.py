"""OffsetsCodec: how committed offsets and groups become entries of a journal. One protocol lends its format.

The node's offsets service keeps the journal; fronts of all protocols share what is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple, Protocol

from penstock._dataclasses import dataclass
from penstock.columnar.entries import Entry
from penstock.model import Committed, Partition

__all__ = ["CommittedUntil", "OffsetsCodec", "Replayed"]


@dataclass(frozen=True, slots=True)
class CommittedUntil(Committed):
    """An offset whose commit said how long it is to be kept: until ``expires_ms``, in ms since 1970 UTC, whatever holds
    for others; and as long as its group lets none of its kind go."""

    expires_ms: int = field(kw_only=True)


class Replayed(NamedTuple):
    """What an entry says: an offset of ``partition`` (None: taken away), or without a partition, a group's record."""

    group: str
    partition: Partition | None
    committed: Committed | None
    record: bytes | None


class OffsetsCodec(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def config(self) -> Mapping[str, str]: ...
    def partition_of(self, group: str, partitions: int) -> int: ...
    def offset_entry(self, group: str, partition: Partition, committed: Committed | None) -> Entry: ...
    def group_entry(self, group: str, record: bytes | None) -> Entry: ...
    def read(self, key: bytes, value: bytes | None) -> Replayed | None:
        """What an entry says; None for one of a kind that is not known. Raises ProtocolViolation."""
        ...
