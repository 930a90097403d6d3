"""Chunks: records that were read lately, so that readers who come one behind the other cost the cluster one read."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from penstock._dataclasses import dataclass
from penstock.model import Partition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Chunk", "Chunks"]

_MOST_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records ``[first, last]`` in a row, and no other below ``until``, where reading goes on."""

    first: int
    until: int
    rows: pa.RecordBatch
    size: int

    @property
    def last(self) -> int:
        rows: int = self.rows.num_rows
        return self.first + rows - 1


class Chunks:
    """Of all partitions, ``most_bytes`` in all; the oldest go."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[tuple[Partition, int], Chunk] = OrderedDict()
        self._of: dict[Partition, dict[int, Chunk]] = {}

    def add(self, partition: Partition, chunk: Chunk) -> None:
        """Keep it in place of what began there."""
        self._drop(partition, chunk.first)
        self._kept[partition, chunk.first] = chunk
        self._of.setdefault(partition, {})[chunk.first] = chunk
        self._bytes += chunk.size
        while self._bytes > self._most and len(self._kept) > 1:
            self._drop(*next(iter(self._kept)))

    def find(self, partition: Partition, offset: int) -> Chunk | None:
        """The one that covers ``offset``, with records from there on or without."""
        for chunk in self._of.get(partition, {}).values():
            if chunk.first <= offset < chunk.until:
                return chunk
        return None

    def forget(self, partition: Partition) -> None:
        """What is known of its records may be wrong."""
        for first in list(self._of.get(partition, ())):
            self._drop(partition, first)

    def _drop(self, partition: Partition, first: int) -> None:
        chunk = self._kept.pop((partition, first), None)
        if chunk is not None:
            self._bytes -= chunk.size
            of = self._of[partition]
            del of[first]
            if not of:
                del self._of[partition]
