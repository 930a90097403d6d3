"""A member of a consumer group as the master knows it. Data only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from penstock._dataclasses import dataclass
from penstock.model import Partition

__all__ = ["Member", "Subscription", "bytes_of"]


_TEXT_BYTES: Final = 60
"""A short text in Python, and its place in a table."""
_PARTITION_BYTES: Final = 200


def bytes_of(texts: Iterable[str]) -> int:
    """What texts take that are kept, about."""
    return sum(_TEXT_BYTES + len(each) for each in texts)


@dataclass(slots=True)
class Member:
    """``holds``: the partitions it says it has. ``heard``: it has sent a heartbeat, or said what it has when it joined.

    ``asks``: the offsets from which a bound member wants partitions read, by partition. ``node_id``: its number among a
    client-balanced group's sources, -1 for none. ``seen``: ids of flow control and metadata it holds.
    ``strip`` and ``bench``: an operator wants it to lose its partitions in the next run, and to get none for so many.
    """

    id: str
    host: str = ""
    holds: frozenset[Partition] = frozenset()
    heard: bool = False
    asks: Mapping[Partition, int] = field(default_factory=dict)
    node_id: int = -1
    strip: bool = False
    bench: int = 0

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return _PARTITION_BYTES * (4 + len(self.holds) + len(self.asks)) + 2 * len(self.id) + len(self.host)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Who wants to join which group, with what of its own; see `Member` and `Terms`."""

    group: str
    member: Member
    allocated: bool = False
