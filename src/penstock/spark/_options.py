"""The options of a read, parsed into one frozen object (`SourceOptions`), checked one by one and against each other.

`Decoding` has the options for values, `Subscription` the topics and partitions; `parse_options` parses everything.
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

from penstock.config import ClientConfig, ConsumerConfig, OptionValue, reader_settings
from penstock.config.fields import fields
from penstock.config.options import as_written, names_written, nearest
from penstock.errors import ConfigError, UsageError
from penstock.model import Offset, Partition, TopicInfo
from penstock.protocols import address_of, protocol, schemes
from penstock.spark._columns import DEFAULT, HEADERS, KNOWN, NODE, PREFIX, Extra, default_columns
from penstock.spark._ddl import Struct, parse_ddl
from penstock.spark._offsets import partition_of
from penstock.spark._option_values import (
    MOVED_FROM,
    choice,
    client_options,
    count,
    flag,
    milliseconds,
    size_bytes,
    words_of,
)
from penstock.spark._starts import FromGroup, Where, parse_time, parse_times, where

__all__ = [
    "DECODE_OPTIONS",
    "ERROR",
    "GROUP_ID",
    "OURS",
    "RAW",
    "SERVERS",
    "DeadLetters",
    "Decoding",
    "Mode",
    "Retries",
    "SourceOptions",
    "Subscription",
    "TaskSizes",
    "TriggerLimits",
    "decoded_ddl",
    "parse_decoding",
    "parse_options",
    "parse_subscription",
    "sorted_out",
    "suggestion",
]

# Decoding of values: the format, the schema, and how to handle values that cannot be decoded.
ERROR, RAW = "_error", "_raw"

DECODE_OPTIONS: Mapping[str, str] = {
    "valueFormat": "binary, or json: the column value becomes a struct of the fields of valueSchema (ours)",
    "valueSchema": "the schema of JSON values as DDL: id bigint, at timestamp, tags array<string> (ours)",
    "mode": "how to handle a value that does not match valueSchema: FAILFAST, PERMISSIVE, DROP or DEADLETTER (ours)",
    "deadLetter": "where DEADLETTER stores records: a topic of the same log, an address with a topic, a folder (ours)",
}


class Mode(enum.Enum):
    """How to handle a value that cannot be decoded.

    FAILFAST: the task fails and names the record. PERMISSIVE: the value is null; the columns _error and _raw hold the
    reason and the bytes. DROP: the record is left out and counted in the program's log. DEADLETTER: the record is left
    out and stored elsewhere.
    """

    FAILFAST = "FAILFAST"
    PERMISSIVE = "PERMISSIVE"
    DROP = "DROP"
    DEADLETTER = "DEADLETTER"


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Where dead letters go: to ``topic`` of the log at ``address``, or to ``folder``.

    ``client`` holds the client options for that log; they may contain secrets and are not shown.
    """

    address: str = ""
    topic: str = ""
    folder: str = ""
    client: Mapping[str, OptionValue] = field(default_factory=dict, repr=False)


class Decoding(msgspec.Struct, frozen=True):
    """How values are decoded; ``ddl`` is the schema as given."""

    ddl: str
    schema: Struct
    mode: Mode = Mode.FAILFAST
    dead_letters: DeadLetters | None = None


def parse_decoding(
    options: Mapping[str, str],
    address: str,
    columns: Sequence[str],
    client: Mapping[str, OptionValue] = MappingProxyType({}),
) -> Decoding | None:
    """The parsed options; None if values stay bytes. Raises ConfigError.

    ``address`` and ``client`` (options) are those of the log that is read.
    """
    kind = options.get("valueFormat", "binary").strip().lower()
    if kind not in {"binary", "json"}:
        raise ConfigError(f"valueFormat is '{options['valueFormat']}', expected binary or json")
    if kind == "binary":
        for name in ("valueSchema", "mode", "deadLetter"):
            if name in options:
                raise ConfigError(f"{name} has no effect while values stay bytes", hint="Set valueFormat to json")
        return None
    if not options.get("valueSchema", "").strip():
        raise ConfigError(
            "valueFormat=json needs a schema", hint='Set valueSchema, for example to "id bigint, name string"'
        )
    if "value" not in columns:
        raise ConfigError("valueFormat=json decodes the column value, which columns leaves out")
    ddl = options["valueSchema"]
    mode = _mode(options)
    return Decoding(ddl, parse_ddl(ddl, "valueSchema"), mode, _dead_letters(options, mode, address, client))


