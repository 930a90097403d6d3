"""The parts of TubeMQ's strings: pairs, lists, names and numbers, each checked."""

from __future__ import annotations

from typing import Final

from penstock.errors import ProtocolViolation

__all__ = [
    "INT32",
    "INT64",
    "items_of",
    "malformed",
    "name_of",
    "number_of",
    "numbers_of",
    "pair_of",
]

INT32: Final = (1 << 31) - 1
INT64: Final = (1 << 63) - 1


def malformed(what: str, text: str) -> ProtocolViolation:
    """Return the error for a text that is not ``what``."""
    return ProtocolViolation(f"{text[:200]!r} is not {what}")


def pair_of(text: str, separator: str, what: str, whole: str) -> tuple[str, str]:
    """Return what stands before and behind the one separator."""
    first, found, second = text.partition(separator)
    if not found or separator in second:
        raise malformed(what, whole)
    return first, second


def items_of(text: str) -> list[str]:
    """Return the elements of a list; blank ones are none."""
    return [item for item in text.split(",") if item.strip()]


def name_of(text: str, what: str, whole: str) -> str:
    """Return a name, trimmed: it is not empty and has no separators."""
    text = text.strip()
    if not text or any(separator in text for separator in "#:,@="):
        raise malformed(what, whole)
    return text


def number_of(text: str, what: str, whole: str, most: int = INT32, *, least: int = 0) -> int:
    """Return a decimal number from ``least`` to ``most``."""
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise malformed(what, whole)
    return int(text)


def numbers_of(text: str, count: int, what: str, whole: str) -> list[int]:
    """Return ``count`` numbers between colons."""
    parts = text.split(":")
    if len(parts) != count:
        raise malformed(what, whole)
    return [number_of(part, what, whole) for part in parts]
