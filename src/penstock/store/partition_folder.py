"""The directory of one partition, ``topic-partition/``, and all small files in it.

| file | content |
|---|---|
| ``partition.metadata`` | version and topic id, as Kafka writes it: tells a topic from a deleted one of the same name |
| ``leader-epoch-checkpoint`` | `EpochHistory` as text, as Kafka writes it |
| ``log-start-offset`` | offsets below it were deleted on request |
| ``recovery-point`` | offsets below it are known to be on the disk |
| ``<offset>.producers`` | `ProducerTable` as JSON, as it was when the segment of that base offset was created |
| ``<offset>.txnindex`` | transactions aborted in that segment, as Kafka writes it, once the segment is closed |
| ``compaction.json`` | the plan of a replacement of segments (`swap`) |

A line in ``partition.metadata`` says which offsets have batches with unchecked headers (`batch_heads`).
The directory is created with the first record. This module also writes ``clean-shutdown.json`` of the whole store.
"""

from __future__ import annotations

import base64
import contextlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Final

from msgspec import Struct, to_builtins

from penstock.errors import WriteFailed
from penstock.store.errors import StoreDamaged
from penstock.store.filesystem import Directory
from penstock.store.log_state import Aborted, EpochHistory, LogState, ProducerTable, from_bytes, to_bytes
from penstock.store.segment import SUFFIXES, Segment, segment_name

__all__ = [
    "PREFIX",
    "CleanLog",
    "Durability",
    "Flush",
    "PartitionFolder",
    "finish_swap",
    "is_planned",
    "load_clean",
    "put_aside",
    "rewriting",
    "save_clean",
    "swap",
    "topic_id_of",
    "with_checksum",
    "without_checksum",
]


# Small files begin with a line that has the CRC-32 of the rest, so that a flipped bit is noticed.
def with_checksum(content: bytes) -> bytes:
    """A file's bytes: ``content`` after a line with its checksum."""
    return b"%08x\n" % zlib.crc32(content) + content


def without_checksum(data: bytes | None) -> bytes | None:
    """The content of a file's bytes; None if there is no file or it is damaged."""
    if data is None:
        return None
    checksum, _, content = data.partition(b"\n")
    return content if checksum == b"%08x" % zlib.crc32(content) else None


_METADATA: Final = "partition.metadata"
_UNCHECKED: Final = "unchecked_heads"
_EPOCHS: Final = "leader-epoch-checkpoint"
_START: Final = "log-start-offset"
_POINT: Final = "recovery-point"
_NUMBER_DIGITS: Final = 20


def topic_id_of(directory: Directory) -> bytes | None:
    """The 16-byte topic id in ``partition.metadata``; None if the file is missing or unreadable."""
    try:
        text = _metadata(directory).get("topic_id")
        return None if text is None else base64.urlsafe_b64decode(text + "==")
    except ValueError:
        return None


def _metadata(directory: Directory) -> dict[str, str]:
    text = (directory.load(_METADATA) or b"").decode("ascii", "replace")
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


