"""A log as a list of bounds: everything a Follower sees of a log, without the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.errors import ServerError
from penstock.model import Partition


class ListedLog:
    """``bounds`` holds (earliest, latest) of each partition and may be changed between calls."""

    def __init__(self, bounds: Mapping[Partition, tuple[int, int]]) -> None:
        self.bounds = dict(bounds)
        self.committed: list[tuple[str, dict[Partition, int]]] = []
        self.coordinator_is_away = False

    def leaders(self) -> dict[Partition, str]:
        return dict.fromkeys(self.bounds, "1")

    def earliest(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {partition: self.bounds[partition][0] for partition in partitions}

    def latest(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {partition: self.bounds[partition][1] for partition in partitions}

    def commit(self, group: str, positions: Mapping[Partition, int]) -> None:
        if self.coordinator_is_away:
            raise ServerError("not now", code=15, name="COORDINATOR_NOT_AVAILABLE", retriable=True)
        self.committed.append((group, dict(positions)))
