"""When committed offsets are forgotten: Kafka's rules (KIP-211), as a function of a group's state and two times."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.model import Committed, Partition
from penstock.protocols.kafka.coordinator import Group, State

__all__ = ["expired_offsets"]


def expired_offsets(
    group: Group | None, committed: Mapping[Partition, Committed], now_ms: int, retention_ms: int
) -> list[Partition]:
    """The partitions of ``committed`` whose offsets are older than ``retention_ms``, counted from where Kafka does.

    - a group without members that had some: from when the last one left, or the commit if that came later;
    - a group that never had members (``group`` None: not even one of ours): from the commit;
    - members at work: from the commit, but only for topics that none of them reads any more;
    - in between (rebalancing, subscriptions not understood): nothing expires.
    """
    since = 0
    read: frozenset[str] = frozenset()
    if group is not None and group.protocol_type is not None:
        if group.state is State.EMPTY:
            since = group.state_since_ms
        elif group.state is State.STABLE and group.subscribed is not None:
            read = group.subscribed
        else:
            return []
    return [
        partition
        for partition, offset in committed.items()
        if partition.topic not in read and now_ms - max(since, offset.timestamp_ms) >= retention_ms
    ]
