"""The options of ``format("penstock")``, as a table, and their values as one frozen object.

Names and meanings are those of Spark's own Kafka source (Structured Streaming + Kafka Integration Guide), so that a job
moves by changing the format's name; ``group``, ``commitOffsets`` and ``columns`` are ours. Case does not matter, as
everywhere in Spark. What must not live here: Spark classes, and what a client's ``kafka.*`` options mean.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from penstock.config import ConsumerConfig, OptionValue, parse_address, reader_settings
from penstock.config.options import canonical_options
from penstock.errors import ConfigError
from penstock.model import Offset, Partition
from penstock.protocols import protocol
from penstock.spark._columns import DEFAULT, HEADERS, KNOWN
from penstock.spark._starts import Where, assigned_partitions, where

__all__ = ["SourceOptions", "parse_options"]

_CLIENT = "kafka."
_SERVERS = "kafka.bootstrap.servers"
_GROUP_ID = "kafka.group.id"

_OURS = {
    "path": "an address: kafka://host:port[,host:port]/topic[,topic]",
    "subscribe": "topics, separated by commas",
    "assign": 'partitions as JSON: {"topic": [0, 1]}',
    "startingOffsets": "earliest, latest or JSON; only for a query without a checkpoint",
    "endingOffsets": "latest or JSON; batch only",
    "maxOffsetsPerTrigger": "at most so many offsets a micro-batch",
    "minPartitions": "at least so many Spark tasks",
    "includeHeaders": "true adds the column headers",
    "columns": "the columns to read, separated by commas; fewer are faster",
    "group": "the consumer group whose offsets are committed",
    "commitOffsets": "true commits the group's offsets as batches complete",
    "failOnDataLoss": "false goes on, with a warning, when records were deleted before they were read",
    _SERVERS: "host:port[,host:port]",
    _GROUP_ID: "the same as group",
}
_NOT_YET = (
    "subscribePattern",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxRecordsPerPartition",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
)
"""Options of Spark's Kafka source that we know and do not have: told apart from typing mistakes."""

_OF_SQL_TABLE = "option."
"""How ``create table … using penstock options (…)`` spells them, besides plainly."""

_CLIENT_FORBIDDEN = {
    "kafka.auto.offset.reset": "startingOffsets says where to start",
    "kafka.enable.auto.commit": "commitOffsets commits what a batch completed",
    "kafka.key.deserializer": "keys are always binary",
    "kafka.value.deserializer": "values are always binary",
    "kafka.interceptor.classes": "there is no JVM client that could run them",
}
_SPELLING = {name.lower(): name for name in _OURS}
_BOTH = (Offset.EARLIEST, Offset.LATEST)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read and how. Either ``topics`` or ``assigned`` is not empty.

    ``starting`` and ``ending`` are None where not given: their defaults differ between batch and stream.
    ``client`` are options for penstock's client, in its spelling; they may hold secrets and are not shown.
    """

    address: str
    topics: tuple[str, ...] = ()
    assigned: frozenset[Partition] = frozenset()
    starting: Where | None = None
    ending: Where | None = None
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    columns: tuple[str, ...] = DEFAULT
    group: str | None = None
    commit_offsets: bool = False
    fail_on_data_loss: bool = True
    client: Mapping[str, OptionValue] = field(default_factory=dict, repr=False)


class _Subscription(TypedDict):
    topics: tuple[str, ...]
    assigned: frozenset[Partition]


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Check every option. Raises ConfigError, for an unknown one with the nearest known name."""
    if any(name.lower().startswith(_OF_SQL_TABLE) for name in given):
        raise ConfigError(
            "Spark does not hand the options of a table to a Python data source when it is read",
            hint="Write: create temporary view NAME using penstock options (…)",
        )
    options, client = _sorted_out(given)
    address, topics, in_address = _address(options)
    # What the address says is overruled by what an option says.
    address_options, address_client = _sorted_out(in_address, in_address=True)
    options, client = {**address_options, **options}, {**address_client, **client}
    known_to_protocol = protocol(parse_address(address).scheme).options
    reader_settings(address, client, protocol_options=known_to_protocol)
    group = _one_of(options, "group", _GROUP_ID)
    commit_offsets = _flag(options, "commitOffsets", default=False)
    if commit_offsets and not group:
        raise ConfigError("commitOffsets needs a group to commit for", hint="Set group (or kafka.group.id)")
    return SourceOptions(
        address=address,
        **_subscription(options, topics),
        starting=_where(options, "startingOffsets", _BOTH),
        ending=_where(options, "endingOffsets", (Offset.LATEST,)),
        max_offsets_per_trigger=_count(options, "maxOffsetsPerTrigger"),
        min_partitions=_count(options, "minPartitions"),
        columns=_columns(options),
        group=group,
        commit_offsets=commit_offsets,
        fail_on_data_loss=_flag(options, "failOnDataLoss", default=True),
        client=canonical_options(ConsumerConfig, client, known_to_protocol),
    )


