"""`PartitionLog`: one partition's append-only log of record batches v2, stored as received.

Only base offset and leader epoch are stamped (outside the checksum), and the log's own time if the topic uses
LogAppendTime. Calls are synchronous and come from one thread; a flush from `prepare_flush` may run in another.

Durability: once `append` has returned, the batch survives the end of the process (it is in the page cache). While
`sync_needed` is true the policy promises more (`FlushPolicy.ALWAYS`) and the caller must flush before it acknowledges;
several appends may share one flush. A failed append leaves the log as it was.
"""

from __future__ import annotations

import contextlib
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple, cast

from msgspec import Struct, field

from penstock.errors import (
    BatchTooLarge,
    FencedLeaderEpoch,
    LogOffsetOutOfRange,
    PenstockError,
    StoreError,
    WriteFailed,
)
from penstock.records.batch import CONTROL, BatchHeader, stamp_append_time
from penstock.records.validation import ValidatedBatch, verified
from penstock.store.batch_heads import HeadCheck, plan_check
from penstock.store.compaction import Compaction, plan
from penstock.store.config import FlushPolicy, LogConfig, StoreConfig
from penstock.store.errors import StoreDamaged
from penstock.store.filesystem import Buffer, MemoryFile, Reader
from penstock.store.log_state import Aborted, Entry, LogState, ProducerTable, check, entry_of, note
from penstock.store.partition_folder import CleanLog, Durability, Flush, PartitionFolder
from penstock.store.segment import LENGTH_AFTER, STAMPED, OpenSegments, Segment, VerifiedBatches, new_step

__all__ = [
    "Appended",
    "LogContext",
    "LogPart",
    "LogSlice",
    "PartitionLog",
    "ReadRequest",
    "Stretch",
    "Trimmed",
    "expired",
    "locate",
    "new_appended",
]


class LogContext(Struct):
    """State that all logs of a store share: ``epoch`` is their leader epoch, ``dirty`` the logs with unsynced bytes."""

    config: StoreConfig
    epoch: int
    pool: OpenSegments
    dirty: set[PartitionLog] = field(default_factory=set)


class Stretch:
    """``size`` bytes of a file from ``position`` on, read when they are needed; ``path`` is for messages.

    Bytes in a log never change once written, so they can be read at any time, even after later appends and after the
    segment was closed, compacted or deleted.
    """

    __slots__ = ("_path", "_position", "_reader", "_size")

    def __init__(self, reader: Reader, position: int, size: int, path: str) -> None:
        self._reader = reader
        self._position = position
        self._size = size
        self._path = path

    def __len__(self) -> int:
        return self._size

    def read(self) -> bytes:
        """Read all bytes. Raises StoreDamaged, StoreError."""
        try:
            data = self._reader.read(self._position, self._size)
        except OSError as error:
            raise self._unreadable(error) from error
        self._check(0, len(data), self._size)
        return data

    def read_into(self, start: int, space: memoryview) -> None:
        """Fill ``space`` from byte ``start`` of the stretch on. Raises StoreDamaged, StoreError."""
        try:
            count = self._reader.read_into(self._position + start, space)
        except OSError as error:
            raise self._unreadable(error) from error
        self._check(start, count, len(space))

    def _check(self, start: int, count: int, wanted: int) -> None:
        if count < wanted:
            position = self._position + start + count
            raise StoreDamaged("the file is shorter than it was", file=self._path, position=position)

    def _unreadable(self, error: OSError) -> StoreError:
        return StoreError(f"cannot read {self._path}: {error}")


_NO_BYTES: Final = Stretch(MemoryFile(), 0, 0, "")


class ReadRequest(NamedTuple):
    """At most ``max_bytes`` from ``offset`` up to offset ``before``; with ``at_least_one``, one batch of any size."""

    offset: int
    max_bytes: int
    at_least_one: bool
    before: int | None


def locate(segments: Sequence[Segment], request: ReadRequest, end: int) -> tuple[Stretch, int]:
    """Whole batches, from the one that holds the offset (in a gap, the next one), and the offset after them.

    All are of one segment; ``end`` is the log's end offset. Raises StoreDamaged, OSError.
    """
    if request.offset == end or (request.before is not None and request.before <= request.offset):
        return _NO_BYTES, request.offset
    first = max(bisect_right(segments, request.offset, key=lambda segment: segment.base) - 1, 0)
    for row in range(first, len(segments)):
        found = _in_segment(segments[row], request)
        if found is not None:
            return found
    return _NO_BYTES, end  # a gap up to the end, left by repair


