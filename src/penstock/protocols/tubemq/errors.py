"""TubeMQ's error codes as rows, which of our errors a code becomes, and which code an error of ours becomes."""

from __future__ import annotations

from typing import Final, NamedTuple, Unpack

from penstock.concurrency.limits import NoRoom
from penstock.errors import (
    BatchTooLarge,
    CorruptBatch,
    ErrorKind,
    LogOffsetOutOfRange,
    OffsetOutOfRange,
    OutcomeUnknown,
    PenstockError,
    ServerError,
    UnknownPartition,
    UnknownTopic,
    Unsupported,
    UpstreamLost,
    WriteFailed,
)
from penstock.interfaces.wire import CodedRefusal, Where, code_for, server_error

__all__ = ["Code", "ErrorRow", "Refused", "Thrown", "error_of", "refusal", "row_of", "rows"]


# TubeMQ's error codes as rows, and how a code becomes one of our errors.
#
# Source: Apache InLong TubeMQ 2.x, ``TErrCodeConstants``, and what its master and broker answer with. Some are never
# sent: Java's, C++'s and Go's clients give them to their own callers; they are listed to read log lines by. A code that
# is not listed is treated as INTERNAL_SERVER_ERROR and keeps its number.
class Code:
    """The codes that our side compares with or answers with."""

    SUCCESS: Final = 200
    MOVED: Final = 301
    BAD_REQUEST: Final = 400
    UNAUTHORIZED: Final = 401
    FORBIDDEN: Final = 403
    NOT_FOUND: Final = 404
    PARTITION_OCCUPIED: Final = 410
    HB_NO_NODE: Final = 411
    DUPLICATE_PARTITION: Final = 412
    CERTIFICATE_FAILURE: Final = 415
    SERVER_RECEIVE_OVERFLOW: Final = 419
    CLIENT_INCONSISTENT_CONSUMETYPE: Final = 424
    CLIENT_INCONSISTENT_TOPICSET: Final = 425
    CLIENT_INCONSISTENT_FILTERSET: Final = 426
    CLIENT_INCONSISTENT_SESSIONKEY: Final = 427
    CLIENT_INCONSISTENT_SELECTBIG: Final = 428
    CLIENT_INCONSISTENT_SOURCECOUNT: Final = 429
    CLIENT_DUPLICATE_INDEXID: Final = 430
    TOPIC_NOT_DEPLOYED: Final = 431
    PARAMETER_MSG_OVER_MAX_LENGTH: Final = 445
    CONSUME_GROUP_FORBIDDEN: Final = 450
    SERVER_CONSUME_SPEED_LIMIT: Final = 452
    CONSUME_CONTENT_FORBIDDEN: Final = 455
    INTERNAL_SERVER_ERROR: Final = 500
    RPC_FAILURE: Final = 501
    SERVICE_UNAVAILABLE: Final = 503


_KINDS: Final = {
    # Messages are refused one by one: a smaller batch would send those again that are stored.
    ErrorKind.RECORD_TOO_LARGE: (445,),
    ErrorKind.OFFSET_OUT_OF_RANGE: (301,),
    ErrorKind.UNKNOWN_TOPIC: (431,),
    ErrorKind.NOT_AUTHORIZED: (415, 450, 455),
    ErrorKind.THROTTLED: (419, 421, 452),
    ErrorKind.UNAVAILABLE: (201, 503),
}
_KIND_OF: Final = {code: kind for kind, codes in _KINDS.items() for code in codes}


class ErrorRow(NamedTuple):
    """One code: its name, what a person can do, whether trying again can help, and whether to register before."""

    code: int
    name: str
    advice: str
    retriable: bool = False
    register_again: bool = False


def _final(code: int, name: str, advice: str) -> ErrorRow:
    """The same request will fail again."""
    return ErrorRow(code, name, advice)


def _again(code: int, name: str, advice: str) -> ErrorRow:
    """Retriable as it is, after a while."""
    return ErrorRow(code, name, advice, retriable=True)


def _unknown_here(code: int, name: str, advice: str) -> ErrorRow:
    """Retriable after registering again: the other side does not know us (any more)."""
    return ErrorRow(code, name, advice, retriable=True, register_again=True)


_GHOST: Final = "a member that ended without leaving counts until the master has not heard of it for 30 s"
_GROUP: Final = f"{_GHOST}; else give all members of the group the same"

