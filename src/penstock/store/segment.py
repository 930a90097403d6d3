"""One `Segment`: a ``.log`` file of whole record batches from a base offset on, and its two sparse indexes.

A segment's facts (size, next offset, newest timestamp) are always in memory. Its file and indexes are opened when they
are needed and closed when too many are open (`OpenSegments`). `OffsetIndex` and `TimeIndex` are the indexes; the module
also has the functions that walk over a file's batches.
"""

from __future__ import annotations

import contextlib
import errno
import operator
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct

from penstock.errors import CorruptBatch
from penstock.records.batch import HEADER_BYTES, BatchHeader, batches, verify_crc
from penstock.store.errors import StoreDamaged
from penstock.store.filesystem import Buffer, Directory, File, Reader

__all__ = [
    "LENGTH_AFTER",
    "NOTHING",
    "STAMPED",
    "SUFFIXES",
    "OffsetIndex",
    "OpenSegments",
    "Segment",
    "Stamp",
    "Step",
    "TimeIndex",
    "VerifiedBatches",
    "new_step",
    "segment_name",
    "walk",
]

# The two sparse indexes of a segment, in Kafka's file formats, so that Kafka's own tools read them.
#
# - ``.index``: i32 last offset of a batch less the segment's base, i32 position of that batch in the ``.log`` file.
# - ``.timeindex``: i64 largest timestamp so far, i32 last offset (less the base) of the batch that has it.
#
# Both big-endian, strictly increasing. They are kept in memory while their segment is open (8 and 12 bytes per 4 KiB of
# log) and written in blocks: an index is only a shortcut, which recovery rebuilds from the log.
_TIME: Final = struct.Struct(">qi")


