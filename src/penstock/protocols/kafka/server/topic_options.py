"""Options of topics as Kafka clients see them: types and rules, the table of all options, effective values."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from penstock.interfaces.enode import Abilities
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.limits import DAY_MS, LARGEST_RECORD, KafkaFrontOptions
from penstock.protocols.kafka.server.refusals import Refused
from penstock.records.validation import Target, target_of

__all__ = [
    "BROKER_NAMES",
    "EVERY_BROKER",
    "OPTIONS",
    "Described",
    "Kind",
    "Option",
    "Rules",
    "Source",
    "Synonym",
    "at_least",
    "between",
    "canonical",
    "check_options",
    "described",
    "of_the_broker",
    "one_of",
    "parts_of",
    "rules_for",
]


# Types and rules of options of topics, groups and brokers, with Kafka's error texts.
#
# Source: Kafka documentation, "Configuration"; the texts are those of Apache Kafka 4.3.1.
class Kind(enum.IntEnum):
    """Types by their numbers in DescribeConfigs v3."""

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
    """Sources of values by their numbers in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Rule(NamedTuple):
    """The allowed values: ``allowed`` describes them; ``fault`` returns Kafka's error text for a value, or None."""

    allowed: str
    fault: Callable[[str], str | None]


class Option(NamedTuple):
    """One option. ``broker`` is the broker's option with its default, if that has another name or value."""

    kind: Kind
    default: str
    meaning: str
    rule: Rule | None = None
    broker: tuple[str, str] | None = None
    here: str = ""
    """The difference from Kafka on this node, for the documentation; empty if there is none."""


_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?(?:NaN|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_BITS: Final = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}


def canonical(name: str, option: Option, text: str, code: ErrorCode = ErrorCode.INVALID_CONFIG) -> str:
    """The value as it is stored and shown: trimmed, numbers in plain digits. Raises Refused."""
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
    """One of these words; for a list, each entry."""
    wanted = f"String must be one of: {', '.join(words)}"
    return Rule(", ".join(words), lambda value: None if value in words else wanted)


# The table of all topic options of Kafka, with types, defaults and ranges.
#
# The store obeys those about files and compaction, the front those about batches. Options that mean nothing on a single
# node are still accepted, stored and shown, because tools set them; their rows say so, and docs/kafka has a table of
# them. Source: Kafka documentation, "Topic-Level Configs"; names, types, defaults and ranges are those of Apache Kafka
# 4.4.0.

_LONGEST: Final = str(2**63 - 1)
_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+")
_ALONE: Final = "No effect: there is one replica."
_LOCAL: Final = "No effect: there is no second tier of storage."

_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = (
    Kind.BOOLEAN,
    Kind.STRING,
    Kind.INT,
    Kind.LONG,
    Kind.DOUBLE,
    Kind.LIST,
)


def _gzip_level(value: str) -> str | None:
    fits = 1 <= int(value) <= 9 or int(value) == -1
    return None if fits else "Value must be between 1 and 9 or equal to -1"


