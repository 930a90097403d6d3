"""Which transaction markers are all that is left of their transactions, so that a compaction may drop them in time.

Without its marker a transaction looks open, and its remaining records would join its producer's next one. So a marker
stays while any record of its transaction does, and then until no reader can still be inside the transaction.
"""

from __future__ import annotations

from penstock.columnar.batch import HEADER_BYTES, BatchHeader
from penstock.columnar.transactions import ABORT, COMMIT, control_type

__all__ = ["Markers"]


class Markers:
    """Must see all batches of a log from its start, in order."""

    def __init__(self) -> None:
        self._kept: set[int] = set()
        self.dropped: set[int] = set()
        """Offsets of the markers that are dropped; the owner adds them."""

    def keeps(self, header: BatchHeader) -> None:
        """A batch of records stays, wholly or in part."""
        if header.transactional:
            self._kept.add(header.producer_id)

    def is_last(self, raw: bytes, header: BatchHeader) -> bool:
        """Whether a control batch is all that is left of its transaction; never for one that does not end any."""
        if control_type(memoryview(raw)[HEADER_BYTES:]) not in (ABORT, COMMIT):
            return False
        if header.producer_id in self._kept:
            self._kept.discard(header.producer_id)
            return False
        return True
