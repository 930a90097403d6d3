"""Where a bounded stream ends: an offset for each partition, looked up as soon as it exists.

``endingOffsets=latest`` and relative times refer to the moment the run began. A time that the log has not reached yet
is looked up again at each trigger: the stream continues until there is a record at or after it. A source cannot end a
Spark query; with Trigger.AvailableNow it ends, otherwise it idles. What must not live here: batches (``_bounded``).
"""

from __future__ import annotations

from penstock.model import Offset, Partition
from penstock.spark._offsets import Positions
from penstock.spark._starts import AtTime, Knows, Where, resolve
from penstock.spark._times import Moment

__all__ = ["Endings"]


class Endings:
    """For one run of one query."""

    def __init__(self, wanted: Where | None) -> None:
        self._wanted = wanted
        self._found: dict[Partition, int] | None = None
        self._times_ms: dict[Partition, int] = {}
        self._time_ms: int | None = None

    def check(self, earliest: Positions, latest: Positions, log: Knows) -> None:
        """Raise ConfigError unless the ending names exactly the partitions that a new query reads."""
        if self._wanted is not None:
            resolve("endingOffsets", self._wanted, earliest=earliest, latest=latest, log=log)

    def apply(self, begin: Positions, latest: Positions, log: Knows) -> Positions:
        """How far reading may go: to ``latest`` or, before that, to the stream's end; never below ``begin``.

        Partitions that the ending does not name, or that were added after it, end where they begin.
        """
        if self._wanted is None:
            return latest
        if self._found is None:
            self._begin(latest, log)
        assert self._found is not None
        if isinstance(self._wanted, AtTime):
            self._look(begin, log)
            stops = {
                partition: self._found.get(partition, latest[partition])
                for partition in begin
                if self._timed(partition)
            }
        else:
            stops = self._found
        return {
            partition: max(offset, min(stops.get(partition, offset), latest[partition]))
            for partition, offset in begin.items()
        }

    def _begin(self, latest: Positions, log: Knows) -> None:
        self._found = {}
        if isinstance(self._wanted, AtTime):
            now_ms = log.now_ms()
            if isinstance(self._wanted.times, Moment):
                self._time_ms = self._wanted.times.at(now_ms)
            else:
                self._times_ms = {partition: each.at(now_ms) for partition, each in self._wanted.times.items()}
        elif isinstance(self._wanted, Offset):
            self._found = dict(latest)
        elif isinstance(self._wanted, dict):
            self._found = {p: latest.get(p, 0) if offset < 0 else offset for p, offset in self._wanted.items()}

    def _timed(self, partition: Partition) -> bool:
        return self._time_ms is not None or partition in self._times_ms

    def _look(self, begin: Positions, log: Knows) -> None:
        """Look up the records that end the stream, where there was none yet."""
        assert self._found is not None
        open_ones = {
            partition: self._times_ms.get(partition, self._time_ms or 0)
            for partition in begin
            if partition not in self._found and self._timed(partition)
        }
        if open_ones:
            answers = log.at_times(open_ones)
            self._found.update({partition: offset for partition, offset in answers.items() if offset is not None})