def decoded_ddl(columns: Sequence[str], decoding: Decoding | None, more: Mapping[str, str] | None = None) -> str:
    """The schema for Spark, as DDL; ``more`` are the types of further columns."""
    types = {**KNOWN, **(more or {})}
    if decoding is not None:
        types["value"] = f"struct<{decoding.ddl}>"
    result = [f"{_quoted(name)} {types[name]}" for name in columns]
    if decoding is not None and decoding.mode is Mode.PERMISSIVE:
        result += [f"{ERROR} string", f"{RAW} binary"]
    return ", ".join(result)


def _quoted(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


def _mode(options: Mapping[str, str]) -> Mode:
    text = options.get("mode", Mode.FAILFAST.value).strip().upper()
    try:
        return Mode("DROP" if text == "DROPMALFORMED" else text)
    except ValueError:
        known = ", ".join(each.value for each in Mode)
        raise ConfigError(f"mode is '{options['mode']}', expected one of {known}") from None


def _dead_letters(
    options: Mapping[str, str], mode: Mode, address: str, client: Mapping[str, OptionValue]
) -> DeadLetters | None:
    text = options.get("deadLetter", "").strip()
    if mode is not Mode.DEADLETTER:
        if text:
            raise ConfigError(f"deadLetter has no effect with mode={mode.value}", hint="Set mode to DEADLETTER")
        return None
    if not text:
        raise ConfigError(
            "mode=DEADLETTER needs a place to store records", hint="Set deadLetter to a topic, an address or a folder"
        )
    scheme, separator, _ = text.partition("://")
    if separator and scheme.lower() in schemes():
        parsed = address_of(text)
        if len(parsed.topics) != 1:
            raise ConfigError(f"deadLetter names {len(parsed.topics)} topics, expected one")
        bare = type(parsed)(parsed.scheme, parsed.endpoints, (), parsed.options)
        return DeadLetters(str(bare), parsed.topics[0])
    if separator or "/" in text:
        return DeadLetters(folder=text)
    of_any_client = {each.name for each in fields(ClientConfig)}
    shared = {name: value for name, value in client.items() if name in of_any_client}
    return DeadLetters(address, text, client=shared)


# All options of ``format("penstock")`` for reading, by name.
#
# Names and meanings are those of Spark's own Kafka source (Structured Streaming + Kafka Integration Guide, 4.x), so
# that a job moves by changing the format's name; those marked "(ours)" are penstock's own. Case does not matter, as
# everywhere in Spark.
SERVERS = "kafka.bootstrap.servers"
GROUP_ID = "kafka.group.id"
_CLIENT = "kafka."

OURS: dict[str, str] = {
    "path": "an address: kafka://host:port[,host:port]/topic[,topic]",
    "subscribe": "topics, separated by commas",
    "subscribePattern": "a regular expression that whole topic names must match; applied again at every trigger",
    "assign": 'partitions as JSON: {"topic": [0, 1]}',
    "startingOffsets": "earliest, latest, JSON, or committed[:earliest|latest]; only for a query without a checkpoint",
    "startingTimestamp": "the first record at or after a time: ms since 1970, ISO 8601, -2h; wins over the other two",
    "startingOffsetsByTimestamp": 'a time for each partition as JSON: {"topic": {"0": 1700000000000, "1": "-2h"}}; '
    "wins over startingOffsets",
    "startingOffsetsByTimestampStrategy": "error or latest, for partitions without a record that recent",
    "endingOffsets": "latest or JSON; ends a batch, or a stream",
    "endingTimestamp": "up to the first record at or after a time; ends a batch, or a stream; wins over the other two",
    "endingOffsetsByTimestamp": "such a time for each partition as JSON; wins over endingOffsets",
    "maxOffsetsPerTrigger": "at most this many offsets per micro-batch",
    "minOffsetsPerTrigger": "wait until there are this many offsets, at most for maxTriggerDelay",
    "maxTriggerDelay": "how long minOffsetsPerTrigger waits: 15m",
    "maxBytesPerTrigger": "at most about this many bytes of keys, values and headers per micro-batch: 64m (ours)",
    "targetBatchDuration": "adapt the size of micro-batches so that each takes about this long: 10s (ours)",
    "minPartitions": "at least this many Spark tasks",
    "maxPartitions": "at most this many Spark tasks (ours)",
    "maxRecordsPerPartition": "at most this many offsets per Spark task",
    "parallelism": "plan for this many parallel tasks, whatever the partitions; default: from Spark's settings (ours)",
    "includeHeaders": "true adds the column headers",
    "columns": "the columns to read, separated by commas; fewer are faster; node is the partition's broker, "
    "read by default where partitions belong to brokers; header:NAME is one header (ours)",
    "group": "the consumer group whose offsets are committed (ours)",
    "groupIdPrefix": "with commitOffsets and without a group: how the group's name begins",
    "commitOffsets": "true commits the group's offsets as batches complete (ours)",
    "failOnDataLoss": "true or fail ends the query if unread records are gone; false or warn continues",
    "onBadRecord": "records that cannot be decoded: fail ends the query, skip leaves them out with a warning, raw "
    "gives their bytes with a header penstock.error; auto does what the log's own client does (ours)",
    "kafkaConsumer.pollTimeoutMs": "how long a task tries to get its records before it fails",
    "fetchOffset.numRetries": "how often a failed lookup of offsets is retried",
    "fetchOffset.retryIntervalMs": "the pause before a retry, doubled each time",
    **DECODE_OPTIONS,
    SERVERS: "host:port[,host:port]",
    GROUP_ID: "the same as group",
}

_OF_SQL_TABLE = "option."
"""The prefix of a second copy of each option that ``create table … using penstock options (…)`` passes."""

_FORBIDDEN = {
    "kafka.auto.offset.reset": "startingOffsets says where to start",
    "kafka.enable.auto.commit": "commitOffsets commits what a batch completed",
    "kafka.key.deserializer": "keys are always binary",
    "kafka.value.deserializer": "values are always binary",
    "kafka.interceptor.classes": "there is no JVM client that could run them",
}
"""Spark's Kafka source refuses the same options."""


def sorted_out(
    given: Mapping[str, str], scheme: str | None = None, *, in_address: bool = False
) -> tuple[dict[str, str], dict[str, str]]:
    """(our options, in their proper spelling; the client's, with the prefix ``kafka.`` or the address's ``scheme``).

    In an address that prefix may be left out. Raises ConfigError; for an unknown option it names the nearest known one.
    """
    _refuse_table(given)
    spelling = {name.lower(): name for name in OURS}
    prefixes = (_CLIENT, f"{scheme}.") if scheme else (_CLIENT,)
    options: dict[str, str] = {}
    client: dict[str, str] = {}
    for name, text in given.items():
        lower = name.lower()
        prefix = next((each for each in prefixes if lower.startswith(each)), None)
        if lower in spelling:
            options[spelling[lower]] = text
        elif lower in _FORBIDDEN:
            raise ConfigError(f"option {name} cannot be set: {_FORBIDDEN[lower]}")
        elif in_address or prefix is not None:
            client[lower.removeprefix(prefix or "")] = text
        else:
            raise ConfigError(f"there is no option {name}", hint=suggestion(name, OURS))
    return options, client


def suggestion(word: str, names: Iterable[str]) -> str:
    """A hint for a user who wrote ``word`` instead of one of ``names``."""
    name, *others = nearest(word.lower(), {name.lower(): name for name in names})
    if others:
        return f"The nearest are {', '.join([name, *others])}"
    return f"Did you mean {name}" + (f" ({OURS[name]})?" if name in OURS else "?")


def _refuse_table(given: Mapping[str, str]) -> None:
    if any(name.lower().startswith(_OF_SQL_TABLE) for name in given):
        raise ConfigError(
            "Spark does not pass a table's options to a Python data source when the table is read",
            hint="Write: create temporary view NAME using penstock options (…)",
        )


# The subscription: topics by name, topics by pattern, or single partitions. Pure: topics are an argument.
_WAYS = ("subscribe", "subscribePattern", "assign")


class Subscription(msgspec.Struct, frozen=True):
    """Exactly one of the three is not empty."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: frozenset[Partition] = frozenset()

    @property
    def names(self) -> Collection[str] | None:
        """The topics to look up in the log; None for all."""
        return None if self.pattern else self.topics or sorted({partition.topic for partition in self.assigned})

    def leaders(self, found: Mapping[str, TopicInfo]) -> dict[Partition, str]:
        """The partitions to read of the topics ``found``, and the name of each one's leader ("" if it has none).

        A pattern matches no internal topic, as in Kafka's consumer.
        """
        pattern = re.compile(self.pattern)
        topics = (each for each in found.values() if not self.pattern or _matches(pattern, each))
        return {
            info.partition: info.leader.name if info.leader else ""
            for topic in topics
            for info in topic.partitions
            if not self.assigned or info.partition in self.assigned
        }

    def wants(self, partition: Partition) -> bool:
        """Whether ``partition`` would be read if it existed."""
        if self.pattern:
            return re.compile(self.pattern).fullmatch(partition.topic) is not None
        return partition in self.assigned if self.assigned else partition.topic in self.topics

    def check_all_exist(self, found: Collection[Partition]) -> None:
        """Raise UsageError for a topic or partition that is named but does not exist."""
        absent = sorted(set(self.topics) - {partition.topic for partition in found})
        gone = sorted(set(self.assigned) - set(found))
        if absent or gone:
            what = f"topic {absent[0]}" if absent else f"partition {gone[0]}"
            raise UsageError(f"{what} does not exist", hint="Create it first, or correct the name")

    def __str__(self) -> str:
        return self.pattern or ",".join(self.topics) or ",".join(map(str, sorted(self.assigned)))


def parse_subscription(options: Mapping[str, str], in_address: tuple[str, ...]) -> Subscription:
    """From the options and the topics of the address. Raises ConfigError unless exactly one of them names topics."""
    given = [name for name in _WAYS if options.get(name)] + (["the address's topics"] if in_address else [])
    if len(given) > 1:
        raise ConfigError(f"topics are named twice: {' and '.join(given)}", hint="Keep one of them")
    if not given:
        raise ConfigError(
            "no topic is named",
            hint="Put it into the address (kafka://host:port/topic), or set subscribe, subscribePattern or assign",
        )
    if options.get("assign"):
        return Subscription(assigned=_assigned(options["assign"]))
    if options.get("subscribePattern"):
        return Subscription(pattern=_pattern(options["subscribePattern"]))
    topics = in_address or tuple(filter(None, (name.strip() for name in options["subscribe"].split(","))))
    if not topics:
        raise ConfigError(f"subscribe = '{options['subscribe']}' names no topic")
    return Subscription(topics=tuple(dict.fromkeys(topics)))


def _matches(pattern: re.Pattern[str], topic: TopicInfo) -> bool:
    return not topic.internal and pattern.fullmatch(topic.name) is not None


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(
            f"subscribePattern = {text[:120]} is not a regular expression: {error}",
            hint="Use Python's syntax, which is Java's except for classes like \\p{Alpha}",
        ) from None
    return text


def _assigned(text: str) -> frozenset[Partition]:
    """Parse ``{"topicA": [0, 1], "topicB": [2]}``."""
    try:
        tree = json.loads(text)
        found = {partition_of(topic, str(number)) for topic, numbers in tree.items() for number in numbers}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ConfigError(f"assign = {text[:120]} is not understood: {error}", hint='Write {"topic": [0, 1]}') from None
    if not found:
        raise ConfigError("assign names no partition", hint='Write {"topic": [0, 1]}')
    return frozenset(found)


_BOTH = (Offset.EARLIEST, Offset.LATEST)
_LOSS = {"true": True, "false": False, "fail": True, "warn": False}
_STRATEGY = "startingOffsetsByTimestampStrategy"


class TriggerLimits(msgspec.Struct, frozen=True):
    """Limits of one micro-batch; None is no limit. ``max_delay_ms`` is how long to wait for ``min_offsets``."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 900_000
    max_bytes: int | None = None
    target_ms: int | None = None

    @property
    def given(self) -> bool:
        """Whether there is any limit."""
        return any((self.max_offsets, self.min_offsets, self.max_bytes, self.target_ms))


class TaskSizes(msgspec.Struct, frozen=True):
    """How a batch is cut into tasks; None means automatic. ``max_records`` (offsets per task) wins over ``at_most``.

    ``at_once`` is how many tasks run at the same time; it overrides what Spark's settings say.
    """

    at_least: int | None = None
    at_most: int | None = None
    max_records: int | None = None
    at_once: int | None = None


class Retries(msgspec.Struct, frozen=True):
    """Retries of looking up offsets: ``times`` after the first attempt; pauses begin at ``interval_ms`` and double.

    Defaults are Spark's. Each attempt lasts up to the client's ``api_timeout_ms``, its own retries included.
    """

    times: int = 3
    interval_ms: int = 10


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read and how.

    ``starting`` and ``ending`` are None if not given, since their defaults differ between batch and stream.
    ``poll_timeout_ms`` limits how long a task keeps trying without a response; Spark's default of two minutes is longer
    than the restart of a broker. ``client`` are options for penstock's client, in its spelling; they may contain
    secrets and are not shown. ``left_out`` names options that only a Java client could honour, ``overruled`` those
    that have no effect, with the option that wins.
    """

    address: str
    subscription: Subscription = field(default_factory=Subscription)
    starting: Where | None = None
    ending: Where | None = None
    limits: TriggerLimits = field(default_factory=TriggerLimits)
    sizes: TaskSizes = field(default_factory=TaskSizes)
    columns: tuple[str, ...] = DEFAULT
    extras: Mapping[str, Extra] = field(default_factory=dict)
    group: str | None = None
    commit_offsets: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    retries: Retries = field(default_factory=Retries)
    client: Mapping[str, OptionValue] = field(default_factory=dict, repr=False)
    left_out: tuple[str, ...] = ()
    overruled: Mapping[str, str] = field(default_factory=dict)
    decoding: Decoding | None = None


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Check every option. Raises ConfigError; for an unknown option it names the nearest known one."""
    path = next((text for name, text in given.items() if name.lower() == "path"), "")
    options, client = sorted_out(given, path.partition("://")[0].lower() if "://" in path else None)
    address, topics, in_address = _address(options)
    # Options win over those in the address.
    scheme = address.partition("://")[0]
    address_options, address_client = sorted_out(in_address, scheme, in_address=True)
    options, client = {**address_options, **options}, {**address_client, **client}
    if "onBadRecord" in options:
        client = {name: text for name, text in client.items() if name != "on_bad_record"}
        if options["onBadRecord"].strip().lower() != "auto":
            client["on_bad_record"] = options["onBadRecord"]
    with as_written(names_written(given, ("kafka.", f"{scheme}."), words_of(scheme))):
        kept, left_out = client_options(ConsumerConfig, client, scheme)
        reader_settings(address, kept, protocol=protocol(scheme).config)
    subscription = parse_subscription(options, topics)
    commit_offsets = flag(options, "commitOffsets", default=False)
    group = _group(options, subscription, commit_offsets=commit_offsets)
    columns, extras = _columns(options, protocol(scheme).columns, named_nodes=protocol(scheme).named_nodes)
    if any(name in protocol(scheme).columns for name in extras):
        kept = {**protocol(scheme).column_options, **kept}
    return SourceOptions(
        address=address,
        subscription=subscription,
        starting=_starting(options, group),
        ending=_ending(options),
        limits=_limits(options),
        sizes=_sizes(options),
        columns=columns,
        extras=extras,
        group=group,
        commit_offsets=commit_offsets,
        fail_on_data_loss=choice(options, "failOnDataLoss", _LOSS, default=True),
        poll_timeout_ms=milliseconds(options, "kafkaConsumer.pollTimeoutMs", default=120_000),
        retries=_retries(options),
        client=kept,
        left_out=left_out,
        overruled={**_overruled(options, _STARTS), **_overruled(options, _ENDS)},
        decoding=parse_decoding(options, address, columns, kept),
    )


def _address(options: Mapping[str, str]) -> tuple[str, tuple[str, ...], Mapping[str, str]]:
    """(scheme and servers, topics in the path, options in its query)."""
    path, servers = options.get("path"), options.get(SERVERS)
    if path and servers:
        shown = path.partition("?")[0]  # the rest may hold secrets
        raise ConfigError(f"both an address ({shown}) and {SERVERS} are given", hint="Keep one of them")
    if not path:
        if not servers:
            raise ConfigError(f"neither an address nor {SERVERS} is given", hint='Use .load("kafka://host:port/topic")')
        return f"{MOVED_FROM}://{servers}", (), {}
    try:
        address = address_of(path)
    except ConfigError as error:
        # The error shows the address, whose options may hold secrets.
        query = path.partition("?")[2]
        error.message = error.message.replace(query, "…") if query else error.message
        raise
    bare = type(address)(address.scheme, address.endpoints)
    return str(bare), address.topics, address.options


_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
"""The first one that is given wins. More than one is not an error, because jobs for Spark's connector rely on it."""


def _overruled(options: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    given = [name for name in names if name in options]
    return dict.fromkeys(given[1:], *given[:1])


def _starting(options: Mapping[str, str], group: str | None) -> Where | None:
    """The start; of several options one wins, as in Spark: one time for all, then times, then offsets."""
    otherwise = Offset.LATEST if choice(options, _STRATEGY, {"error": False, "latest": True}, default=False) else None
    if "startingTimestamp" in options:
        return parse_time("startingTimestamp", options["startingTimestamp"], otherwise)
    if "startingOffsetsByTimestamp" in options:
        return parse_times("startingOffsetsByTimestamp", options["startingOffsetsByTimestamp"], otherwise)
    if "startingOffsets" not in options:
        return None
    found = where("startingOffsets", options["startingOffsets"], allowed=_BOTH, committed=True)
    if isinstance(found, FromGroup) and group is None:
        raise ConfigError("startingOffsets=committed needs a group", hint="Set group (or kafka.group.id)")
    return found


def _ending(options: Mapping[str, str]) -> Where | None:
    if "endingTimestamp" in options:
        return parse_time("endingTimestamp", options["endingTimestamp"], Offset.LATEST)
    if "endingOffsetsByTimestamp" in options:
        return parse_times("endingOffsetsByTimestamp", options["endingOffsetsByTimestamp"], Offset.LATEST)
    return (
        where("endingOffsets", options["endingOffsets"], allowed=(Offset.LATEST,))
        if "endingOffsets" in options
        else None
    )


def _limits(options: Mapping[str, str]) -> TriggerLimits:
    limits = TriggerLimits(
        max_offsets=count(options, "maxOffsetsPerTrigger"),
        min_offsets=count(options, "minOffsetsPerTrigger"),
        max_delay_ms=milliseconds(options, "maxTriggerDelay", default=900_000),
        max_bytes=size_bytes(options, "maxBytesPerTrigger"),
        target_ms=milliseconds(options, "targetBatchDuration", default=0) or None,
    )
    if limits.max_offsets and limits.min_offsets and limits.min_offsets > limits.max_offsets:
        raise ConfigError(
            f"minOffsetsPerTrigger is {limits.min_offsets}, maxOffsetsPerTrigger only {limits.max_offsets}"
        )
    if "maxTriggerDelay" in options and limits.min_offsets is None:
        raise ConfigError("maxTriggerDelay has no effect without minOffsetsPerTrigger")
    return limits


def _sizes(options: Mapping[str, str]) -> TaskSizes:
    names = ("minPartitions", "maxPartitions", "maxRecordsPerPartition", "parallelism")
    sizes = TaskSizes(*(count(options, name) for name in names))
    if sizes.at_least and sizes.at_most and sizes.at_least > sizes.at_most:
        raise ConfigError(f"minPartitions is {sizes.at_least}, more than maxPartitions, which is {sizes.at_most}")
    return sizes


def _retries(options: Mapping[str, str]) -> Retries:
    usual = Retries()
    times = count(options, "fetchOffset.numRetries", least=0)
    interval_ms = milliseconds(options, "fetchOffset.retryIntervalMs", default=usual.interval_ms)
    return Retries(usual.times if times is None else times, interval_ms)


def _group(options: Mapping[str, str], subscription: Subscription, *, commit_offsets: bool) -> str | None:
    """The given group. Without one, if offsets are committed, a generated one that depends only on the topics."""
    given = {options[name] for name in ("group", GROUP_ID) if options.get(name)}
    if len(given) > 1:
        raise ConfigError(f"group and {GROUP_ID} differ", hint="Keep one of them")
    if given or not commit_offsets:
        return given.pop() if given else None
    if not options.get("groupIdPrefix"):
        raise ConfigError(
            "commitOffsets needs a group to commit for", hint="Set group (or kafka.group.id), or groupIdPrefix"
        )
    digest = hashlib.sha256(str(subscription).encode()).hexdigest()
    return f"{options['groupIdPrefix']}-{digest[:12]}"


def _columns(
    options: Mapping[str, str], of_protocol: Mapping[str, str], *, named_nodes: bool
) -> tuple[tuple[str, ...], dict[str, Extra]]:
    """(all names in order; the columns that come from a header)."""
    headers = flag(options, "includeHeaders", default=False)
    if "columns" not in options:
        usual = default_columns(named_nodes=named_nodes)
        return ((*usual, HEADERS) if headers else usual), {}
    spelling = {name.lower(): name for name in (*KNOWN, *of_protocol)}
    columns: list[str] = []
    extras: dict[str, Extra] = {}
    for word in filter(None, (part.strip() for part in options["columns"].split(","))):
        if word.startswith(PREFIX) and len(word) > len(PREFIX):
            name = word.removeprefix(PREFIX)
            extras[name] = Extra(name, "binary")
        elif (found := spelling.get(word.lower())) is None:
            known = ", ".join([*spelling.values(), f"{PREFIX}NAME"])
            raise ConfigError(
                f"columns names '{word}', which is none of {known}", hint=suggestion(word, spelling.values())
            )
        else:
            name = found
            if name in of_protocol:
                extras[name] = Extra(of_protocol[name], "string")
        if name in columns:
            raise ConfigError(f"columns names {name} twice")
        columns.append(name)
    if not columns:
        raise ConfigError("columns names no column", hint=f"Choose some of {', '.join(spelling.values())}")
    taken = {each.lower() for each in KNOWN if named_nodes or each != NODE}
    clash = next((name for name in extras if name.lower() in taken), None)
    if clash is not None:
        raise ConfigError(f"header {clash} has the name of another column", hint="Read it from the column headers")
    return ((*columns, HEADERS) if headers and HEADERS not in columns else tuple(columns)), extras
