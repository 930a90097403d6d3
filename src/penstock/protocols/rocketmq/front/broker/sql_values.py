"""SQL92 filters: how two values are compared, of which those of messages are always text.

Text is made what the other side is; where it is none, and where two texts that are no numbers are to be ordered, the
message does not match, whatever else is said of it. Source: Apache RocketMQ 4.9 and 5.x, ``ComparisonExpression``.
"""

from __future__ import annotations

import re
from math import isnan
from typing import Final, TypeAlias

__all__ = ["Illegal", "Value", "compare", "equal", "ordered"]

Value: TypeAlias = "bool | int | float | str | None"
"""Of a constant, a property, or an expression; None for what is not known."""

_INT32: Final = range(-(1 << 31), 1 << 31)
_INT64: Final = range(-(1 << 63), 1 << 63)
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")


class Illegal(Exception):
    """These two cannot be compared."""


def equal(left: Value, right: Value) -> bool | None:
    """``left = right``; two unknown ones are equal, and nothing is equal to an unknown one on the right.

    Raises Illegal.
    """
    if left is None and right is not None:
        return None
    if right is None:
        return left is None
    if type(left) is type(right) and left == right:
        return True
    return compare(left, right) == 0


def ordered(left: Value, right: Value) -> int | None:
    """Below, at, or above 0 as ``left`` is beside ``right``; None if one is unknown. Raises Illegal."""
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        return compare(_double(left), _double(right))
    return compare(left, right)


def compare(left: Value, right: Value) -> int:
    """As `ordered`, of two that are known; texts by their letters. Raises Illegal."""
    if isinstance(left, bool) and isinstance(right, str):
        raise Illegal
    if isinstance(left, str) and not isinstance(right, str):
        left = _as(right, left)
    elif isinstance(right, str) and not isinstance(left, str):
        right = _as(left, right)
    if isinstance(left, bool) != isinstance(right, bool):
        return -1
    if _is_nan(left) or _is_nan(right):  # above all others
        return _is_nan(left) - _is_nan(right)
    return (left > right) - (left < right)  # type: ignore[operator]


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and isnan(value)


def _as(pattern: Value, text: str) -> Value:
    """The text as what ``pattern`` is. Raises Illegal where it is none."""
    if isinstance(pattern, bool):
        return text.lower() == "true"
    if isinstance(pattern, int):
        number = int(text) if _WHOLE.fullmatch(text) and len(text) <= 20 else 1 << 64
        if number not in (_INT32 if pattern in _INT32 else _INT64):
            raise Illegal
        return number
    return _double(text)


def _double(text: str) -> float:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise Illegal
    return float(found[1])
