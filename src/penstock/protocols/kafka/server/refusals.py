"""Errors and error codes of the server.

`code_of` turns an error into a code; `codes_in` and `coded_in` find the codes in a response, for counting and logging;
`log_refusals` logs them with the reasons that `note` has collected.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple
from uuid import UUID

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
from penstock.interfaces.front import Asker, Codes, Meter
from penstock.interfaces.wire import code_for
from penstock.protocols.kafka.errors import ErrorCode, row
from penstock.protocols.kafka.wire.declarations import all_fields

__all__ = [
    "CODES",
    "Coded",
    "Note",
    "Refused",
    "begin",
    "code_of",
    "coded_in",
    "codes_in",
    "log_refusals",
    "name_of",
    "note",
]

# The reasons behind error codes, for the node's log; clients do not get them.
#
# A code is often made from an error far below the code that logs it, in handlers that know no connection. So the
# reasons are collected in a context variable.

_MOST: Final = 100


class Note(NamedTuple):
    """An error's text and hint, with its topic if it has one."""

    code: int
    why: str
    advice: str
    topic: str | None


_notes: ContextVar[list[Note] | None] = ContextVar("why a request is refused", default=None)


def begin() -> list[Note]:
    """Start collecting notes, in this task and the tasks that it starts."""
    notes: list[Note] = []
    _notes.set(notes)
    return notes


def note(code: int, error: PenstockError) -> None:
    """Note that an error became this code. Only its texts are kept, so that the objects it refers to can be freed."""
    notes = _notes.get()
    if notes is not None and len(notes) < _MOST:
        notes.append(Note(code, error.message, error.hint or "", error.topic))


# The error code of each error of the store and of checks, the most specific class first.
class Refused(PenstockError):
    """A refused part of a request: its error code and a readable text.

    ``rows`` has an error text for single records of a batch.
    """

    def __init__(
        self, code: ErrorCode, message: str = "", *, rows: Mapping[int, str] | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message or code.name, hint=hint)
        self.code = code
        self.rows = rows or {}


