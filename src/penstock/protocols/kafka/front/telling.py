"""What of a Kafka client's request was refused, in words for the node's log: who asked, for what, and why.

It is looked at only where an answer has codes. What must not live here: counting, and what is written how often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.errors import row
from penstock.protocols.kafka.front.codes import Coded, name_of
from penstock.protocols.kafka.front.why import Note
from penstock.seams.meters import Codes, Meter
from penstock.seams.refusals import Asker

__all__ = ["CODES", "tell"]


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


def tell(meter: Meter, asker: Asker, api: int, request: object, found: Iterable[Coded], notes: list[Note]) -> None:
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
