"""Loads a partition's log from the disk: from the clean-shutdown file, or by scanning the log.

Without that file, segments from the recovery point on (at least the last one) are read in full; for older ones only the
indexes are checked. A power loss may keep any part of the unsynced bytes, so above the recovery point any bytes are
possible: a segment is cut there after its last good batch. A crash cannot cause the loss of batches below that point,
nor of data that the clean-shutdown file lists: that is StoreDamaged, unless the owner asked for repair, which cuts
there too. The bytes that are cut are copied to a file, segments after a cut are kept and read, and everything is
reported.

A cut is synced before the log takes appends. Otherwise another power loss could bring the old bytes back, while newer
ones with the same offsets after them have been synced. The steps have this order, so that a crash between any two
leaves a log that opens: the copy of what is cut, a recovery point that has to move back, the cut, the directory's
entries.
"""

from __future__ import annotations

import contextlib
import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Final

from penstock.records.batch import BatchHeader
from penstock.store.errors import Recovery, StoreDamaged
from penstock.store.filesystem import Directory, File
from penstock.store.log_state import Aborted, Entry, EpochHistory, LogState, entry_of, note
from penstock.store.partition_folder import PREFIX, CleanLog, PartitionFolder, finish_swap, put_aside
from penstock.store.segment import SUFFIXES, OpenSegments, Segment, Stamp, Step, VerifiedBatches

__all__ = ["Recoverer", "keep_aside"]

# Recovery keeps a copy of what it cuts off a segment, because it may have been acknowledged.
#
# ``<offset>.cut-POSITION`` in the same directory has the segment's bytes from that position on, unchanged: Kafka's dump
# tool reads the whole batches in it, and they can be extracted and produced again. Retention ignores the file; it is
# deleted with its topic.
_PIECE = 1 << 20


def keep_aside(directory: Directory, name: str, position: int, size: int) -> str | None:
    """Copy ``name[position:size]`` durably into its own file and return the path; None if all bytes are zero.

    A call that is repeated after a crash still leaves only one copy. Raises OSError.
    """
    with contextlib.closing(directory.open(name, create=False)) as file:
        if not any(any(piece) for _, piece in _pieces(file, position, size)):
            return None  # the file system wrote the new size, but not the data
        stem = name.partition(".")[0]
        for number in itertools.count():
            aside = f"{stem}.cut-{position}" + (f"-{number}" if number else "")
            there = directory.files().get(aside)
            if there is None or _is_prefix(directory, aside, there, file, position, size):
                break
        with contextlib.closing(directory.open(aside)) as copy:
            for at, piece in _pieces(file, position, size):
                copy.write(at - position, [piece])
            copy.syncer()()
    directory.sync()
    return f"{directory.path}/{aside}"


def _pieces(file: File, position: int, size: int) -> Iterator[tuple[int, bytes]]:
    for at in range(position, size, _PIECE):
        yield at, file.read(at, min(_PIECE, size - at))


def _is_prefix(directory: Directory, aside: str, there: int, file: File, position: int, size: int) -> bool:
    """Whether the file ``aside``, of ``there`` bytes, is a prefix of the bytes to copy."""
    with contextlib.closing(directory.open(aside, create=False)) as copy:
        return there <= size - position and all(
            copy.read(at - position, len(piece)) == piece for at, piece in _pieces(file, position, position + there)
        )


_NAME_DIGITS: Final = 20
_GONE: Final = "what was there at the last shutdown is gone"
_REPAIR: Final = "start with repair (`penstock snode --repair`)"


