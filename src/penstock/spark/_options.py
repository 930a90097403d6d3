"""The options of a read as one frozen object, checked one by one and against each other.

What must not live here: the names of the options (``_option_table``), Spark classes, and what a client's ``kafka.*``
options mean (``_client_options``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import field

from penstock._dataclasses import dataclass
from penstock.config import ConsumerConfig, OptionValue, reader_settings
from penstock.config.options import as_written, names_written
from penstock.errors import ConfigError
from penstock.model import Offset
from penstock.protocols import address_of, protocol
from penstock.spark._client_options import MOVED_FROM, client_options, words_of
from penstock.spark._columns import DEFAULT, HEADERS, KNOWN, NODE, default_columns
from penstock.spark._decode_options import Decoding, parse_decoding
from penstock.spark._headers import PREFIX, Extra
from penstock.spark._option_table import GROUP_ID, SERVERS, sorted_out, suggestion
from penstock.spark._option_values import choice, count, flag, milliseconds, size_bytes
from penstock.spark._starts import FromGroup, Where, parse_time, parse_times, where
from penstock.spark._subscription import Subscription, parse_subscription

__all__ = ["Retries", "SourceOptions", "TaskSizes", "TriggerLimits", "parse_options"]

_BOTH = (Offset.EARLIEST, Offset.LATEST)
_LOSS = {"true": True, "false": False, "fail": True, "warn": False}
_STRATEGY = "startingOffsetsByTimestampStrategy"


@dataclass(frozen=True, slots=True)
class TriggerLimits:
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


@dataclass(frozen=True, slots=True)
class TaskSizes:
    """How a batch is cut into tasks; None leaves it to us. ``max_records`` (offsets per task) wins over ``at_most``.

    ``at_once`` is how many tasks run at the same time; it overrides what Spark's settings say.
    """

    at_least: int | None = None
    at_most: int | None = None
    max_records: int | None = None
    at_once: int | None = None


@dataclass(frozen=True, slots=True)
class Retries:
    """Retries of looking up offsets: ``times`` after the first attempt; pauses begin at ``interval_ms`` and double.

    Defaults are Spark's. Each attempt lasts up to the client's ``api_timeout_ms``, its own retries included.
    """

    times: int = 3
    interval_ms: int = 10


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read and how.

    ``starting`` and ``ending`` are None where not given: their defaults differ between batch and stream.
    ``poll_timeout_ms`` bounds how long a task keeps trying without an answer: Spark's default of two minutes outlasts
    the restart of a broker. ``client`` are options for penstock's client, in its spelling; they may hold secrets and
    are not shown. ``left_out`` names options that only a Java client could honour, ``overruled`` those that have no
    effect, with the option that wins.
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
    # Options win over what the address says.
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
"""The first of these that is given wins. More than one is no error: jobs rely on that with Spark's connector."""


def _overruled(options: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    given = [name for name in names if name in options]
    return dict.fromkeys(given[1:], *given[:1])


def _starting(options: Mapping[str, str], group: str | None) -> Where | None:
    """The most precise one wins, as in Spark: one time for all, then times, then offsets."""
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
    """The given group; else, to commit for, a generated one that is the same in every run over the same topics."""
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
    """(the names in their order; those that come from a header)."""
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