OPTIONS: Final[Mapping[str, Option]] = {
    "cleanup.policy": Option(
        _LIST,
        "delete",
        "What becomes of old segments: `delete` them when retention is over, `compact` them to the last record of each "
        "key, both, or, where it is empty, neither.",
        one_of("compact", "delete"),
        ("log.cleanup.policy", "delete"),
    ),
    "compression.gzip.level": Option(
        _INT,
        "-1",
        "How hard gzip tries where `compression.type` asks for it: 1 to 9, or -1 for its own default.",
        Rule("1 to 9, or -1", _gzip_level),
        ("compression.gzip.level", "-1"),
    ),
    "compression.lz4.level": Option(
        _INT,
        "9",
        "How hard lz4 tries where `compression.type` asks for it.",
        between(1, 17),
        ("compression.lz4.level", "9"),
        "9 is the fast method, any other the thorough one, of which 12 is the most.",
    ),
    "compression.type": Option(
        _STRING,
        "producer",
        "How batches are stored: as their producer sent them, with one codec, or uncompressed.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        ("compression.type", "producer"),
    ),
    "compression.zstd.level": Option(
        _INT,
        "3",
        "How hard zstd tries where `compression.type` asks for it.",
        between(-131_072, 22),
        ("compression.zstd.level", "3"),
    ),
    "delete.retention.ms": Option(
        _LONG,
        str(DAY_MS),
        "How long a tombstone stays after the first compaction that met it, so that readers have time to see it.",
        at_least(0),
        ("log.cleaner.delete.retention.ms", str(DAY_MS)),
    ),
    "errors.deadletterqueue.group.enable": Option(
        _BOOLEAN,
        "false",
        "Whether share groups may put records aside in this topic.",
        here="No effect: there are no share groups.",
    ),
    "file.delete.delay.ms": Option(
        _LONG,
        "60000",
        "How long a deleted segment's file stays on the disk.",
        at_least(0),
        ("log.segment.delete.delay.ms", "60000"),
        "No effect: files go at once.",
    ),
    "flush.messages": Option(
        _LONG,
        _LONGEST,
        "After how many records a log is synced to the disk.",
        at_least(1),
        ("log.flush.interval.messages", _LONGEST),
        "The append that reaches the count waits for the sync before it is acknowledged.",
    ),
    "flush.ms": Option(
        _LONG,
        _LONGEST,
        "How long records may stay in memory before they are synced to the disk.",
        at_least(0),
        None,
        "Looked at once in a node's `flush_interval_ms`.",
    ),
    "follower.replication.throttled.replicas": Option(
        _LIST, "", "Replicas whose replication is throttled on the followers' side.", here=_ALONE
    ),
    "index.interval.bytes": Option(
        _INT,
        "4096",
        "After how many bytes a segment's index gets another entry.",
        at_least(0),
        ("log.index.interval.bytes", "4096"),
    ),
    "leader.replication.throttled.replicas": Option(
        _LIST, "", "Replicas whose replication is throttled on the leader's side.", here=_ALONE
    ),
    "local.retention.bytes": Option(
        _LONG,
        "-2",
        "How large the local part of a tiered partition may be; -2 is `retention.bytes`.",
        at_least(-2),
        ("log.local.retention.bytes", "-2"),
        _LOCAL,
    ),
    "local.retention.ms": Option(
        _LONG,
        "-2",
        "How old the local part of a tiered partition may be; -2 is `retention.ms`.",
        at_least(-2),
        ("log.local.retention.ms", "-2"),
        _LOCAL,
    ),
    "max.compaction.lag.ms": Option(
        _LONG,
        _LONGEST,
        "After how long a record is open to compaction, whatever `min.cleanable.dirty.ratio` says.",
        at_least(1),
        ("log.cleaner.max.compaction.lag.ms", _LONGEST),
    ),
    "max.decompressed.message.bytes": Option(
        _INT,
        f"{LARGEST_RECORD}",
        "The largest record that is taken in a compressed batch, as it is uncompressed.",
        between(1, LARGEST_RECORD),
        ("max.decompressed.message.bytes", f"{LARGEST_RECORD}"),
    ),
    "max.message.bytes": Option(
        _INT,
        "1048588",
        "The largest batch that is taken, as it is stored.",
        at_least(0),
        ("message.max.bytes", "1048588"),
    ),
    "message.timestamp.after.max.ms": Option(
        _LONG,
        "3600000",
        "How far a record's time may be ahead of the clock, where producers set it.",
        at_least(0),
        ("log.message.timestamp.after.max.ms", "3600000"),
        "Asked of what Kafka's clients send.",
    ),
    "message.timestamp.before.max.ms": Option(
        _LONG,
        _LONGEST,
        "How far a record's time may be behind the clock, where producers set it.",
        at_least(0),
        ("log.message.timestamp.before.max.ms", _LONGEST),
        "Asked of what Kafka's clients send.",
    ),
    "message.timestamp.type": Option(
        _STRING,
        "CreateTime",
        "Whose time records have: their producers' (`CreateTime`) or that of the append (`LogAppendTime`).",
        one_of("CreateTime", "LogAppendTime"),
        ("log.message.timestamp.type", "CreateTime"),
    ),
    "min.cleanable.dirty.ratio": Option(
        _DOUBLE,
        "0.5",
        "How much of a log must be new since the last compaction before the next one.",
        between(0, 1),
        ("log.cleaner.min.cleanable.ratio", "0.5"),
    ),
    "min.compaction.lag.ms": Option(
        _LONG,
        "0",
        "How long a record is safe from compaction.",
        at_least(0),
        ("log.cleaner.min.compaction.lag.ms", "0"),
    ),
    "min.insync.replicas": Option(
        _INT,
        "1",
        "How many replicas must have a record that is acknowledged to `acks=all`, at most all that there are.",
        at_least(1),
        ("min.insync.replicas", "1"),
        _ALONE,
    ),
    "preallocate": Option(
        _BOOLEAN,
        "false",
        "Whether a segment's file gets its full size when it is made.",
        None,
        ("log.preallocate", "false"),
        "No effect: files grow with what is in them.",
    ),
    "remote.copy.lag.bytes": Option(
        _LONG,
        "-1",
        "How many bytes stay behind before a segment goes to the second tier.",
        at_least(-1),
        ("log.remote.copy.lag.bytes", "-1"),
        _LOCAL,
    ),
    "remote.copy.lag.ms": Option(
        _LONG,
        "0",
        "How long a segment stays before it goes to the second tier.",
        at_least(-1),
        ("log.remote.copy.lag.ms", "0"),
        _LOCAL,
    ),
    "remote.log.copy.disable": Option(_BOOLEAN, "false", "Whether nothing more goes to the second tier.", here=_LOCAL),
    "remote.log.delete.on.disable": Option(
        _BOOLEAN, "false", "Whether the second tier is emptied when it is switched off.", here=_LOCAL
    ),
    "remote.storage.enable": Option(
        _BOOLEAN,
        "false",
        "Whether old segments move to a second tier of storage.",
        here="`true` is refused, as by a broker without a second tier.",
    ),
    "retention.bytes": Option(
        _LONG,
        "-1",
        "How large a partition may grow before its oldest segments are deleted; below 0 it is without limit.",
        None,
        ("log.retention.bytes", "-1"),
    ),
    "retention.ms": Option(
        _LONG,
        str(7 * DAY_MS),
        "After how long a segment is deleted; -1 is never.",
        at_least(-1),
        ("log.retention.hours", "168"),
    ),
    "segment.bytes": Option(
        _INT,
        str(1 << 30),
        "How large a segment's file may grow; only closed segments are deleted and compacted.",
        at_least(14),
        ("log.segment.bytes", str(1 << 30)),
        "14 is enough, as in Kafka 3; Kafka 4 wants a megabyte.",
    ),
    "segment.index.bytes": Option(
        _INT,
        "10485760",
        "How large a segment's index may grow.",
        at_least(4),
        ("log.index.size.max.bytes", "10485760"),
        "No effect: indexes are as large as they need to be.",
    ),
    "segment.jitter.ms": Option(
        _LONG,
        "0",
        "By how much at most `segment.ms` is shortened at random, so that not all segments end at once.",
        at_least(0),
        None,
        "No effect: segments end when `segment.ms` says.",
    ),
    "segment.ms": Option(
        _LONG, str(7 * DAY_MS), "After how long a segment is closed even if it is not full.", at_least(1)
    ),
    "unclean.leader.election.enable": Option(
        _BOOLEAN,
        "false",
        "Whether a replica that missed records may lead if no other can.",
        None,
        ("unclean.leader.election.enable", "false"),
        _ALONE,
    ),
}


