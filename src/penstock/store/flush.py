"""Syncing one log: `Durability` knows what has to be synced, `Flush` does it outside the owner's thread.

`Durability.prepare` (the owner's thread) duplicates the file handles, `Flush.run` (any thread) syncs them,
`Flush.finish` (the owner's thread again) records what is durable now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Final

from penstock.errors import WriteFailed
from penstock.store.partition_folder import PartitionFolder
from penstock.store.segment import Segment

__all__ = ["Durability", "Flush"]

_POINT_BYTES: Final = 1 << 20
"""The recovery point is saved once per this many bytes; a recovery scans a few MB quickly."""


class Flush:
    """One flush of one log: everything below ``upto`` is on the disk when `run` has returned."""

    __slots__ = ("_durability", "_names", "_sealed", "_synced", "_work", "upto")

    def __init__(
        self,
        durability: Durability,
        upto: int,
        sealed: Sequence[Segment],
        names: int,
        work: Sequence[Callable[[], None]],
    ) -> None:
        self.upto = upto
        self._names = names
        self._durability = durability
        self._sealed = sealed
        self._work = work
        self._synced = False

    def run(self) -> None:
        """Sync. Call it once, from any thread. Raises WriteFailed; the log then takes no more appends."""
        trouble: OSError | None = None
        for one in self._work:  # all of them, even after a failure, since each closes its handle
            try:
                one()
            except OSError as error:
                trouble = trouble or error
        if trouble is not None:
            raise self._durability.fail(trouble) from trouble
        self._synced = True

    def finish(self) -> None:
        """Tell the log, from its owner's thread, that `run` succeeded; does nothing if `run` failed."""
        if self._synced:
            self._durability.reached(self.upto, self._sealed, self._names)


class Durability:
    """How much of one log is on the disk. After a failed sync that is unknown, and ``failure`` says why."""

    __slots__ = (
        "_deletions",
        "_dirty_since_ms",
        "_folder",
        "_gone",
        "_names",
        "_saved",
        "_saving",
        "_synced_names",
        "_unsaved_bytes",
        "_unsynced",
        "failure",
        "flushed",
    )

    def __init__(self, folder: PartitionFolder, flushed: int, sealed: Sequence[Segment]) -> None:
        self.flushed = flushed
        self.failure: str | None = None
        self._gone = False
        self._saving = Lock()
        self._folder = folder
        self._unsynced = [segment for segment in sealed if segment.next_offset > flushed]
        self._dirty_since_ms: int | None = None
        self._saved = flushed
        self._unsaved_bytes = 0
        # Changes of the directory's entries are numbered: the newest change, the newest that is on the disk, the newest
        # deletion. So each of two concurrent flushes knows what the other has really synced.
        # A killed process may have left entries that are not on the disk, so those found at start count as unsynced.
        self._names = int(folder.exists)
        self._synced_names = self._deletions = 0

    @property
    def overdue(self) -> bool:
        """Whether closed segments, or deletions, are not on the disk yet.

        Until they are, recovery has to read these segments, and a power loss may bring deleted ones back.
        """
        return bool(self._unsynced) or self._deletions > self._synced_names

    @property
    def names_pending(self) -> bool:
        """Whether the directory may have new or removed entries that are not on the disk yet."""
        return self._names > self._synced_names

    def waited(self, now_ms: int) -> int:
        """Age of the oldest unsynced bytes in milliseconds; -1 if there are none."""
        return -1 if self._dirty_since_ms is None else now_ms - self._dirty_since_ms

    def appended(self, size: int, now_ms: int) -> None:
        """``size`` bytes were appended."""
        self._unsaved_bytes += size
        if self._dirty_since_ms is None:
            self._dirty_since_ms = now_ms

    def began(self) -> None:
        """A segment was created: the directory has a new entry."""
        self._names += 1

    def sealed(self, segment: Segment) -> None:
        """A segment was closed."""
        self._unsynced.append(segment)

    def dropping(self, segments: Sequence[Segment]) -> None:
        """Segments are about to be deleted. Raises OSError."""
        if self.names_pending:
            # Otherwise a power loss might keep the deletions and lose the segment that continues after them.
            self._folder.sync()
            self._synced_names = self._names
        self._forget(segments)

    def dropped(self) -> None:
        """Segments were deleted; the next flush makes that durable."""
        self._names += 1
        self._deletions = self._names

    def replaced(self, segments: Sequence[Segment]) -> None:
        """A compaction has replaced these segments; the new ones are on the disk, the old files are gone."""
        self._forget(segments)

    def _forget(self, segments: Sequence[Segment]) -> None:
        self._unsynced = [segment for segment in self._unsynced if segment not in segments]

    def prepare(self, end_offset: int, active: Segment) -> Flush | None:
        """The flush that makes everything below ``end_offset`` durable; None if it is. Raises OSError, WriteFailed."""
        self.check()
        if end_offset <= self.flushed and not self.overdue:
            return None
        self._dirty_since_ms = None
        sealed = tuple(self._unsynced)
        work = [syncer for segment in sealed for syncer in segment.syncers(sealed=True)]
        work += active.syncers(sealed=False)
        if self.names_pending or self._folder.unsynced:
            work.append(self._sync_names)
        if sealed or self._unsaved_bytes >= _POINT_BYTES:
            work.append(lambda: self._save_point(end_offset))
            self._unsaved_bytes = 0
        return Flush(self, end_offset, sealed, self._names, work)

    def reached(self, upto: int, sealed: Sequence[Segment], names: int) -> None:
        """A flush has made everything below ``upto``, the ``sealed`` segments and the ``names`` change durable."""
        self.flushed = max(self.flushed, upto)
        self._synced_names = max(self._synced_names, names)
        self._forget(sealed)

    def fail(self, error: OSError, what: str = "the log could not be synced") -> WriteFailed:
        """Stop appends after a failed sync: the kernel may drop the data and report the next sync as a success."""
        self.failure = f"{what}: {error}"
        return self._failed(self.failure)

    def _failed(self, why: str) -> WriteFailed:
        return WriteFailed(
            why,
            topic=self._folder.topic,
            partition=self._folder.partition,
            hint="Close the store and open it again: it then checks what is on the disk",
        )

    def check(self) -> None:
        """Raises WriteFailed after `fail`."""
        if self.failure is not None:
            raise self._failed(self.failure)

    def checkpoint(self) -> None:
        """Save the recovery point before the log closes. Raises OSError."""
        if self._saved < self.flushed:
            self._save_point(self.flushed)

    def retire(self) -> None:
        """Write no files from now on: they are about to be deleted, or another `Store` object owns them."""
        with self._saving:
            self._gone = True

    def _save_point(self, upto: int) -> None:
        # Under the lock, because a topic of the same name may use the same directory as soon as `retire` has returned.
        # This point would then claim offsets to be on the disk that the new log never had.
        with self._saving:
            if not self._gone and upto > self._saved:
                self._folder.save_point(upto)
                self._saved = upto

    def _sync_names(self) -> None:
        with self._unless_gone():
            self._folder.sync()

    @contextmanager
    def _unless_gone(self) -> Iterator[None]:
        """Ignore missing files of a deleted topic: its directory may be renamed while another thread syncs it."""
        try:
            yield
        except FileNotFoundError:
            if not self._gone:
                raise
