"""READ_COMMITTED: which batches of a fetched run belong to aborted transactions.

Kafka protocol, Fetch v4 and later; KIP-98. The broker names the aborted transactions that reach into the answer
(producer id and first offset); where each of them ends is said by an ABORT marker in the log itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from penstock.columnar.buffers import Bytes
from penstock.errors import CorruptBatch

__all__ = ["ABORT", "COMMIT", "AbortedTransactions", "control_type"]

ABORT: Final = 0
COMMIT: Final = 1

_KEY: Final = struct.Struct(">hh")
_KEY_BYTES: Final = _KEY.size


class AbortedTransactions:
    """Follows a run of batches in the order of their offsets; one object a run, since it remembers."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._open: set[int] = set()

    def skips(self, producer_id: int, last_offset: int, *, transactional: bool) -> bool:
        """Say whether the data batch that ends at ``last_offset`` was aborted; call it for every batch."""
        while self._ahead and self._ahead[-1][0] <= last_offset:
            self._open.add(self._ahead.pop()[1])
        return transactional and producer_id in self._open

    def end(self, producer_id: int) -> None:
        """Note an ABORT marker of ``producer_id``."""
        self._open.discard(producer_id)


def control_type(records: Bytes) -> int:
    """Return the type of a control batch's only record: `ABORT`, `COMMIT`, or one that readers pass over.

    Raises CorruptBatch if there is no key of the expected form.
    """
    # length, attributes, timestamp delta, offset delta, then the key: version and type, 2 bytes each. The offset
    # delta of the only record is 0; length and timestamp delta are varints of any size.
    at = _after_varint(records, 0) + 1
    at = _after_varint(records, _after_varint(records, at))
    if len(records) < at + 1 + _KEY.size or records[at] != _KEY_BYTES << 1:
        raise CorruptBatch("control record without a key of version and type")
    return int(_KEY.unpack_from(records.data, at + 1)[1])


def _after_varint(records: Bytes, at: int) -> int:
    while at < len(records) and records[at] > 127:
        at += 1
    return at + 1
