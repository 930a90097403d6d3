"""Compaction: in the closed segments of a topic with ``cleanup.policy=compact``, keep the last record of each key.

Records that stay keep their offset, timestamp, producer and codec. Records without a key stay. Small segments are
merged. Segments with an open transaction are not compacted; records of aborted transactions are dropped.

A tombstone (a null value) stays for ``delete.retention.ms`` after the first compaction that met it. A marker stays
as long after the first compaction that left no other batch of its transaction. A reader that has seen the removed
records has that time to reach the tombstone or marker. The batch header says when the time ends: the delete horizon
(KIP-534).

`Compaction.run`, which may run in another thread, writes new segments next to the old ones, under names that recovery
ignores. `Compaction.finish` puts them in place (`swap`).
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from penstock.errors import CorruptBatch
from penstock.model import TimestampType
from penstock.records.batch import (
    ABORT,
    COMMIT,
    CRC_START,
    DELETE_HORIZON,
    HEADER_BYTES,
    BatchHeader,
    control_type,
    crc32c,
    parse_header,
)
from penstock.records.scalar_reader import read_varint
from penstock.records.scalar_writer import varint
from penstock.store.config import LogConfig
from penstock.store.errors import StoreDamaged
from penstock.store.log_state import LogState, to_bytes
from penstock.store.partition_folder import PREFIX, Durability, PartitionFolder, is_planned, rewriting, swap
from penstock.store.segment import LENGTH_AFTER, OpenSegments, Segment, Step, VerifiedBatches, segment_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Compacted", "Compaction", "Markers", "plan"]


class Markers:
    """Finds the markers whose transactions have no other batch left, so that a compaction may drop them later.

    Without its marker a transaction looks open, and its remaining records would join the producer's next one. So a
    marker stays while any record of its transaction does, and then until no reader can still be inside the
    transaction. It must see all batches of a log from its start, in order.
    """

    def __init__(self) -> None:
        self._kept: set[int] = set()
        self.dropped: set[int] = set()
        """Offsets of the dropped markers; the owner adds them."""

    def keeps(self, header: BatchHeader) -> None:
        """A batch of records stays, wholly or in part."""
        if header.transactional:
            self._kept.add(header.producer_id)

    def is_last(self, raw: bytes, header: BatchHeader) -> bool:
        """Whether a control batch is the last batch of its transaction; False if it does not end one."""
        if control_type(memoryview(raw)[HEADER_BYTES:]) not in (ABORT, COMMIT):
            return False
        if header.producer_id in self._kept:
            self._kept.discard(header.producer_id)
            return False
        return True


_MAX_KEYS: Final = 500_000
"""Keys in memory in one compaction, about 100 MB; records with further keys wait for the next compaction."""


_LONG: Final = 1 << 63
_RETRY_MS: Final = 600_000
"""Pause after a failure: each attempt reads the whole log, even if the log is damaged or the disk is full."""


class Compacted(Struct, frozen=True):
    """The result of one compaction."""

    topic: str
    partition: int
    bytes_before: int
    bytes_after: int
    segments_before: int
    segments_after: int


def plan(
    folder: PartitionFolder,
    state: LogState,
    config: LogConfig,
    durability: Durability,
    pool: OpenSegments,
    now_ms: int,
) -> Compaction | None:
    """A compaction of the log's synced segments; None if there is not enough to do.

    Enough is ``min.cleanable.dirty.ratio`` of the bytes that could be compacted, or a record older than
    ``max.compaction.lag.ms``. A segment with records younger than ``min.compaction.lag.ms`` waits, and so do all later
    ones.
    """
    if not config.compact or state.compacting or now_ms < state.compact_after_ms:
        return None
    until_ms = now_ms - config.min_lag_ms if config.min_lag_ms else None
    closed = _cleanable(state, min(durability.flushed, state.stable_offset), until_ms)
    dirty = [segment for segment in closed if segment.next_offset > state.cleaned]
    enough = config.dirty_ratio * sum(segment.size for segment in closed)
    late = any(segment.created_ms >= 0 and now_ms - segment.created_ms > config.max_lag_ms for segment in dirty)
    if not dirty or (sum(segment.size for segment in dirty) < enough and not late):
        return None
    state.compacting = True
    return Compaction(folder, state, closed, config, durability, pool, now_ms)


def _cleanable(state: LogState, upto: int, until_ms: int | None) -> list[Segment]:
    closed = []
    for segment in state.segments[:-1]:
        fresh = segment.next_offset > state.cleaned
        young = fresh and until_ms is not None and max(segment.newest.timestamp_ms, segment.created_ms) > until_ms
        if segment.next_offset > upto or young:
            break
        closed.append(segment)
    return closed


class Compaction:
    """One compaction of one log: call `run` in any thread, then `finish` in the owner's, even if `run` raised."""

    def __init__(
        self,
        folder: PartitionFolder,
        state: LogState,
        segments: Sequence[Segment],
        config: LogConfig,
        durability: Durability,
        pool: OpenSegments,
        now_ms: int,
    ) -> None:
        self._folder = folder
        self._durability = durability
        self._directory = folder.directory
        self._state = state
        self._inputs = list(segments)
        self._cleaned = state.cleaned
        self._config = config
        self._pool = pool
        self._now_ms = now_ms
        self._aborted = state.aborted.within(segments[0].base, segments[-1].next_offset)
        self._horizon_ms = min(now_ms + config.tombstone_ms, _LONG - 1)
        self._markers = Markers()
        self._outputs: list[Segment] = []
        self._begun = self._complete = False

    # -- in any thread

    def run(self) -> None:
        """Read the old segments and write the new ones. Call it once. Raises WriteFailed, StoreDamaged."""
        self._begun = True
        with rewriting(self._folder, self._state, "cannot compact"):
            newest = self._newest_of_keys()
            self._begin(self._inputs[0].base)  # keeps the log's start even if no record there stays
            for segment in self._inputs:
                for raw, header in self._batches(segment):
                    kept = self._filter(raw, header, newest)
                    if kept is not None:
                        self._write(kept)
            for segment in self._outputs:
                segment.seal()
                self._save_aborted(segment)
                for sync in segment.syncers(sealed=True):
                    sync()
                segment.close()
            self._directory.sync()
        self._complete = True

    def _newest_of_keys(self) -> Mapping[bytes, int]:
        """The last offset of each key in the uncompacted records; it stops (at `_cleaned`) after `_MAX_KEYS` keys."""
        newest: dict[bytes, int] = {}
        for row, segment in enumerate(self._inputs):
            if segment.next_offset <= self._cleaned:
                continue
            for raw, header in self._batches(segment):
                if header.next_offset <= self._cleaned:
                    continue
                if len(newest) >= _MAX_KEYS:
                    del self._inputs[row + 1 :]
                    return newest
                self._cleaned = header.next_offset
                rows = _decoded(raw, header, ["key", "offset"])
                if rows is not None and not self._was_aborted(header):
                    pairs = zip(rows.column("key").to_pylist(), rows.column("offset").to_pylist(), strict=True)
                    newest.update((key, offset) for key, offset in pairs if key is not None)
            self._cleaned = segment.next_offset
        return newest

    def _batches(self, segment: Segment) -> Iterator[tuple[bytes, BatchHeader]]:
        # Open the file again: the segment's own handle belongs to the owner's thread, which may close it meanwhile.
        self._check_there()
        name = segment_name(segment.base) + ".log"
        with contextlib.closing(self._directory.open(name, create=False)) as file:
            scan = VerifiedBatches(file, segment.size)
            for position, header in scan:
                yield file.read(position, header.length), header
        if scan.damage is not None:
            self._check_there()
            raise StoreDamaged(
                scan.damage,
                file=segment.path,
                position=scan.position,
                topic=self._folder.topic,
                partition=self._folder.partition,
            )

    def _filter(self, raw: bytes, header: BatchHeader, newest: Mapping[bytes, int]) -> bytes | None:
        """The batch without superseded records; None if no record is left, or if it was aborted."""
        if header.control:
            return self._marker(raw, header)
        kept = None if self._was_aborted(header) else self._without_superseded(raw, header, newest)
        if kept is not None:
            self._markers.keeps(header)
        return kept

    def _marker(self, raw: bytes, header: BatchHeader) -> bytes | None:
        if not self._markers.is_last(raw, header):
            return raw
        if header.delete_horizon_ms is None:
            return _rewritten(raw, header, [True], header.max_timestamp, self._horizon_ms)
        if self._now_ms < header.delete_horizon_ms:
            return raw
        self._markers.dropped.add(header.base_offset)
        return None

    def _without_superseded(self, raw: bytes, header: BatchHeader, newest: Mapping[bytes, int]) -> bytes | None:
        rows = _decoded(raw, header, ["key", "value", "offset", "timestamp"])
        if rows is None:
            return raw
        keys, offsets = rows.column("key").to_pylist(), rows.column("offset").to_pylist()
        dead = rows.column("value").is_null().to_pylist()
        horizon_ms = header.delete_horizon_ms
        over = horizon_ms is not None and self._now_ms >= horizon_ms
        keep = [
            key is None or (newest.get(key, offset) <= offset and not (over and gone))
            for key, offset, gone in zip(keys, offsets, dead, strict=True)
        ]
        if not any(keep):
            return None
        # A tombstone's time begins with the compaction that removes the older records of its key.
        met = header.next_offset <= self._cleaned and any(
            key is not None and gone and kept for key, gone, kept in zip(keys, dead, keep, strict=True)
        )
        begins = self._horizon_ms if met and horizon_ms is None else None
        if all(keep) and begins is None:
            return raw
        times = [-1 if time is None else time // 1_000 for time in rows.column("timestamp").cast("int64").to_pylist()]
        largest = max(-1, *(time for time, kept in zip(times, keep, strict=True) if kept))
        return _rewritten(raw, header, keep, largest, begins)

    def _was_aborted(self, header: BatchHeader) -> bool:
        """Whether it belongs to an aborted transaction: then it supersedes nothing and can be dropped."""
        return (
            header.transactional
            and not header.control
            and any(
                each.producer_id == header.producer_id and each.first <= header.base_offset < each.last
                for each in self._aborted
            )
        )

    def _save_aborted(self, output: Segment) -> None:
        """Keep the aborted transactions whose ABORT marker stays in ``output``."""
        gone = self._markers.dropped
        entries = [
            each for each in self._aborted if output.base <= each.last < output.next_offset and each.last not in gone
        ]
        if entries or gone:  # also without entries, to replace an index with more
            self._directory.replace(output.name + ".txnindex", to_bytes(entries), durable=True)

    def _check_there(self) -> None:
        """Raises FileNotFoundError if the topic is deleted: the directory may already be a newer topic's."""
        if self._state.retired:
            raise FileNotFoundError("the topic was deleted")

    def _begin(self, base: int) -> None:
        self._check_there()
        if self._outputs:
            self._outputs[-1].seal()
            self._outputs[-1].close()
        interval = self._config.index_interval_bytes
        output = Segment(self._directory, base, OpenSegments(1), interval, prefix=PREFIX)
        output.create()
        output.clear()
        output.truncate()  # an earlier compaction may have left bytes under this name
        self._outputs.append(output)

    def _write(self, batch: bytes) -> None:
        header = parse_header(batch)
        output = self._outputs[-1]
        fits = output.fits(header.length, header.last_offset, self._config.segment_bytes)
        if not fits and header.base_offset > output.base:  # a batch with a delete horizon may be larger than a segment
            self._begin(header.base_offset)
        output = self._outputs[-1]
        step = Step(
            output.size, output.size + header.length, header.base_offset, header.last_offset, header.max_timestamp
        )
        output.append([batch], step)

    # -- in the owner's thread

    def finish(self) -> Compacted | None:
        """Put the new segments in place; None if `run` failed or old ones are gone meanwhile. Raises WriteFailed."""
        state, count = self._state, len(self._inputs)
        state.compacting = False
        if self._begun and not self._complete:
            state.compact_after_ms = self._now_ms + _RETRY_MS
        if not self._complete or state.retired or state.segments[:count] != self._inputs:
            self._discard()
            return None
        with rewriting(self._folder, self._state, "cannot compact"):
            for segment in self._inputs:
                segment.close()
            self._swap()
        for segment in self._outputs:
            segment.adopt(self._pool)
        state.segments[:count] = self._outputs
        self._durability.replaced(self._inputs)
        state.cleaned = self._cleaned
        state.aborted.forget(self._markers.dropped)
        before, after = (sum(segment.size for segment in segments) for segments in (self._inputs, self._outputs))
        return Compacted(self._folder.topic, self._folder.partition, before, after, count, len(self._outputs))

    def _swap(self) -> None:
        old, new = ([segment.base for segment in segments] for segments in (self._inputs, self._outputs))
        try:
            swap(self._directory, old, new)
        except OSError as error:
            if is_planned(self._directory):
                # Some files may already be new, and the next start completes the plan: the log must not change before.
                raise self._durability.fail(error, "a compaction could not be put in place") from error
            self._state.compact_after_ms = self._now_ms + _RETRY_MS
            self._discard()
            raise

    def _discard(self) -> None:
        if not self._state.retired:
            with rewriting(self._folder, self._state, "cannot compact"):
                for segment in self._outputs:
                    segment.remove()


def _decoded(raw: bytes, header: BatchHeader, columns: Sequence[str]) -> pa.RecordBatch | None:
    """The batch's records; None for a marker or for records that cannot be decoded: both are kept."""
    from penstock.records import decode_v2  # here, since a node without compaction needs no NumPy or pyarrow

    if header.control:
        return None
    try:
        return decode_v2(raw, columns=columns, check_crcs=False).batch
    except CorruptBatch:
        return None


def _rewritten(
    raw: bytes, header: BatchHeader, keep: Sequence[bool], largest: int, horizon_ms: int | None = None
) -> bytes:
    """The batch with only some of its records: new length, count, checksum, largest timestamp; all else unchanged.

    With ``horizon_ms`` it also gets that delete horizon as its base timestamp, and the records' timestamps are encoded
    relative to it. If such a difference does not fit into 64 bits, the batch gets no horizon.
    """
    from penstock.records.compression import compress, inflate

    records = bytes(inflate(header.codec, memoryview(raw)[HEADER_BYTES:]))
    extents = [extent for extent, one in zip(_extents(records), keep, strict=True) if one]
    kept = None if horizon_ms is None else _from_base(records, extents, header, horizon_ms)
    batch = bytearray(raw[:HEADER_BYTES])
    if kept is None and all(keep):
        return raw
    if kept is None:
        kept = b"".join(records[begin:end] for begin, end in extents)
    elif horizon_ms is not None:
        struct.pack_into(">h", batch, 21, header.attributes | DELETE_HORIZON)
        struct.pack_into(">q", batch, 27, horizon_ms)
    batch += compress(header.codec, kept)
    struct.pack_into(">i", batch, 8, len(batch) - LENGTH_AFTER)
    struct.pack_into(">i", batch, 57, sum(keep))
    if header.timestamp_type is TimestampType.CREATE:
        struct.pack_into(">q", batch, 35, largest)
    struct.pack_into(">I", batch, 17, crc32c(batch, CRC_START))
    return bytes(batch)


def _from_base(records: bytes, extents: Sequence[tuple[int, int]], header: BatchHeader, base_ms: int) -> bytes | None:
    """The records with timestamps relative to ``base_ms``; None if a difference has more than 64 bits.

    With LogAppendTime all records have the timestamp of their batch.
    """
    append_time = header.timestamp_type is TimestampType.LOG_APPEND
    parts: list[bytes] = []
    for begin, end in extents:
        _, at = read_varint(records, begin, end)
        delta, after = read_varint(records, at + 1, end)
        later = (header.max_timestamp if append_time else header.base_timestamp + delta) - base_ms
        if not -_LONG <= later < _LONG:
            return None
        rest = records[at : at + 1] + varint(later) + records[after:end]
        parts += (varint(len(rest)), rest)
    return b"".join(parts)


def _extents(records: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each record, which begins with its length, a zigzag varint. Decoding has checked the lengths."""
    at = 0
    while at < len(records):
        begin, shift, length = at, 0, 0
        while True:
            byte = records[at]
            length |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                break
        at += length >> 1
        yield begin, at
