"""The log of committed offsets and groups in Kafka's own format: records of ``__consumer_offsets`` and their batches.

The node's offsets service writes through this, so that Kafka's tools read what it wrote.
Source: Kafka group coordinator (OffsetCommitKey/Value, GroupMetadataKey/Value); record batch v2 (KIP-98).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.columnar.batch import HEADER_BYTES, batches, verify_crc
from penstock.columnar.transactions import ABORT, COMMIT, control_type
from penstock.model import Codec, Committed, Partition
from penstock.protocols.kafka.messages.offsets_topic import (
    GroupKey,
    OffsetKey,
    OffsetValue,
    read_key,
    read_offset_value,
    write_group_key,
    write_offset_key,
    write_offset_value,
)
from penstock.protocols.kafka.plain_batches import Entry, batch_of, records_of
from penstock.seams.framing import Buffer
from penstock.seams.offsets import Ended

__all__ = ["OffsetsLog", "Replayed"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one record says: an offset of ``partition`` (None: taken away), or without a partition, a group's record.

    ``producer_id`` is that of the open transaction it belongs to, -1 for none.
    """

    group: str
    partition: Partition | None
    committed: Committed | None
    record: bytes | None
    position: int
    producer_id: int = -1


class OffsetsLog:
    """Stateless; one a node."""

    topic: Final = "__consumer_offsets"
    config: Final[Mapping[str, str]] = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(16 << 20),
    }
    """Smaller segments than Kafka's 100 MiB: what was written once more is deleted a whole segment at a time."""

    def partition_of(self, group: str, partitions: int) -> int:
        """Where a group's records are: Java's hash of its name, by absolute value, modulo the partitions."""
        hashed = 0
        units = group.encode("utf-16-be", "surrogatepass")
        for (unit,) in struct.iter_unpack(">H", units):
            hashed = (31 * hashed + unit) & 0xFFFFFFFF
        signed = hashed - (1 << 32) if hashed >> 31 else hashed
        return 0 if signed == -(1 << 31) else abs(signed) % partitions

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
        )
        return key, write_offset_value(value)

    def group_entry(self, group: str, record: bytes | None) -> Entry:
        """The record of a group; None takes it away."""
        return write_group_key(group), record

    def batch(self, entries: Sequence[Entry], now_ms: int, producer_id: int = -1, epoch: int = -1) -> bytes:
        """One uncompressed batch v2 of all entries; with a producer id, one of its transaction, without sequence."""
        return batch_of(entries, now_ms, producer_id, epoch)

    def replay(self, data: Buffer) -> Iterator[Replayed | Ended]:
        """What the batches in ``data`` say, in order. Raises CorruptBatch, ProtocolViolation."""
        view = bytes(data)
        for header in batches(view):
            if header.codec is not Codec.NONE:
                continue  # never written by us
            verify_crc(view, header)
            if header.control:
                kind = control_type(memoryview(view)[header.position + HEADER_BYTES : header.end])
                if kind in (ABORT, COMMIT):
                    yield Ended(header.producer_id, kind == COMMIT)
                continue
            producer_id = header.producer_id if header.transactional else -1
            for position, key, value in records_of(view, header):
                found = _replayed(position, key, value, producer_id)
                if found is not None:
                    yield found


def _replayed(position: int, key: bytes, value: bytes | None, producer_id: int) -> Replayed | None:
    about = read_key(key)
    if isinstance(about, GroupKey):
        return Replayed(about.group, None, None, value, position, producer_id)
    if not isinstance(about, OffsetKey):
        return None
    committed = None
    if value is not None:
        found = read_offset_value(value)
        committed = Committed(found.offset, found.metadata, found.leader_epoch, found.commit_timestamp)
    return Replayed(about.group, Partition(about.topic, about.partition), committed, None, position, producer_id)
