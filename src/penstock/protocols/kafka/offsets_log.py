"""Committed offsets and groups in Kafka's own format: entries of ``__consumer_offsets``.

The node's offsets service writes through this, so that Kafka's tools read what it wrote.
Source: Kafka group coordinator (OffsetCommitKey/Value, GroupMetadataKey/Value).
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from typing import Final

from penstock.columnar.entries import Entry
from penstock.model import Committed, Partition
from penstock.protocols.kafka.messages.offsets_topic import (
    NEVER_BY_ITSELF,
    GroupKey,
    OffsetKey,
    OffsetValue,
    read_key,
    read_offset_value,
    write_group_key,
    write_offset_key,
    write_offset_value,
)
from penstock.seams.offsets import CommittedUntil, Replayed

__all__ = ["OffsetsLog"]

_KEPT: Final = 8_192
"""Groups whose places are remembered."""


class OffsetsLog:
    """Stateless; one a node."""

    topic: Final = "__consumer_offsets"
    config: Final[Mapping[str, str]] = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(4 << 20),
        "delete.retention.ms": str(3_600_000),
    }
    """Smaller segments than Kafka's 100 MiB, since only closed ones are compacted and all are read at start. What was
    taken away, and ends of transactions, are remembered for an hour, not for a day."""

    def partition_of(self, group: str, partitions: int) -> int:
        """Where a group's records are: Java's hash of its name, by absolute value, modulo the partitions."""
        return _hashed(group) % partitions

    def offset_entry(self, group: str, partition: Partition, committed: Committed | None) -> Entry:
        """The record of a commit; ``committed`` None takes the offset away."""
        key = write_offset_key(OffsetKey(group=group, topic=partition.topic, partition=partition.id))
        if committed is None:
            return key, None
        value = OffsetValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.timestamp_ms,
            expire_timestamp=committed.expires_ms if isinstance(committed, CommittedUntil) else NEVER_BY_ITSELF,
        )
        return key, write_offset_value(value)

    def group_entry(self, group: str, record: bytes | None) -> Entry:
        """The record of a group; None takes it away."""
        return write_group_key(group), record

    def read(self, key: bytes, value: bytes | None) -> Replayed | None:
        """What an entry says; None for keys of later versions. Raises ProtocolViolation."""
        about = read_key(key)
        if isinstance(about, GroupKey):
            return Replayed(about.group, None, None, value)
        if not isinstance(about, OffsetKey):
            return None
        committed = None if value is None else _committed(read_offset_value(value))
        return Replayed(about.group, Partition(about.topic, about.partition), committed, None)


def _committed(found: OffsetValue) -> Committed:
    if found.expire_timestamp == NEVER_BY_ITSELF:
        return Committed(found.offset, found.metadata, found.leader_epoch, found.commit_timestamp)
    until = found.expire_timestamp
    return CommittedUntil(found.offset, found.metadata, found.leader_epoch, found.commit_timestamp, expires_ms=until)


@functools.lru_cache(_KEPT)
def _hashed(group: str) -> int:
    hashed = 0
    units = group.encode("utf-16-be", "surrogatepass")
    for (unit,) in struct.iter_unpack(">H", units):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return 0 if signed == -(1 << 31) else abs(signed)
