"""OffsetsCodec: how committed offsets and groups become records of an internal topic. One protocol lends its format.

The node's offsets service keeps the topic; fronts of all protocols share what is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.model import Committed, Partition
from penstock.seams.framing import Buffer

Entry = tuple[bytes, bytes | None]
"""Key and value of a record; None takes away what the key stands for."""


class Replayed(Protocol):
    """One record read back: an offset of ``partition``, or, where that is None, the group's own record."""

    @property
    def group(self) -> str: ...
    @property
    def partition(self) -> Partition | None: ...
    @property
    def committed(self) -> Committed | None: ...
    @property
    def record(self) -> bytes | None: ...
    @property
    def position(self) -> int:
        """Its offset in the topic's partition."""
        ...

    @property
    def producer_id(self) -> int:
        """Whose open transaction it belongs to; -1 for none."""
        ...


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a producer's transaction in the topic's partition."""

    producer_id: int
    commit: bool


class OffsetsCodec(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def config(self) -> Mapping[str, str]: ...
    def partition_of(self, group: str, partitions: int) -> int: ...
    def offset_entry(self, group: str, partition: Partition, committed: Committed | None) -> Entry: ...
    def group_entry(self, group: str, record: bytes | None) -> Entry: ...
    def batch(self, entries: Sequence[Entry], now_ms: int, producer_id: int = -1, epoch: int = -1) -> bytes:
        """One record batch v2; with a producer id, one of its transaction."""
        ...

    def replay(self, data: Buffer) -> Iterator[Replayed | Ended]:
        """What whole batches say, in order. Raises CorruptBatch, ProtocolViolation."""
        ...