def _in_segment(segment: Segment, request: ReadRequest) -> tuple[Stretch, int] | None:
    offset, max_bytes, at_least_one, before = request
    first = segment.find(offset)
    if first is None:
        return None
    limit = first.position + max_bytes
    if limit >= segment.size:
        end, next_offset = segment.size, segment.next_offset
    elif limit < first.end and not at_least_one:
        return _NO_BYTES, offset
    elif limit <= first.end:
        end, next_offset = first.end, first.last_offset + 1
    else:
        end, next_offset = segment.boundary(first, limit)
    if before is not None and next_offset > before:
        behind = segment.find(before)
        end, next_offset = behind.position if behind else end, before
    return Stretch(segment.reader(), first.position, end - first.position, segment.path), next_offset


class Appended(NamedTuple):
    """The result of an append.

    ``append_time_ms`` is -1 unless the log stamps its own time; for a ``duplicate`` it is the largest timestamp of the
    batch that was stored first, as Kafka answers.
    """

    base_offset: int
    last_offset: int
    append_time_ms: int
    log_start_offset: int
    duplicate: bool


new_appended: Final = partial(tuple.__new__, Appended)
"""Makes an `Appended` from a tuple of all its fields, faster than the class does."""


class LogSlice(NamedTuple):
    """Whole batches as stored, the first with the requested offset; ``next_offset`` is the offset of the next read."""

    data: Buffer
    next_offset: int


class LogPart(NamedTuple):
    """A `LogSlice` whose data stays in its file until it is needed, if it is large."""

    data: Buffer | Stretch
    next_offset: int


class Trimmed(Struct, frozen=True):
    """The segments that retention deleted from the start of a log, which now starts at ``start_offset``."""

    topic: str
    partition: int
    segments: int
    bytes: int
    start_offset: int


def expired(
    segments: Sequence[Segment],
    config: LogConfig,
    now_ms: int,
    modified_ms: Callable[[Segment], int],
    heads_checked: Callable[[Segment], bool],
) -> int:
    """The number of oldest segments that retention may delete; never the active one.

    By age (``retention.ms``) a segment is deleted when its newest record is too old, or, if its records have no
    timestamps, when its last write is too old; but not while its headers are unchecked. By size (``retention.bytes``)
    it is deleted when the rest of the log still reaches the limit.
    """
    if not config.delete:
        return 0
    closed = segments[:-1]
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    for count, segment in enumerate(closed):
        excess -= segment.size
        too_large = config.retention_bytes >= 0 and excess >= 0
        if too_large:
            continue
        newest = segment.newest.timestamp_ms if segment.newest.timestamp_ms >= 0 else modified_ms(segment)
        if config.retention_ms < 0 or now_ms - newest <= config.retention_ms or not heads_checked(segment):
            return count
    return len(closed)


_ROLL_BYTES: Final = 1 << 20  # a deletion inside an active segment of this size or more closes it


