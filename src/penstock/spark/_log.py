"""A log as a Spark driver sees it: partitions and their leaders, the ends of the log, the group's offsets.

Blocking calls, no thread: the process that plans does nothing else. Retries of what is safe to retry are the
client's, and bounded by its ``api_timeout_ms``. What must not live here: decisions about what is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import TracebackType

from penstock.client import Admin, RangeReader
from penstock.model import Committed, Offset, OffsetSpec, Partition
from penstock.spark._offsets import Positions
from penstock.spark._options import SourceOptions

__all__ = ["Log"]

_COMMIT_TIMEOUT_MS = 10_000
"""A commit that fails is made up for by the next one: not worth holding up a stream for longer."""


class Log:
    """``penstock.spark._follow.LogView`` over a real log. Connects when it is first asked something."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reader: RangeReader | None = None
        self._admin: Admin | None = None

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def leaders(self) -> Mapping[Partition, str]:
        """The partitions to read that exist now, and the name of each one's leader ("" while there is none)."""
        assigned = self._options.assigned
        names = self._options.topics or sorted({partition.topic for partition in assigned})
        found = self._open_reader().topics(names)
        return {
            info.partition: info.leader.name if info.leader else ""
            for topic in found.values()
            for info in topic.partitions
            if not assigned or info.partition in assigned
        }

    def earliest(self, partitions: Collection[Partition]) -> Positions:
        """The first offset of each partition."""
        return self._offsets(partitions, Offset.EARLIEST)

    def latest(self, partitions: Collection[Partition]) -> Positions:
        """The offset after the last record of each partition."""
        return self._offsets(partitions, Offset.LATEST)

    def commit(self, group: str, positions: Positions) -> None:
        """Commit for the group without being a member of it. Raises what the coordinator answers, after ten seconds."""
        if self._admin is None:
            timeouts = {"api_timeout_ms": _COMMIT_TIMEOUT_MS, "request_timeout_ms": _COMMIT_TIMEOUT_MS}
            self._admin = Admin(self._options.address, **{**self._options.client, **timeouts})
        self._admin.commit(group, {partition: Committed(offset) for partition, offset in positions.items()})

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        for each in (self._reader, self._admin):
            if each is not None:
                each.close()
        self._reader = self._admin = None

    def _offsets(self, partitions: Collection[Partition], name: Offset) -> Positions:
        if not partitions:
            return {}
        found = self._open_reader().offsets(dict.fromkeys(partitions, OffsetSpec(name=name)))
        return {partition: answer.offset for partition, answer in found.items()}

    def _open_reader(self) -> RangeReader:
        if self._reader is None:
            self._reader = RangeReader(self._options.address, **self._options.client)
        return self._reader
