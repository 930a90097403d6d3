"""A partition's queue of rows to send, and its batches that were sent and not answered yet.

Order is the whole point. Rows leave in the order they came; a batch that failed goes again before any row that came
after it, and while one waits for that, nothing new of its partition is packed. What must not live here: requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow as pa

from penstock._dataclasses import dataclass
from penstock.client.delivery import Fate, Outcome, Run
from penstock.columnar.few import FEW, FewRows, Rows, columns_of, join
from penstock.errors import PenstockError
from penstock.model import Node, Partition
from penstock.seams import Packed

__all__ = ["Flight", "PartitionQueue", "Segment", "fail", "tell"]


@dataclass(slots=True)
class Segment:
    """``rows`` rows of a run, from ``first`` on. Nobody changes it; not frozen, as there is one a batch at least."""

    run: Run
    first: int
    rows: int


@dataclass(slots=True, eq=False)
class Flight:
    """One batch: its rows (kept in case it must be split), who they belong to, and how often it has failed.

    ``number`` counts the batches of a partition in the order they were packed; the halves of a split one share it.
    ``error`` is what has to be decided about, ``reason`` the last one there was. ``offsets`` are those of its rows,
    where the log says each; -1 for one that is not stored. ``sent_at`` is when its request began (loop time), where it
    is the first of that.
    """

    segments: list[Segment]
    rows: Rows
    number: int
    packed: Packed | None = None
    failures: int = 0
    sent_at: float = 0.0
    error: PenstockError | None = None
    reason: PenstockError | None = None
    offsets: Sequence[int] | None = None

    @property
    def born(self) -> float:
        """When its oldest row was put in."""
        return min(segment.run.born for segment in self.segments)

    def settle(self, offset: int, timestamp_ms: int, error: PenstockError | None) -> list[Run]:
        """Note every row's outcome; returns the runs of which nothing is open any more. Who waits is not told yet."""
        if len(self.segments) == 1 and self.offsets is None:
            only = self.segments[0]
            whole = only.run.settle(Fate(only.first, only.rows, offset, timestamp_ms, error))
            return [only.run] if whole else []
        finished: list[Run] = []
        done = 0
        for segment in self.segments:
            fates = self._fates(segment, done, offset, timestamp_ms, error)
            finished.extend(segment.run for fate in fates if segment.run.settle(fate))
            done += segment.rows
            offset = offset + segment.rows if offset >= 0 else -1
        return finished

    def _fates(
        self, segment: Segment, done: int, offset: int, timestamp_ms: int, error: PenstockError | None
    ) -> Iterator[Fate]:
        """One fate, but for batches of which only some rows are stored: these have one for each row that is not."""
        if self.offsets is None:
            yield Fate(segment.first, segment.rows, offset, timestamp_ms, error)
            return
        offsets = self.offsets[done : done + segment.rows]
        for stored, places in groupby(range(segment.rows), key=lambda place: offsets[place] >= 0):
            first, *rest = places
            rows = 1 + len(rest)
            if stored:
                own = offsets[first : first + rows]
                yield Fate(segment.first + first, rows, own[0], timestamp_ms, None, own)
            else:
                yield Fate(segment.first + first, rows, -1, -1, error)

    def halves(self) -> tuple[Flight, Flight]:
        """The same rows in two batches."""
        middle = self.rows.num_rows // 2
        front: list[Segment] = []
        back: list[Segment] = []
        left = middle
        for segment in self.segments:
            here = min(left, segment.rows)
            if here:
                front.append(Segment(segment.run, segment.first, here))
            if here < segment.rows:
                back.append(Segment(segment.run, segment.first + here, segment.rows - here))
            left -= here
        first = Flight(front, self.rows.slice(0, middle), self.number)
        return first, Flight(back, self.rows.slice(middle), self.number)


def fail(segments: Sequence[Segment], error: PenstockError) -> list[Run]:
    """Note the outcome of rows that never became a batch; returns as ``Flight.settle``."""
    settled = ((each.run, Fate(each.first, each.rows, -1, -1, error)) for each in segments)
    return [run for run, fate in settled if run.settle(fate)]


def tell(segments: Sequence[Segment]) -> None:
    """Tell who waits for these rows that some are settled. Last of all: a thread that wakes wants the interpreter."""
    if len(segments) == 1:
        _parted(segments[0].run).changed()
        return
    for outcome in {id(outcome): outcome for outcome in [_parted(segment.run) for segment in segments]}.values():
        outcome.changed()


def _parted(run: Run) -> Outcome:
    """The outcome of a run that has been noted, which has no way back to it once nothing is open.

    So what becomes of a record that is waited for is gone when nobody looks at it any more, and not when garbage is
    collected, which some processes never do.
    """
    outcome = run.outcome
    if run.settled == run.count:
        del run.outcome
    return outcome


