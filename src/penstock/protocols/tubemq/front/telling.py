"""What of a TubeMQ client's request was refused, in words for the node's log: who asked, for what, and why.

What must not live here: counting, and what is written how often.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.interfaces.front import Asker, Codes, Meter
from penstock.model import Endpoint
from penstock.protocols.tubemq.error_codes import Code, row_of, rows

__all__ = ["CODES", "About", "tell"]

_NAMES: Final = {row.code: row.name for row in rows()}


def _advice(code: int) -> str:
    return row_of(code).advice


CODES: Final = Codes(_NAMES.get, _advice, frozenset({Code.NOT_FOUND}))
"""The usual one is how readers learn that there is nothing to read."""


class About(NamedTuple):
    """What is told of a request, without its messages."""

    client_id: str
    topic_name: str
    group_name: str

    @classmethod
    def of(cls, request: object) -> About:
        """Of one that is still there."""
        return cls(
            getattr(request, "client_id", ""), getattr(request, "topic_name", ""), getattr(request, "group_name", "")
        )


def tell(meter: Meter, address: Endpoint, api: int, request: object, code: int, why: str) -> None:
    """Have a request told that was refused; None: one that could not be read."""
    meter.tell(
        Asker(_said(request, "client_id"), address),
        api,
        code,
        topic=_said(request, "topic_name"),
        group=_said(request, "group_name"),
        why=why,
    )


def _said(request: object, name: str) -> str:
    found = getattr(request, name, "")
    return found if isinstance(found, str) else ""
