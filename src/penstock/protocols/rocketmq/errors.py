"""Response codes and errors: the table of codes, the client's errors for them (`error_of`), and the server's refusals
for errors of the log (`refusal`). Source: Apache RocketMQ 4.9 and 5.x, ``ResponseCode``.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Unpack

from penstock.concurrency.limits import NoRoom
from penstock.errors import (
    BatchTooLarge,
    CorruptBatch,
    ErrorKind,
    InvalidTopicName,
    LogOffsetOutOfRange,
    OffsetOutOfRange,
    OutcomeUnknown,
    PenstockError,
    ProtocolViolation,
    ServerError,
    UnknownPartition,
    UnknownTopic,
    Unsupported,
    UpstreamLost,
    WriteFailed,
)
from penstock.interfaces.wire import CodedRefusal, Where, code_for, server_error
from penstock.protocols.rocketmq.wire.framing import UnreadableHeader

__all__ = ["Code", "ErrorRow", "Refused", "error_of", "refusal", "row_of", "rows", "unmade", "unreadable"]


class Code:
    """The codes that penstock compares with or sends."""

    RPC_TIME_OUT: Final = -1006
    SUCCESS: Final = 0
    SYSTEM_ERROR: Final = 1
    SYSTEM_BUSY: Final = 2
    REQUEST_CODE_NOT_SUPPORTED: Final = 3
    FLUSH_DISK_TIMEOUT: Final = 10
    SLAVE_NOT_AVAILABLE: Final = 11
    FLUSH_SLAVE_TIMEOUT: Final = 12
    MESSAGE_ILLEGAL: Final = 13
    SERVICE_NOT_AVAILABLE: Final = 14
    VERSION_NOT_SUPPORTED: Final = 15
    NO_PERMISSION: Final = 16
    TOPIC_NOT_EXIST: Final = 17
    TOPIC_EXIST_ALREADY: Final = 18
    PULL_NOT_FOUND: Final = 19
    PULL_RETRY_IMMEDIATELY: Final = 20
    PULL_OFFSET_MOVED: Final = 21
    QUERY_NOT_FOUND: Final = 22
    SUBSCRIPTION_PARSE_FAILED: Final = 23
    SUBSCRIPTION_NOT_EXIST: Final = 24
    SUBSCRIPTION_NOT_LATEST: Final = 25
    SUBSCRIPTION_GROUP_NOT_EXIST: Final = 26
    FILTER_DATA_NOT_EXIST: Final = 27
    FILTER_DATA_NOT_LATEST: Final = 28
    INVALID_PARAMETER: Final = 29
    CONSUMER_NOT_ONLINE: Final = 206
    FLOW_CONTROL: Final = 215
    GO_AWAY: Final = 1500


_KINDS: Final = {
    ErrorKind.RECORD_TOO_LARGE: (13,),
    ErrorKind.OFFSET_OUT_OF_RANGE: (21,),
    ErrorKind.NOT_LEADER: (501,),
    ErrorKind.UNKNOWN_TOPIC: (17,),
    ErrorKind.TOPIC_EXISTS: (18,),
    ErrorKind.NOT_AUTHORIZED: (16, 3001, 3002),
    ErrorKind.THROTTLED: (2, 215),
    ErrorKind.UNAVAILABLE: (14, 1500),
    ErrorKind.UNSUPPORTED: (3, 15),
}
_KIND_OF: Final = {code: kind for kind, codes in _KINDS.items() for code in codes}


class ErrorRow(NamedTuple):
    """One code: its name, advice for a person, and whether a retry, at this or another broker, can help."""

    code: int
    name: str
    advice: str
    retriable: bool = False


def _final(code: int, name: str, advice: str) -> ErrorRow:
    """A code after which the same request will fail again."""
    return ErrorRow(code, name, advice)


def _again(code: int, name: str, advice: str) -> ErrorRow:
    """A code after which a retry can help, later or at another broker."""
    return ErrorRow(code, name, advice, retriable=True)


_ROWS: Final = (
    _final(-1006, "RPC_TIME_OUT", "look whether the message is stored before it is sent again: the broker was slow"),
    _final(0, "SUCCESS", "nothing to do"),
    _again(1, "SYSTEM_ERROR", "see the message, and the broker's log"),
    _again(2, "SYSTEM_BUSY", "send more slowly: the broker has more to do than it can"),
    _final(3, "REQUEST_CODE_NOT_SUPPORTED", "ask a newer server, or a broker instead of a proxy or name server"),
    _final(4, "TRANSACTION_FAILED", "look at the broker's log"),
    _again(10, "FLUSH_DISK_TIMEOUT", "stored, but perhaps not on disk yet: see the broker's disk"),
    _again(11, "SLAVE_NOT_AVAILABLE", "stored on the master only: start the slave"),
    _again(12, "FLUSH_SLAVE_TIMEOUT", "stored on the master, perhaps not on the slave yet"),
    _final(13, "MESSAGE_ILLEGAL", "make the message, its properties or the topic's name smaller"),
    _again(14, "SERVICE_NOT_AVAILABLE", "the broker writes nothing now: full disk, a slave, or stopping"),
    _final(15, "VERSION_NOT_SUPPORTED", "name the broker in the request: a proxy needs it"),
    _final(16, "NO_PERMISSION", "check the topic's permission, the group, access key and secret"),
    _again(17, "TOPIC_NOT_EXIST", "create the topic, or check its name"),
    _final(18, "TOPIC_EXIST_ALREADY", "choose another name"),
    _again(19, "PULL_NOT_FOUND", "pull again: there is no message at this offset yet"),
    _again(20, "PULL_RETRY_IMMEDIATELY", "pull on from the offset in the answer: nothing matched the filter"),
    _final(21, "PULL_OFFSET_MOVED", "seek: there is no such offset, or retention deleted it"),
    _final(22, "QUERY_NOT_FOUND", "nothing is stored under this key, or the group has committed nothing"),
    _final(23, "SUBSCRIPTION_PARSE_FAILED", "check the filter expression"),
    _again(24, "SUBSCRIPTION_NOT_EXIST", "send a heartbeat first: the broker does not know the group's subscription"),
    _again(25, "SUBSCRIPTION_NOT_LATEST", "send a heartbeat first: the broker knows an older subscription"),
    _again(26, "SUBSCRIPTION_GROUP_NOT_EXIST", "create the group, or allow brokers to create it"),
    _again(27, "FILTER_DATA_NOT_EXIST", "send a heartbeat first: the broker does not know the group's filter"),
    _again(28, "FILTER_DATA_NOT_LATEST", "send a heartbeat first: the broker knows an older filter"),
    _final(29, "INVALID_PARAMETER", "see the message for the parameter that was refused"),
    _final(200, "TRANSACTION_SHOULD_COMMIT", "nothing to do"),
    _final(201, "TRANSACTION_SHOULD_ROLLBACK", "nothing to do"),
    _final(202, "TRANSACTION_STATE_UNKNOW", "wait for the next check"),
    _final(203, "TRANSACTION_STATE_GROUP_WRONG", "use the group that sent the message"),
    _again(204, "NO_BUYER_ID", "try again"),
    _again(205, "NOT_IN_CURRENT_UNIT", "try again"),
    _final(206, "CONSUMER_NOT_ONLINE", "start a consumer of the group first"),
    _again(207, "CONSUME_MSG_TIMEOUT", "the consumer took too long"),
    _final(208, "NO_MESSAGE", "there is no message"),
    _final(209, "POLLING_FULL", "4.9: the ACL was not changed; 5.x: too many polls wait"),
    _final(210, "POLLING_TIMEOUT", "4.9: the ACL was not deleted; 5.x: poll again"),
    _final(211, "BROKER_NOT_EXIST", "4.9: the white addresses were not changed; 5.x: check the broker's name"),
    _again(212, "BROKER_DISPATCH_NOT_COMPLETE", "wait: the broker still sorts what it has"),
    _final(213, "BROADCAST_CONSUMPTION", "do it in each consumer: a broadcasting group keeps its own offsets"),
    _again(215, "FLOW_CONTROL", "pull more slowly"),
    _again(501, "NOT_LEADER_FOR_QUEUE", "ask for the route again"),
    _final(604, "ILLEGAL_OPERATION", "see the message"),
    _again(1500, "GO_AWAY", "connect again: this server is about to stop"),
    _final(3001, "USER_NOT_EXIST", "check the access key"),
    _final(3002, "POLICY_NOT_EXIST", "check the access key's policies"),
)

_BY_CODE: Final = {row.code: row for row in _ROWS}


def row_of(code: int) -> ErrorRow:
    """Return the row of a code; an unlisted code gets the row of SYSTEM_ERROR with its own number."""
    return _BY_CODE.get(code) or _BY_CODE[Code.SYSTEM_ERROR]._replace(code=code, name=f"UNLISTED_{code}")


def rows() -> tuple[ErrorRow, ...]:
    """All rows, with SUCCESS."""
    return _ROWS


def is_too_large(error: ServerError) -> bool:
    """Whether a broker refused a message or a batch because of its size.

    Brokers of 5.4 check the size of a batch late, and their exception becomes a SYSTEM_ERROR.
    """
    late = error.code == Code.SYSTEM_ERROR and "size exceeded" in error.message
    return late or error.code == Code.MESSAGE_ILLEGAL


_OURS: Final = re.compile(
    r"^(java\.lang\.)?(NumberFormat|IllegalArgument)Exception|^[\w.]*(JSON|Command)Exception"
    r"|does not support consumer to filter message|conflict with system topic|illegal characters"
    r"|look message by offset failed"
)
"""Remarks of a SYSTEM_ERROR that the request caused: brokers have no code for these, and a retry would get them again.
Seen on 5.4: a DELAY that is not an int (NumberFormatException), a body that is not JSON (JSONException), a header
without one of its fields (RemotingCommandException), a filter by SQL92 if ``enablePropertyFilter`` is false. The others
are from 4.9's source."""