class Recoverer:
    """Loads partitions. ``epoch`` is the store's new leader epoch: no batch can have it, or a later one, yet."""

    def __init__(self, pool: OpenSegments, index_interval_bytes: int, epoch: int, now_ms: int, *, repair: bool) -> None:
        self._pool = pool
        self._interval = index_interval_bytes
        self._epoch = epoch
        self._now_ms = now_ms
        self._repair = repair

    def load(
        self, folder: PartitionFolder, clean: CleanLog | None, *, compacts: bool = False, whole: bool = False
    ) -> LogState:
        """The log in ``folder``; a log that ``compacts`` may have gaps in its offsets. Raises StoreDamaged.

        ``whole``: read it in full, even after a clean shutdown.
        """
        try:
            if not folder.exists:
                return self._without_folder(folder, clean)
            reset = self._finish_swap(folder)
            state = self._load_existing(folder, clean, compacts=compacts, whole=whole)
        except StoreDamaged as error:
            error.topic, error.partition = folder.topic, folder.partition
            raise
        state.recovered[:0] = reset
        return state

    def _without_folder(self, folder: PartitionFolder, clean: CleanLog | None) -> LogState:
        """A partition without a directory: it was never written to, unless the clean-shutdown file lists it."""
        if clean is None or not clean.segments:
            return LogState()
        end = clean.segments[-1][2]
        lost = Recovery(
            folder.topic, folder.partition, 0, clean.start_offset, _GONE, f"{folder.name}/", next_offset=end
        )
        self._refuse_loss(lost, folder.directory_path)
        # Its offsets are not used again: groups may have committed them.
        state = LogState(end, recovered=[lost])
        self._begin_at(folder, state, end)
        return state

    def _finish_swap(self, folder: PartitionFolder) -> list[Recovery]:
        try:
            finish_swap(folder.directory)
        except StoreDamaged as error:
            if not self._repair:
                raise
            put_aside(folder.directory)  # segments not replaced yet are still there, the others are in place
            return [Recovery(folder.topic, folder.partition, 0, 0, f"{error.message}: ignored", error.file)]
        return []

    def _load_existing(
        self, folder: PartitionFolder, clean: CleanLog | None, *, compacts: bool, whole: bool
    ) -> LogState:
        files = folder.directory.files()
        sizes = {
            int(name[:_NAME_DIGITS]): size
            for name, size in files.items()
            if name.endswith(".log") and len(name) == _NAME_DIGITS + 4 and name[:_NAME_DIGITS].isdigit()
        }
        if clean is not None and not whole and sizes == {row[0]: row[1] for row in clean.segments}:
            aborted = [folder.load_aborted(row[0], row[2]) for row in clean.segments]
            if None not in aborted:
                _sweep(folder, files, sizes)
                return self._as_clean(folder, clean, chain.from_iterable(entries or () for entries in aborted))
        missing = self._missing(folder, clean, sizes) if clean is not None else []
        _sweep(folder, files, sizes)
        state = self._by_scanning(folder, sizes, compacts=compacts, whole=whole)
        reported = {lost.file for lost in state.recovered}
        state.recovered += [lost for lost in missing if lost.file not in reported]
        return state

    def _missing(self, folder: PartitionFolder, clean: CleanLog, sizes: Mapping[int, int]) -> list[Recovery]:
        """Segments in the clean-shutdown file that are missing or too short, except those deleted on request."""
        missing = []
        for base, size, next_offset, *_ in clean.segments:
            there = sizes.get(base)
            if next_offset > clean.start_offset and (there is None or there < size):
                path = self._segment(folder, base).path
                why = _GONE if there is None else f"{size - there} bytes that were there at the last shutdown are gone"
                lost = Recovery(folder.topic, folder.partition, 0, base, why, path, there or 0, next_offset)
                self._refuse_loss(lost, path)
                missing.append(lost)
        return missing

    def _refuse_loss(self, lost: Recovery, path: str) -> None:
        if not self._repair:
            raise StoreDamaged(
                f"{lost.reason}, with offsets up to {(lost.next_offset or 1) - 1}",
                file=path,
                position=lost.position,
                hint=f"Restore it, or {_REPAIR} to go on without it",
            )

    def _segment(self, folder: PartitionFolder, base: int) -> Segment:
        return Segment(folder.directory, base, self._pool, self._interval)

    def _as_clean(self, folder: PartitionFolder, clean: CleanLog, aborted: Iterable[Aborted]) -> LogState:
        state = LogState(clean.start_offset)
        for base, size, next_offset, newest, newest_offset, created in clean.segments:
            segment = self._segment(folder, base)
            segment.size, segment.next_offset, segment.created_ms = size, next_offset, created
            segment.newest = Stamp(newest, newest_offset)
            state.segments.append(segment)
        state.epochs = EpochHistory((epoch, start) for epoch, start in clean.epochs)
        state.producers.restore(clean.producers)
        for entry in aborted:
            state.aborted.add(entry)
        state.recovery_point = state.end_offset
        return state

    def _by_scanning(
        self, folder: PartitionFolder, sizes: Mapping[int, int], *, compacts: bool, whole: bool
    ) -> LogState:
        bases = sorted(sizes)
        state = LogState(recovery_point=folder.load_point())
        try:
            state.start_offset = folder.load_start()
        except StoreDamaged as error:
            if not self._repair:
                raise
            state.recovered.append(Recovery(folder.topic, folder.partition, 0, 0, f"{error.message}: starting at 0"))
        first = self._first_to_scan(folder, state, bases[:1] if whole else bases)
        for row, (base, limit) in enumerate(zip(bases, [*bases[1:], None], strict=False)):
            segment = self._segment(folder, base)
            segment.created_ms = folder.directory.modified_ms(segment.name + ".log")
            if row < first and limit is not None:
                self._check(folder, state, segment, sizes[base], limit)
            else:
                if row > first:  # the snapshot may know of batches (such as markers) that are gone
                    folder.save_producers(base, state.producers)
                self._scan(folder, state, segment, sizes[base], limit)
                if limit is not None and not compacts:
                    _note_gap(folder, state, segment, limit)
            state.segments.append(segment)
        return self._settle(folder, state)

    def _first_to_scan(self, folder: PartitionFolder, state: LogState, bases: list[int]) -> int:
        """Index of the segment that holds the recovery point; 0 if the state saved at its start cannot be read."""
        row = max(bisect_right(bases, state.recovery_point) - 1, 0)
        for first in (row, 0) if bases else ():
            epochs, producers = folder.load_epochs(), folder.load_producers(bases[first])
            aborted = [folder.load_aborted(*span) for span in pairwise(bases[: first + 1])]
            if epochs is not None and producers is not None and None not in aborted:
                epochs.cut_end(bases[first])
                state.epochs, state.producers = epochs, producers
                for entry in (entry for entries in aborted for entry in entries or ()):
                    state.aborted.add(entry)
                return first
        return 0

    def _check(self, folder: PartitionFolder, state: LogState, segment: Segment, size: int, limit: int) -> None:
        """Load a closed segment below the recovery point from its indexes, checked against its last batches."""
        try:
            segment.read_facts(size)
            if segment.next_offset > limit:
                raise StoreDamaged("its offsets reach into the next segment", file=segment.path, position=segment.size)
        except StoreDamaged:
            # The part above the recovery point, or from the next segment's base offset on, may be cut.
            # The state is thrown away: producers and epochs this far back are not needed.
            alone = LogState(state.start_offset, recovery_point=state.recovery_point)
            self._scan(folder, alone, segment, size, limit)
            state.recovered += alone.recovered

    def _scan(self, folder: PartitionFolder, state: LogState, segment: Segment, size: int, limit: int | None) -> None:
        """Read a whole segment and add its batches to ``state``.

        ``limit`` is the base offset of the next segment, None for the last one.
        """
        segment.clear()
        older_catalog = False
        with contextlib.closing(folder.directory.open(segment.name + ".log")) as file:
            scan = VerifiedBatches(file, size)
            for position, header in scan:
                scan.damage = self._contradiction(state, segment, header, limit)
                if scan.damage:
                    older_catalog = header.leader_epoch >= self._epoch and self._wrote_later(folder)
                    break
                entry = entry_of(header, file.read(position, header.length) if header.control else b"")
                self._note(state, segment, position, header, entry)
        if scan.damage:
            torn = not older_catalog and not _misses_synced(state, segment, limit)
            self._cut(folder, state, segment, size, scan.damage, limit, torn=torn)
        if limit is not None:
            segment.seal()
            folder.save_aborted(segment.base, state.aborted.marked(segment.base, segment.next_offset))
            if scan.damage:  # if it is below the recovery point, the segment is not read again
                for sync in segment.syncers(sealed=True):
                    sync()

    def _note(self, state: LogState, segment: Segment, position: int, header: BatchHeader, entry: Entry) -> None:
        step = Step(position, position + header.length, header.base_offset, header.last_offset, header.max_timestamp)
        segment.note(step)
        state.epochs.assign(header.leader_epoch, header.base_offset)
        note(state, entry, step, self._now_ms)

    def _wrote_later(self, folder: PartitionFolder) -> bool:
        """Whether the log was already written in this epoch: then the catalog is an older one, and the log is good."""
        epochs = folder.load_epochs()
        return epochs is not None and epochs.latest >= self._epoch

    def _contradiction(self, state: LogState, segment: Segment, header: BatchHeader, limit: int | None) -> str | None:
        """The error in a batch's fields outside its checksum, None if they are consistent.

        A page that is torn inside a batch's header leaves wrong fields with a correct checksum.
        """
        base, expected = header.base_offset, segment.next_offset
        if base < expected or (limit is None and base != expected):
            return f"a batch at offset {base} follows offset {expected - 1}"
        if limit is not None and header.next_offset > limit:
            return f"offset {header.last_offset} reaches into the next segment, which begins at {limit}"
        if not state.epochs.latest <= header.leader_epoch < self._epoch:
            return f"leader epoch {header.leader_epoch} follows {state.epochs.latest}, the store is in {self._epoch}"
        return None

    def _cut(
        self,
        folder: PartitionFolder,
        state: LogState,
        segment: Segment,
        size: int,
        reason: str,
        limit: int | None,
        *,
        torn: bool,
    ) -> None:
        if not torn and not self._repair:
            raise StoreDamaged(
                reason,
                file=segment.path,
                position=segment.size,
                hint=f"A crash does not cause this. Restore the file, or {_REPAIR} to cut there and keep what follows",
            )
        cut, at = size - segment.size, segment.next_offset
        aside = keep_aside(folder.directory, segment.name + ".log", segment.size, size)
        if limit is None and at < state.recovery_point:
            state.recovery_point = at  # otherwise a crash would leave a log that lacks synced records
            folder.save_point(at, durable=True)
        segment.cut()
        state.recovered.append(
            Recovery(folder.topic, folder.partition, cut, at, reason, segment.path, segment.size, limit, aside)
        )

    def _settle(self, folder: PartitionFolder, state: LogState) -> LogState:
        cuts = {cut.at_offset for cut in state.recovered}
        emptied = [one for one in state.segments[:-1] if not one.size and one.base in cuts]
        state.segments = [one for one in state.segments if one not in emptied]  # the cut left nothing of them
        if state.misses_synced(state.end_offset) and not self._repair:
            raise StoreDamaged(
                f"the log ends at offset {state.end_offset}, but was on the disk up to {state.recovery_point}",
                file=state.segments[-1].path if state.segments else folder.directory.path,
                position=state.segments[-1].size if state.segments else 0,
                hint=f"Restore the file, or {_REPAIR} to go on without the rest",
            )
        if state.recovery_point > state.end_offset:
            state.recovery_point = state.end_offset
            folder.save_point(state.recovery_point, durable=True)
        for segment in emptied:
            segment.remove()
        if state.segments and state.start_offset > state.end_offset:
            # All remaining records had been deleted on request: continue where that deletion ended.
            for segment in state.segments:
                segment.remove()
            self._begin_at(folder, state, state.start_offset)
        if state.segments:
            state.start_offset = max(state.start_offset, state.segments[0].base)
        if emptied or state.recovered or folder.unsynced:
            folder.sync()  # older snapshots must not come back either: they know of batches that were cut
        return state

    def _begin_at(self, folder: PartitionFolder, state: LogState, offset: int) -> None:
        """Nothing is left: continue the log at ``offset`` with an empty segment."""
        state.segments = [self._segment(folder, offset)]
        state.segments[0].create()
        state.epochs = EpochHistory()
        folder.save_epochs(state.epochs)
        folder.save_producers(offset, state.producers)


