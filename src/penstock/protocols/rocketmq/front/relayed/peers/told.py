"""What is known of one Snode: its groups, by version, so that whoever knows less is told the difference.

A group that is gone stays as a version without members, until there are many of these; who knows less than the
``floor`` is then told everything anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Final, NamedTuple

from penstock._dataclasses import dataclass
from penstock.protocols.rocketmq import messages as m

__all__ = ["CONSUMER", "PRODUCER", "Key", "Told"]

CONSUMER: Final = "consumer"
PRODUCER: Final = "producer"
_MOST_GONE: Final = 1_000


class Key(NamedTuple):
    """A group."""

    kind: str
    name: str


@dataclass(slots=True)
class Told:
    """One Snode; ``heard``: when it was last known to live, in seconds; ``silent``: it may live no more.

    ``members`` counts places in groups."""

    id: str
    name: str
    beat: int
    heard: float
    version: int = 0
    floor: int = 0
    members: int = 0
    silent: bool = False
    groups: dict[Key, m.PeerGroup] = field(default_factory=dict)
    _gone: int = 0

    def since(self, version: int) -> tuple[bool, tuple[m.PeerGroup, ...]]:
        """Whether all of it is told, and what there is to tell to whoever knows this version; -1: nothing."""
        if version < self.floor:
            return True, tuple(each for each in self.groups.values() if not _is_gone(each))
        return False, tuple(each for each in self.groups.values() if each.version > version)

    def put(self, group: m.PeerGroup) -> None:
        """Take a group's newer version."""
        key = Key(group.kind, group.name)
        known = self.groups.get(key)
        if known is not None:
            if known.version >= group.version:
                return
            self.members -= len(known.members)
            self._gone -= _is_gone(known)
        self.groups[key] = group
        self.members += len(group.members)
        self._gone += _is_gone(group)
        self.version = max(self.version, group.version)

    def put_whole(self, version: int, groups: Iterable[m.PeerGroup]) -> None:
        """Take everything anew."""
        self.groups, self.members, self._gone = {}, 0, 0
        self.version = self.floor = version
        for each in groups:
            self.put(each)

    def tidy(self) -> None:
        """Forget groups that are gone, where there are many."""
        if self._gone > _MOST_GONE:
            self.groups = {key: each for key, each in self.groups.items() if not _is_gone(each)}
            self._gone, self.floor = 0, self.version


def _is_gone(group: m.PeerGroup) -> bool:
    return not group.members and not group.left
