"""What a streaming query reads next: its start, how much at once, partitions that come and go, the group's offsets.

The stream reader is a thin shell around ``Follower``, which gets a log as a ``LogView``. What must not live here:
PySpark.

Traps of Spark's protocol that shape it: ``initialOffset`` is called twice a run and its result is not stored, so the
first answer is kept and every batch carries its own start. The last batch of a run never reaches ``commit()``, but it
comes back as ``start`` of the next ``latestOffset``: the group's offsets are committed from there. Spark takes equal
text for "no new data", so an idle log answers with the very ``start`` it was asked with (here: None).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Protocol

from penstock.errors import PenstockError
from penstock.model import Offset, Partition
from penstock.spark._admission import admit
from penstock.spark._loss import report_loss
from penstock.spark._offsets import BatchOffset, Positions
from penstock.spark._options import SourceOptions
from penstock.spark._starts import check_all_exist, resolve

__all__ = ["Follower", "LogView"]

_log = logging.getLogger("penstock.spark")


class LogView(Protocol):
    """A log as the driver sees it; every call may take as long as the client's ``api_timeout_ms``, retries included."""

    def leaders(self) -> Mapping[Partition, str]:
        """The partitions to read and the name of each one's leader ("" while there is none)."""
        ...

    def earliest(self, partitions: Collection[Partition]) -> Positions: ...

    def latest(self, partitions: Collection[Partition]) -> Positions: ...

    def commit(self, group: str, positions: Positions) -> None: ...


class Follower:
    """Follows one log through one run of one streaming query. Not thread-safe: Spark calls one method at a time."""

    def __init__(self, options: SourceOptions, log: LogView) -> None:
        self._options = options
        self._log = log
        self._initial: BatchOffset | None = None
        self._frozen: Positions | None = None
        self._committed: Positions | None = None
        self._leaders: Mapping[Partition, str] = {}
        self._backlog: BatchOffset | None = None
        self.failed_commits = 0

    @property
    def leaders(self) -> Mapping[Partition, str]:
        """Who led each partition when it was last asked."""
        return self._leaders

    @property
    def backlog(self) -> BatchOffset | None:
        """After ``next_batch``: from the end of that batch to the end of the log."""
        return self._backlog

    def initial(self) -> BatchOffset:
        """Where a query without a checkpoint starts; the same answer however often it is asked."""
        if self._initial is None:
            wanted = Offset.LATEST if self._options.starting is None else self._options.starting
            self._leaders = self._log.leaders()
            check_all_exist(self._options.topics, self._options.assigned, self._leaders)
            earliest, latest = self._log.earliest(self._leaders), self._log.latest(self._leaders)
            positions = resolve("startingOffsets", wanted, earliest=earliest, latest=latest)
            self._initial = BatchOffset(positions, positions)
        return self._initial

    def freeze(self) -> None:
        """From now on the log ends where it ends now (Trigger.AvailableNow), partitions added later included."""
        self._frozen = self._log.latest(self._log.leaders())

    def next_batch(self, start: BatchOffset, limit: int | None) -> BatchOffset | None:
        """The batch after ``start`` with at most ``limit`` offsets, None if there is nothing to read.

        ``start`` was completed, or is ``initial()``. Raises DataLoss unless ``failOnDataLoss`` is false.
        """
        self.commit(start)
        self._leaders = self._log.leaders()
        earliest, latest = self._log.earliest(self._leaders), self._log.latest(self._leaders)
        begin = self._begin(start.end, earliest, latest)
        ends = self._ends(begin, latest)
        taken = admit({partition: ends[partition] - begin[partition] for partition in begin}, limit)
        end = {partition: position + taken.get(partition, 0) for partition, position in begin.items()}
        self._backlog = BatchOffset(end, {partition: max(latest[partition], end[partition]) for partition in end})
        moved = any(begin.get(partition) != position for partition, position in start.end.items())
        return BatchOffset(begin, end) if taken or moved else None

    def commit(self, done: BatchOffset) -> None:
        """Commit the end of a completed batch for the group, if asked to. A failure is counted and told, not raised."""
        if not self._options.commit_offsets or done.end in (done.start, self._committed):
            return
        assert self._options.group is not None
        try:
            self._log.commit(self._options.group, done.end)
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

    def _begin(self, position: Positions, earliest: Positions, latest: Positions) -> dict[Partition, int]:
        """Where the next batch starts: at ``position``, or after what is gone; new partitions at their start."""
        begin: dict[Partition, int] = {}
        for partition, offset in position.items():
            if partition not in earliest:
                report_loss(self._options, partition, offset, "the partition is gone")
            elif offset < earliest[partition]:
                gone = earliest[partition] - offset
                report_loss(
                    self._options,
                    partition,
                    offset,
                    f"{gone} offsets were deleted; the log starts at {earliest[partition]}",
                )
                begin[partition] = earliest[partition]
            elif offset > latest[partition]:
                # Going back to its start would read everything twice; whoever wants that deletes the checkpoint.
                report_loss(
                    self._options,
                    partition,
                    offset,
                    f"the log ends at {latest[partition]}: it was truncated or made anew",
                )
                begin[partition] = latest[partition]
            else:
                begin[partition] = offset
        known_at_start = earliest.keys() if self._frozen is None else earliest.keys() & self._frozen.keys()
        begin.update({partition: earliest[partition] for partition in known_at_start - position.keys()})
        return begin

    def _ends(self, begin: Positions, latest: Positions) -> Positions:
        if self._frozen is None:
            return latest
        # A partition that joined after the freeze stays where it is.
        return {
            partition: max(position, min(self._frozen.get(partition, position), latest[partition]))
            for partition, position in begin.items()
        }
