"""Which transaction markers a compaction may drop.

Without its marker a transaction looks open, and its remaining records would join its producer's next one. So a marker
stays while any record of its transaction does, and then until no reader can still be inside the transaction.
"""

from __future__ import annotations

from penstock.columnar.batch import HEADER_BYTES, BatchHeader
from penstock.columnar.transactions import ABORT, COMMIT, control_type

__all__ = ["Markers"]


class Markers:
    """Must see all batches of a log from its start, in order. Only markers from before ``old_ms`` may go."""

    def __init__(self, old_ms: int) -> None:
        self._old_ms = old_ms
        self._kept: set[int] = set()
        self.dropped: set[int] = set()
        """Offsets of the markers that are dropped."""

    def keeps(self, header: BatchHeader) -> None:
        """A batch of records stays, wholly or in part."""
        if header.transactional:
            self._kept.add(header.producer_id)

    def stays(self, raw: bytes, header: BatchHeader) -> bool:
        """Whether a control batch stays; one that does not end a transaction always does."""
        if control_type(memoryview(raw)[HEADER_BYTES:]) not in (ABORT, COMMIT):
            return True
        if header.producer_id in self._kept:
            self._kept.discard(header.producer_id)
            return True
        if header.max_timestamp >= self._old_ms:
            return True
        self.dropped.add(header.base_offset)
        return False
