"""Rounds: what is asked of one node at a time, and whether the same can be asked again.

What must not live here: asking (`_fetcher`).
"""

from __future__ import annotations

import asyncio
from typing import Final, TypeAlias

from penstock._dataclasses import dataclass
from penstock.client._ahead import Ahead
from penstock.client._partitions import PartitionState
from penstock.model import Node, Partition
from penstock.seams import ReadFrom, ReadLimits
from penstock.seams.client import FetchHeard

__all__ = ["LITTLE_BYTES", "Asked", "Reads", "Round"]

LITTLE_BYTES: Final = 16 * 1024
"""Of more than that the loop fetches ahead, whoever waits for it."""

Reads: TypeAlias = dict[Partition, "Asked"]


@dataclass(slots=True)
class Asked:
    """What is asked for of one partition, for whom, and in which version of its position."""

    state: PartitionState
    version: int
    read: ReadFrom


@dataclass(slots=True)
class Round:
    """A read of one node that is under way, and is asked again as it is while hardly anything changes.

    ``changes`` are those of the assignment when it was composed, ``ahead`` what might be held ahead then. ``stirred``:
    it may not be asked again, because it asks for less than there is room for, or somebody waits to be read beside
    these, or from elsewhere.
    """

    node: Node
    reads: Reads
    limits: ReadLimits
    begun: float
    changes: int
    ahead: Ahead
    stirred: bool
    task: asyncio.Task[None] | None = None
    heard: FetchHeard | None = None

    def moved(self, changes: int) -> list[tuple[Asked, ReadFrom]] | None:
        """What goes on elsewhere than it was read from last; None if more than that has changed. ``changes`` are the
        assignment's."""
        if self.stirred or self.changes != changes:
            return None
        moved: list[tuple[Asked, ReadFrom]] = []
        for asked in self.reads.values():
            state, read = asked.state, asked.read
            if not state.reading or state.version != asked.version or state.paused:
                return None
            if state.failure is not None or state.missing is not None or state.failed_at is not None:
                return None
            offset = state.fetch_offset
            if offset != read.offset:
                if offset is None or state.arrived_bytes - state.taken_bytes > self.ahead.share:
                    return None
                moved.append((asked, ReadFrom(state.partition, offset, read.max_bytes, read.topic_id)))
        return moved
