"""Which messages a subscription wants: by their tags, or by their properties (`sql92`).

Brokers compare hashes of tags, and clients the tags themselves once more; here it is the tags at once. Source: Apache
RocketMQ 4.9 and 5.x, ``FilterAPI``, ``ExpressionMessageFilter``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from penstock.columnar.plain_records import Stored
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.broker.sql92 import matcher
from penstock.protocols.rocketmq.front.faults import Refused

__all__ = ["Wanted", "wanted_by"]

Wanted = Callable[[Stored], bool]

_EVERYTHING: Final = frozenset({"", "*"})
_TAGS: Final = "TAGS"
_LONGEST: Final = 65_536
_LONGEST_KEPT: Final = 1_024


def wanted_by(expression: str | None, kind: str | None) -> Wanted | None:
    """What a subscription's expression of a kind (TAG, if it does not say) lets through; None: everything.

    Raises Refused for a kind that there is not, and for an SQL92 expression that is none: brokers let everything
    through where one comes with a pull.
    """
    if expression is not None and len(expression) > _LONGEST:
        raise Refused(
            Code.SUBSCRIPTION_PARSE_FAILED, f"an expression of {len(expression)} letters, most are {_LONGEST}"
        )
    if expression is not None and len(expression) > _LONGEST_KEPT:
        return _read(expression, kind)
    return _short(expression, kind)


@lru_cache(1_000)
def _short(expression: str | None, kind: str | None) -> Wanted | None:
    """Most are; a thousand of the longest would take a node's memory."""
    return _read(expression, kind)


def _read(expression: str | None, kind: str | None) -> Wanted | None:
    if kind == "SQL92":
        matches = matcher(expression or "")
        return lambda record: matches(_properties(record))
    if kind not in (None, "", "TAG"):
        raise Refused(Code.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {kind}")
    if expression is None or expression.strip() in _EVERYTHING:
        return None
    tags = frozenset(tag.strip().encode() for tag in expression.split("||") if tag.strip())
    return lambda record: _tag_of(record) in tags


def _properties(record: Stored) -> dict[str, str]:
    return {name: value.decode("utf-8", "replace") for name, value in record.headers if value is not None}


def _tag_of(record: Stored) -> bytes | None:
    for name, value in record.headers:
        if name == _TAGS:
            return value
    return None
