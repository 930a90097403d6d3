"""Decides what a streaming query reads next: its start, the size of batches, partitions that come and go, commits.

The stream reader is a thin shell around ``Follower``, which gets a log as a ``LogView``. ``Weights`` and ``Pace`` set
the size of batches; ``Behind`` reports the lag.

The design follows from traps of Spark's protocol. ``initialOffset`` is called twice per run and its result is not
stored, so the first result is kept and every batch carries its own start. The last batch of a run never reaches
``commit()``, but it comes back as ``start`` of the next ``latestOffset``, and the group's offsets are committed from
there. To Spark equal text means "no new data", so an idle log returns the ``start`` that it was given (here: None).
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from penstock.client.ranges.range_reader import Peek
from penstock.errors import LogTruncated, PenstockError, shown_id
from penstock.model import LogRange, Offset, Partition
from penstock.spark._loss import Losses
from penstock.spark._offsets import BatchOffset, Json, Positions, id_bytes, partition_key
from penstock.spark._options import SourceOptions
from penstock.spark._starts import Endings, resolve

__all__ = ["FIRST", "Behind", "Follower", "LogView", "Pace", "Weights", "admit"]

# The size of a micro-batch: its share of the backlog, and the pace that a target duration sets.
#
# A batch seems to last from the planning of its tasks until Spark asks for the next batch. But with a trigger interval
# Spark may have waited in between, and much of a small batch's time does not depend on its size. So a batch that took
# too long makes the next one smaller only as long as smaller batches were in fact shorter. Pure arithmetic: times are
# arguments.
_SAMPLED = 16
"""Partitions sampled before a batch: 64 KiB each, so that estimating its size costs little compared with reading it."""

_GUESS = 1_024.0


def admit(backlog: Mapping[Partition, int], limit: int | None) -> dict[Partition, int]:
    """Offsets to take from each partition, in proportion to its backlog; partitions without backlog are left out.

    Every partition with a backlog gets at least one offset, so that a huge partition does not block a small one. If
    ``limit`` is less than the number of partitions, the sum is therefore that number; otherwise it is exactly
    ``limit``. ``None`` takes everything. Ties go to the first partition, so that the result is repeatable.
    """
    waiting = {partition: size for partition, size in sorted(backlog.items()) if size > 0}
    total = sum(waiting.values())
    if limit is None or total <= limit:
        return waiting
    spare = limit - len(waiting)
    if spare <= 0:
        return dict.fromkeys(waiting, 1)
    # Each gets one; the rest is shared by largest remainder over the rest of each backlog.
    rest = total - len(waiting)
    shares = {partition: divmod(spare * (size - 1), rest) for partition, size in waiting.items()}
    taken = {partition: 1 + whole for partition, (whole, _) in shares.items()}
    left = limit - sum(taken.values())
    for partition in sorted(shares, key=lambda each: -shares[each][1])[:left]:
        taken[partition] += 1
    return taken


class Weights:
    """Mean bytes per offset of each partition, from samples of its records."""

    def __init__(self) -> None:
        self._known: dict[Partition, float] = {}

    @property
    def known(self) -> bool:
        """Whether any partition was sampled."""
        return bool(self._known)

    def to_sample(self, backlog: Mapping[Partition, int], *, unknown_only: bool = False) -> list[Partition]:
        """The partitions to sample next: those without a sample first, then those with the largest backlog."""
        unwanted = self._known.keys() if unknown_only else ()
        waiting = (partition for partition, size in backlog.items() if size > 0 and partition not in unwanted)
        return heapq.nsmallest(_SAMPLED, waiting, key=lambda each: (each in self._known, -backlog[each], each))

    def learn(self, partition: Partition, size_bytes: int, offsets: int) -> None:
        """A sample: ``offsets`` offsets of ``partition`` took ``size_bytes`` bytes."""
        self._known[partition] = size_bytes / offsets

    def size_bytes(self, backlog: Mapping[Partition, int]) -> float:
        """Estimated bytes of the backlog; partitions without a sample count as the mean of the others."""
        usual = self._mean(self._known.values())
        return sum(size * self._known.get(partition, usual) for partition, size in backlog.items())

    def offsets_of(self, size_bytes: int, backlog: Mapping[Partition, int]) -> int | None:
        """The number of offsets of ``backlog``, in proportion, that have ``size_bytes``; None if all of it is less."""
        whole = self.size_bytes(backlog)
        return None if whole <= size_bytes else max(1, int(sum(backlog.values()) * size_bytes / whole))

    @staticmethod
    def _mean(known: Iterable[float]) -> float:
        values = [*known]
        return sum(values) / len(values) if values else _GUESS


# Pace.

FIRST = 100_000
"""Offsets of the first batch: a fraction of a second for most jobs, so that a target of seconds is not overshot."""

_MOST_GROWTH = 4.0
_MOST_SHRINKING = 0.25
_CLEARLY = 0.8


class Pace(Struct):
    """Adapts ``limit``, the offsets allowed for the next batch, to a target duration."""

    target_ms: int
    limit: int = FIRST
    _begun_ms: float | None = None
    _offsets: int = 0
    _before: tuple[int, float] | None = None
    """Offsets and duration (ms) of the previous batch, if it took too long."""

    def begin(self, offsets: int, now_ms: float) -> None:
        """The tasks of a batch of ``offsets`` offsets start now; called again for a batch that is rerun."""
        self._offsets, self._begun_ms = offsets, now_ms

    def end(self, now_ms: float) -> None:
        """The last batch is done; does nothing if there is none."""
        if self._begun_ms is None or not self._offsets:
            return
        took_ms, self._begun_ms = max(now_ms - self._begun_ms, 1.0), None
        wanted = self.target_ms / took_ms
        if wanted >= 1.0:
            self._before = None
            # A batch that is much smaller than allowed does not show the speed of a full one.
            if self._offsets * 2 >= self.limit:
                self.limit = int(self.limit * min(wanted, _MOST_GROWTH))
            return
        before, self._before = self._before, (self._offsets, took_ms)
        if before is not None and self._offsets < before[0] * _CLEARLY and took_ms > before[1] * _CLEARLY:
            self.limit = before[0]  # the smaller batch was not shorter, so its size does not decide the time
            self._before = None
            return
        self.limit = max(1, int(self._offsets * max(wanted, _MOST_SHRINKING)))


_LOOKED_AT = 1_000
"""Maximum number of offsets that are sampled at the start of a range for an estimate of all of it."""

_log = logging.getLogger("penstock.spark")


class LogView(Protocol):
    """A log as the driver sees it; every call may take as long as the client's ``api_timeout_ms``, retries included."""

    def leaders(self) -> Mapping[Partition, str]:
        """The partitions to read and the name of each one's leader ("" while there is none)."""
        ...

    def ids(self) -> Mapping[str, str]:
        """The ids of the topics that ``leaders`` last saw, if the protocol has any."""
        ...

    def earliest(self, partitions: Collection[Partition]) -> Positions: ...

    def latest(self, partitions: Collection[Partition]) -> Positions: ...

    def epochs(self) -> Mapping[Partition, int]:
        """The leader epochs in which ``latest`` last saw the ends, if the protocol has any."""
        ...

    def truncated(self, positions: Mapping[Partition, tuple[int, int]]) -> Mapping[Partition, LogTruncated]: ...

    def at_times(self, times_ms: Mapping[Partition, int]) -> Mapping[Partition, int | None]: ...

    def committed(self, group: str, partitions: Collection[Partition]) -> Positions: ...

    def peek(self, wanted: Collection[LogRange]) -> Mapping[Partition, Peek]: ...

    def commit(self, group: str, done: BatchOffset) -> None:
        """Commit the ends of a batch."""
        ...

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> float: ...

    def pause(self, seconds: float) -> None: ...

    def close(self) -> None: ...