class PartitionQueue:
    """One partition's. ``retries`` are batches that failed, in the order they were packed first; ``recovering`` while
    it is being decided what to do about them; ``failed_at`` is the node at which they failed because it
    does not seem to lead the partition any more."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.bytes = 0
        self.in_flight: list[Flight] = []
        self.retries: deque[Flight] = deque()
        self.retry_at = 0.0
        self.failed_at: Node | None = None
        self.recovering = False
        self._numbers = 0
        self._runs: deque[Run] = deque()
        self._taken = 0

    def put(self, run: Run) -> None:
        """Add rows behind all others."""
        self._runs.append(run)
        self.bytes += run.size

    def give_away(self) -> list[Run]:
        """Take out the runs that may go to another partition, and of which nothing was sent yet."""
        begun = 1 if self._taken else 0
        runs = list(self._runs)
        given = [run for run in runs[begun:] if run.free]
        if given:
            self._runs = deque(run for place, run in enumerate(runs) if place < begun or not run.free)
            self.bytes = max(0, self.bytes - sum(run.size for run in given)) if self._runs else 0
        return given

    def holds_only(self, run: Run) -> bool:
        """Whether this is all that there is to send, and nothing is unanswered."""
        return (
            len(self._runs) == 1
            and self._runs[0] is run
            and not (self._taken or self.in_flight or self.retries or self.recovering)
        )

    @property
    def idle(self) -> bool:
        """Nothing to send and nothing unanswered."""
        return not (self._runs or self.in_flight or self.retries or self.recovering)

    @property
    def oldest(self) -> float | None:
        """When the first waiting row was put in."""
        return self._runs[0].born if self._runs else None

    def take(self, most_bytes: int) -> list[Segment]:
        """What the next batch is of: as many of the first rows as weigh at most ``most_bytes``, but one at least.

        Whoever took them owes them a fate: they are not in the queue any more, and in no batch yet.
        """
        run = self._runs[0]
        if len(self._runs) == 1 and not self._taken and run.size <= most_bytes:
            self._runs.clear()
            self.bytes = 0
            return [Segment(run, 0, run.count)]
        segments: list[Segment] = []
        first: Rows | None = None
        left = most_bytes
        while self._runs:
            run = self._runs[0]
            assert run.rows is not None
            if first is not None and (left <= 0 or not _fit_together(first, run.rows)):
                break
            if segments and left < run.size <= most_bytes and not 4 * run.size <= 3 * most_bytes:
                break  # nearly a batch by itself: in two pieces it would be copied, and so would be all that follow it
            weight = max(run.size // run.count, 1)
            fitting = left // weight
            if not fitting and segments:
                break
            first = run.rows if first is None else first
            rows = max(1, min(run.count - self._taken, fitting))
            segments.append(Segment(run, self._taken, rows))
            left -= run.size if rows == run.count else rows * weight
            self._advance(run, rows)
        return segments

    def batch(self, segments: list[Segment]) -> Flight:
        """Rows that were taken, as one batch."""
        whole = segments[0].run
        if len(segments) == 1 and segments[0].rows == whole.count and whole.rows is not None:
            return self._flight(segments, whole.rows)
        pieces = [each.run.rows.slice(each.first, each.rows) for each in segments if each.run.rows is not None]
        return self._flight(segments, _joined(pieces))

    def expire(self, now: float, after_s: float) -> list[Segment]:
        """Take out waiting rows that were put in ``after_s`` ago or earlier."""
        expired = []
        # The same sum as that of the timer which wakes us for this: a difference may round the other way, for ever.
        while self._runs and self._runs[0].born + after_s <= now:
            run = self._runs[0]
            rows = run.count - self._taken
            expired.append(Segment(run, self._taken, rows))
            self._advance(run, rows)
        return expired

    @property
    def at_rest(self) -> bool:
        """Whether nothing of it is under way, and nothing is being decided."""
        return not (self.in_flight or self.recovering)

    def fail(self, flight: Flight) -> None:
        """Put a batch that failed among the others that did, in order."""
        place = sum(1 for each in self.retries if each.number <= flight.number)
        self.retries.insert(place, flight)

    def _flight(self, segments: list[Segment], rows: Rows) -> Flight:
        self._numbers += 1
        return Flight(segments, rows, self._numbers)

    def _advance(self, run: Run, rows: int) -> None:
        self._taken += rows
        if self._taken == run.count:
            self._runs.popleft()
            self._taken = 0
        self.bytes = max(0, self.bytes - run.size * rows // run.count) if self._runs else 0


def _fit_together(first: Rows, behind: Rows) -> bool:
    """Whether one batch may hold both."""
    if isinstance(first, FewRows) and isinstance(behind, FewRows):
        return True
    return bool(columns_of(first).schema == columns_of(behind).schema)


def _joined(pieces: list[Rows]) -> Rows:
    """One behind the other; as columns, if they are many."""
    if len(pieces) == 1:
        return pieces[0]
    few = [piece for piece in pieces if isinstance(piece, FewRows)]
    if len(few) == len(pieces):
        joined = join(few)
        return joined if joined.num_rows <= FEW else joined.columns()
    return pa.concat_batches([columns_of(piece) for piece in pieces])
