"""The node's services as fronts see them: one log per topic, one table of committed offsets, shared by all fronts.

Where the data is kept is `penstock.seams.enode`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.model import Committed, Endpoint, Partition
from penstock.seams.enode import Enode
from penstock.seams.locks import Locks
from penstock.seams.memory import UNLIMITED, Memory
from penstock.seams.runtime import Runtime


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Who this node is: a stable number, a cluster id (22 characters), and the address each scheme advertises.

    ``epoch`` grows with each start of the node on the same data, durably: a number made of it and of a counter was
    never given out before.
    """

    node_id: int
    cluster_id: str
    advertised: Mapping[str, Endpoint]
    epoch: int


class Offsets(Protocol):
    """Committed offsets of all groups, whichever protocol they speak; durable before ``commit`` returns."""

    def groups(self) -> Sequence[str]: ...
    def committed(self, group: str) -> Mapping[Partition, Committed]: ...
    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None: ...
    async def forget(self, group: str, partitions: Collection[Partition]) -> None: ...
    async def save_group(self, group: str, record: bytes | None) -> None:
        """Keep a front's own description of a group beside its offsets; None deletes it."""
        ...

    def saved_groups(self) -> Mapping[str, bytes]: ...

    # Within transactions of a log's producers.

    async def place_of(self, group: str) -> Partition:
        """Where a group's offsets are kept: the partition that takes part in the transaction."""
        ...

    async def commit_within(
        self, group: str, offsets: Mapping[Partition, Committed], producer_id: int, epoch: int
    ) -> None:
        """Commit when, and if, that producer's open transaction commits: `end_within`."""
        ...

    async def end_within(self, place: Partition, producer_id: int, marker: bytes, *, commit: bool) -> None:
        """Write the marker; what the producer wanted to commit there is committed, or forgotten."""
        ...

    def undecided(self, group: str) -> Collection[Partition]:
        """The partitions for which an open transaction wants to commit an offset."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """What a front is given.

    ``locks``: of what several fronts change, by what it is and its name: ("config", topic), ("config",) for defaults.
    """

    identity: NodeIdentity
    runtime: Runtime
    enode: Enode
    offsets: Offsets
    memory: Memory = UNLIMITED
    locks: Locks[tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "locks", Locks(self.runtime.promise))