class PartitionLog:
    """One partition's log. ``end_offset`` is the offset that the next record gets."""

    __slots__ = (
        "_config",
        "_context",
        "_durability",
        "_epoch_noted",
        "_folder",
        "_gone",
        "_state",
        "_sync_after",
        "end_offset",
        "partition",
        "topic",
    )

    def __init__(self, folder: PartitionFolder, state: LogState, config: LogConfig, context: LogContext) -> None:
        self.topic = folder.topic
        self.partition = folder.partition
        self.end_offset = state.end_offset
        self._folder = folder
        self._state = state
        self._context = context
        self._durability = Durability(folder, state.recovery_point, state.segments[:-1])
        self._epoch_noted = False
        self.reconfigure(config)
        self._gone: Callable[[], PenstockError] | None = None
        state.epochs.assign(context.epoch, self.end_offset)
        state.unchecked = self._unchecked_heads()
        if self.end_offset > state.recovery_point:
            context.dirty.add(self)

    def _unchecked_heads(self) -> tuple[int, int]:
        """See `LogState.unchecked`. The range that an older version left is saved once, before the first append."""
        noted = self._folder.unchecked()
        if noted is None:
            noted = (0, self.end_offset)
            with suppress(OSError):  # the next start saves it then
                self._folder.save_unchecked(noted)
        return noted

    @property
    def start_offset(self) -> int:
        """The smallest offset that can be read."""
        return self._state.start_offset

    @property
    def stable_offset(self) -> int:
        """The last stable offset; see `LogState.stable_offset`."""
        return self._state.stable_offset

    @property
    def producers(self) -> ProducerTable:
        """The partition's producers; read-only."""
        return self._state.producers

    def aborted(self, start: int, end: int) -> list[Aborted]:
        """The aborted transactions with batches in ``[start, end)``."""
        return self._state.aborted.within(start, end)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._state.segments)

    @property
    def segments(self) -> int:
        """The number of segments."""
        return len(self._state.segments)

    @property
    def leader_epoch(self) -> int:
        """The epoch that appends are stamped with."""
        return self._context.epoch

    @property
    def flushed_offset(self) -> int:
        """Everything below it is known to be on the disk."""
        return self._durability.flushed

    @property
    def sync_needed(self) -> bool:
        """True while the policy, or the topic, requires a sync before appended records are acknowledged."""
        return self.end_offset - self._durability.flushed >= self._sync_after

    @property
    def failed(self) -> bool:
        """True after a failed sync: the log is read-only until the store is opened again."""
        return self._durability.failure is not None

    @property
    def unflushed(self) -> bool:
        """True while something appended is not known to be on the disk."""
        return self.end_offset > self._durability.flushed or self._durability.overdue

    def flush_due(self, now_ms: int) -> bool:
        """Whether bytes are unsynced for too long, or closed segments or deletions are unsynced at all."""
        return self._durability.overdue or self._durability.waited(now_ms) >= self._config.flush_ms

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """(epoch, offset after its last record) of the newest epoch not above ``epoch``; see `EpochHistory.end_of`."""
        return self._state.epochs.end_of(epoch, self.end_offset)

    # -- append

    def append(self, batch: Buffer | ValidatedBatch, *, now_ms: int, epoch: int | None = None) -> Appended:
        """Append one batch v2, unless it repeats a batch of an idempotent producer.

        A `ValidatedBatch` is not checked again; any other batch gets a header that agrees with its records
        (`verified`). ``now_ms`` is the wall clock; ``epoch`` is the leader epoch that the caller expects, None for
        any. Raises
        CorruptBatch (not one whole batch, a wrong checksum or count), BatchTooLarge, the errors of
        `ProducerTable.check`, FencedLeaderEpoch, and WriteFailed, which leaves the log as it was.
        """
        try:
            if self._gone is not None or self._durability.failure is not None:
                self._check_open()
                self._durability.check()
            if epoch is not None and epoch != self._context.epoch:
                raise FencedLeaderEpoch(f"the log is in leader epoch {self._context.epoch}, not in {epoch}")
            checked = batch if isinstance(batch, ValidatedBatch) else verified(batch)
            header = checked.header
            entry = entry_of(header, checked.data) if header.attributes & CONTROL or header.producer_id >= 0 else None
            if entry is not None:
                known = check(self._state, entry, transaction_v2=checked.transaction_v2)
                if known is not None:
                    return Appended(known.base_offset, known.last_offset, known.timestamp_ms, self.start_offset, True)
            return self._write(checked.data, header, entry, now_ms)
        except PenstockError as error:
            error.topic, error.partition = self.topic, self.partition
            raise

    def _write(self, batch: Buffer, header: BatchHeader, entry: Entry, now_ms: int) -> Appended:
        length, base = header.length, self.end_offset
        last = base + header.last_offset_delta
        newest, append_time = header.max_timestamp, -1
        if self._config.append_time:
            batch = bytearray(batch)
            stamp_append_time(batch, now_ms)
            newest = append_time = now_ms
        head = STAMPED.pack(base, length - LENGTH_AFTER, self._context.epoch)
        try:
            segment = self._segment_for(length, last, now_ms)
            size = segment.size
            step = new_step((size, size + length, base, last, newest))
            segment.append((head, memoryview(batch)[STAMPED.size :]), step)
        except OSError as error:
            raise WriteFailed(f"cannot append: {error}") from error
        self.end_offset = last + 1
        self._durability.appended(length, now_ms)
        self._context.dirty.add(self)
        if entry is not None:
            note(self._state, entry, step, now_ms)
        return new_appended((base, last, append_time, self._state.start_offset, False))

    def _segment_for(self, size: int, last_offset: int, now_ms: int) -> Segment:
        """The segment for an append: the last one, or a new one if that is full or old."""
        config, segments = self._config, self._state.segments
        if size > config.segment_bytes:
            raise BatchTooLarge(f"a batch of {size} bytes is larger than a segment ({config.segment_bytes})")
        if not self._epoch_noted:
            self._folder.save_epochs(self._state.epochs)
            self._epoch_noted = True
        if not segments:
            self._begin_segment()
        elif (active := segments[-1]).size:
            if now_ms - active.created_ms < config.segment_ms and active.fits(size, last_offset, config.segment_bytes):
                return active
            self._roll()
        active = segments[-1]
        active.created_ms = now_ms
        return active

    def roll(self) -> None:
        """Close the active segment, unless it is empty, so that retention and compaction can process it."""
        self._check_open()
        if self._state.segments and self._state.segments[-1].size:
            with self._writing("cannot begin a segment"):
                self._roll()

    def _roll(self) -> None:
        active = self._state.segments[-1]
        active.seal()
        self._save_aborted(active)
        self._folder.save_producers(self.end_offset, self._state.producers)
        self._begin_segment()
        self._durability.sealed(active)

    def _save_aborted(self, segment: Segment) -> None:
        self._folder.save_aborted(segment.base, self._state.aborted.marked(segment.base, segment.next_offset))

    def _begin_segment(self) -> None:
        segment = Segment(
            self._folder.directory, self.end_offset, self._context.pool, self._config.index_interval_bytes
        )
        # Created now, not with the first batch: if retention deletes all others, only its name has the end offset.
        segment.create()
        self._state.segments.append(segment)
        self._durability.began()

    # -- read

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True, stable: bool = False) -> LogSlice:
        """Copy whole batches as stored, from the one that holds ``offset``.

        At most ``max_bytes``, but with ``at_least_one`` at least one batch. The result is empty at the end of the log
        or, with ``stable``, at `stable_offset`. The caller drops records below ``offset``. Raises LogOffsetOutOfRange,
        StoreDamaged.
        """
        part = self.locate(offset, max_bytes, at_once=sys.maxsize, at_least_one=at_least_one, stable=stable)
        return LogSlice(cast(Buffer, part.data), part.next_offset)

    def locate(
        self, offset: int, max_bytes: int, *, at_once: int, at_least_one: bool = True, stable: bool = False
    ) -> LogPart:
        """The same as `read`, but data of more than ``at_once`` bytes stays in its file, to be read in pieces."""
        with self._reading():
            if not self.start_offset <= offset <= self.end_offset:
                raise self._out_of_range("cannot read", offset)
            request = ReadRequest(offset, max_bytes, at_least_one, self.stable_offset if stable else None)
            found, next_offset = locate(self._state.segments, request, self.end_offset)
            return LogPart(found if len(found) > at_once else found.read(), next_offset)

    def offset_for_time(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp ms) of the first record at or after ``timestamp_ms``; None if there is none."""
        from penstock.store import time_lookup

        with self._reading():
            return time_lookup.first_since(self._state, timestamp_ms)

    def max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp ms) of the first record with the largest timestamp; None if there is none."""
        from penstock.store import time_lookup

        with self._reading():
            return time_lookup.newest(self._state)

    def verify(self) -> None:
        """Read the whole log, in any thread, and check it. Raises StoreDamaged for the first bad byte, StoreError."""
        with self._reading():
            for segment in list(self._state.segments):
                try:
                    with contextlib.closing(self._folder.directory.open(segment.name + ".log", create=False)) as file:
                        scan = VerifiedBatches(file, segment.size)
                        expected = segment.base
                        for _, header in scan:
                            if header.base_offset < expected:
                                scan.damage = f"a batch at offset {header.base_offset} follows offset {expected - 1}"
                                break
                            expected = header.next_offset
                except FileNotFoundError:
                    continue  # it has been compacted or deleted meanwhile
                if scan.damage is not None:
                    hint = "Restore the file, or start with repair (`penstock snode --repair`) to cut there"
                    raise StoreDamaged(
                        scan.damage, file=segment.path, position=scan.position, hint=f"{hint} and keep the rest aside"
                    )

    # -- delete

    def delete_records(self, before: int) -> int:
        """Delete the records below offset ``before``, durably, and return the new start offset.

        Does nothing if ``before`` is below the start offset. A file is removed when all its records are deleted, so a
        log that is rewritten again and again does not grow. Raises LogOffsetOutOfRange beyond the end, WriteFailed.
        """
        self._check_open()
        if before > self.end_offset:
            raise self._out_of_range("cannot delete", before)
        if self._folder.saved_start < before <= self.start_offset and self._durability.names_pending:
            # Retention has deleted them already, but a power loss may bring them back.
            with self._writing("cannot delete"):
                self._folder.save_start(self.start_offset)
        elif before > self.start_offset:
            with self._writing("cannot delete"):
                self._folder.save_start(before)
                self._state.start_offset = before
                active = self._state.segments[-1]
                if active.base < before and active.size >= _ROLL_BYTES:
                    self._roll()  # so that the next deletion can remove the file
                self._drop(sum(one.next_offset <= before for one in self._state.segments[:-1]))
        return self.start_offset

    def enforce_retention(self, now_ms: int) -> Trimmed | None:
        """Delete the closed segments that exceed the topic's retention limits, and forget idle producers."""
        self._check_open()
        self._state.producers.expire(now_ms - self._context.config.producer_expiration_ms)
        if not self._state.segments:
            return None  # a directory is not created for it: there may be thousands of unused partitions
        with self._writing("cannot delete"):
            written = self._folder.directory.modified_ms
            count = expired(
                self._state.settled_segments(),
                self._config,
                now_ms,
                lambda it: written(f"{it.name}.log"),
                self._state.heads_checked,
            )
            size = sum(segment.size for segment in self._state.segments[:count])
            self._drop(count)
        return Trimmed(self.topic, self.partition, count, size, self.start_offset) if count else None

    def prepare_compaction(self, now_ms: int) -> Compaction | None:
        """A compaction; None if the topic is not compacted or there is not enough to do."""
        self._check_open()
        return plan(self._folder, self._state, self._config, self._durability, self._context.pool, now_ms)

    def prepare_head_check(self, now_ms: int) -> HeadCheck | None:
        """The check of a segment that an older version wrote; None if there is none, or it is not synced yet."""
        if self._gone is not None or self._state.unchecked[0] >= self._state.unchecked[1]:
            return None
        interval = self._config.index_interval_bytes
        return plan_check(self._folder, self._state, self._durability.flushed, interval, now_ms, self.roll)

    def _drop(self, count: int) -> None:
        """Delete the oldest segments, oldest first: a crash midway leaves a log without a gap."""
        state = self._state
        self._durability.dropping(state.segments[:count])
        for _ in range(count):
            segment = state.segments.pop(0)
            state.start_offset = max(state.start_offset, state.segments[0].base)
            segment.remove()
        if count:
            self._durability.dropped()
            self._context.dirty.add(self)
        state.epochs.cut_start(state.start_offset)
        state.aborted.cut_start(state.start_offset)

    # -- flush and close

    def prepare_flush(self) -> Flush | None:
        """A flush for everything appended so far; None if all of it is on the disk. Raises WriteFailed."""
        self._check_open()
        if not self._state.segments:
            return None
        with self._writing("cannot sync"):
            return self._durability.prepare(self.end_offset, self._state.segments[-1])

    def flush(self) -> None:
        """Sync everything appended so far. Raises WriteFailed; the log then takes no more appends."""
        flush = self.prepare_flush()
        if flush is not None:
            flush.run()
            flush.finish()

    def reconfigure(self, config: LogConfig) -> None:
        """Use these options from now on."""
        self._config = config
        self._sync_after = 1 if self._context.config.flush is FlushPolicy.ALWAYS else config.flush_records

    def retire(self, reason: Callable[[], PenstockError]) -> None:
        """Close all files; every later call raises the error that ``reason`` makes."""
        self._gone = reason
        self._state.retired = True
        self._durability.retire()
        self._context.dirty.discard(self)
        for segment in self._state.segments:
            segment.close()

    def describe(self) -> CleanLog | None:
        """The log's state for the clean-shutdown file; None if it has no files, or after a failed sync.

        Call `flush` first. Raises WriteFailed.
        """
        if not self._folder.exists or self._durability.failure is not None:
            return None
        with self._writing("cannot close"):
            self._durability.checkpoint()
            if self._state.segments:
                self._save_aborted(self._state.segments[-1])
        return CleanLog.of(self._state)

    # -- errors

    def _check_open(self) -> None:
        if self._gone is not None:
            raise self._gone()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._check_open()
        try:
            yield
        except OSError as error:
            raise StoreError(f"cannot read: {error}", topic=self.topic, partition=self.partition) from error
        except PenstockError as error:
            error.topic, error.partition = self.topic, self.partition
            raise

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WriteFailed(f"{what}: {error}", topic=self.topic, partition=self.partition) from error

    def _out_of_range(self, what: str, offset: int) -> LogOffsetOutOfRange:
        error = LogOffsetOutOfRange(what, offset=offset, start=self.start_offset, end=self.end_offset)
        error.topic, error.partition = self.topic, self.partition
        return error
