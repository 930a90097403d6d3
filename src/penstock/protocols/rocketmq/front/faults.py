"""A refusal: the code and the text that an answer carries; and which code an error of the log becomes."""

from __future__ import annotations

from typing import Final

from penstock.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidTopicName,
    LogOffsetOutOfRange,
    OutcomeUnknown,
    PenstockError,
    ProtocolViolation,
    UnknownPartition,
    UnknownTopic,
    Unsupported,
    UpstreamLost,
    WriteFailed,
)
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.framing import CommandFrame
from penstock.seams.framing import Frame
from penstock.seams.shares import NoRoom
from penstock.wire.refusals import CodedRefusal, code_for

__all__ = ["Refused", "refusal", "unmade", "unreadable"]

_SENDS: Final = frozenset({10, 310, 320})


class Refused(CodedRefusal):
    """A request that is not served: answered with ``code`` and the message."""


_ROWS: Final[tuple[tuple[type[PenstockError], int], ...]] = (
    (UnknownTopic, Code.TOPIC_NOT_EXIST),
    (UnknownPartition, Code.SYSTEM_ERROR),
    (InvalidTopicName, Code.SYSTEM_ERROR),
    (BatchTooLarge, Code.MESSAGE_ILLEGAL),
    (LogOffsetOutOfRange, Code.PULL_OFFSET_MOVED),
    (WriteFailed, Code.SERVICE_NOT_AVAILABLE),
    (OutcomeUnknown, Code.RPC_TIME_OUT),  # Java's producers send again on most codes of brokers, not on this
    (UpstreamLost, Code.SYSTEM_BUSY),
    (NoRoom, Code.SYSTEM_BUSY),
    (Unsupported, Code.REQUEST_CODE_NOT_SUPPORTED),
    (ProtocolViolation, Code.SYSTEM_ERROR),
    (CorruptBatch, Code.SYSTEM_ERROR),
)


def refusal(error: PenstockError) -> Refused:
    """The refusal that says what ``error`` says; what has no row is the server's own trouble."""
    if isinstance(error, Refused):
        return error
    return Refused(code_for(error, _ROWS, Code.SYSTEM_ERROR), error.message)


def unreadable(frame: Frame) -> Refused | None:
    """The refusal of a request whose header could not be read as a whole; None for others.

    Of a send it is the properties that are too long: brokers say then that the message is illegal.
    """
    error = frame.unreadable if isinstance(frame, CommandFrame) else None
    if error is None:
        return None
    illegal = error.too_long and error.command.code in _SENDS
    return Refused(Code.MESSAGE_ILLEGAL if illegal else Code.SYSTEM_ERROR, error.message)


def unmade(group: str) -> Refused:
    """What brokers say of a group that is not there."""
    return Refused(
        Code.SUBSCRIPTION_GROUP_NOT_EXIST,
        f"subscription group [{group[:255]}] does not exist: make it first (mqadmin updateSubGroup)",
    )
