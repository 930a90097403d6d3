"""The node's services as fronts see them: one log per topic, one table of committed offsets, shared by all fronts.

Where the data is kept is `penstock.seams.enode`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple, Protocol

from penstock._dataclasses import dataclass
from penstock.model import Committed, Endpoint, Partition
from penstock.seams.enode import Enode
from penstock.seams.journal import Journals
from penstock.seams.locks import Locks
from penstock.seams.memory import UNLIMITED, Memory
from penstock.seams.meters import Meters
from penstock.seams.runtime import Runtime


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Who this node is: a stable number, a cluster id (22 characters), and the address each scheme advertises.

    ``reached`` is where this very process is, by scheme: the same, unless several processes share an address; then
    ``siblings`` is where the others are.

    ``epoch`` grows with each start of the node on the same data, durably: a number made of it and of a counter was
    never given out before.
    """

    node_id: int
    cluster_id: str
    advertised: Mapping[str, Endpoint]
    epoch: int
    reached: Mapping[str, Endpoint] = field(default_factory=dict)
    siblings: Mapping[str, Sequence[Endpoint]] = field(default_factory=dict)


Look = Callable[[], None]
"""Asks whether something may still be done, when nothing can come between that and the order of the log. What it raises
is raised, and nothing is written then."""

Which = Callable[[Partition, Committed], bool]
"""Says of each offset, in the same moment, whether it is meant."""


class Standing(NamedTuple):
    """Where a group stands at one moment; to be read only, and before anything is waited for.

    ``undecided``: the partitions for which an open transaction wants to commit an offset.
    """

    committed: Mapping[Partition, Committed]
    undecided: Collection[Partition]


class Offsets(Protocol):
    """Committed offsets of all groups, whichever protocol they speak; durable before ``commit`` returns.

    They may lie in a cluster, so every call may wait. Of one group, what is called first is written first.
    Errors: StoreError and its kin; ConnectionLost where they lie elsewhere.
    """

    async def groups(self) -> Sequence[str]:
        """Groups that have offsets."""
        ...

    async def committed(self, group: str) -> Mapping[Partition, Committed]:
        """To be read only, and before anything is waited for."""
        ...

    async def standing(self, group: str) -> Standing:
        """What is committed and what is undecided, in one moment: asked one after the other, a transaction that ends
        in between would show its offsets in neither."""
        ...

    async def commit(
        self, group: str, offsets: Mapping[Partition, Committed], look: Look | None = None, host: str | None = None
    ) -> None:
        """New offsets count as of a client at ``host``. Raises NoRoom where it has too many; none is committed."""
        ...

    async def forget(self, group: str, which: Which, look: Look | None = None) -> None:
        """Take offsets away, also what open transactions wanted to commit there so far."""
        ...

    async def expire(self, group: str, which: Which) -> None:
        """Take offsets away that are too old, but none that an open transaction is about to replace."""
        ...

    async def delete_group(self, group: str, look: Callable[[bool], None]) -> None:
        """Take its offsets and its description away; ``look`` is told whether it has offsets, or may get some."""
        ...

    async def save_group(self, group: str, record: bytes, look: Look | None = None) -> None:
        """Keep a front's own description of a group beside its offsets."""
        ...

    async def saved_groups(self) -> Mapping[str, bytes]:
        """All descriptions; to be read only, and before anything is waited for."""
        ...

    # Within transactions of a log's producers.

    async def place_of(self, group: str) -> Partition:
        """Where a group's offsets are kept: the partition that takes part in the transaction."""
        ...

    async def commit_within(
        self,
        group: str,
        offsets: Mapping[Partition, Committed],
        producer_id: int,
        epoch: int,
        look: Look | None = None,
        host: str | None = None,
    ) -> None:
        """Commit when, and if, that producer's open transaction commits: `end_within`. Raises NoRoom, as `commit`."""
        ...

    async def end_within(self, place: Partition, producer_id: int, marker: bytes, *, commit: bool) -> None:
        """Write the marker; what the producer wanted to commit there is committed, or forgotten."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """What a front is given. ``enode`` keeps the data, ``journals`` what fronts themselves want to keep.

    ``locks``: of what several fronts change, by what it is and its name: ("config", topic), ("config",) for defaults.
    ``meters``: where each front counts what it serves.
    """

    identity: NodeIdentity
    runtime: Runtime
    enode: Enode
    offsets: Offsets
    journals: Journals
    memory: Memory = UNLIMITED
    meters: Meters = field(default_factory=Meters)
    locks: Locks[tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "locks", Locks(self.runtime.promise))