_IN_MILLISECONDS: Final = {
    "flush.ms": "log.flush.interval.ms",
    "retention.ms": "log.retention.ms",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
}
BROKER_NAMES: Final[Mapping[str, str]] = {
    **{name: option.broker[0] for name, option in OPTIONS.items() if option.broker is not None},
    **_IN_MILLISECONDS,
}
"""By topic option: the broker's option in the same unit that gives its default, and can change while the broker
runs."""


def check_options(given: Mapping[str, str | None], abilities: Abilities | None = None) -> dict[str, str]:
    """The options that are set, checked, and in canonical form. Raises Refused."""
    for name, value in given.items():
        if value is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
    checked = {}
    for name, value in given.items():
        option = OPTIONS.get(name)
        if option is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        checked[name] = canonical(name, option, value or "")
    _check_together(checked)
    if abilities is not None and not abilities.compaction and "compact" in checked.get("cleanup.policy", ""):
        raise Refused(ErrorCode.INVALID_CONFIG, "Invalid value compact for configuration cleanup.policy: not kept here")
    return checked


def _check_together(options: Mapping[str, str]) -> None:
    for name in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
        parts = parts_of(options.get(name, ""))
        if any(parts) and parts != ["*"] and not all(_REPLICA.fullmatch(part) for part in parts):
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"Invalid value [{', '.join(parts)}] for configuration {name}: {name} must be the literal '*' or a "
                "list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
            )
    if options.get("remote.storage.enable") == "true":
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log "
            "storage.",
        )
    least, most = (int(options.get(name, OPTIONS[name].default)) for name in _LAGS)
    if least > most:
        raise Refused(
            ErrorCode.INVALID_CONFIG, f"conflict topic config setting {_LAGS[0]} ({least}) > {_LAGS[1]} ({most})"
        )


_LAGS: Final = ("min.compaction.lag.ms", "max.compaction.lag.ms")

