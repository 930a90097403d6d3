"""Transactions in a log: their markers, and READ_COMMITTED: which batches of a fetched run were aborted.

Kafka protocol, Fetch v4 and later; KIP-98. The broker names the aborted transactions that reach into the answer
(producer id and first offset); where each of them ends is said by an ABORT marker in the log itself. A marker is a
control batch of one record: its key says version and type, its value version and the coordinator's epoch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from penstock.columnar.batch import BATCH_HEADER, CONTROL, CRC_START, HEADER_BYTES, TRANSACTIONAL
from penstock.columnar.buffers import BytesLike, as_view, crc32c
from penstock.errors import CorruptBatch

__all__ = ["ABORT", "COMMIT", "AbortedTransactions", "control_type", "end_marker"]

ABORT: Final = 0
COMMIT: Final = 1

_KEY: Final = struct.Struct(">hh")
_KEY_BYTES: Final = _KEY.size
_RECORD: Final = struct.Struct(">bbbbbhhbhib")
"""The only record of a marker: every length in it is known, and fits into a varint of one byte."""


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


def end_marker(producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int, now_ms: int) -> bytes:
    """The control batch that ends a transaction, as a log stores it (base offset and leader epoch not stamped yet)."""
    record = _RECORD.pack(
        (_RECORD.size - 1) << 1,
        0,
        0,
        0,
        _KEY_BYTES << 1,
        0,
        COMMIT if commit else ABORT,
        6 << 1,
        0,
        coordinator_epoch,
        0,
    )
    size = HEADER_BYTES + len(record)
    batch = bytearray(size)
    attributes = TRANSACTIONAL | CONTROL
    BATCH_HEADER.pack_into(batch, 0, 0, size - 12, -1, 2, 0, attributes, 0, now_ms, now_ms, producer_id, epoch, -1, 1)
    batch[HEADER_BYTES:] = record
    struct.pack_into(">I", batch, 17, crc32c(batch, CRC_START))
    return bytes(batch)


def control_type(records: BytesLike) -> int:
    """Return the type of a control batch's only record: `ABORT`, `COMMIT`, or one that readers pass over.

    Raises CorruptBatch if there is no key of the expected form.
    """
    # length, attributes, timestamp delta, offset delta, then the key: version and type, 2 bytes each. The offset
    # delta of the only record is 0; length and timestamp delta are varints of any size.
    view = as_view(records)
    at = _after_varint(view, 0) + 1
    at = _after_varint(view, _after_varint(view, at))
    if len(view) < at + 1 + _KEY.size or view[at] != _KEY_BYTES << 1:
        raise CorruptBatch("control record without a key of version and type")
    return int(_KEY.unpack_from(view, at + 1)[1])


def _after_varint(records: memoryview, at: int) -> int:
    while at < len(records) and records[at] > 127:
        at += 1
    return at + 1