_ROWS: Final = (
    _final(200, "SUCCESS", "nothing to do"),
    _again(201, "NOT_READY", "try again shortly: the server is starting"),
    _final(301, "MOVED", "seek: retention deleted what was at this offset"),
    _final(400, "BAD_REQUEST", "see the message for the parameter that was refused"),
    _unknown_here(401, "UNAUTHORIZED", "register the partition at its broker before committing"),
    _again(402, "CONNECT_RETURN_NULL", "try again: the answer was empty"),
    _final(403, "FORBIDDEN", "check topic and partition: unknown there, or closed; or the checksum was wrong"),
    _again(404, "NOT_FOUND", "poll again: there is nothing to read now"),
    _again(405, "ALL_PARTITION_FROZEN", "resume a partition"),
    _again(406, "NO_PARTITION_ASSIGNED", "wait: the master has assigned nothing yet"),
    _again(407, "ALL_PARTITION_WAITING", "poll again: flow control holds all partitions back"),
    _again(408, "ALL_PARTITION_INUSE", "commit what was delivered: all partitions wait for it"),
    _again(410, "PARTITION_OCCUPIED", "wait: another client of the group has the partition, or had until just now"),
    _unknown_here(411, "HB_NO_NODE", "register again: the server does not know this client, or gave it up"),
    _final(412, "DUPLICATE_PARTITION", "give the partition up: another client of the group has it now"),
    _final(415, "CERTIFICATE_FAILURE", "check user name and password, and the clocks of both sides"),
    _again(419, "SERVER_RECEIVE_OVERFLOW", "send again, more slowly: the broker's write buffer is full"),
    _final(420, "CLIENT_SHUTDOWN", "make a new client: this one was closed"),
    _again(421, "CLIENT_HIGH_FREQUENCY_REQUEST", "ask less often"),
    _final(422, "PARTITION_UNSUBSCRIBABLE", "enable subscribing for the topic on that broker"),
    _final(423, "PARTITION_UNPUBLISHABLE", "enable publishing for the topic on that broker"),
    _final(424, "CLIENT_INCONSISTENT_CONSUMETYPE", f"{_GROUP} way of consuming (server- or client-balanced, bound)"),
    _final(425, "CLIENT_INCONSISTENT_TOPICSET", f"{_GROUP} topics"),
    _final(426, "CLIENT_INCONSISTENT_FILTERSET", f"{_GROUP} filter items"),
    _final(427, "CLIENT_INCONSISTENT_SESSIONKEY", f"{_GROUP} session key"),
    _final(428, "CLIENT_INCONSISTENT_SELECTBIG", f"{_GROUP} choice of the larger or smaller start offset"),
    _final(429, "CLIENT_INCONSISTENT_SOURCECOUNT", f"{_GROUP} source count"),
    _final(
        430,
        "CLIENT_DUPLICATE_INDEXID",
        f"another member of the group has this node id: {_GHOST}; else give each member a node id of its own",
    ),
    _final(431, "TOPIC_NOT_DEPLOYED", "create the topic, or check its name"),
    _final(440, "PARAMETER_MSG_NULL", "send a message"),
    _final(441, "PARAMETER_MSG_TOPIC_BLANK", "name a topic"),
    _final(442, "PARAMETER_MSG_BODY_EMPTY", "TubeMQ has no empty messages: send at least one byte"),
    _final(443, "PARAMETER_MSG_TOPIC_UNPUBLISHED", "publish the topic before sending to it"),
    _again(444, "PARAMETER_MSG_TOPIC_NO_PARTITION", "wait until a broker has the topic"),
    _final(445, "PARAMETER_MSG_OVER_MAX_LENGTH", "make the message smaller, or raise the topic's limit"),
    _final(450, "CONSUME_GROUP_FORBIDDEN", "allow the group to consume the topic"),
    _again(452, "SERVER_CONSUME_SPEED_LIMIT", "wait as long as the answer says: the broker limits this group"),
    _final(455, "CONSUME_CONTENT_FORBIDDEN", "ask only for filter items the group may see"),
    _again(500, "INTERNAL_SERVER_ERROR", "look at the server's log"),
    _final(501, "RPC_FAILURE", "look at the server's log: the call threw or could not be read"),
    _again(503, "SERVICE_UNAVAILABLE", "wait, or look at the broker: reading or writing is stopped there"),
    _again(510, "INTERNAL_SERVER_ERROR_MSGSET_NULL", "look at the broker's log"),
    _final(599, "UNSPECIFIED_ABNORMAL", "look at the client's log"),
)

_BY_CODE: Final = {row.code: row for row in _ROWS}


def row_of(code: int) -> ErrorRow:
    """Return the row of a code; an unlisted one gets that of INTERNAL_SERVER_ERROR under its own number."""
    return _BY_CODE.get(code) or _BY_CODE[Code.INTERNAL_SERVER_ERROR]._replace(code=code, name=f"UNLISTED_{code}")


def rows() -> tuple[ErrorRow, ...]:
    """Every listed one, SUCCESS among them."""
    return _ROWS


def error_of(code: int, message: str = "", **where: Unpack[Where]) -> ServerError:
    """Return the error for an answer with ``code``; ``message`` is the server's own text.

    MOVED is OffsetOutOfRange. What ``retriable`` and the hint say is in the table above.
    """
    raised = OffsetOutOfRange if code == Code.MOVED else ServerError
    return server_error(row_of(code), _KIND_OF.get(code), message.strip(), raised=raised, **where)


# A refusal: the code and the text that an answer carries; and which code an error of the store becomes.
class Refused(CodedRefusal):
    """A request that is not served: answered with ``code`` and the message, as data of its method's answer."""


class Thrown(PenstockError):
    """A request that the real server's own code would break on: answered by an exception, without the answer's body."""

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(message or name)
        self.name = name
        self.text = message


_CODES_OF_ERRORS: Final[tuple[tuple[type[PenstockError], int], ...]] = (
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
        else Refused(code_for(error, _CODES_OF_ERRORS, Code.INTERNAL_SERVER_ERROR), error.message)
    )