class PartitionFolder:
    """One partition's directory, made on first use."""

    __slots__ = ("_directory", "_id", "_made", "_root", "_unsynced", "name", "partition", "saved_start", "topic")

    def __init__(self, root: Directory, topic: str, partition: int, topic_id: bytes, *, exists: bool) -> None:
        self.topic = topic
        self.partition = partition
        self.name = f"{topic}-{partition}"
        self._root = root
        self._id = topic_id
        self.saved_start = 0
        """The log start offset that this process saved durably. A file found at start may not have been synced."""
        self._unsynced: set[str] = set()
        self._made = False
        self._directory: Directory | None = root.folder(self.name) if exists else None
        if self._directory is not None and topic_id_of(self._directory) is None:
            self._save_id(self._directory)  # a power loss came before the file was on the disk

    @property
    def exists(self) -> bool:
        return self._directory is not None

    @property
    def directory(self) -> Directory:
        """The directory, created if it is missing; its entry is durable after the next `sync`."""
        if self._directory is None:
            made = self._root.folder(self.name, create=True)
            self._save_id(made, (0, 0))
            self._directory = made
            self._made = True
        return self._directory

    def _save_id(self, directory: Directory, unchecked: tuple[int, int] | None = None) -> None:
        text = base64.urlsafe_b64encode(self._id).decode().rstrip("=")
        more = "" if unchecked is None else f"{_UNCHECKED}: {unchecked[0]} {unchecked[1]}\n"
        self._save(directory, _METADATA, f"version: 0\ntopic_id: {text}\n{more}".encode())

    def _save(self, directory: Directory, name: str, data: bytes) -> None:
        """Write a file; the next `sync` makes it durable."""
        directory.replace(name, data, durable=False)
        self._unsynced.add(name)

    def unchecked(self) -> tuple[int, int] | None:
        """The range of offsets (from, before) with unchecked batch headers; None if an older version wrote the log."""
        if self._directory is None:
            return 0, 0
        numbers = _metadata(self._directory).get(_UNCHECKED, "").split()
        if len(numbers) != 2 or not all(each.isdigit() and len(each) < _NUMBER_DIGITS for each in numbers):
            return None
        return int(numbers[0]), int(numbers[1])

    def save_unchecked(self, unchecked: tuple[int, int]) -> None:
        """Made durable by `sync`. If an older range is found instead, headers are only checked again."""
        self._save_id(self.directory, unchecked)

    @property
    def unsynced(self) -> bool:
        """Whether small files were written since the last `sync`."""
        return bool(self._unsynced)

    @property
    def directory_path(self) -> str:
        """The directory's path, for messages; it need not exist."""
        return f"{self._root.path}/{self.name}"

    def sync(self) -> None:
        """Sync the small files, the directory's entries and its own entry; from any thread."""
        names, self._unsynced = self._unsynced, set()
        try:
            for name in sorted(names):  # in the same order each time, so that a simulated crash can be repeated
                with (
                    contextlib.suppress(FileNotFoundError),  # it was deleted with its segment
                    contextlib.closing(self.directory.open(name, create=False)) as file,
                ):
                    file.syncer()()
            self.directory.sync()
            if self._made:
                self._root.sync()
                self._made = False
        except OSError:
            self._unsynced |= names
            raise

    def load_start(self) -> int:
        """Log start offset; 0 if no request moved it. Raises StoreDamaged: a wrong offset could cost the whole log."""
        number = self._load_number(_START)
        if number is None and self.directory.load(_START) is not None:
            raise StoreDamaged(
                "not a start offset", file=f"{self.directory.path}/{_START}", position=0, hint="Remove it to start at 0"
            )
        return number or 0

    def save_start(self, offset: int) -> None:
        """Durable when it returns: deleted records must not come back."""
        self.directory.replace(_START, with_checksum(str(offset).encode()), durable=True)
        self.saved_start = offset

    def load_point(self) -> int:
        """Recovery point; 0 if nothing is known to be on the disk."""
        return self._load_number(_POINT) or 0

    def save_point(self, offset: int, *, durable: bool = False) -> None:
        """Usually not synced: an older point only makes the next start scan more. A point that moves back must be."""
        self.directory.replace(_POINT, with_checksum(str(offset).encode()), durable=durable)

    def _load_number(self, name: str) -> int | None:
        text = without_checksum(self.directory.load(name)) or b""
        return int(text) if text.isdigit() and len(text) < _NUMBER_DIGITS else None

    def load_epochs(self) -> EpochHistory | None:
        """None if there is no readable checkpoint."""
        text = self.directory.load(_EPOCHS)
        try:
            return None if text is None else EpochHistory.from_text(text.decode())
        except ValueError:
            return None

    def save_epochs(self, epochs: EpochHistory) -> None:
        """Made durable by `sync`; without it, recovery rebuilds them from the batches."""
        self._save(self.directory, _EPOCHS, epochs.to_text().encode())

    def load_producers(self, base: int) -> ProducerTable | None:
        """The producers before offset ``base``; None if there is no readable snapshot."""
        text = without_checksum(self.directory.load(segment_name(base) + ".producers"))
        if text is None:
            return None
        table = ProducerTable()
        try:
            table.restore(json.loads(text))
        except (ValueError, TypeError):
            return None
        return table

    def save_producers(self, base: int, table: ProducerTable) -> None:
        """Made durable by `sync`; without it, recovery rebuilds them from the batches."""
        text = json.dumps(table.snapshot(), separators=(",", ":"))
        self._save(self.directory, segment_name(base) + ".producers", with_checksum(text.encode()))

    def load_aborted(self, base: int, end: int) -> list[Aborted] | None:
        """The transactions aborted in the segment of offsets ``base`` to ``end``; None if the file is damaged."""
        try:
            return list(from_bytes(self.directory.load(segment_name(base) + ".txnindex") or b"", base, end))
        except ValueError:
            return None

    def save_aborted(self, base: int, entries: Sequence[Aborted]) -> None:
        """Durable when it returns: the markers of a closed segment are not read again."""
        name = segment_name(base) + ".txnindex"
        if entries:
            self.directory.replace(name, to_bytes(entries), durable=True)
        else:
            self.directory.remove(name)


