"""What an option of a topic, a group or a broker may be: types and rules, and Kafka's words for what breaks them.

Which options there are stands in the tables beside this (`topic_options`, …). What must not live here: resources.
Source: Kafka documentation, "Configuration"; the words are those that Apache Kafka 4.3.1 answers with.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.faults import Refused

__all__ = ["Kind", "Option", "Source", "at_least", "between", "canonical", "one_of", "parts_of"]


class Kind(enum.IntEnum):
    """Types as DescribeConfigs v3 numbers them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Source(enum.IntEnum):
    """Where a value comes from, as DescribeConfigs numbers it."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Rule(NamedTuple):
    """``allowed``, for people; ``fault``: what is wrong with a canonical value, in Kafka's words, or None."""

    allowed: str
    fault: Callable[[str], str | None]


class Option(NamedTuple):
    """One option. ``broker`` is the broker's option that gives its default, where it has another name or value."""

    kind: Kind
    default: str
    meaning: str
    rule: Rule | None = None
    broker: tuple[str, str] | None = None
    here: str = ""
    """What is different on this node, for the documentation; nothing where it is obeyed as by Kafka."""


_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?(?:NaN|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_BITS: Final = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}


def canonical(name: str, option: Option, text: str, code: ErrorCode = ErrorCode.INVALID_CONFIG) -> str:
    """The value as it is kept and shown: trimmed, numbers in plain digits. Raises Refused."""
    value = _converted(option.kind, text)
    if value is None:
        raise Refused(code, f"Invalid value {text} for configuration {name}: {_WANTED[option.kind]}")
    if option.kind is Kind.LIST and option.rule is not None:
        parts = value.split(",") if value else []
        _check_list(name, parts, option.rule, code)
        return ",".join(dict.fromkeys(parts))
    if option.rule is not None and (trouble := option.rule.fault(value)):
        raise Refused(code, f"Invalid value {value} for configuration {name}: {trouble}")
    return value


_WANTED: Final = {
    Kind.BOOLEAN: "Expected value to be either true or false",
    Kind.SHORT: "Not a number of type SHORT",
    Kind.INT: "Not a number of type INT",
    Kind.LONG: "Not a number of type LONG",
    Kind.DOUBLE: "Not a number of type DOUBLE",
}


def _converted(kind: Kind, text: str) -> str | None:
    trimmed = text.strip()
    if kind is Kind.BOOLEAN:
        return trimmed.lower() if trimmed.lower() in {"true", "false"} else None
    if kind in _BITS:
        most = 1 << (_BITS[kind] - 1)
        fits = _NUMBER.fullmatch(trimmed) is not None and -most <= int(trimmed) < most
        return str(int(trimmed)) if fits else None
    if kind is Kind.DOUBLE:
        return str(float(trimmed.rstrip("fFdD"))) if _DECIMAL.fullmatch(trimmed) else None
    return ",".join(parts_of(trimmed)) if kind is Kind.LIST else text


def parts_of(text: str) -> list[str]:
    """The entries of a list."""
    return re.split(r"\s*,\s*", text.strip()) if text.strip() else []


def _check_list(name: str, parts: Sequence[str], rule: Rule, code: ErrorCode) -> None:
    if "" in parts:
        raise Refused(code, f"Configuration '{name}' values must not be empty.")
    for part in parts:
        if trouble := rule.fault(part):
            raise Refused(code, f"Invalid value {part} for configuration {name}: {trouble}")


def at_least(low: int) -> Rule:
    """Numbers from ``low`` on."""
    return Rule(f"{low:,} or more", lambda value: f"Value must be at least {low}" if float(value) < low else None)


def between(low: int, high: int) -> Rule:
    """Numbers from ``low`` to ``high``."""

    def fault(value: str) -> str | None:
        return f"Value must be no more than {high}" if float(value) > high else at_least(low).fault(value)

    return Rule(f"{low:,} to {high:,}", fault)


def one_of(*words: str) -> Rule:
    """One of these words; of a list, each entry."""
    wanted = f"String must be one of: {', '.join(words)}"
    return Rule(", ".join(words), lambda value: None if value in words else wanted)
