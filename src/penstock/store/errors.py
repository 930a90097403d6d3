"""What the store refuses, one small class a reason. Protocol-neutral: fronts map classes to their own codes.

All are `penstock.errors.StoreError`; bytes that are no record batch raise `penstock.errors.CorruptBatch` instead,
because they came from a peer. What must not live here: any protocol's error code.
"""

from __future__ import annotations

from penstock.errors import StoreError

__all__ = [
    "BatchTooLarge",
    "FencedLeaderEpoch",
    "InvalidPartitionCount",
    "InvalidTopicConfig",
    "InvalidTopicName",
    "LogOffsetOutOfRange",
    "OutOfOrderSequence",
    "StaleProducerEpoch",
    "StoreDamaged",
    "StoreLocked",
    "TopicExists",
    "UnknownLeaderEpoch",
    "UnknownPartition",
    "UnknownTopic",
    "WriteFailed",
]


class UnknownTopic(StoreError):
    """There is no topic of that name or id."""


class UnknownPartition(StoreError):
    """The topic exists, the partition does not."""


class TopicExists(StoreError):
    """A topic of that name, or of one that differs only in "." and "_", exists already."""


class InvalidTopicName(StoreError):
    """A name that cannot be a directory or a metric: see `penstock.store.catalog.check_topic_name`."""


class InvalidPartitionCount(StoreError):
    """Fewer than one partition, more than the store keeps, or fewer than the topic has."""


class InvalidTopicConfig(StoreError):
    """A topic option that the store itself obeys has a value that it cannot obey."""


class LogOffsetOutOfRange(StoreError):
    """An offset below ``start_offset`` (deleted) or above ``end_offset`` (not written yet)."""

    def __init__(self, message: str, *, topic: str, partition: int, offset: int, start: int, end: int) -> None:
        super().__init__(
            f"{message}: the log has offsets {start} to {end}", topic=topic, partition=partition, offset=offset
        )
        self.start_offset = start
        self.end_offset = end


class BatchTooLarge(StoreError):
    """A batch that does not fit into a whole segment (topic option ``segment.bytes``)."""


class OutOfOrderSequence(StoreError):
    """An idempotent producer's batch is neither the next nor one of its last five: something between is missing."""


class StaleProducerEpoch(StoreError):
    """A newer instance of this producer has written already; this one is fenced."""


class OutsideTransaction(StoreError):
    """A producer wrote outside of the transaction that it has open in this partition."""


class FencedLeaderEpoch(StoreError):
    """The caller names a leader epoch that is over, or to an append one that is not the log's."""


class UnknownLeaderEpoch(StoreError):
    """The caller names a leader epoch that has not begun here."""


class WriteFailed(StoreError):
    """The disk refused to write or to sync (full, I/O error); the log is as it was before the call.

    After a failed *sync* nobody knows what is on the disk, so the log takes no more appends until it is reopened.
    """


class StoreLocked(StoreError):
    """Another process (``pid``, None if it did not leave its number) has the store's directory open."""

    def __init__(self, message: str, *, pid: int | None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.pid = pid


class StoreDamaged(StoreError):
    """Bytes in the middle of a log, or the store's own metadata, are not what was written.

    ``file`` is the path (or the name, in memory) and ``position`` the first bad byte.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str,
        position: int,
        topic: str | None = None,
        partition: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(f"{file}, byte {position}: {message}", topic=topic, partition=partition, hint=hint)
        self.file = file
        self.position = position
