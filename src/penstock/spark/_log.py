"""A log for a Spark driver: partitions and their leaders, the ends of the log, the group's offsets.

Calls block and need no thread, because a planning process does nothing else. The client retries what is safe to retry,
for up to its ``api_timeout_ms``; whole calls are repeated up to ``fetchOffset.numRetries`` times.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import TypeVar

from penstock import _clock
from penstock.client import Admin, RangeReader
from penstock.client.ranges.range_reader import Peek
from penstock.errors import LogTruncated, PenstockError
from penstock.interfaces import FoundOffset
from penstock.model import Committed, LogRange, Offset, OffsetSpec, Partition
from penstock.spark._offsets import BatchOffset, Positions
from penstock.spark._options import Retries, SourceOptions

__all__ = ["Log", "patiently"]

# Retries the driver's calls to a log, after a pause, while the log is briefly unavailable.
#
# An error from the planner ends the query, since Spark does not retry. The client retries too, for up to its
# ``api_timeout_ms``; here whole calls are repeated, over new connections.
_log = logging.getLogger("penstock.spark")
_LONGEST_PAUSE_MS = 10_000


def patiently(ask: Callable[[], T], retries: Retries, sleep: Callable[[float], None], afresh: Callable[[], None]) -> T:
    """The result of ``ask()``, which is retried up to ``retries.times`` times while it raises retriable errors.

    ``afresh`` is called before each retry. Raises the last attempt's error.
    """
    for tried in range(retries.times):
        try:
            return ask()
        except PenstockError as error:
            if not error.retriable:
                raise
            pause_ms = min(retries.interval_ms << tried, _LONGEST_PAUSE_MS)
            _log.warning("a call to the log failed, retrying (%d of %d): %s", tried + 1, retries.times, error)
            afresh()
            sleep(pause_ms / 1_000)
    return ask()


_COMMIT_TIMEOUT_MS = 10_000
"""Short, so that a commit does not delay a stream; if it fails, the next commit includes its offsets."""

T = TypeVar("T")


class Log:
    """``penstock.spark._follow.LogView`` over a real log. Connects on first use."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reader: RangeReader | None = None
        self._admin: Admin | None = None
        self._ids: Mapping[str, str] = {}
        self._epochs: Mapping[Partition, int] = {}

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def leaders(self) -> Mapping[Partition, str]:
        """The partitions to read that exist now, and the name of each one's leader ("" while there is none)."""
        subscription = self._options.subscription
        found = self._ask(lambda reader: reader.topics(subscription.names))
        leaders = subscription.leaders(found)
        read = {partition.topic for partition in leaders}
        self._ids = {topic.name: topic.id.hex() for topic in found.values() if topic.id and topic.name in read}
        return leaders

    def ids(self) -> Mapping[str, str]:
        """The ids of the topics that ``leaders`` last saw, if the protocol has any."""
        return self._ids

    def earliest(self, partitions: Collection[Partition]) -> Positions:
        """The first offset of each partition."""
        return {partition: each.offset for partition, each in self._found(partitions, Offset.EARLIEST).items()}

    def latest(self, partitions: Collection[Partition]) -> Positions:
        """The offset after the last record of each partition."""
        found = self._found(partitions, Offset.LATEST)
        self._epochs = {partition: each.leader_epoch for partition, each in found.items() if each.leader_epoch >= 0}
        return {partition: each.offset for partition, each in found.items()}

    def epochs(self) -> Mapping[Partition, int]:
        """The leader epochs in which ``latest`` last saw the ends, if the protocol has any."""
        return self._epochs

    def truncated(self, positions: Mapping[Partition, tuple[int, int]]) -> Mapping[Partition, LogTruncated]:
        """Those of these positions (offset, leader epoch) that a truncation has removed from the log."""
        return self._ask(lambda reader: reader.truncated(positions)) if positions else {}

    def at_times(self, times_ms: Mapping[Partition, int]) -> Mapping[Partition, int | None]:
        """The first offset at or after a time (ms since 1970 UTC); None if there is none."""
        found = self._ask(lambda reader: reader.offsets_for_times(times_ms))
        return {partition: None if answer is None else answer.offset for partition, answer in found.items()}

    def committed(self, group: str, partitions: Collection[Partition]) -> Positions:
        """The group's committed offsets; partitions without one are absent."""
        found = self._ask(lambda reader: reader.committed(group, partitions)) if partitions else {}
        return {partition: place.offset for partition, place in found.items()}

    def peek(self, wanted: Collection[LogRange]) -> Mapping[Partition, Peek]:
        """Sample the records at the start of these ranges; partitions that cannot be read now are left out."""
        return self._ask(lambda reader: reader.peek(wanted)) if wanted else {}

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """Milliseconds that never go back."""
        return _clock.monotonic() * 1_000

    def pause(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def commit(self, group: str, done: BatchOffset) -> None:
        """Commit the ends of a batch for the group without being a member.

        Raises the coordinator's error, after ten seconds at most.
        """
        if self._admin is None:
            timeouts = {"api_timeout_ms": _COMMIT_TIMEOUT_MS, "request_timeout_ms": _COMMIT_TIMEOUT_MS}
            self._admin = Admin(self._options.address, **{**self._options.client, **timeouts})
        offsets = {
            partition: Committed(offset, topic_id=done.topic_id(partition.topic))
            for partition, offset in done.end.items()
        }
        self._admin.commit(group, offsets)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        for each in (self._reader, self._admin):
            if each is not None:
                each.close()
        self._reader = self._admin = None

    def _found(self, partitions: Collection[Partition], name: Offset) -> Mapping[Partition, FoundOffset]:
        if not partitions:
            return {}
        return self._ask(lambda reader: reader.offsets(dict.fromkeys(partitions, OffsetSpec(name=name))))

    def _ask(self, question: Callable[[RangeReader], T]) -> T:
        return patiently(lambda: question(self._open_reader()), self._options.retries, self.pause, self.close)

    def _open_reader(self) -> RangeReader:
        if self._reader is None:
            self._reader = RangeReader(self._options.address, **self._options.client)
        return self._reader
