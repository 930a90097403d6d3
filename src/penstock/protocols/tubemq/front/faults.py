"""A refusal: the code and the text that an answer carries; and which code an error of the store becomes."""

from __future__ import annotations

from typing import Final

from penstock.concurrency.limits import NoRoom
from penstock.errors import (
    BatchTooLarge,
    CorruptBatch,
    LogOffsetOutOfRange,
    OutcomeUnknown,
    PenstockError,
    UnknownPartition,
    UnknownTopic,
    Unsupported,
    UpstreamLost,
    WriteFailed,
)
from penstock.interfaces.wire import CodedRefusal, code_for
from penstock.protocols.tubemq.error_codes import Code

__all__ = ["Refused", "Thrown", "refusal"]


class Refused(CodedRefusal):
    """A request that is not served: answered with ``code`` and the message, as data of its method's answer."""


class Thrown(PenstockError):
    """A request that the real server's own code would break on: answered by an exception, without the answer's body."""

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(message or name)
        self.name = name
        self.text = message


_ROWS: Final[tuple[tuple[type[PenstockError], int], ...]] = (
    (UnknownTopic, Code.FORBIDDEN),
    (UnknownPartition, Code.FORBIDDEN),
    (BatchTooLarge, Code.BAD_REQUEST),
    (LogOffsetOutOfRange, Code.MOVED),
    (WriteFailed, Code.SERVICE_UNAVAILABLE),
    (OutcomeUnknown, Code.RPC_FAILURE),  # no client sends again on it
    (UpstreamLost, Code.SERVICE_UNAVAILABLE),
    (NoRoom, Code.SERVICE_UNAVAILABLE),
    (Unsupported, Code.BAD_REQUEST),
    (CorruptBatch, Code.INTERNAL_SERVER_ERROR),
)


def refusal(error: PenstockError) -> Refused:
    """The refusal that says what ``error`` says; what has no row is the server's own trouble."""
    return (
        error
        if isinstance(error, Refused)
        else Refused(code_for(error, _ROWS, Code.INTERNAL_SERVER_ERROR), error.message)
    )
