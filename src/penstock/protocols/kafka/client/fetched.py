"""What one Fetch brought for one partition: bytes as they came, and what their headers tell.

The records stay where the transport received them; they are decoded where they are wanted, in any thread.
Source: Kafka protocol guide, Fetch v4-v18, "Record Batch". What must not live here: requests, and what errors mean.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock import kernels
from penstock.columnar.buffers import as_array, as_view
from penstock.columnar.few_read import read_few
from penstock.columnar.messages import Messages
from penstock.errors import CorruptBatch, PenstockError
from penstock.kernels.lengths import last_whole
from penstock.protocols.kafka.client.lineage import UNKNOWN, Stretch
from penstock.protocols.kafka.client.options import KafkaOptions
from penstock.protocols.kafka.messages.fetch import FetchResponsePartition
from penstock.protocols.kafka.messages.plain_fetch import Part
from penstock.seams.client import ReadFrom, not_whole
from penstock.seams.framing import Buffer

if TYPE_CHECKING:
    from penstock.columnar.decode import Decoded

__all__ = ["LEFT_OUT", "KafkaFetched"]

_ALONE = struct.Struct(">qiib6xi")  # as below, and the last offset's delta of a batch v2
_PREFIX = struct.Struct(">qiib")  # base offset, length of what follows, leader epoch (a checksum before v2), magic
_LENGTH_AFTER = 12
_MAGIC_V2 = 2
_BATCH_HEADER = 61
_HEAD = 1_000
_HEAD_BYTES = 1 << 17
_HANDFUL = 32
"""Who takes no more at a time waits longer for Arrow's import than all these records take without."""
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_COUNT = struct.Struct(">i")
_COUNT_AT = 57
_NO_END = (1 << 63) - 1

LEFT_OUT = FetchResponsePartition(high_watermark=-1, records=None)
"""Of a partition that an answer does not name: nothing new, and no error."""