_ROWS: Final[tuple[tuple[type[PenstockError], ErrorCode], ...]] = (
    (CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    (OutcomeUnknown, ErrorCode.UNKNOWN_SERVER_ERROR),  # the only code that no producer retries
    (UpstreamLost, ErrorCode.NOT_LEADER_OR_FOLLOWER),  # the only code that every client retries, for any request
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
    """The code of an error; errors without a row (disk, damage) become KAFKA_STORAGE_ERROR, which clients retry."""
    code = error.code if isinstance(error, Refused) else code_for(error, _ROWS, ErrorCode.KAFKA_STORAGE_ERROR)
    note(code, error)
    return code


def bare(error: PenstockError) -> PenstockError:
    """The error without its tracebacks: their frames would keep inflated records alive until garbage collection."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


# The error codes in a response, at its top or in any of its parts; for counting and for the log only.
#
# The places of codes follow from a response's declaration. They are determined once per kind of response.

_CODE: Final = "error_code"
_NAMES: Final = {int(each): each.name for each in ErrorCode}


def name_of(code: int) -> str | None:
    """A code's name, if a penstock node sends it."""
    return _NAMES.get(code)


class Coded(NamedTuple):
    """A code, and the structs around it, from the inside out."""

    code: int
    within: Sequence[object]


def codes_in(answer: object) -> list[int]:
    """All codes in the response except 0, with repetitions."""
    kind: Any = type(answer)
    return _finder(kind)(answer)


def coded_in(answer: object, around: tuple[object, ...] = ()) -> Iterator[Coded]:
    """The same codes with their structs. This is slower, so it is only used for responses that have codes."""
    kind: Any = type(answer)
    codes, lists = _shape(kind)
    within = (answer, *around)
    for name in codes:
        if code := getattr(answer, name):
            yield Coded(int(code), within)
    for name, _ in lists:
        for part in getattr(answer, name) or ():
            yield from coded_in(part, within)


@functools.cache
def _shape(kind: Any) -> tuple[Sequence[str], Sequence[tuple[str, Any]]]:
    """Names of a struct's codes, and of its lists of structs that may have codes, with their kinds."""
    codes: list[str] = []
    lists: list[tuple[str, Any]] = []
    for field in all_fields(kind):
        item = field.wire.item
        if field.name.endswith(_CODE):
            codes.append(field.name)
        elif field.wire.kind == "array" and isinstance(item, type) and _has_codes(item):
            lists.append((field.name, item))
    return codes, lists


@functools.cache
def _finder(kind: Any) -> Callable[[object], list[int]]:
    """A function that finds the codes in responses of this kind. It is generated for speed: it reads every response."""
    lines = ["def find(answer_0):", "    found = []"]

    def look(kind: Any, depth: int) -> None:
        here, indent = f"answer_{depth}", "    " * (depth + 1)
        codes, lists = _shape(kind)
        lines.extend(f"{indent}if {here}.{name}: found.append(int({here}.{name}))" for name in codes)
        for name, item in lists:
            lines.append(f"{indent}for answer_{depth + 1} in {here}.{name} or ():")
            look(item, depth + 1)

    look(kind, 0)
    names: dict[str, Any] = {}
    exec("\n".join([*lines, "    return found"]), names)
    find: Callable[[object], list[int]] = names["find"]
    return find


def _has_codes(kind: Any) -> bool:
    """Whether a code could be anywhere in it."""
    fields = all_fields(kind)
    inner = [field.wire.item for field in fields if field.wire.kind == "array" and isinstance(field.wire.item, type)]
    return any(field.name.endswith(_CODE) for field in fields) or any(map(_has_codes, inner))


# Refusals in the node's log: the client, the request, and the reason. Only used for responses with codes.
def _advice(code: int) -> str:
    return row(code).advice


CODES: Final = Codes(
    name_of,
    _advice,
    frozenset(
        {
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.MEMBER_ID_REQUIRED,
            ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.GROUP_ID_NOT_FOUND,
        }
    ),
)
"""Codes that clients handle without help: they join, read on, ask another node, or find that nothing is to be done."""

_TOPIC: Final = ("topic", "topic_name", "name", "resource_name")
_GROUP: Final = ("group_id", "group", "transactional_id")
_ID_BYTES: Final = 16
_NUMBER: Final = ("partition_index", "partition", "index")


def log_refusals(
    meter: Meter, asker: Asker, api: int, request: object, found: Iterable[Coded], notes: list[Note]
) -> None:
    """Log each code of a response, with one of ``notes`` for each."""
    for coded in found:
        topic = _said(coded.within, _TOPIC)
        group = _said(coded.within, _GROUP) or _said((request,), _GROUP)
        noted = _noted(coded.code, topic, notes)
        if not topic:
            topic = (noted.topic if noted is not None else None) or _id(coded.within)
        number = next((each for each in (_number(part) for part in coded.within) if each is not None), None)
        message = _said(coded.within[:1], ("error_message", "err_msg"))
        meter.tell(
            asker,
            api,
            coded.code,
            topic=topic,
            partition=-1 if number is None else number,
            group=group,
            why=message or ("" if noted is None else noted.why),
            advice="" if noted is None else noted.advice,
        )


def _said(parts: Sequence[object], names: Sequence[str]) -> str:
    """The first non-empty text under one of these names, from the inside out."""
    for part in parts:
        for name in names:
            found: Any = getattr(part, name, None)
            if isinstance(found, str) and found:
                return found
    return ""


def _number(part: object) -> int | None:
    return next((found for name in _NUMBER if isinstance(found := getattr(part, name, None), int)), None)


def _id(parts: Sequence[object]) -> str:
    """The id of a topic without a known name."""
    found = next((each for part in parts if isinstance(each := getattr(part, "topic_id", None), bytes)), b"")
    return f"of id {UUID(bytes=found)}" if len(found) == _ID_BYTES and any(found) else ""


def _noted(code: int, topic: str, notes: list[Note]) -> Note | None:
    """The next unused note with that code: of this topic, else of no topic."""
    fitting = [each for each in notes if each.code == code]
    same = [each for each in fitting if each.topic == topic]
    found = next(iter([*same, *(each for each in fitting if not topic or each.topic is None)]), None)
    if found is not None:
        notes.remove(found)
    return found