class Follower:
    """Follows one log through one run of one streaming query. Not thread-safe: Spark calls one method at a time."""

    def __init__(self, options: SourceOptions, log: LogView) -> None:
        self._options = options
        self._log = log
        self._endings = Endings(options.ending)
        self._initial: BatchOffset | None = None
        self._frozen: Positions | None = None
        self._committed: Positions | None = None
        self._leaders: Mapping[Partition, str] = {}
        self._backlog: BatchOffset | None = None
        self._last_batch: BatchOffset | None = None
        self._last_batch_ms: float | None = None
        self._pace = None if options.limits.target_ms is None else Pace(options.limits.target_ms)
        self.weights = Weights()
        self.losses = Losses(fail=options.fail_on_data_loss)
        self.failed_commits = 0

    @property
    def log(self) -> LogView:
        """The log it follows."""
        return self._log

    @property
    def leaders(self) -> Mapping[Partition, str]:
        """Each partition's leader when the log was last asked."""
        return self._leaders

    @property
    def backlog(self) -> BatchOffset | None:
        """After ``next_batch``: from the end of that batch to the end of the log."""
        return self._backlog

    @property
    def last_batch(self) -> BatchOffset | None:
        """The batch that ``next_batch`` made last, in this run."""
        return self._last_batch

    def initial(self) -> BatchOffset:
        """Where a query without a checkpoint starts; the same result on every call."""
        if self._initial is None:
            options, log = self._options, self._log
            wanted = Offset.LATEST if options.starting is None else options.starting
            self._leaders = log.leaders()
            options.subscription.check_all_exist(self._leaders)
            earliest, latest = log.earliest(self._leaders), log.latest(self._leaders)
            self._endings.check(earliest, latest, log)
            positions = resolve(
                "startingOffsets", wanted, earliest=earliest, latest=latest, log=log, group=options.group
            )
            self._initial = BatchOffset(positions, positions, log.ids())
        return self._initial

    def freeze(self) -> None:
        """Treat the log's current end as final (Trigger.AvailableNow), for partitions added later too."""
        self._frozen = self._log.latest(self._log.leaders())

    def next_batch(
        self, start: BatchOffset, rows: int | None = None, *, everything: bool = False
    ) -> BatchOffset | None:
        """The batch after ``start``; None if there is nothing to read, or not enough yet.

        ``rows`` is Spark's own limit; ``everything`` overrides the limits of the options. ``start`` is a completed
        batch, or ``initial()``. Raises DataLoss unless ``failOnDataLoss`` allows losses.
        """
        if self._pace is not None:
            self._pace.end(self._log.monotonic_ms())
        self.commit(start)
        earliest, latest = self._look(start.end)
        kept = self._of_same_topics(start)
        begin = self._begin(kept, earliest, latest, self._truncated(kept, start.epochs))
        ends = self._ends(begin, latest)
        backlog = {partition: ends[partition] - position for partition, position in begin.items()}
        if not everything and self._waits_for_more(sum(backlog.values())):
            self._backlog = BatchOffset(begin, {p: max(latest[p], begin[p]) for p in begin})
            return None
        taken = admit(backlog, None if everything else self._allowed(begin, backlog, rows))
        end = {partition: position + taken.get(partition, 0) for partition, position in begin.items()}
        self._backlog = BatchOffset(end, {partition: max(latest[partition], end[partition]) for partition in end})
        moved = any(begin.get(partition) != position for partition, position in start.end.items())
        if not taken and not moved:
            return None
        epochs = {partition: epoch for partition, epoch in self._log.epochs().items() if partition in end}
        self._last_batch = BatchOffset(begin, end, self._log.ids(), epochs)
        self._last_batch_ms = self._log.monotonic_ms()
        return self._last_batch

    def planned(self, batch: BatchOffset) -> BatchOffset:
        """The ranges that the tasks of ``batch``, which start now, must read."""
        if batch is not self._last_batch and batch != self._last_batch:
            # Planned by an earlier run that died: the log may have a different topic of the same name by now.
            self._leaders = self._log.leaders()
            kept = self._of_same_topics(BatchOffset(batch.start, batch.end, batch.ids))
            batch = BatchOffset({partition: batch.start[partition] for partition in kept}, kept, batch.ids)
        if self._pace is not None:
            self._pace.begin(sum(batch.sizes().values()), self._log.monotonic_ms())
        return batch

    def commit(self, done: BatchOffset) -> None:
        """Commit the end of a completed batch for the group, if configured. Failures are counted and logged."""
        if not self._options.commit_offsets or done.end in (done.start, self._committed):
            return
        assert self._options.group is not None
        try:
            self._log.commit(self._options.group, done)
        except PenstockError as error:
            self.failed_commits += 1
            _log.warning(
                "group %s: offsets could not be committed (failure %d of this run; the next batch tries again): %s",
                self._options.group,
                self.failed_commits,
                error,
            )
        else:
            self._committed = done.end

    def _look(self, known: Positions) -> tuple[Positions, Positions]:
        """First offsets and ends; looked up again after a pause if the log seems to have lost records.

        A broker that has just started, or just taken over, may not know everything yet.
        """
        retries = self._options.retries
        for tried in range(retries.times + 1):
            self._leaders = self._log.leaders()
            earliest, latest = self._log.earliest(self._leaders), self._log.latest(self._leaders)
            if tried == retries.times or all(offset <= latest.get(p, -1) for p, offset in known.items()):
                break
            self._log.pause((retries.interval_ms << tried) / 1_000)
        return earliest, latest

    def _of_same_topics(self, done: BatchOffset) -> Positions:
        """The ends of ``done`` without topics that were deleted and recreated: their offsets now mean other records."""
        now = self._log.ids()
        anew = {topic for topic, known in done.ids.items() if now.get(topic, known) != known}
        for partition, offset in done.end.items():
            if (topic := partition.topic) in anew:
                ids = f"id {_shown(now[topic])}, before {_shown(done.ids[topic])}"
                what = f"the topic was deleted and recreated ({ids}); it is read from its beginning"
                self.losses.report(partition, offset, 0, what)
        return {partition: offset for partition, offset in done.end.items() if partition.topic not in anew}

    def _truncated(self, position: Positions, epochs: Positions) -> Mapping[Partition, LogTruncated]:
        """Positions whose records were truncated since they were read; looks up only those with a new leader epoch."""
        now = self._log.epochs()
        asked = {p: (offset, epochs[p]) for p, offset in position.items() if epochs.get(p, -1) not in {-1, now.get(p)}}
        return self._log.truncated({partition: at for partition, at in asked.items() if partition in now})

    def _begin(
        self, position: Positions, earliest: Positions, latest: Positions, truncated: Mapping[Partition, LogTruncated]
    ) -> dict[Partition, int]:
        """Where the next batch starts: at ``position``, or after lost records; in new partitions, at their start."""
        begin: dict[Partition, int] = {}
        for partition, offset in position.items():
            first, last = earliest.get(partition), latest.get(partition, 0)
            if first is None:
                known = 0 if self._backlog is None else self._backlog.end.get(partition, offset) - offset
                left = f", with {known} unread offsets" if known else ""
                if self._options.subscription.wants(partition):
                    self.losses.report(partition, offset, known, f"the partition is gone{left}")
                else:
                    self.losses.leave(partition, offset, known, f"the subscription no longer names it{left}")
            elif offset < first:
                gone = first - offset
                what = f"{gone} offsets were deleted; the log starts at {first}"
                self.losses.report(partition, offset, gone, what)
                begin[partition] = first
            elif partition in truncated:
                # The records that replaced those already read are new, so they are read.
                parted_at = max(first, truncated[partition].parted_at)
                self.losses.report(partition, offset, offset - parted_at, truncated[partition].message)
                begin[partition] = parted_at
            elif offset > last:
                # Starting over would read everything twice; to do that, users delete the checkpoint.
                what = f"the log ends at {last}: it was truncated or recreated"
                self.losses.report(partition, offset, 0, what)
                begin[partition] = last
            else:
                begin[partition] = offset
        known_at_start = earliest.keys() if self._frozen is None else earliest.keys() & self._frozen.keys()
        begin.update({partition: earliest[partition] for partition in known_at_start - position.keys()})
        return begin

    def _ends(self, begin: Positions, latest: Positions) -> Positions:
        ends = self._endings.apply(begin, latest, self._log)
        if self._frozen is None:
            return ends
        # A partition that joined after the freeze stays where it is.
        return {
            partition: max(position, min(self._frozen.get(partition, position), ends[partition]))
            for partition, position in begin.items()
        }

    def _waits_for_more(self, offsets: int) -> bool:
        """Whether the batch should wait for more offsets. Never if the end is fixed, since it would wait for ever."""
        limits = self._options.limits
        if limits.min_offsets is None or offsets >= limits.min_offsets or self._frozen is not None:
            return False
        since = self._last_batch_ms
        return since is not None and self._log.monotonic_ms() - since < limits.max_delay_ms

    def _allowed(self, begin: Positions, backlog: Mapping[Partition, int], rows: int | None) -> int | None:
        """The smallest of all limits, in offsets."""
        limits = self._options.limits
        allowed = [rows, limits.max_offsets, None if self._pace is None else self._pace.limit]
        if limits.max_bytes is not None:
            self.sample({p: (begin[p], begin[p] + backlog[p]) for p in self.weights.to_sample(backlog)})
            allowed.append(self.weights.offsets_of(limits.max_bytes, backlog))
        return min((limit for limit in allowed if limit is not None), default=None)

    def sample(self, wanted: Mapping[Partition, tuple[int, int]]) -> Mapping[Partition, Peek]:
        """Sample the records at the start of ranges of offsets, as far as possible; remembered for estimates."""
        ranges = [
            LogRange.of(partition, start, min(end, start + _LOOKED_AT)) for partition, (start, end) in wanted.items()
        ]
        found = self._log.peek(ranges)
        for partition, seen in found.items():
            self.weights.learn(partition, seen.size_bytes, seen.offsets)
        return found