def _misses_synced(state: LogState, segment: Segment, limit: int | None) -> bool:
    """Whether a segment lacks offsets that were on the disk and not deleted on request.

    ``limit`` is the base offset of the next segment, which has the offsets from there on.
    """
    end = state.recovery_point if limit is None else min(limit, state.recovery_point)
    return segment.next_offset < end and state.start_offset < end


def _note_gap(folder: PartitionFolder, state: LogState, segment: Segment, limit: int) -> None:
    """Report offsets missing between whole batches: a power loss took a file, or the end of one."""
    known = state.recovered and state.recovered[-1].file == segment.path
    if segment.next_offset < limit and limit > state.recovery_point and not known:
        lost = Recovery(
            folder.topic,
            folder.partition,
            0,
            segment.next_offset,
            "the file ends early",
            segment.path,
            segment.size,
            limit,
        )
        state.recovered.append(lost)


def _sweep(folder: PartitionFolder, files: Iterable[str], sizes: Mapping[int, int]) -> None:
    """Remove the remains of a crash: temporary files, and indexes and snapshots of segments that are gone."""
    for name in files:
        stem, dot, suffix = name.partition(".")
        companion = len(stem) == _NAME_DIGITS and stem.isdigit() and dot + suffix in SUFFIXES
        if name.endswith(".tmp") or name.startswith(PREFIX) or (companion and int(stem) not in sizes):
            folder.directory.remove(name)
