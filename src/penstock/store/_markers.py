"""Which ends of transactions a compaction may take away with what they ended.

Without its marker a transaction looks open, and what is kept of it becomes part of its producer's next one. So a marker
stays as long as any record of its transaction does, and then until nobody can be in the middle of reading it.
"""

from __future__ import annotations

from penstock.columnar.batch import HEADER_BYTES, BatchHeader
from penstock.columnar.transactions import ABORT, COMMIT, control_type

__all__ = ["Markers"]


class Markers:
    """To be told of all batches of a log from its start, in order. Those from before ``old_ms`` are old."""

    def __init__(self, old_ms: int) -> None:
        self._old_ms = old_ms
        self._kept: set[int] = set()
        self.dropped: set[int] = set()
        """Offsets of the markers that go."""

    def keeps(self, header: BatchHeader) -> None:
        """A batch of records stays, at least in part."""
        if header.transactional:
            self._kept.add(header.producer_id)

    def stays(self, raw: bytes, header: BatchHeader) -> bool:
        """Whether a control batch stays. What is no end of a transaction does."""
        if control_type(memoryview(raw)[HEADER_BYTES:]) not in (ABORT, COMMIT):
            return True
        if header.producer_id in self._kept:
            self._kept.discard(header.producer_id)
            return True
        if header.max_timestamp >= self._old_ms:
            return True
        self.dropped.add(header.base_offset)
        return False
