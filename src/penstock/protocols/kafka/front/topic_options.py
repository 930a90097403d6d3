"""Options of a topic as Kafka clients see them: names, types, defaults, what is accepted. A table.

The store obeys those marked "obeyed" and checks their numbers; the front itself obeys ``max.message.bytes`` and the
timestamp limits. Some others mean nothing on a single node but are set by common tools: these are accepted with the
values that are true anyway. Everything else is INVALID_CONFIG: an option that is taken and not obeyed would be a lie.
Source: Kafka documentation, "Topic-Level Configs".
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.faults import Refused
from penstock.protocols.kafka.front.options import DAY_MS, KafkaFrontOptions

__all__ = ["OPTIONS", "Described", "Kind", "Source", "check_options", "described"]


class Kind(enum.IntEnum):
    """Types as DescribeConfigs v3 numbers them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    LIST = 7


class Source(enum.IntEnum):
    """Where a value comes from, as DescribeConfigs numbers it."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class Option(NamedTuple):
    """``allowed``: the only values, where there are few; ``low``: the smallest number."""

    kind: Kind
    default: str
    allowed: frozenset[str] = frozenset()
    low: int = 0


_LONGEST: Final = str(2**63 - 1)
_TIMES: Final = frozenset({"CreateTime", "LogAppendTime"})

OPTIONS: Final[Mapping[str, Option]] = {
    "cleanup.policy": Option(Kind.LIST, "delete", frozenset({"delete", "compact"})),
    "compression.type": Option(Kind.STRING, "producer", frozenset({"producer"})),
    "delete.retention.ms": Option(Kind.LONG, str(DAY_MS)),
    "index.interval.bytes": Option(Kind.INT, "4096"),
    "max.message.bytes": Option(Kind.INT, ""),
    "message.timestamp.after.max.ms": Option(Kind.LONG, _LONGEST),
    "message.timestamp.before.max.ms": Option(Kind.LONG, _LONGEST),
    "message.timestamp.type": Option(Kind.STRING, "CreateTime", _TIMES),
    "min.insync.replicas": Option(Kind.INT, "1", frozenset({"1"})),
    "preallocate": Option(Kind.BOOLEAN, "false", frozenset({"false"})),
    "retention.bytes": Option(Kind.LONG, "-1", low=-1),
    "retention.ms": Option(Kind.LONG, str(7 * DAY_MS), low=-1),
    "segment.bytes": Option(Kind.INT, str(1 << 30), low=14),
    "segment.ms": Option(Kind.LONG, str(7 * DAY_MS), low=1),
    "unclean.leader.election.enable": Option(Kind.BOOLEAN, "false", frozenset({"false", "true"})),
}

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


class Described(NamedTuple):
    """One option of a topic as it is in force."""

    name: str
    value: str
    kind: Kind
    source: Source
    default: str


def check_options(given: Mapping[str, str | None]) -> dict[str, str]:
    """The options that are set, known and well-formed; None stands for the default. Raises Refused."""
    checked = {}
    for name, value in given.items():
        option = OPTIONS.get(name)
        if option is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        if value is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        _check(name, option, value)
        checked[name] = value
    return checked


def _check(name: str, option: Option, value: str) -> None:
    if option.allowed:
        parts = value.split(",") if option.kind is Kind.LIST else [value]
        if not all(part.strip() in option.allowed for part in parts):
            wanted = ", ".join(sorted(option.allowed))
            raise Refused(ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {name}: use {wanted}")
    elif option.kind in (Kind.INT, Kind.LONG):
        most = _INT_MAX if option.kind is Kind.INT else _LONG_MAX
        number = int(value) if value.strip().lstrip("-").isdecimal() else None
        if number is None or not option.low <= number <= most:
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"Invalid value {value} for configuration {name}: a number from {option.low} to {most} is wanted",
            )


def described(config: Mapping[str, str], options: KafkaFrontOptions) -> list[Described]:
    """Every option of a topic that has ``config`` set."""
    rows = []
    for name, option in OPTIONS.items():
        default = option.default or str(options.max_message_bytes)
        source = Source.TOPIC if name in config else Source.DEFAULT
        rows.append(Described(name, config.get(name, default), option.kind, source, default))
    return rows