class KafkaFetched:
    """What one fetch brought for one partition; ``penstock.seams.client.Fetched``."""

    __slots__ = (
        "_aborted",
        "_check_crcs",
        "_has_head_gone",
        "_records",
        "error",
        "high_watermark",
        "log_start_offset",
        "next_offset",
        "offset",
        "partition",
        "size",
        "stretches",
        "topic_id",
    )

    def __init__(
        self, asked: ReadFrom, told: FetchResponsePartition | Part, error: PenstockError | None, options: KafkaOptions
    ) -> None:
        self.partition = asked.partition
        self.topic_id = asked.topic_id
        self.offset = asked.offset
        self.error = error
        # Who reads only what is committed sees a log that ends at the last stable offset.
        self.high_watermark = told.last_stable_offset if options.read_committed else told.high_watermark
        self.log_start_offset = told.log_start_offset
        self._records: Buffer = b"" if error is not None or told.records is None else told.records
        self.size = len(self._records)
        """Bytes held."""
        # Null where the broker was not asked to look: read uncommitted. An empty list would filter by nothing.
        aborted = told.aborted_transactions
        self._aborted: list[tuple[int, int]] | None = None
        if aborted is not None:
            self._aborted = [(each.producer_id, each.first_offset) for each in aborted]
        self._check_crcs = options.check_crcs
        self._has_head_gone = False
        self.stretches = stretches = _stretches(self._records)
        """In which leader epochs the first and the last whole batch were written."""
        self.next_offset: int = asked.offset
        """Where to read on, from the headers of the whole batches alone; ``offset`` if there is none."""
        if stretches and stretches[-1].end > asked.offset:
            self.next_offset = stretches[-1].end

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]:
        """The records in ``[offset, stop)`` and the offset to read next. Raises CorruptBatch, or ``error`` if set."""
        if self.error is not None:
            raise self.error
        if columns is None and not self._aborted:
            few = read_few(self._records, self.partition, start=self.offset, stop=stop, check_crcs=self._check_crcs)
            if few is not None:
                return Messages.of_records(self.partition, *few, self.topic_id), few[1]
        found = self._decoded(0, self.offset, stop, columns)
        return Messages.of(self.partition, found.batch, found.next_offset, "", self.topic_id), found.next_offset

    def pieces(
        self, *, stop: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Messages | CorruptBatch]:
        """``penstock.seams.client.DecodesInPieces``: runs of batches between those that cannot be decoded."""
        at, start, size = 0, self.offset, len(self._records)
        while at < size and (stop is None or start < stop):
            try:
                found = self._decoded(at, start, stop, columns)
            except CorruptBatch as error:
                bad, end = self._damage(error, at, start)
                yield bad
                if bad.next_offset is None or end is None:
                    return
                at, start = end, bad.next_offset
            else:
                if found.consumed == at:
                    if self.next_offset <= start == self.offset:
                        yield self._damage(not_whole(self), at, start)[0]
                    return
                yield Messages.of(self.partition, found.batch, found.next_offset, "", self.topic_id)
                at, start = found.consumed, max(start, found.next_offset)
            if self._aborted:
                return  # which transactions are aborted from here on, the next fetch says

    def _decoded(self, at: int, start: int, stop: int | None, columns: Sequence[str] | None) -> Decoded:
        from penstock.protocols.kafka.records import decode

        return decode(
            self._records,
            position=at,
            start=start,
            stop=stop,
            columns=columns,
            check_crcs=self._check_crcs,
            aborted=self._aborted,
        )

    def _damage(self, error: CorruptBatch, at: int, start: int) -> tuple[CorruptBatch, int | None]:
        """``error`` with what it takes to go on, and where the next batch lies; None where lengths cannot be believed.

        Where the next offset is comes from the next batch's head, if it is here: the damaged head may lie. Else from
        the damaged one, as long as the log has that offset; a fetch from there finds the batch that follows.
        """
        records, size = self._records, len(self._records)
        while True:
            if size - at < _PREFIX.size:
                return error, None
            base, length, _, magic = _PREFIX.unpack_from(records, at)
            end = at + _LENGTH_AFTER + length
            whole = at + _PREFIX.size <= end <= size
            counts = magic >= _MAGIC_V2 and size - at >= _BATCH_HEADER
            delta: int = _LAST_OFFSET_DELTA.unpack_from(records, at + _LAST_OFFSET_DELTA_AT)[0] if counts else 0
            last = base + delta
            if not whole or magic > _MAGIC_V2 or last >= start:
                break
            at = end  # it lies before what was asked for
        following = None
        known = self.high_watermark if self.high_watermark > 0 else _NO_END
        if whole and size - end >= _PREFIX.size and start < (head := _PREFIX.unpack_from(records, end)[0]) <= known:
            following = head
        elif start <= last < known and base <= last:
            following = last + 1
        error.offset = max(base, start) if following is None or base < following else start
        error.next_offset = following
        error.records = 1 if following is None else following - error.offset
        if counts and whole and 0 < (count := _COUNT.unpack_from(records, at + _COUNT_AT)[0]) < error.records:
            error.records = count
        error.raw = bytes(as_view(records)[at : end if whole else size])
        return error, end if whole else None

    def head(self, most: int) -> Messages | None:
        """``penstock.seams.client.HasHead``: the first batch, if it is plain and not large."""
        if self.error is not None or self._aborted or len(self._records) < _PREFIX.size:
            return None
        end = _PREFIX.unpack_from(self._records)[1] + _LENGTH_AFTER
        if not _PREFIX.size <= end <= len(self._records):
            return None
        if most > _HANDFUL and (end == len(self._records) or self._has_head_gone):
            return None
        few = read_few(
            as_view(self._records)[:end], self.partition, start=self.offset, check_crcs=self._check_crcs,
            most=_HEAD, most_bytes=_HEAD_BYTES,
        )  # fmt: skip
        if few is None or not few[0]:
            return None
        self.offset, self._records, self._has_head_gone = few[1], as_view(self._records)[end:], True
        return Messages.of_records(self.partition, *few, self.topic_id)


def _stretches(records: Buffer) -> Sequence[Stretch]:
    """Where the first and the last whole batch of any format lie, in offsets, and in which epoch each was written."""
    if len(records) < _PREFIX.size:
        return ()
    if len(records) >= _BATCH_HEADER:
        base, length, epoch, magic, delta = _ALONE.unpack_from(records)
        if length + _LENGTH_AFTER == len(records):  # nothing else is there, as with a record that comes alone
            return (Stretch(UNKNOWN, base, base + 1) if magic < _MAGIC_V2 else Stretch(epoch, base, base + delta + 1),)
    kernel = kernels.at_hand()  # without one: a loop here costs less than NumPy, which who reads little does without
    if kernel is None:
        last = last_whole(as_view(records), 0, len(records))
    else:
        last = kernel.last_batch(as_array(records), 0, len(records))
    if last < 0 or (end := _stretch(records, last)) is None:
        return ()
    start = _stretch(records, 0) if last else None
    return (end,) if start is None else (start, end)


def _stretch(records: Buffer, at: int) -> Stretch | None:
    """Base offset and length stand in the same place in all formats. A message set before v2 carries its last offset,
    and no epoch."""
    base, length, epoch, magic = _PREFIX.unpack_from(records, at)
    if magic < _MAGIC_V2:
        return Stretch(UNKNOWN, base, base + 1)
    if length + _LENGTH_AFTER < _LAST_OFFSET_DELTA_AT + _LAST_OFFSET_DELTA.size:
        return None
    delta: int = _LAST_OFFSET_DELTA.unpack_from(records, at + _LAST_OFFSET_DELTA_AT)[0]
    return Stretch(epoch, base, base + delta + 1)