# ``clean-shutdown.json`` has the state of each log when the store closed, so that the next start need not scan.
#
# The file names the epoch that ended with it. A start moves to a new epoch before it writes, so an old file that is
# still there after a crash is ignored.
_FILE: Final = "clean-shutdown.json"


class CleanLog(Struct, frozen=True):
    """A log at close. ``segments``: base, size, next offset, newest timestamp (ms), its offset, created (ms)."""

    start_offset: int
    segments: Sequence[Sequence[int]]
    epochs: Sequence[Sequence[int]]
    producers: Sequence[Sequence[int]]

    @classmethod
    def of(cls, state: LogState) -> CleanLog:
        rows = [
            [one.base, one.size, one.next_offset, one.newest.timestamp_ms, one.newest.offset, one.created_ms]
            for one in state.segments
        ]
        return cls(state.start_offset, rows, state.epochs.entries(), state.producers.snapshot())


def save_clean(directory: Directory, epoch: int, logs: Mapping[str, CleanLog]) -> None:
    """Write the file, durably; ``logs`` by directory name. Raises OSError."""
    facts = {"epoch": epoch, "logs": {name: to_builtins(log) for name, log in logs.items()}}
    directory.replace(_FILE, with_checksum(json.dumps(facts, separators=(",", ":")).encode()), durable=True)


def load_clean(directory: Directory, epoch: int) -> Mapping[str, CleanLog]:
    """Logs by directory name; empty unless ``epoch`` ended in a clean shutdown."""
    text = without_checksum(directory.load(_FILE))
    try:
        facts = json.loads(text) if text else {}
        if facts.get("epoch") != epoch:
            return {}
        return {name: CleanLog(**log) for name, log in facts["logs"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # scanning the logs is always safe


# Replacing segments is atomic: after a crash either all of the old ones are replaced or none.
#
# A plan, ``compaction.json``, lists the base offsets of old and new segments; it is durable before the first file is
# touched. Then files are renamed and removed, and the plan is deleted; a start that finds the plan repeats these steps.
PREFIX: Final = "cleaned-"
"""The prefix of new segments' names until they are in place."""

_PLAN: Final = "compaction.json"


@contextlib.contextmanager
def rewriting(folder: PartitionFolder, state: LogState, cannot: str) -> Iterator[None]:
    """Turn an OSError into WriteFailed, whose text begins with ``cannot``; ignore it if the topic is deleted."""
    try:
        yield
    except OSError as error:
        if not state.retired:
            raise WriteFailed(f"{cannot}: {error}", topic=folder.topic, partition=folder.partition) from error


def swap(directory: Directory, old: Sequence[int], new: Sequence[int]) -> None:
    """Replace the segments at base offsets ``old`` with those at ``new``, whose names begin with `PREFIX`.

    Raises OSError. If there is a plan after that (`is_planned`), only the next start can complete it.
    """
    directory.replace(_PLAN, with_checksum(json.dumps({"old": list(old), "new": list(new)}).encode()), durable=True)
    finish_swap(directory)


def is_planned(directory: Directory) -> bool:
    """Whether there is a plan that `finish_swap` has not completed. Raises OSError."""
    return _PLAN in directory.files()


def finish_swap(directory: Directory) -> None:
    """Complete the plan, if there is one. A call that was interrupted anywhere can be repeated.

    Raises OSError, StoreDamaged.
    """
    data = directory.load(_PLAN)
    if data is None:
        return
    text = without_checksum(data)
    if text is None:
        raise StoreDamaged(
            "not the plan of a compaction",
            file=f"{directory.path}/{_PLAN}",
            position=0,
            hint="Restore it, or start with repair (`penstock snode --repair`) to ignore it",
        )
    plan: dict[str, list[int]] = json.loads(text)
    old, new = plan["old"], plan["new"]
    there = directory.files()
    for name in (segment_name(base) + suffix for base in new for suffix in SUFFIXES):
        if PREFIX + name in there:
            directory.rename(PREFIX + name, name)
    for base in set(old).difference(new):
        for suffix in SUFFIXES:
            directory.remove(segment_name(base) + suffix)
    directory.sync()
    directory.remove(_PLAN)
    # Otherwise a power loss might bring the plan back while the next compaction is half written under the same names.
    directory.sync()


def put_aside(directory: Directory) -> None:
    """Rename a plan that cannot be read, so that it is ignored but can be examined. Raises OSError."""
    directory.rename(_PLAN, _PLAN + ".damaged")
    directory.sync()


# Syncing one log: `Durability` knows what has to be synced, `Flush` does it outside the owner's thread.
#
# `Durability.prepare` (the owner's thread) duplicates the file handles, `Flush.run` (any thread) syncs them,
# `Flush.finish` (the owner's thread again) records what is durable now.
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
