"""Corrects the headers of batches that older versions stored unchecked.

Versions before penstock 0.1.0 did not read a batch's records on arrival, so the largest timestamp in its header is the
producer's claim. A partition's directory says which offsets such batches have (`PartitionFolder.unchecked`). A
`HeadCheck` reads one segment of them. If headers are wrong it writes the segment anew: each batch keeps its position
and length, only timestamp and checksum change. The new files are put in place like those of a compaction (`swap`), so
a crash leaves the old segment or the new one. Until a segment is checked, retention does not delete it by age, and
lookups by time read its records.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from penstock.errors import CorruptBatch
from penstock.records.batch import BatchHeader
from penstock.records.validation import ValidatedBatch, plain_records, true_head, walk_records
from penstock.store.errors import StoreDamaged
from penstock.store.log_state import LogState
from penstock.store.partition_folder import PREFIX, PartitionFolder, rewriting, swap
from penstock.store.segment import OpenSegments, Segment, Step, VerifiedBatches

__all__ = ["HeadCheck", "plan_check"]

_RETRY_MS: Final = 600_000
"""Pause after a failure: each attempt reads the segment again."""


def plan_check(
    folder: PartitionFolder, state: LogState, flushed: int, interval: int, now_ms: int, roll: Callable[[], None]
) -> HeadCheck | None:
    """The check of the oldest unchecked segment; None if there is none, or it cannot be replaced now."""
    if state.compacting or now_ms < state.check_after_ms:
        return None
    segment = next((one for one in state.segments if one.size and not state.heads_checked(one)), None)
    if segment is None or segment.next_offset > flushed:
        return None
    state.compacting = True
    return HeadCheck(folder, state, segment, interval, now_ms, roll)


class HeadCheck:
    """One check of one segment: call `run` in any thread, then `finish` in the owner's, even if `run` raised."""

    def __init__(
        self,
        folder: PartitionFolder,
        state: LogState,
        segment: Segment,
        interval: int,
        now_ms: int,
        roll: Callable[[], None],
    ) -> None:
        self.size = segment.size
        """Bytes that are read."""
        self.name = folder.name
        self.done = False
        """Whether the segment has been checked, so that the next one can be."""
        self._folder = folder
        self._directory = folder.directory
        self._state = state
        self._segment = segment
        self._next_offset = segment.next_offset
        self._active = segment is state.segments[-1]
        self._roll = roll
        self._interval = interval
        self._now_ms = now_ms
        self._output: Segment | None = None
        self._wrong = 0
        self._complete = False

    # -- in any thread

    def run(self) -> None:
        """Read the segment, and write it anew if headers are wrong. Raises WriteFailed, StoreDamaged."""
        with rewriting(self._folder, self._state, "cannot put batch heads right"):
            try:
                self._wrong = sum(mended is not None for _, _, mended in self._batches())
            except StoreDamaged:
                self._complete = True  # reading it again would not help: its headers are accepted as they are
                raise
            if self._wrong and not self._active:
                self._rewrite()
            self._complete = True

    def _batches(self) -> Iterator[tuple[bytes, BatchHeader, ValidatedBatch | None]]:
        """Each batch, and its corrected form if its header is wrong."""
        with contextlib.closing(self._directory.open(f"{self._segment.name}.log", create=False)) as file:
            scan = VerifiedBatches(file, self.size)
            for position, header in scan:
                raw = file.read(position, header.length)
                yield raw, header, _mended(raw, header)
        if scan.damage is not None:
            raise StoreDamaged(
                scan.damage,
                file=self._segment.path,
                position=scan.position,
                topic=self._folder.topic,
                partition=self._folder.partition,
            )

    def _rewrite(self) -> None:
        output = Segment(self._directory, self._segment.base, OpenSegments(1), self._interval, prefix=PREFIX)
        self._output = output
        output.create()
        output.clear()
        output.truncate()  # an earlier attempt may have left bytes under this name
        for raw, header, mended in self._batches():
            data, newest = (raw, header.max_timestamp) if mended is None else (mended.data, mended.header.max_timestamp)
            begin = output.size
            step = Step(begin, begin + header.length, header.base_offset, header.last_offset, newest)
            output.append([data], step)
        output.seal()
        for sync in output.syncers(sealed=True):
            sync()
        output.close()
        self._directory.sync()

    # -- in the owner's thread

    def finish(self) -> int:
        """Put the new segment in place and note what is checked; returns how many headers were corrected.

        If the active segment has wrong headers, it is only closed; the next check replaces it. Raises WriteFailed.
        """
        state, segment = self._state, self._segment
        state.compacting = False
        if not self._complete:
            state.check_after_ms = self._now_ms + _RETRY_MS
        if not self._complete or state.retired or segment not in state.segments:
            self._discard()
            return 0
        with rewriting(self._folder, self._state, "cannot put batch heads right"):
            if self._wrong and self._active:
                if segment is state.segments[-1]:
                    self._roll()
                return 0
            if self._output is not None:
                segment.close()
                swap(self._directory, [segment.base], [segment.base])
                segment.newest = self._output.newest
            state.unchecked = (self._next_offset, state.unchecked[1])
            self._folder.save_unchecked(state.unchecked)
        self.done = True
        return self._wrong

    def _discard(self) -> None:
        if self._output is not None and not self._state.retired:
            with rewriting(self._folder, self._state, "cannot put batch heads right"):
                self._output.remove()


def _mended(raw: bytes, header: BatchHeader) -> ValidatedBatch | None:
    """The batch with a correct header; None if its header is correct, or its records cannot be read."""
    if header.control or header.delete_horizon_ms is not None:  # the header was written by a compaction
        return None
    header = header._replace(position=0)
    try:
        times = walk_records(plain_records(raw, header), header.record_count)
    except CorruptBatch:
        return None  # its records cannot be read, now or later
    checked = ValidatedBatch.known(raw, header)
    mended = true_head(checked, times)
    return None if mended is checked else mended