def error_of(code: int, remark: str | None = None, **where: Unpack[Where]) -> ServerError:
    """Return the error for a response with ``code``; ``remark`` is the server's own text.

    PULL_OFFSET_MOVED becomes OffsetOutOfRange. ``retriable`` and the hint come from the table above.
    """
    raised = OffsetOutOfRange if code == Code.PULL_OFFSET_MOVED else ServerError
    row, said = row_of(code), (remark or "").strip()[:1000]
    if code == Code.SYSTEM_ERROR and _OURS.search(said):
        row = row._replace(advice="change what the message names: the broker cannot take it", retriable=False)
    return server_error(row, _KIND_OF.get(code), said, raised=raised, **where)


# Refusals: the code and the text of an error response, and the code of each error of the log.
_SENDS: Final = frozenset({10, 310, 320})


class Refused(CodedRefusal):
    """A request that is refused; the response has ``code`` and the message."""


_CODE_OF_ERROR: Final[tuple[tuple[type[PenstockError], int], ...]] = (
    (UnknownTopic, Code.TOPIC_NOT_EXIST),
    (UnknownPartition, Code.SYSTEM_ERROR),
    (InvalidTopicName, Code.SYSTEM_ERROR),
    (BatchTooLarge, Code.MESSAGE_ILLEGAL),
    (LogOffsetOutOfRange, Code.PULL_OFFSET_MOVED),
    (WriteFailed, Code.SERVICE_NOT_AVAILABLE),
    (OutcomeUnknown, Code.RPC_TIME_OUT),  # Java's producers retry after most codes, not after this
    (UpstreamLost, Code.SYSTEM_BUSY),
    (NoRoom, Code.SYSTEM_BUSY),
    (Unsupported, Code.REQUEST_CODE_NOT_SUPPORTED),
    (ProtocolViolation, Code.SYSTEM_ERROR),
    (CorruptBatch, Code.SYSTEM_ERROR),
)


def refusal(error: PenstockError) -> Refused:
    """The refusal for an error; one without a row becomes SYSTEM_ERROR."""
    if isinstance(error, Refused):
        return error
    return Refused(code_for(error, _CODE_OF_ERROR, Code.SYSTEM_ERROR), error.message)


def unreadable(error: UnreadableHeader) -> Refused:
    """The refusal of a request whose header could not be decoded completely.

    If the header of a send is too long, its properties are, which brokers report as an illegal message.
    """
    illegal = error.too_long and error.command.code in _SENDS
    return Refused(Code.MESSAGE_ILLEGAL if illegal else Code.SYSTEM_ERROR, error.message)


def unmade(group: str) -> Refused:
    """The refusal for a group that does not exist, in brokers' words."""
    return Refused(
        Code.SUBSCRIPTION_GROUP_NOT_EXIST,
        f"subscription group [{group[:255]}] does not exist: make it first (mqadmin updateSubGroup)",
    )