# Effective options of a resource, with the source of each value.
#
# A value set while the node runs precedes one from its start, and one for a single broker precedes one for all brokers.
# Source: Kafka documentation, "Updating Broker Configs" (KIP-226); the order is that of Apache Kafka 4.3.1.

EVERY_BROKER: Final = ""
"""The name of the resource whose options apply to all brokers."""
Said = Mapping[str, Mapping[str, str]]


class Synonym(NamedTuple):
    """One of the possible sources of a value."""

    name: str
    value: str
    source: Source


class Described(NamedTuple):
    """One effective option of a resource; ``synonyms`` are the values that are set, the strongest first."""

    name: str
    value: str | None
    kind: Kind
    source: Source
    synonyms: tuple[Synonym, ...]
    meaning: str
    read_only: bool = False


def described(config: Mapping[str, str], node_id: int, front: KafkaFrontOptions, said: Said) -> list[Described]:
    """Every option of a topic that has ``config`` set, by name; ``said`` as in `Enode.node_options`."""
    rows = []
    for name, option in sorted(OPTIONS.items()):
        synonyms = list(of_the_broker(name, node_id, front, said))
        if name in config:
            synonyms.insert(0, Synonym(name, config[name], Source.TOPIC))
        value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (option.default, Source.DEFAULT)
        if source is Source.DEFAULT:
            value = option.default  # the broker's option may have another unit: log.retention.hours
        rows.append(Described(name, value, option.kind, source, tuple(synonyms), option.meaning))
    return rows


def of_the_broker(name: str, node_id: int, front: KafkaFrontOptions, said: Said) -> Iterator[Synonym]:
    """The broker's defaults for the topic option of that name."""
    option = OPTIONS[name]
    theirs = BROKER_NAMES.get(name)
    for scope, source in ((str(node_id), Source.DYNAMIC_BROKER), (EVERY_BROKER, Source.DYNAMIC_DEFAULT_BROKER)):
        if theirs is not None and theirs in said.get(scope, {}):
            yield Synonym(theirs, said[scope][theirs], source)
    if option.broker is None:
        return
    default = Synonym(*option.broker, Source.DEFAULT)
    if name == "max.message.bytes" and str(front.max_message_bytes) != option.default:
        yield Synonym(default.name, str(front.max_message_bytes), Source.STATIC_BROKER)
    yield default


# The options that bound what producers may store.
_AHEAD_MS: Final = 3_600_000
"""How far a record's time may lie in the future if no option is set: Kafka 4's default."""
_LIMITS: Final = {"message.timestamp.before.max.ms", "message.timestamp.after.max.ms"}
_RATIO: Final = 32
"""A batch may inflate to this many times the topic's limit: text rarely shrinks to less than a thirtieth."""
_LEAST_INFLATED: Final = 1 << 20
_ANY_AGE: Final = 2**63 - 1


class Rules(Struct, frozen=True):
    """A topic's rules for batches. ``oldest_ms`` and ``newest_ms``: how far a record's time may be from the present.

    ``timed``: the topic itself sets these. ``append_time``: the log sets the time, so the producer's does not matter.
    ``target``: the codec of stored batches, if it is not the producer's choice.
    """

    max_bytes: int
    keyed: bool
    oldest_ms: int
    newest_ms: int
    check_records: bool
    max_inflated_bytes: int
    target: Target | None
    timed: bool = False
    append_time: bool = False
    max_record_bytes: int = LARGEST_RECORD
    """The limit for each single record of a compressed batch."""

    @property
    def looks(self) -> bool:
        """Whether the records themselves are checked."""
        return self.check_records or self.keyed or self.timed or self.max_record_bytes < LARGEST_RECORD


def rules_for(config: Mapping[str, str], options: KafkaFrontOptions) -> Rules:
    """The rules of a topic with these options."""
    append_time = config.get("message.timestamp.type") == "LogAppendTime"
    max_bytes = int(config.get("max.message.bytes", options.max_message_bytes))
    return Rules(
        max_bytes,
        "compact" in config.get("cleanup.policy", ""),
        _ANY_AGE if append_time else int(config.get("message.timestamp.before.max.ms", _ANY_AGE)),
        _ANY_AGE if append_time else int(config.get("message.timestamp.after.max.ms", _AHEAD_MS)),
        options.check_records,
        min(options.max_inflated_bytes, max(_LEAST_INFLATED, _RATIO * max_bytes)),
        target_of(config),
        not append_time and not _LIMITS.isdisjoint(config),
        append_time,
        int(config.get("max.decompressed.message.bytes", LARGEST_RECORD)),
    )
