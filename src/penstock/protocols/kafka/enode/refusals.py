"""What a broker's refusal means to whoever asked for a log: one of the errors that an enode raises, code by code.

What must not live here: whether to try again, which `asking` and `lines` decide before.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import (
    BatchTooLarge,
    CorruptBatch,
    FencedLeaderEpoch,
    InvalidPartitionCount,
    InvalidTopicConfig,
    InvalidTopicName,
    OutOfOrderSequence,
    OutsideTransaction,
    PenstockError,
    ServerError,
    StaleProducerEpoch,
    StoreError,
    TopicExists,
    UnknownLeaderEpoch,
    UnknownTopic,
    Unsupported,
    UpstreamLost,
)
from penstock.model import Partition

__all__ = ["as_log_says", "is_final"]

_KINDS: Final[dict[type[PenstockError], tuple[int, ...]]] = {
    CorruptBatch: (2, 32, 87),
    UnknownTopic: (3, 100, 103),
    BatchTooLarge: (10, 18),
    InvalidTopicName: (17,),
    Unsupported: (35, 43, 76),
    TopicExists: (36,),
    InvalidPartitionCount: (37,),
    InvalidTopicConfig: (38, 39, 40, 44),
    OutOfOrderSequence: (45, 59),
    StaleProducerEpoch: (47, 90),
    OutsideTransaction: (48,),
    FencedLeaderEpoch: (74,),
    UnknownLeaderEpoch: (75,),
}
_KIND_OF: Final = {code: kind for kind, codes in _KINDS.items() for code in codes}

_FINAL: Final = frozenset((2, 74, 75))
"""Codes that Kafka's clients try again on, and that are for the node's client to hear: only it knows its bytes, and in
which epoch it takes the log to be."""


def is_final(error: PenstockError) -> bool:
    """Whether it is told as it is, whatever Kafka's clients do about it."""
    return isinstance(error, ServerError) and error.code in _FINAL


def as_log_says(error: PenstockError, partition: Partition | None = None) -> PenstockError:
    """The enode's own error for one of a broker, or of the way there; an error of its own stays as it is."""
    if isinstance(error, ServerError) and (not error.retriable or error.code in _KIND_OF):
        found: PenstockError = _KIND_OF.get(error.code, StoreError)(error.message)
    elif isinstance(error, StoreError | Unsupported | CorruptBatch | UpstreamLost):
        return error
    else:
        found = UpstreamLost(f"the Kafka cluster did not do it: {error.message}")
    found.hint, found.node = error.hint, error.node
    found.topic = error.topic if partition is None else partition.topic
    found.partition = error.partition if partition is None else partition.id
    found.__cause__ = error
    return found
