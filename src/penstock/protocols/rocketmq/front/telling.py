"""What of a RocketMQ client's request was refused, in words for the node's log: who asked, for what, and why.

An answer says it itself, also one that a broker gave. It is looked into only where its code says no. What must not live
here: counting, and what is written how often.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.errors import ProtocolViolation
from penstock.protocols.rocketmq.command import decode
from penstock.protocols.rocketmq.error_codes import Code, row_of, rows
from penstock.protocols.rocketmq.front.broker.groups import Clients
from penstock.protocols.rocketmq.front.call import Line
from penstock.seams.framing import Buffers
from penstock.seams.meters import Codes, Meter
from penstock.seams.refusals import Asker

__all__ = ["CODES", "tell"]

_NAMES: Final = {row.code: row.name for row in rows()}


def _advice(code: int) -> str:
    return row_of(code).advice


CODES: Final = Codes(
    _NAMES.get,
    _advice,
    frozenset({Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.QUERY_NOT_FOUND}),
)
"""The usual ones are how clients learn that there is nothing to read."""

_LENGTH: Final = 4
_TOPIC: Final = ("topic", "b")
_GROUP: Final = ("consumerGroup", "group", "groupName", "producerGroup", "a")
"""Headers of sends have their fields under letters, too."""


def tell(
    meter: Meter, clients: Clients, line: Line, api: int, fields: Mapping[str, str], code: int, answer: Buffers
) -> None:
    """Have an answer told that says no to a request with these ext fields."""
    meter.tell(
        Asker(clients.name_of(line), line.address),
        api,
        code,
        topic=_said(fields, _TOPIC),
        group=_said(fields, _GROUP),
        why=_remark(answer),
    )


def _said(fields: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((fields[name] for name in names if fields.get(name)), "")


def _remark(answer: Buffers) -> str:
    try:
        return decode(memoryview(b"".join(answer))[_LENGTH:]).remark or ""
    except ProtocolViolation:  # a broker's, which is handed on as it is
        return ""
