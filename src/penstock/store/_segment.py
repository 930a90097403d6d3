"""One segment: a ``.log`` file of whole record batches from a base offset on, and its two sparse indexes.

A segment's facts (size, next offset, newest timestamp) are always in memory; its file and indexes are opened when
they are needed and closed when too many are open (`OpenSegments`). What must not live here: which segments a log
has, what may be appended, when anything is deleted.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from penstock._dataclasses import dataclass
from penstock.store._directory import Buffer, Directory, File, Reader
from penstock.store._index import OffsetIndex, TimeIndex
from penstock.store._open_segments import OpenSegments
from penstock.store._walks import Step, walk
from penstock.store.errors import StoreDamaged

__all__ = ["NOTHING", "SUFFIXES", "Segment", "Stamp", "segment_name"]

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


@dataclass(slots=True)
class _Opened:
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
        if not self._path:  # readers are given it with every stretch
            self._path = f"{self._directory.path}/{self.name}.log"
        return self._path

    @property
    def newest(self) -> Stamp:
        """Its largest timestamp; `NOTHING` before it has one."""
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
            # If this fails too: nobody reads past ``size``, the next append overwrites it, and recovery cuts it.
            with contextlib.suppress(OSError):
                file.truncate(self.size)
            raise
        self.note(step)

    def note(self, step: Step) -> None:
        """Account for a batch in the file: update the facts and, once per interval, the indexes."""
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
        """See `File.syncer`. A sealed segment also syncs its indexes, which are trusted without reading the log."""
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
        if last is not None and offset >= last.base_offset:  # who reads at the end wants what was just appended
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
        """Walk from where an index entry points; rebuild the indexes if that is not the batch it was made for."""
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
        """Become one of the log's own segments, which share ``pool``: the files have lost their prefix."""
        self._prefix = self._path = ""
        self._pool = pool

    def clear(self) -> None:
        """Forget indexes and facts, in memory and on disk; the caller then calls `note` for every batch that stays."""
        self.close()
        for suffix in (".index", ".timeindex"):
            self._directory.remove(self.name + suffix)
        self._index_lost = False
        self._unindexed = 0
        self._last = None
        self.size, self.next_offset, self.newest = 0, self.base, NOTHING

    def truncate(self) -> None:
        """Cut the file after the last batch that was noted."""
        self._open().file.truncate(self.size)

    def cut(self) -> None:
        """`truncate`, and sync: a power loss must not bring back what was cut."""
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
        """Delete the files, the log first: opening a store removes indexes without a log."""
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
                    # Batches before the damage can still be read, walking from the start.
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
        """The time index, loaded when first needed: serving consumers does not need it."""
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
            return True  # a new index could not get past it either; reading there raises
        self._unindexed = unindexed
        return True
