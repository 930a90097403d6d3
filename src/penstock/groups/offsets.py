"""Committed offsets of all groups, and those that open transactions want to commit. Entries may come in any order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from penstock.model import Committed, Partition

__all__ = ["CommittedTable", "Latest", "PendingTxnOffsets", "Wanted"]

# The latest value of each key of a log, when entries arrive in any order: the later position wins.
K = TypeVar("K", bound=Hashable)


class Latest(Generic[K]):
    """Positions of keys. A deleted key is remembered until `quiet`, or an older entry would bring it back.

    >>> order = Latest[str]()
    >>> order.takes("k", 5, gone=True), order.takes("k", 4, gone=False), order.takes("k", 6, gone=False)
    (True, False, True)
    """

    def __init__(self) -> None:
        self._positions: dict[K, int] = {}
        self._gone: set[K] = set()

    def takes(self, key: K, position: int, *, gone: bool) -> bool:
        """Whether the entry at ``position`` is the latest known one of ``key``; ``gone``: it deletes the key."""
        if position < self._positions.get(key, -1):
            return False
        self._positions[key] = position
        if gone:
            self._gone.add(key)
        else:
            self._gone.discard(key)
        return True

    def quiet(self) -> None:
        """No older entry can arrive any more: forget the deleted keys."""
        for key in self._gone:
            del self._positions[key]
        self._gone.clear()

    def __len__(self) -> int:
        return len(self._positions) - len(self._gone)


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
        """Apply the entry at ``position``; None deletes the offset. Does nothing if a later entry is known."""
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
        """No entry older than the known ones can arrive any more."""
        self._order.quiet()

    def of(self, group: str) -> Mapping[Partition, Committed]:
        """The group's offsets; empty if it has none. Read-only."""
        return self._groups.get(group, {})

    def groups(self) -> list[str]:
        """Groups that have offsets."""
        return list(self._groups)

    def __len__(self) -> int:
        return len(self._order)


# Offsets in open transactions. The transaction's marker decides whether they are committed.
#
# A transaction's offsets of one group are in one partition of the log (its place), and each place gets its own marker.
class Wanted(NamedTuple):
    """One offset, and its position in the place's log."""

    group: str
    partition: Partition
    committed: Committed
    position: int


class PendingTxnOffsets:
    """Offsets that open transactions want to commit, by place (a partition number of the log) and producer id.

    >>> undecided = Undecided()
    >>> undecided.add(0, 7, Wanted("g", Partition("t", 0), Committed(5), 1))
    >>> undecided.of("g"), undecided.end(0, 7), undecided.of("g")
    ({Partition(topic='t', id=0, node='')}, [Wanted(group='g', partition=Partition(topic='t', id=0, node=''), \
committed=Committed(offset=5, metadata='', leader_epoch=-1, timestamp_ms=-1), position=1)], set())
    """

    def __init__(self) -> None:
        self._places: dict[int, dict[int, dict[tuple[str, Partition], Wanted]]] = {}

    def add(self, place: int, producer_id: int, wanted: Wanted) -> None:
        """A producer's open transaction wants to commit this. Adding an entry twice has no further effect.

        Only the last value of each offset counts, so a producer that repeats itself takes no more memory.
        """
        mine = self._places.setdefault(place, {}).setdefault(producer_id, {})
        key = wanted.group, wanted.partition
        before = mine.get(key)
        if before is None or before.position < wanted.position:
            mine[key] = wanted

    def end(self, place: int, producer_id: int) -> list[Wanted]:
        """The producer's transaction is over in this place; return its offsets in the order of the log."""
        producers = self._places.get(place, {})
        wanted = producers.pop(producer_id, {})
        if not producers:
            self._places.pop(place, None)
        return sorted(wanted.values(), key=lambda each: each.position)

    def forget(self, place: int, group: str, partition: Partition, position: int) -> None:
        """The group's offset was deleted at ``position``: drop undecided values from before that, too."""
        for all_of_one in self._places.get(place, {}).values():
            wanted = all_of_one.get((group, partition))
            if wanted is not None and wanted.position < position:
                del all_of_one[group, partition]

    def of(self, group: str) -> Mapping[Partition, Committed]:
        """The offsets that open transactions want to commit for the group."""
        return {
            wanted.partition: wanted.committed
            for producers in self._places.values()
            for all_of_one in producers.values()
            for wanted in all_of_one.values()
            if wanted.group == group
        }
