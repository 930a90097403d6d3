"""From refusals to error codes, and from error codes in answers to the words of the node's log."""

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

# Why an answer says no, in the words of the error that became its code: for the node's log, not for clients.
#
# A code is made of an error far below whoever writes the log, in handlers that know of no connection. What must not
# live here: what is done about it.
_MOST: Final = 100


class Note(NamedTuple):
    """What was wrong, and what to do; of a topic, or of none in particular."""

    code: int
    why: str
    advice: str
    topic: str | None


_notes: ContextVar[list[Note] | None] = ContextVar("why a request is refused", default=None)


def begin() -> list[Note]:
    """What is noted from here on, in this task and those that it begins."""
    notes: list[Note] = []
    _notes.set(notes)
    return notes


def note(code: int, error: PenstockError) -> None:
    """An error has become that code. It is not kept: whatever it holds goes as soon as it can."""
    notes = _notes.get()
    if notes is not None and len(notes) < _MOST:
        notes.append(Note(code, error.message, error.hint or "", error.topic))


# Which error code a refusal of the store or of a check becomes: rows, the most particular class first.
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


# Which error codes an answer carries: at its top, or in any of its parts. For counting and for the log; nobody is
# answered from here.
#
# Where a code stands follows from an answer's declaration, and is worked out once a kind of answer.
_CODE: Final = "error_code"
_NAMES: Final = {int(each): each.name for each in ErrorCode}


def name_of(code: int) -> str | None:
    """A code's name, if a node of ours sends it."""
    return _NAMES.get(code)


class Coded(NamedTuple):
    """A code, and the structs it stands in, from the inside out."""

    code: int
    within: Sequence[object]


def codes_in(answer: object) -> list[int]:
    """Every code in it that is not 0, as often as it is there."""
    kind: Any = type(answer)
    found: list[int] = []
    _finder(kind)(answer, found)
    return found


def coded_in(answer: object, around: tuple[object, ...] = ()) -> Iterator[Coded]:
    """The same with where they stand, which takes longer: for answers that have some."""
    kind: Any = type(answer)
    codes, lists = _shape(kind)
    within = (answer, *around)
    for name in codes:
        if code := getattr(answer, name):
            yield Coded(int(code), within)
    for name, _ in lists:
        for part in getattr(answer, name) or ():
            yield from coded_in(part, within)


_Find = Callable[[Any, list[int]], None]
"""Adds the codes of one struct."""


@functools.cache
def _shape(kind: Any) -> tuple[Sequence[str], Sequence[tuple[str, Any]]]:
    """Names of a struct's codes, and of its lists of structs that may have some, with their kind."""
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
def _finder(kind: Any) -> _Find:
    """Looks through answers of this kind."""
    codes, inner = _shape(kind)
    lists = [(name, _finder(item)) for name, item in inner]

    def find(answer: Any, found: list[int]) -> None:
        for name in codes:
            code = getattr(answer, name)
            if code:
                found.append(int(code))
        for name, look in lists:
            for part in getattr(answer, name) or ():
                look(part, found)

    return find


def _has_codes(kind: Any) -> bool:
    """Whether a code could be anywhere in it."""
    fields = all_fields(kind)
    inner = [field.wire.item for field in fields if field.wire.kind == "array" and isinstance(field.wire.item, type)]
    return any(field.name.endswith(_CODE) for field in fields) or any(map(_has_codes, inner))


# What of a Kafka client's request was refused, in words for the node's log: who asked, for what, and why.
#
# It is looked at only where an answer has codes.
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
"""Clients act on the usual ones by themselves: join, read on, look elsewhere, or learn that there is nothing to do."""

_TOPIC: Final = ("topic", "topic_name", "name", "resource_name")
_GROUP: Final = ("group_id", "group", "transactional_id")
_ID_BYTES: Final = 16
_NUMBER: Final = ("partition_index", "partition", "index")


def log_refusals(
    meter: Meter, asker: Asker, api: int, request: object, found: Iterable[Coded], notes: list[Note]
) -> None:
    """Have each code of an answer told; each of ``notes`` is for one of them."""
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
    """The first text under one of these names, from the inside out."""
    for part in parts:
        for name in names:
            found: Any = getattr(part, name, None)
            if isinstance(found, str) and found:
                return found
    return ""


def _number(part: object) -> int | None:
    return next((found for name in _NUMBER if isinstance(found := getattr(part, name, None), int)), None)


def _id(parts: Sequence[object]) -> str:
    """Of a topic whose name nobody said."""
    found = next((each for part in parts if isinstance(each := getattr(part, "topic_id", None), bytes)), b"")
    return f"of id {UUID(bytes=found)}" if len(found) == _ID_BYTES and any(found) else ""


def _noted(code: int, topic: str, notes: list[Note]) -> Note | None:
    """What was noted of that code, and not told yet: of this topic, or of none that is another one."""
    fitting = [each for each in notes if each.code == code]
    same = [each for each in fitting if each.topic == topic]
    found = next(iter([*same, *(each for each in fitting if not topic or each.topic is None)]), None)
    if found is not None:
        notes.remove(found)
    return found
