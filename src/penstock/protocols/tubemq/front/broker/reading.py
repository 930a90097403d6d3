"""Reading a batch of messages for one reader: from where, how many, and where the next one begins.

A batch never goes over a hole in the log (compaction leaves some, and so do transactions that were aborted): so message
i of an unfiltered batch has the batch's offset plus i. It ends before a transaction that is still open. Pieces of the
log with many records go through Arrow (`columns`), a few records, and those that a filter is to look at, through plain
Python. What must not live here: whose turn it is, committing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Final, NamedTuple

from penstock._dataclasses import dataclass
from penstock.concurrency.background import Beside
from penstock.interfaces.enode import Budget, Enode, Fetched, FetchPart, fetch_one
from penstock.interfaces.framing import Buffer
from penstock.model import Codec, Partition
from penstock.protocols.tubemq.front.broker.messages import key_code_of, message_of
from penstock.protocols.tubemq.messages.broker import TransferedMessage
from penstock.records.batch import batches
from penstock.records.scalar_codec import MAX_INFLATED_BYTES, Stored, stored_records

__all__ = ["Batch", "Begin", "Limits", "look", "read_batch"]

_RECORD_BYTES: Final = 52
"""What a message takes in a broker's own files beside its payload; lags are told in such bytes."""

Aborted = Sequence[tuple[int, int]]
"""(producer id, first offset) of transactions that were aborted."""

_QUICK_RECORDS, _QUICK_BYTES = 1_000, 1 << 20
"""What can be looked through within a few milliseconds."""

_RATIO: Final = 32
"""What a compressed batch is expected to inflate to at most: text rarely shrinks to less than a thirtieth."""

_PIECES: Final = 8
"""So many pieces of the log are looked through at most, also where a filter matches nothing in them."""


@dataclass(slots=True)
class Batch:
    """``start``: the first record looked at, ``end``: where the next batch begins; in records. ``size`` in bytes, as a
    broker's files count, of what was looked at. ``encoded``: messages in their place, encoded already.
    """

    start: int
    end: int
    messages: list[TransferedMessage] = field(default_factory=list)
    encoded: list[Buffer] = field(default_factory=list)
    size: int = 0

    @property
    def empty(self) -> bool:
        """Whether there is no message in it, though it may have moved over some."""
        return not self.messages and not self.encoded

    def lag(self, log_end: int) -> int:
        """About how many bytes are left behind the batch."""
        seen = self.end - self.start
        return (log_end - self.end) * self.size // seen if seen else 0


class Begin(NamedTuple):
    """Where a batch begins, and what a `look` there brought."""

    offset: int
    found: Fetched


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one batch; the message that crosses ``size`` bytes is still in. ``many`` records in a piece go by columns."""

    size: int
    records: int
    many: int


async def look(enode: Enode, partition: Partition, offset: int, max_bytes: int) -> Fetched:
    """What is there, up to a transaction that is open. Raises LogOffsetOutOfRange."""
    return await fetch_one(enode, FetchPart(partition, offset, max_bytes, stable=True), Budget(quick=0, room=0))


async def read_batch(
    enode: Enode, beside: Beside, partition: Partition, begin: Begin, filters: frozenset[int], limits: Limits
) -> Batch:
    """From ``begin``, up to about the limits, messages that ``filters`` let through.

    What takes its time, above all inflating, is done ``beside`` the event loop. Raises StoreError, CorruptBatch.
    """
    start, found = begin
    batch, log_end = Batch(start, start), found.end
    for piece in range(_PIECES):
        if piece:
            found = await look(enode, partition, batch.end, limits.size)
        if not len(found.data):
            break
        data, aborted = found.read(), found.aborted
        count, packed = _weight(data)
        if not piece and not filters and count >= limits.many:
            work = partial(_read_many, batch, data, aborted, limits)
        else:
            work = partial(_read_some, batch, data, aborted, filters, limits)
        quick = not packed and count <= _QUICK_RECORDS and len(data) <= _QUICK_BYTES
        more = work() if quick else await beside.run(work, min(MAX_INFLATED_BYTES, _RATIO * packed))
        if batch.end == batch.start and found.next_offset > batch.end:
            batch.start = batch.end = found.next_offset  # nothing but a hole
            more = True
        if not more or batch.end >= log_end:
            break
    return batch


def _weight(data: Buffer) -> tuple[int, int]:
    """How many records there are, and how many bytes of compressed batches."""
    count = packed = 0
    for header in batches(data):
        count += header.record_count
        packed += header.length if header.codec is not Codec.NONE else 0
    return count, packed


def _read_many(batch: Batch, data: Buffer, aborted: Aborted, limits: Limits) -> bool:
    """Take records along by columns, up to a hole or until the batch is full."""
    from penstock.protocols.tubemq.front.broker.columns import bulk_of  # loads Arrow

    size, records = limits.size, limits.records
    bulk = bulk_of(data, batch.start, aborted, most_bytes=size, most_records=records, record_bytes=_RECORD_BYTES)
    if bulk is not None:
        batch.start, batch.end = bulk.first, bulk.first + bulk.count
        batch.encoded.append(bulk.encoded)
        batch.size = bulk.size
    return False


def _read_some(batch: Batch, data: Buffer, aborted: Aborted, filters: frozenset[int], limits: Limits) -> bool:
    """Take records along one by one; False where the batch is full, or a hole ends it."""
    taken = sum(_RECORD_BYTES + len(message.pay_load_data) for message in batch.messages)
    for record in stored_records(data, batch.end, aborted):
        if record.offset != batch.end:
            if batch.end > batch.start:
                return False
            batch.start = batch.end = record.offset
        taken += _add(batch, record, filters)
        if taken >= limits.size or batch.end - batch.start >= limits.records:
            return False
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
