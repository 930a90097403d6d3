"""Reading a batch of messages for one reader: from where, how many, and where the next one begins.

A batch never goes over a hole in the log (compaction leaves some): so message i of an unfiltered batch has the batch's
offset plus i. What must not live here: whose turn it is, committing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.model import Partition
from penstock.protocols.tubemq.front.broker.batches import Stored, stored_records
from penstock.protocols.tubemq.front.broker.messages import key_code_of, message_of
from penstock.protocols.tubemq.messages.broker import TransferedMessage
from penstock.seams.node import Enode

__all__ = ["Batch", "read_batch"]

_RECORD_BYTES: Final = 52
"""What a message takes in a broker's own files beside its payload; lags are told in such bytes."""

_SCANS: Final = 8
"""So many pieces of the log are looked through at most, also where a filter matches nothing in them."""


@dataclass(slots=True)
class Batch:
    """``start``: the first record looked at, ``end``: where the next batch begins; in records. ``size`` in bytes, as a
    broker's files count, of what was looked at.
    """

    start: int
    end: int
    messages: list[TransferedMessage]
    size: int = 0

    def lag(self, log_end: int) -> int:
        """About how many bytes are left behind the batch."""
        seen = self.end - self.start
        return (log_end - self.end) * self.size // seen if seen else 0


def read_batch(
    enode: Enode, partition: Partition, start: int, filters: frozenset[int], *, most_bytes: int, most_records: int
) -> Batch:
    """Read from ``start``, which lies in the log, up to about ``most_bytes`` of messages that ``filters`` let through.

    The message that crosses the limit is still in. Raises StoreError, CorruptBatch.
    """
    batch = Batch(start, start, [])
    _, log_end = enode.bounds(partition)
    taken = 0
    for _ in range(_SCANS):
        found = enode.read(partition, batch.end, most_bytes)
        for record in stored_records(found.data, batch.end):
            if record.offset != batch.end and not _move_to(batch, record.offset):
                return batch
            taken += _add(batch, record, filters)
            if taken >= most_bytes or batch.end - batch.start >= most_records:
                return batch
        if batch.end == batch.start and found.next_offset > batch.end:
            batch.start = batch.end = found.next_offset  # nothing but a hole
        if batch.end >= log_end:
            break
    return batch


def _move_to(batch: Batch, offset: int) -> bool:
    """Go over a hole, where nothing was read before it."""
    if batch.end > batch.start:
        return False
    batch.start = batch.end = offset
    return True


def _add(batch: Batch, record: Stored, filters: frozenset[int]) -> int:
    """Count a record in, and take it along if it is wanted; returns the bytes taken."""
    batch.end = record.offset + 1
    if filters and key_code_of(record) not in filters:
        batch.size += _RECORD_BYTES + len(record.value or b"")
        return 0
    message = message_of(record)
    size = _RECORD_BYTES + len(message.pay_load_data)
    batch.messages.append(message)
    batch.size += size
    return size
