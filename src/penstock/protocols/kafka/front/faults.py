"""Which error code a refusal of the store or of a check becomes: rows, the most particular class first."""

from __future__ import annotations

from typing import Final

from penstock.errors import CorruptBatch, PenstockError, Unsupported, UpstreamLost
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.store import errors as store

__all__ = ["Refused", "code_of"]


class Refused(PenstockError):
    """A part of a request that cannot be done: its error code, and what a person should know."""

    def __init__(self, code: ErrorCode, message: str = "", *, rows: tuple[int, ...] = ()) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.rows = rows


_ROWS: Final[tuple[tuple[type[PenstockError], ErrorCode], ...]] = (
    (CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    (UpstreamLost, ErrorCode.NOT_LEADER_OR_FOLLOWER),  # the one that every client tries again on, whatever it asked
    (Unsupported, ErrorCode.UNSUPPORTED_VERSION),
    (store.UnknownTopic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (store.UnknownPartition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (store.TopicExists, ErrorCode.TOPIC_ALREADY_EXISTS),
    (store.InvalidTopicName, ErrorCode.INVALID_TOPIC_EXCEPTION),
    (store.InvalidPartitionCount, ErrorCode.INVALID_PARTITIONS),
    (store.InvalidTopicConfig, ErrorCode.INVALID_CONFIG),
    (store.LogOffsetOutOfRange, ErrorCode.OFFSET_OUT_OF_RANGE),
    (store.BatchTooLarge, ErrorCode.RECORD_LIST_TOO_LARGE),
    (store.OutOfOrderSequence, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    (store.OutsideTransaction, ErrorCode.INVALID_TXN_STATE),
    (store.StaleProducerEpoch, ErrorCode.INVALID_PRODUCER_EPOCH),
    (store.FencedLeaderEpoch, ErrorCode.FENCED_LEADER_EPOCH),
    (store.UnknownLeaderEpoch, ErrorCode.UNKNOWN_LEADER_EPOCH),
)


def code_of(error: PenstockError) -> ErrorCode:
    """The code of an error; what has no row (disk, damage) is KAFKA_STORAGE_ERROR, which clients try again on."""
    if isinstance(error, Refused):
        return error.code
    for kind, code in _ROWS:
        if isinstance(error, kind):
            return code
    return ErrorCode.KAFKA_STORAGE_ERROR


def bare(error: PenstockError) -> PenstockError:
    """The error without the frames it came from: what was inflated in them would stay until garbage is collected."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error
