"""Committed offsets of all groups: a table that only the order of the log can change.

Each entry remembers where in the log it was written. Two commits of one group may become durable in another order than
they were written in; the later one in the log wins, whoever is told first. What must not live here: who may commit,
when offsets expire, and bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.groups.latest import Latest
from penstock.model import Committed, Partition

__all__ = ["CommittedTable"]


class CommittedTable:
    """Group → partition → offset. Positions are those of one group's log, which grows.

    >>> table = CommittedTable()
    >>> table.set("g", Partition("t", 0), Committed(7), position=5)
    >>> table.set("g", Partition("t", 0), Committed(6), position=4)
    >>> table.of("g")[Partition("t", 0)].offset
    7
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[Partition, Committed]] = {}
        self._order: Latest[tuple[str, Partition]] = Latest()

    def set(self, group: str, partition: Partition, committed: Committed | None, *, position: int) -> None:
        """What the log says at ``position``; None takes the offset away. Does nothing if something later is known."""
        if not self._order.takes((group, partition), position, gone=committed is None):
            return
        offsets = self._groups.setdefault(group, {})
        if committed is not None:
            offsets[partition] = committed
            return
        offsets.pop(partition, None)
        if not offsets:
            del self._groups[group]

    def quiet(self) -> None:
        """Nothing is on its way any more that stands in the log before what is known."""
        self._order.quiet()

    def of(self, group: str) -> Mapping[Partition, Committed]:
        """The group's offsets; empty if it has none. To be read only."""
        return self._groups.get(group, {})

    def groups(self) -> list[str]:
        """Groups that have offsets."""
        return list(self._groups)

    def __len__(self) -> int:
        return len(self._order)