def _shown(stored: str) -> str:
    """A topic's id as Kafka's tools show it."""
    found = id_bytes(stored)
    return stored if found is None else shown_id(found)


# The lag of a stream for Spark's progress: ``sources[].latestOffset`` has ``behind`` in addition to the offsets.
#
# {"v": 1, "from": …, "to": …, "behind": {"seconds": {topic: {partition: 12.5}}, "bytes": 10240, "batchBytes": 5, …}}
#
# ``from`` is where the batch ends, ``to`` where the log ends. ``seconds`` is the age of the oldest record after the
# batch, 0 if there is none, absent if unknown. ``bytes`` (left to read) and ``batchBytes`` (in the batch) are estimates
# from samples of the partitions, absent before the first sample.
_MOST_SAMPLES = 16
"""Partitions per lookup of the oldest unread record; those with the largest backlog come first."""

_EVERY_MS = 1_000
"""Time between lookups, so that they do not slow a stream of small batches."""


class Behind:
    """The lag; it remembers earlier lookups, so that reports cost at most a few small reads per second."""

    def __init__(self, follower: Follower, log: LogView) -> None:
        self._follower = follower
        self._log = log
        self._written_ms: dict[Partition, int] = {}
        self._looked_ms: float | None = None
        self._begun_ms = log.monotonic_ms()

    def report(self) -> dict[str, Json] | None:
        """The lag after the last ``next_batch``; None before the first."""
        backlog = self._follower.backlog
        if backlog is None:
            return None
        lag = {partition: end - backlog.start[partition] for partition, end in backlog.end.items()}
        self._look({p: (backlog.start[p], backlog.end[p]) for p, offsets in lag.items() if offsets}, lag)
        batch = self._follower.last_batch
        now_ms = self._log.now_ms()
        seconds: dict[str, Json] = {}
        for partition, offsets in sorted(lag.items()):
            written_ms = self._written_ms.get(partition)
            if offsets and written_ms is None:
                continue
            of_topic = seconds.setdefault(partition.topic, {})
            assert isinstance(of_topic, dict)
            age_ms = now_ms - written_ms if offsets and written_ms is not None else 0
            of_topic[partition_key(partition)] = round(max(0, age_ms) / 1_000, 3)
        weights = self._follower.weights
        behind: dict[str, Json] = {
            "seconds": seconds,
            "lostOffsets": self._follower.losses.offsets,
            "failedCommits": self._follower.failed_commits,
        }
        if weights.known:
            behind["bytes"] = round(weights.size_bytes(lag))
            behind["batchBytes"] = 0 if batch is None else round(weights.size_bytes(batch.sizes()))
        return {**backlog.to_json(), "behind": behind}

    def _look(self, unread: dict[Partition, tuple[int, int]], lag: dict[Partition, int]) -> None:
        self._written_ms = {partition: at for partition, at in self._written_ms.items() if partition in unread}
        now_ms = self._log.monotonic_ms()
        if self._looked_ms is not None and now_ms - self._looked_ms < _EVERY_MS:
            return
        most = heapq.nlargest(_MOST_SAMPLES, unread, key=lambda each: lag[each])
        wanted = {partition: unread[partition] for partition in most}
        if wanted or now_ms - self._begun_ms >= _EVERY_MS:  # not in the first batch, which would wait for the lookups
            wanted = {**self._begins_of_unknown(), **wanted}
        if not wanted:
            return
        self._looked_ms = now_ms
        for partition, seen in self._follower.sample(wanted).items():
            if seen.timestamp_ms is not None and partition in unread:
                self._written_ms[partition] = seen.timestamp_ms

    def _begins_of_unknown(self) -> dict[Partition, tuple[int, int]]:
        """The last batch's ranges in partitions that were never sampled."""
        batch = self._follower.last_batch
        if batch is None:
            return {}
        unknown = self._follower.weights.to_sample(batch.sizes(), unknown_only=True)
        return {partition: (batch.start[partition], batch.end[partition]) for partition in unknown}
