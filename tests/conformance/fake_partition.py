"""A partition of a log in memory: batches as they were encoded, and what a read of it brings."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.errors import PenstockError, ServerError
from penstock.model import Partition
from penstock.records import Messages, decode_v2
from penstock.records.batch import batches, parse_header, stamp

__all__ = ["FakeFetched", "PartitionLog"]


@dataclass(slots=True)
class PartitionLog:
    """Encoded batches in order; ``start`` is the first offset that is still there."""

    batches: list[bytearray] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    start: int = 0
    end: int = 0
    sequences: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))

    def append(self, data: bytes | memoryview) -> int:
        batch = bytearray(data)
        header = parse_header(batch)
        known = self.sequences[header.producer_id]
        if header.producer_id >= 0:
            if header.base_sequence in known:
                return known[header.base_sequence]
            # As Kafka's brokers do: of a producer that is not known, any number is taken for its first.
            expected = max((first + 1 for first in known), default=header.base_sequence)
            if header.base_sequence != expected:
                raise ServerError(f"sequence {header.base_sequence}, not {expected}", code=45, name="OUT_OF_ORDER")
            known[header.base_sequence] = self.end
            known.pop(header.base_sequence - 5, None)  # a producer's last five are known again, as on Kafka's brokers
        stamp(batch, self.end, 0)
        self.batches.append(batch)
        base, self.end = self.end, self.end + header.last_offset_delta + 1
        self.ends.append(self.end)
        return base

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches, at least one, from the one on that holds ``offset``."""
        found: list[bytearray] = []
        for batch in self.batches[bisect_right(self.ends, offset) :]:
            max_bytes -= len(batch)
            if found and max_bytes < 0:
                break
            found.append(batch)
        return b"".join(found)


@dataclass(slots=True)
class FakeFetched:
    """Bytes of one partition."""

    partition: Partition
    offset: int
    high_watermark: int
    log_start_offset: int
    data: bytes = b""
    error: PenstockError | None = None

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def next_offset(self) -> int:
        return max((header.next_offset for header in batches(self.data)), default=self.offset)

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]:
        found = decode_v2(self.data, start=self.offset, stop=stop, columns=columns)
        return Messages.of(self.partition, found.batch, found.next_offset), found.next_offset
