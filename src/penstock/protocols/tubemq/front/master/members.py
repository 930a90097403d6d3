"""A member of a consumer group as the master knows it. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from penstock._dataclasses import dataclass
from penstock.model import Partition

__all__ = ["Member", "Subscription"]


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


@dataclass(frozen=True, slots=True)
class Subscription:
    """Who wants to join which group, with what of its own; see `Member` and `Terms`."""

    group: str
    member: Member
    allocated: bool = False