class OffsetIndex:
    """Entries as one growing array of ``relative offset << 32 | position``, which is also their order on disk."""

    __slots__ = ("_entries", "_written")

    ENTRY_BYTES: Final = 8

    def __init__(self) -> None:
        self._entries = array("Q")
        self._written = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, relative_offset: int, position: int) -> None:
        """A batch at ``position`` ends with ``relative_offset``."""
        self._entries.append(relative_offset << 32 | position)

    def floor(self, relative_offset: int) -> tuple[int, int]:
        """(relative last offset, position) of the last entry not above the offset; (-1, 0) before the first."""
        row = bisect_right(self._entries, relative_offset << 32 | 0xFFFFFFFF) - 1
        return self._entry(row) if row >= 0 else (-1, 0)

    def before(self, position: int) -> tuple[int, int]:
        """(relative last offset, position) of the last entry not above the position; (-1, 0) before the first."""
        row = bisect_right(self._entries, position, key=_position_of) - 1
        return self._entry(row) if row >= 0 else (-1, 0)

    def last(self) -> tuple[int, int]:
        """The last entry, (-1, 0) if there is none."""
        return self._entry(-1) if self._entries else (-1, 0)

    def _entry(self, row: int) -> tuple[int, int]:
        entry = self._entries[row]
        return entry >> 32, entry & 0xFFFFFFFF

    def load(self, file: File) -> None:
        """Read a file, without a torn last entry. Raises ValueError if entries do not increase."""
        data = file.read(0, file.size // self.ENTRY_BYTES * self.ENTRY_BYTES)
        words = array("i", data)
        _swap(words)
        if not (_in_order(words[0::2], operator.lt) and _in_order(words[1::2], operator.lt)):
            raise ValueError("the entries of an offset index do not increase")
        entries = array("Q", data)
        _swap(entries)
        self._entries, self._written = entries, len(entries)

    @property
    def pending_bytes(self) -> int:
        return (len(self._entries) - self._written) * self.ENTRY_BYTES

    def write(self, file: File) -> None:
        """Append what is not in the file yet."""
        pending = self._entries[self._written :]
        _swap(pending)
        file.write(self._written * self.ENTRY_BYTES, [pending.tobytes()])
        self._written = len(self._entries)


class TimeIndex:
    """Largest timestamps so far, and the relative last offsets of the batches that set them."""

    __slots__ = ("_offsets", "_timestamps", "_written")

    ENTRY_BYTES: Final = _TIME.size

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")
        self._written = 0

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def pending_bytes(self) -> int:
        return (len(self._timestamps) - self._written) * self.ENTRY_BYTES

    def add(self, timestamp_ms: int, relative_offset: int) -> None:
        """Add a new largest timestamp; ignored unless it is larger than the last entry's."""
        if timestamp_ms >= 0 and (not self._timestamps or timestamp_ms > self._timestamps[-1]):
            self._timestamps.append(timestamp_ms)
            self._offsets.append(relative_offset)

    def below(self, timestamp_ms: int) -> int:
        """Relative offset up to which every record is older than ``timestamp_ms``; -1 if the first may not be."""
        row = bisect_left(self._timestamps, timestamp_ms) - 1
        return self._offsets[row] if row >= 0 else -1

    def last(self) -> tuple[int, int]:
        """(timestamp, relative offset) of the last entry, (-1, -1) if there is none."""
        return (self._timestamps[-1], self._offsets[-1]) if self._timestamps else (-1, -1)

    def load(self, file: File) -> None:
        """Read a file, without a torn last entry. Raises ValueError if timestamps do not increase."""
        rows = _TIME.iter_unpack(file.read(0, file.size // self.ENTRY_BYTES * self.ENTRY_BYTES))
        timestamps, offsets = array("q"), array("i")
        for timestamp, offset in rows:
            timestamps.append(timestamp)
            offsets.append(offset)
        if not (_in_order(timestamps, operator.lt) and _in_order(offsets, operator.le)):
            raise ValueError("the entries of a time index do not increase")
        self._timestamps, self._offsets, self._written = timestamps, offsets, len(timestamps)

    def write(self, file: File) -> None:
        """Append what is not in the file yet."""
        rows = map(_TIME.pack, self._timestamps[self._written :], self._offsets[self._written :])
        file.write(self._written * self.ENTRY_BYTES, [b"".join(rows)])
        self._written = len(self._timestamps)


def _position_of(entry: int) -> int:
    return entry & 0xFFFFFFFF


def _in_order(column: array[int], order: Callable[[int, int], bool]) -> bool:
    """Whether each pair of neighbours is in ``order``, and no entry is negative."""
    return not column or (column[0] >= 0 and all(map(order, column, column[1:])))


def _swap(entries: array[int]) -> None:
    if sys.byteorder == "little":
        entries.byteswap()


# Walking over the batches of a segment file, either by headers alone or batch by batch with the checksum verified.
#
# `penstock.records.batch` needs whole batches in memory; a lookup in a file of a gigabyte must skip batches without
# reading their records.
LENGTH_AFTER: Final = 12
"""A batch's length field counts the bytes after it: all except these."""

STAMPED: Final = struct.Struct(">qii")
"""The fields that a log overwrites in an appended batch: base offset, length, leader epoch."""

_HEAD: Final = struct.Struct(">qi4xb6xi8xq")
"""From a header (Kafka record batch v2): base offset, length, magic, last offset delta, largest timestamp."""

_HEADERS_WINDOW: Final = 4_096 + _HEAD.size
_VERIFIED_WINDOW: Final = 1 << 20


class Step(NamedTuple):
    """One batch's position in its file, its offsets and its largest timestamp (ms)."""

    position: int
    end: int
    base_offset: int
    last_offset: int
    max_timestamp: int


new_step: Final = partial(tuple.__new__, Step)
"""Makes a `Step` from a tuple of all its fields, faster than the class does; every append makes one."""


def walk(file: File, position: int, size: int, lowest: int, path: str) -> Iterator[Step]:
    """The batches of ``file[position:size]``, whose offsets increase from ``lowest`` on.

    Raises StoreDamaged at a position where no batch begins; ``path`` is for the message.
    """
    window, begin = b"", position
    while position < size:
        at = position - begin
        if at + _HEAD.size > len(window):
            window, begin, at = file.read(position, _HEADERS_WINDOW), position, 0
            if len(window) < _HEAD.size:
                raise StoreDamaged("the file ends inside a batch", file=path, position=position)
        base, length, magic, last_delta, newest = _HEAD.unpack_from(window, at)
        end = position + length + LENGTH_AFTER
        if magic != 2 or end < position + HEADER_BYTES or end > size or last_delta < 0 or base < lowest:
            raise StoreDamaged("no record batch begins here", file=path, position=position)
        lowest = base + last_delta + 1
        yield Step(position, end, base, lowest - 1, newest)
        position = end


class VerifiedBatches:
    """The batches of ``file[:size]``, each whole and with the right checksum, as (position in the file, header).

    After the iteration, ``position`` is the end of the last good batch, and ``damage`` is the error in the bytes after
    it, None if there are none. If the caller stops early, ``position`` is the batch at which it stopped.
    """

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self._size = size
        self.position = 0
        self.damage: str | None = None

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        wanted = _VERIFIED_WINDOW
        while self.position < self._size and self.damage is None:
            begin = self.position
            window = self._file.read(begin, min(wanted, self._size - begin))
            try:
                for header in batches(window):
                    verify_crc(window, header)
                    yield begin + header.position, header
                    self.position = begin + header.end
            except CorruptBatch as error:
                self.damage = error.message + (f", counted from byte {begin}" if begin else "")
                return
            if self.position > begin:
                wanted = _VERIFIED_WINDOW
            elif not len(window) < (wanted := _length(window)) <= self._size - begin:
                self.damage = f"the last batch is cut off: only {self._size - begin} of its bytes are there"


def _length(window: bytes) -> int:
    """Length of the batch at the start of ``window``, which may have only a part of it, or of the length field."""
    return int.from_bytes(window[8:12], "big", signed=True) + LENGTH_AFTER


class OpenSegments:
    """At most ``limit`` open segments; the least recently used one is closed first.

    File descriptors are few, and there may be thousands of logs.
    """

    __slots__ = ("_limit", "_order", "last")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._order: OrderedDict[Segment, None] = OrderedDict()
        self.last: Segment | None = None
        """The most recently used segment, unless it has been closed."""

    def __len__(self) -> int:
        return len(self._order)

    def touch(self, segment: Segment) -> None:
        """Mark ``segment`` as the most recently used."""
        self.last = segment
        if segment in self._order:
            self._order.move_to_end(segment)
            return
        self._order[segment] = None
        while len(self._order) > self._limit:
            next(iter(self._order)).close()

    def shed(self) -> bool:
        """Close half of them, because the process is out of file descriptors; False if none was open."""
        count = (len(self._order) + 1) // 2
        for segment in list(self._order)[:count]:
            segment.close()
        return count > 0

    def forget(self, segment: Segment) -> None:
        """Drop ``segment``, which has been closed."""
        self._order.pop(segment, None)
        if self.last is segment:
            self.last = None


SUFFIXES: Final = (".log", ".index", ".timeindex", ".producers", ".txnindex")
"""The files of a segment. The last two belong to the log: ``.producers``, the idempotent producers as they were before
the segment, and ``.txnindex``, the aborted transactions whose markers are in it."""

_MAX_RELATIVE: Final = 2**31 - 1
"""Relative offsets and positions in the indexes are signed 32-bit."""

_SAVE_BYTES: Final = 4_096
"""Index entries are written in blocks of this size: one system call per 512 entries."""


class Stamp(NamedTuple):
    """A largest timestamp (ms) and the last offset of the first batch that has it."""

    timestamp_ms: int
    offset: int


NOTHING: Final = Stamp(-1, -1)


class _Opened(Struct):
    """The open file, and the indexes loaded so far."""

    file: File
    offsets: OffsetIndex
    times: TimeIndex | None = None


def segment_name(base: int) -> str:
    """File name without suffix: the base offset in 20 digits."""
    return f"{base:020}"


class Segment:
    """Whole batches from ``base`` on; ``next_offset`` follows the last of them."""

    __slots__ = (
        "_directory",
        "_index_lost",
        "_interval",
        "_last",
        "_newest_at",
        "_newest_ms",
        "_opened",
        "_path",
        "_pool",
        "_prefix",
        "_unindexed",
        "base",
        "created_ms",
        "next_offset",
        "size",
    )

    def __init__(
        self, directory: Directory, base: int, pool: OpenSegments, index_interval_bytes: int, *, prefix: str = ""
    ) -> None:
        self.base = base
        self.size = 0
        self.next_offset = base
        self.newest = NOTHING
        self.created_ms = -1
        self._directory = directory
        self._pool = pool
        self._prefix = prefix
        self._interval = index_interval_bytes
        self._unindexed = 0
        self._last: Step | None = None
        self._opened: _Opened | None = None
        self._index_lost = False
        self._path = ""

    @property
    def name(self) -> str:
        """See `segment_name`; with a prefix until the segment is part of the log."""
        return self._prefix + segment_name(self.base)

    @property
    def path(self) -> str:
        """The ``.log`` file's path, for messages."""
        if not self._path:  # cached, since every stretch that is read needs it
            self._path = f"{self._directory.path}/{self.name}.log"
        return self._path

    @property
    def newest(self) -> Stamp:
        """Its largest timestamp; `NOTHING` if no batch has one."""
        return Stamp(self._newest_ms, self._newest_at)

    @newest.setter
    def newest(self, stamp: Stamp) -> None:
        self._newest_ms, self._newest_at = stamp

    # -- writing

    def fits(self, size: int, last_offset: int, limit: int) -> bool:
        """Whether a batch of ``size`` bytes may still be added to a segment of ``limit`` bytes."""
        return self.size + size <= limit and last_offset - self.base <= _MAX_RELATIVE

    def create(self) -> None:
        """Make the file, empty. Raises OSError."""
        self._open_file(create=True).close()

    def append(self, parts: Sequence[Buffer], step: Step) -> None:
        """Write a batch at the end. After an OSError the segment is as it was."""
        opened = self._opened
        if opened is None or self._pool.last is not self:
            opened = self._open()
        file = opened.file
        try:
            file.write(self.size, parts)
        except OSError:
            # This may fail too: readers stop at ``size``, the next append overwrites the rest, and recovery cuts it.
            with contextlib.suppress(OSError):
                file.truncate(self.size)
            raise
        self.note(step)

    def note(self, step: Step) -> None:
        """Record a batch that is in the file: update the facts and, once per interval, the indexes."""
        position, end, _, last_offset, timestamp_ms = step
        if timestamp_ms > self._newest_ms:
            self._newest_ms, self._newest_at = timestamp_ms, last_offset
        if self._unindexed > self._interval:
            opened = self._open()
            opened.offsets.add(last_offset - self.base, position)
            self._note_newest()
            self._unindexed = 0
            if opened.offsets.pending_bytes >= _SAVE_BYTES:
                self.save_indexes()
        self._unindexed += end - position
        self._last = step
        self.size = end
        self.next_offset = last_offset + 1

    def seal(self) -> None:
        """End appending: write the time index's last entry, which retention and recovery rely on."""
        self._note_newest()
        self.save_indexes()

    def _note_newest(self) -> None:
        if self._newest_ms >= 0:
            self._times().add(self._newest_ms, self._newest_at - self.base)

    def save_indexes(self) -> None:
        """Write the index entries that are only in memory. A failure only costs a rebuild later."""
        opened = self._opened
        if opened is None or self._index_lost:
            return
        try:
            for suffix, index in ((".index", opened.offsets), (".timeindex", opened.times)):
                if index is not None and index.pending_bytes:
                    with contextlib.closing(self._directory.open(self.name + suffix)) as file:
                        index.write(file)
        except OSError:
            self._index_lost = True

    def syncers(self, *, sealed: bool) -> list[Callable[[], None]]:
        """See `File.syncer`. A sealed segment also syncs its indexes, because they are trusted without a scan."""
        syncers = [self._open().file.syncer()]
        for suffix in (".index", ".timeindex") if sealed else ():
            with contextlib.closing(self._directory.open(self.name + suffix)) as file:
                syncers.append(file.syncer())
        return syncers

    # -- reading

    def reader(self) -> Reader:
        """Reads the ``.log`` file: see `File.reader`."""
        return self._open().file.reader()

    def find(self, offset: int) -> Step | None:
        """The first batch whose last offset is not below ``offset``."""
        last = self._last
        if last is not None and offset >= last.base_offset:  # a reader at the end gets the batch that was just appended
            return last if offset <= last.last_offset else None
        for step in self._from_index(lambda offsets: offsets.floor(offset - self.base)):
            if step.last_offset >= offset:
                return step
        return None

    def since(self, timestamp_ms: int) -> Iterator[Step]:
        """The batches that may hold the first record of that time or later, in order."""
        relative = self._times().below(timestamp_ms)
        for step in self._from_index(lambda offsets: offsets.floor(relative)):
            if step.max_timestamp >= timestamp_ms:
                yield step

    def batch(self, step: Step) -> bytes:
        """One batch's bytes."""
        return self._open().file.read(step.position, step.end - step.position)

    def walk(self, position: int = 0) -> Iterator[Step]:
        """All batches from ``position`` on, by their headers alone. Raises StoreDamaged."""
        return walk(self._open().file, position, self.size, self.base, self.path)

    def boundary(self, first: Step, limit: int) -> tuple[int, int]:
        """(position, base offset) of the first batch after ``first`` that ends beyond ``limit``, or of the end."""
        _, indexed = self._open().offsets.before(limit)
        if indexed > first.position:
            steps = self._from_index(lambda offsets: offsets.before(limit))
        else:
            steps = self.walk(first.position)
        for step in steps:
            if step.end > limit:
                return step.position, step.base_offset
        return self.size, self.next_offset

    def _from_index(self, look_up: Callable[[OffsetIndex], tuple[int, int]]) -> Iterator[Step]:
        """Walk from the position of an index entry; rebuild the indexes if that position is not its batch."""
        relative, position = look_up(self._open().offsets)
        if relative >= 0 and not self._ends_at(position, self.base + relative):
            self.reindex()
            _, position = look_up(self._open().offsets)
        return self.walk(position)

    def _ends_at(self, position: int, last_offset: int) -> bool:
        try:
            return next(self.walk(position)).last_offset == last_offset
        except (StoreDamaged, StopIteration):
            return False

    # -- files

    def read_facts(self, size: int) -> None:
        """Load the facts of a closed segment of ``size`` bytes from its indexes and the batches after their last entry.

        Raises StoreDamaged if the last batch does not end where the file does.
        """
        self.size = size
        opened = self._open()
        for step in self.walk(opened.offsets.last()[1]):
            self.next_offset = step.last_offset + 1
        timestamp, relative = self._times().last()
        self.newest = Stamp(timestamp, self.base + relative)
        newest = self.find(self.newest.offset) if timestamp >= 0 else None
        if newest is None or (newest.max_timestamp, newest.last_offset) != self.newest:
            self.reindex()  # the last entry, from `seal`, is missing or wrong

    def reindex(self) -> None:
        """Rebuild indexes and facts from the headers of all batches within the size. Raises StoreDamaged."""
        steps = list(self.walk())
        self.clear()
        for step in steps:
            self.note(step)
        self.seal()

    def adopt(self, pool: OpenSegments) -> None:
        """Become one of the log's own segments, which share ``pool``; its files no longer have a prefix."""
        self._prefix = self._path = ""
        self._pool = pool

    def clear(self) -> None:
        """Reset indexes and facts, in memory and on disk; the caller then calls `note` for every batch that stays."""
        self.close()
        for suffix in (".index", ".timeindex"):
            self._directory.remove(self.name + suffix)
        self._index_lost = False
        self._unindexed = 0
        self._last = None
        self.size, self.next_offset, self.newest = 0, self.base, NOTHING

    def truncate(self) -> None:
        """Cut the file after the last batch that was passed to `note`."""
        self._open().file.truncate(self.size)

    def cut(self) -> None:
        """`truncate` and sync, so that a power loss does not bring the cut bytes back."""
        self.truncate()
        for sync in self.syncers(sealed=False):
            sync()

    def close(self) -> None:
        """Close the file and drop the indexes; the next use loads them again."""
        if self._opened is not None:
            self.save_indexes()
            self._opened.file.close()
            self._opened = None
            self._pool.forget(self)

    def remove(self) -> None:
        """Delete the files, the log first, since opening a store removes indexes without a log."""
        self._index_lost = True  # nothing to save
        self.close()
        for suffix in SUFFIXES:
            self._directory.remove(self.name + suffix)

    def _open(self) -> _Opened:
        opened = self._opened
        if opened is None:
            opened = self._opened = _Opened(self._open_file(create=False), OffsetIndex())
            self._pool.touch(self)
            if self._index_lost or not self._load_offsets(opened):
                try:
                    self.reindex()
                except StoreDamaged:
                    # Batches before the damage can still be read by a walk from the start.
                    self._index_lost = True
                    self._opened = _Opened(opened.file, OffsetIndex(), TimeIndex())
                return self._open()
        else:
            self._pool.touch(self)
        return opened

    def _open_file(self, *, create: bool) -> File:
        while True:
            try:
                return self._directory.open(self.name + ".log", create=create)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._pool.shed():
                    raise

    def _times(self) -> TimeIndex:
        """The time index, loaded on first use; serving consumers does not need it."""
        opened = self._open()
        if opened.times is None:
            opened.times = TimeIndex()
            try:
                self._load(".timeindex", opened.times)
            except ValueError:
                self.reindex()
                return self._times()
        return opened.times

    def _load(self, suffix: str, index: OffsetIndex | TimeIndex) -> None:
        if self.size:
            with contextlib.closing(self._directory.open(self.name + suffix)) as file:
                index.load(file)

    def _load_offsets(self, opened: _Opened) -> bool:
        """False if the index does not match the log and must be rebuilt."""
        if not self.size:
            return True
        try:
            self._load(".index", opened.offsets)
        except ValueError:
            return False
        last, position = opened.offsets.last()
        if last >= 0 and not self._ends_at(position, self.base + last):
            return False
        return self._reaches_end(position)

    def _reaches_end(self, position: int) -> bool:
        """Whether the index is complete: a killed writer may have left batches at the end without entries."""
        unindexed = 0
        try:
            for step in self.walk(position):
                if unindexed > self._interval:
                    return False
                unindexed += step.end - step.position
        except StoreDamaged:
            return True  # damage: a new index could not get past it either, and a read there raises
        self._unindexed = unindexed
        return True
