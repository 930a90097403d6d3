"""What the members of a group must agree on, and how a newcomer is refused that does not.

Rows: what is compared, in the order in which the real master compares, with the code it answers.
Source: TubeMQ master, consumer register; codes 424-430.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, NamedTuple

from penstock._dataclasses import dataclass
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.faults import Refused

__all__ = ["Terms", "Way", "check_agreement"]


class Way(enum.Enum):
    """How a group consumes: the master assigns; the master assigns from given offsets; the clients choose."""

    NORMAL = "unbound"
    BOUND = "bound"
    CLIENT_BALANCE = "client-balance"


@dataclass(frozen=True, slots=True)
class Terms:
    """``conditions``: filter items by topic, only topics that have some. ``sources``: members of a bound group, or the
    source count of a client-balanced one, 0 where it says nothing.
    """

    way: Way
    topics: frozenset[str]
    conditions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    session_key: str = ""
    select_big: bool = True
    sources: int = 0


class _Row(NamedTuple):
    what: str
    code: int
    of: Callable[[Terms], object]
    ways: frozenset[Way]


_ALL: Final = frozenset(Way)
_BOUND: Final = frozenset({Way.BOUND})
_ROWS: Final = (
    _Row("way of consuming", Code.CLIENT_INCONSISTENT_CONSUMETYPE, lambda terms: terms.way.value, _ALL),
    _Row("topics", Code.CLIENT_INCONSISTENT_TOPICSET, lambda terms: sorted(terms.topics), _ALL),
    _Row(
        "filter conditions",
        Code.CLIENT_INCONSISTENT_FILTERSET,
        lambda terms: {topic: sorted(items) for topic, items in sorted(terms.conditions.items())},
        _ALL,
    ),
    _Row("session key", Code.CLIENT_INCONSISTENT_SESSIONKEY, lambda terms: terms.session_key, _BOUND),
    _Row("choice of the larger offset", Code.CLIENT_INCONSISTENT_SELECTBIG, lambda terms: terms.select_big, _BOUND),
    _Row(
        "source count",
        Code.CLIENT_INCONSISTENT_SOURCECOUNT,
        lambda terms: terms.sources,
        frozenset({Way.BOUND, Way.CLIENT_BALANCE}),
    ),
)


def check_agreement(member: str, wanted: Terms, existing: Terms) -> None:
    """Raise Refused with the code of the first thing in which ``member`` differs from its group."""
    for row in _ROWS:
        if existing.way in row.ways and row.of(wanted) != row.of(existing):
            raise Refused(
                row.code,
                f"[Inconsistency subscribe] {member}: {row.what} {row.of(wanted)} "
                f"is inconsistency with the other consumers' in the group: {row.of(existing)}",
            )