def _sorted_out(given: Mapping[str, str], *, in_address: bool = False) -> tuple[dict[str, str], dict[str, str]]:
    """Ours under their proper spelling, and the client's without ``kafka.``, which an address may leave out."""
    options: dict[str, str] = {}
    client: dict[str, str] = {}
    for name, text in given.items():
        lower = name.lower()
        if lower in _SPELLING:
            options[_SPELLING[lower]] = text
        elif lower in _CLIENT_FORBIDDEN:
            raise ConfigError(f"option {name} cannot be set: {_CLIENT_FORBIDDEN[lower]}")
        elif in_address or lower.startswith(_CLIENT):
            client[lower.removeprefix(_CLIENT)] = text
        else:
            raise _unknown(name)
    return options, client


def _address(options: Mapping[str, str]) -> tuple[str, tuple[str, ...], Mapping[str, str]]:
    """(scheme and servers, topics in the path, options in its query)."""
    path, servers = options.get("path"), options.get(_SERVERS)
    if path and servers:
        raise ConfigError(f"both an address ({path}) and {_SERVERS} are given", hint="Keep one of them")
    if not path:
        if not servers:
            raise ConfigError(
                f"neither an address nor {_SERVERS} is given", hint='Use .load("kafka://host:port/topic")'
            )
        return f"kafka://{servers}", (), {}
    address = parse_address(path)
    bare = type(address)(address.scheme, address.endpoints)
    return str(bare), address.topics, address.options


def _subscription(options: Mapping[str, str], in_path: tuple[str, ...]) -> _Subscription:
    given = [name for name in ("subscribe", "assign") if options.get(name)] + (
        ["the address's topics"] if in_path else []
    )
    if len(given) > 1:
        raise ConfigError(f"topics are named twice: {' and '.join(given)}", hint="Keep one of them")
    if not given:
        raise ConfigError(
            "no topic is named", hint='Put it into the address (kafka://host:port/topic), or set "subscribe"'
        )
    if options.get("assign"):
        return {"topics": (), "assigned": assigned_partitions(options["assign"])}
    topics = in_path or tuple(filter(None, (name.strip() for name in options["subscribe"].split(","))))
    if not topics:
        raise ConfigError(f"subscribe = '{options['subscribe']}' names no topic")
    return {"topics": tuple(dict.fromkeys(topics)), "assigned": frozenset()}


def _where(options: Mapping[str, str], name: str, allowed: tuple[Offset, ...]) -> Where | None:
    return where(name, options[name], allowed=allowed) if name in options else None


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    headers = _flag(options, "includeHeaders", default=False)
    if "columns" not in options:
        return (*DEFAULT, HEADERS) if headers else DEFAULT
    spelling = {name.lower(): name for name in KNOWN}
    columns: list[str] = []
    for word in filter(None, (part.strip() for part in options["columns"].split(","))):
        name = spelling.get(word.lower())
        if name is None:
            raise ConfigError(
                f"columns names '{word}', which is none of {', '.join(KNOWN)}", hint=_nearest(word, KNOWN)
            )
        if name in columns:
            raise ConfigError(f"columns names {name} twice")
        columns.append(name)
    if not columns:
        raise ConfigError("columns names no column", hint=f"Choose some of {', '.join(KNOWN)}")
    return (*columns, HEADERS) if headers and HEADERS not in columns else tuple(columns)


def _one_of(options: Mapping[str, str], first: str, second: str) -> str | None:
    values = {options[name] for name in (first, second) if options.get(name)}
    if len(values) > 1:
        raise ConfigError(f"{first} and {second} differ", hint="Keep one of them")
    return values.pop() if values else None


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name, str(default)).strip().lower()
    if text not in {"true", "false"}:
        raise ConfigError(f"{name} is '{options[name]}', wanted is true or false")
    return text == "true"


def _count(options: Mapping[str, str], name: str) -> int | None:
    if name not in options:
        return None
    text = options[name].strip()
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**63):
        raise ConfigError(f"{name} is '{options[name]}', wanted is a whole number of at least 1")
    return int(text)


def _unknown(name: str) -> ConfigError:
    if name.lower() in {known.lower() for known in _NOT_YET}:
        return ConfigError(f"option {name} of Spark's Kafka source is not supported", hint="Remove it")
    return ConfigError(f"there is no option {name}", hint=_nearest(name, _OURS))


def _nearest(word: str, names: Iterable[str]) -> str:
    spelling = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), spelling, n=1, cutoff=0.5)
    if close:
        name = spelling[close[0]]
        return f"Did you mean {name}" + (f" ({_OURS[name]})?" if name in _OURS else "?")
    return f"Known are {', '.join(spelling.values())}"
