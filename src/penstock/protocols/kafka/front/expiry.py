"""When committed offsets are forgotten: Kafka's rules (KIP-211), as a function of a group's state and two times."""

from __future__ import annotations

from penstock.model import Committed, Partition
from penstock.protocols.kafka.consumer_groups import ConsumerGroup
from penstock.protocols.kafka.coordinator import Group, State
from penstock.seams.offsets import CommittedUntil

__all__ = ["has_expired", "newer_has_expired"]


def has_expired(
    group: Group | None, partition: Partition, committed: Committed, now_ms: int, retention_ms: int
) -> bool:
    """Whether an offset is older than ``retention_ms``, counted from where Kafka does.

    - a group without members that had some: from when the last one left, or the commit if that came later;
    - a group that never had members (``group`` None: not even one of ours): from the commit;
    - members at work: from the commit, but only for topics that none of them reads any more;
    - in between (rebalancing, subscriptions not understood): nothing expires.

    Where the commit said itself until when, that counts instead of ``retention_ms``, and nothing else changes.
    """
    since = 0
    read: frozenset[str] = frozenset()
    if group is not None and group.protocol_type is not None:
        if group.state is State.EMPTY:
            since = group.state_since_ms
        elif group.state is State.STABLE and group.subscribed is not None:
            read = group.subscribed
        else:
            return False
    return partition.topic not in read and _is_over(committed, since, now_ms, retention_ms)


def newer_has_expired(
    group: ConsumerGroup, partition: Partition, committed: Committed, now_ms: int, retention_ms: int
) -> bool:
    """The same of a group of the newer protocol: counted from the commit, and never for topics that a member wants."""
    return partition.topic not in group.wanted() and _is_over(committed, 0, now_ms, retention_ms)


def _is_over(committed: Committed, since: int, now_ms: int, retention_ms: int) -> bool:
    if isinstance(committed, CommittedUntil):
        return now_ms >= committed.expires_ms
    return now_ms - max(since, committed.timestamp_ms) >= retention_ms
