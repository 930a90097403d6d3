"""Which error code a refusal of the store or of a check becomes: rows, the most particular class first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.errors import (
    BatchTooLarge,
    CorruptBatch,
    FencedLeaderEpoch,
    InvalidPartitionCount,
    InvalidTopicConfig,
    InvalidTopicName,
    LogOffsetOutOfRange,
    OutcomeUnknown,
    OutOfOrderSequence,
    OutsideTransaction,
    PenstockError,
    StaleProducerEpoch,
    TopicExists,
    UnknownLeaderEpoch,
    UnknownPartition,
    UnknownTopic,
    Unsupported,
    UpstreamLost,
)
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.why import note
from penstock.wire.refusals import code_for

__all__ = ["Refused", "code_of"]


class Refused(PenstockError):
    """A part of a request that cannot be done: its error code, and what a person should know.

    ``rows`` says of single records of a batch what is wrong with them.
    """

    def __init__(
        self, code: ErrorCode, message: str = "", *, rows: Mapping[int, str] | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message or code.name, hint=hint)
        self.code = code
        self.rows = rows or {}


_ROWS: Final[tuple[tuple[type[PenstockError], ErrorCode], ...]] = (
    (CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    (OutcomeUnknown, ErrorCode.UNKNOWN_SERVER_ERROR),  # the one that no producer tries again on
    (UpstreamLost, ErrorCode.NOT_LEADER_OR_FOLLOWER),  # the one that every client tries again on, whatever it asked
    (Unsupported, ErrorCode.UNSUPPORTED_VERSION),
    (UnknownTopic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (UnknownPartition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (TopicExists, ErrorCode.TOPIC_ALREADY_EXISTS),
    (InvalidTopicName, ErrorCode.INVALID_TOPIC_EXCEPTION),
    (InvalidPartitionCount, ErrorCode.INVALID_PARTITIONS),
    (InvalidTopicConfig, ErrorCode.INVALID_CONFIG),
    (LogOffsetOutOfRange, ErrorCode.OFFSET_OUT_OF_RANGE),
    (BatchTooLarge, ErrorCode.RECORD_LIST_TOO_LARGE),
    (OutOfOrderSequence, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    (OutsideTransaction, ErrorCode.INVALID_TXN_STATE),
    (StaleProducerEpoch, ErrorCode.INVALID_PRODUCER_EPOCH),
    (FencedLeaderEpoch, ErrorCode.FENCED_LEADER_EPOCH),
    (UnknownLeaderEpoch, ErrorCode.UNKNOWN_LEADER_EPOCH),
)


def code_of(error: PenstockError) -> ErrorCode:
    """The code of an error; what has no row (disk, damage) is KAFKA_STORAGE_ERROR, which clients try again on."""
    code = error.code if isinstance(error, Refused) else code_for(error, _ROWS, ErrorCode.KAFKA_STORAGE_ERROR)
    note(code, error)
    return code


def bare(error: PenstockError) -> PenstockError:
    """The error without the frames it came from: what was inflated in them would stay until garbage is collected."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error
