"""Read replicas: which follower a leader has sent this client to, for how long, and whom to leave alone (KIP-392).

A leader that is told a client's rack may name a follower nearer to it, and answers no records then. The client reads
there until the lease is over, the partition has another leader, or something goes wrong. After trouble the leader is
asked without the rack for a while, so that it serves the records itself: it would only name the same follower again.

Source: KIP-392. What must not live here: requests, nodes' addresses, clocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.model import Partition

__all__ = ["ReadReplicas"]

_SHUNNED_S: Final = 10.0


class _Lease(NamedTuple):
    node_id: int
    leader_epoch: int
    until: float


class ReadReplicas:
    """Of one client. Times are a monotonic clock's seconds."""

    __slots__ = ("_lease_s", "_leases", "_shunned")

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._leases: dict[Partition, _Lease] = {}
        self._shunned: dict[Partition, float] = {}

    @property
    def any(self) -> bool:
        """Whether anything is read from a follower: most clients never do, and ask often."""
        return bool(self._leases)

    @property
    def quiet(self) -> bool:
        """Whether every partition is read from its leader, and every leader is told where this client stands."""
        return not (self._leases or self._shunned)

    def prefer(self, partition: Partition, node_id: int, leader_epoch: int, now: float) -> None:
        """The leader of this epoch says who should be asked."""
        self._leases[partition] = _Lease(node_id, leader_epoch, now + self._lease_s)

    def node_id(self, partition: Partition, leader_epoch: int, now: float) -> int | None:
        """The follower to read from while the leader is that of ``leader_epoch``; None: read from the leader."""
        if (lease := self._leases.get(partition)) is None:
            return None
        if now < lease.until and lease.leader_epoch == leader_epoch:
            return lease.node_id
        del self._leases[partition]
        return None

    def back(self, partition: Partition) -> None:
        """Ask the leader next."""
        self._leases.pop(partition, None)

    def shun(self, partition: Partition, now: float) -> None:
        """Something went wrong at its follower, if it had one: the leader has to serve it for a while."""
        if self._leases.pop(partition, None) is not None:
            self._shunned[partition] = now + _SHUNNED_S

    def shunned(self, partitions: Iterable[Partition], now: float) -> bool:
        """Whether the leader has to serve one of these itself."""
        if not self._shunned:
            return False
        self._shunned = {partition: until for partition, until in self._shunned.items() if now < until}
        return any(partition in self._shunned for partition in partitions)
