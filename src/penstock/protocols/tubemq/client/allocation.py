"""Allocation: which partitions are a member's own where the members of a group share out by themselves.

A partition belongs to member ``hash(key) mod source_count``, where the key is ``brokerId:topic:partitionId`` and the
hash is Java's ``String.hashCode`` read as an unsigned number of 32 bits. Java applications share out the same way (it
is what TubeMQ's ``ClientBalanceConsumerExample`` does), so that a group may be mixed. Clearing the sign bit instead
gives the same shares for powers of two only, and leaves partitions of a mixed group unread for every other count.
No member has to know who else is there.
Source: Java Language, ``String.hashCode``; Apache InLong TubeMQ 2.4.0, ``ClientBalanceConsumerExample``.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.model import Partition
from penstock.protocols.tubemq.java_hash import java_hash
from penstock.protocols.tubemq.strings import format_key

__all__ = ["share_of"]


def share_of(partitions: Iterable[Partition], source_count: int, node_id: int) -> frozenset[Partition]:
    """Those of ``partitions`` that are member ``node_id``'s of ``source_count``; 0 or less: all, nobody shares."""
    if source_count <= 0:
        return frozenset(partitions)
    return frozenset(
        partition for partition in partitions if java_hash(format_key(partition)) % source_count == node_id
    )
