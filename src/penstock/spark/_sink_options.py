"""The options of ``df.write`` and ``df.writeStream``, as a table, and their values as one frozen object.

Names and meanings are those of Spark's own Kafka sink if it has the option; ``kafka.*`` options are the producer's.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.config import Acks, OptionValue, ProducerConfig, producer_settings
from penstock.config.options import as_written, names_written, nearest
from penstock.errors import ConfigError
from penstock.protocols import address_of, protocol
from penstock.spark._option_values import MOVED_FROM, client_options, count, flag, words_of

__all__ = ["SINK_OPTIONS", "Guarantee", "SinkOptions", "parse_sink_options"]

_CLIENT = "kafka."
_SERVERS = "kafka.bootstrap.servers"

SINK_OPTIONS: Mapping[str, str] = {
    "path": "an address: kafka://host:port[,host:port][/topic]; what .save() and .start() are given",
    _SERVERS: "host:port[,host:port], instead of an address",
    "topic": "the topic of all rows; without it each row names its own in the column topic",
    "deliveryGuarantee": "at-least-once, or exactly-once, which needs a log with transactions",
    "transactionalIdPrefix": "exactly-once: prefix of this query's transactional ids",
    "markerTopic": "exactly-once: the compacted topic that remembers which batches are stored",
    "txnAppId": "exactly-once batch writes: the name of this write; the same name and version is stored once",
    "txnVersion": "exactly-once batch writes: its version, a number that increases",
    "dedupHeaders": "true adds the header penstock.row to each row, by which readers can drop repeated rows",
}
"""The meaning of each option; the documentation's table is checked against this."""

_OF_SPARK = frozenset(
    {
        "checkpointlocation",
        "queryname",
        "recoverfromcheckpointlocation",
        "asyncprogresstrackingenabled",
        "asyncprogresstrackingcheckpointintervalms",
        "asyncprogresstrackingoverridesinksupportcheck",
    }
)
"""Spark passes a query's own options to the sink too."""

_CLIENT_FORBIDDEN = {
    "kafka.key.serializer": "keys are strings or bytes",
    "kafka.value.serializer": "values are strings or bytes",
    "kafka.partitioner.class": "there is no JVM client that could run it; the column partition says where a row goes",
    "kafka.interceptor.classes": "there is no JVM client that could run them",
    "kafka.transactional.id": "exactly-once makes one for each task; transactionalIdPrefix says how they begin",
}
_SPELLING = {name.lower(): name for name in SINK_OPTIONS}
_PATIENCE_MS = 60_000
"""The timeout of Spark's own sink (max.block.ms)."""

_MARKERS = "_penstock_markers"


class Guarantee(enum.Enum):
    """The guarantee for every row of a completed batch, even after failures."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write and how. ``client`` are the producer's options in penstock's spelling; they may have secrets.

    ``topic`` None: each row has its own. ``app`` is (txnAppId, txnVersion) of a batch write. ``left_out`` names options
    that only a Java client could honour.
    """

    address: str
    topic: str | None = None
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    transactional_id_prefix: str = "penstock"
    marker_topic: str = _MARKERS
    app: tuple[str, int] | None = None
    dedup_headers: bool = False
    client: Mapping[str, OptionValue] = field(default_factory=dict, repr=False)
    left_out: tuple[str, ...] = ()

    @property
    def patient(self) -> dict[str, OptionValue]:
        """``client`` with longer timeouts: a log that does not respond is more likely restarting than misspelt."""
        return {"first_contact_timeout_ms": _PATIENCE_MS, **self.client}

    @property
    def exactly_once(self) -> bool:
        """Whether rows are written in transactions."""
        return self.guarantee is Guarantee.EXACTLY_ONCE


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Check every option. Raises ConfigError; for an unknown option it names the nearest known one."""
    path = next((text for name, text in given.items() if name.lower() == "path"), "")
    options, client = _sorted_out(given, path.partition("://")[0].lower() if "://" in path else MOVED_FROM)
    address, topic, in_address = _address(options)
    scheme = address.partition("://")[0]
    with as_written(names_written(given, (_CLIENT, f"{scheme}."), words_of(scheme))):
        # Options win over those in the address, in any spelling.
        kept, left_out = client_options(ProducerConfig, client, scheme)
        producer = {**client_options(ProducerConfig, in_address, scheme)[0], **kept}
        # The whole configuration, so that contradictions are reported before the query starts, not by its first task.
        config = producer_settings(address, producer, protocol=protocol(scheme).config).config
    guarantee = _guarantee(options)
    made = SinkOptions(
        address=address,
        topic=topic,
        guarantee=guarantee,
        transactional_id_prefix=options.get("transactionalIdPrefix") or "penstock",
        marker_topic=options.get("markerTopic") or _MARKERS,
        app=_app(options),
        dedup_headers=flag(options, "dedupHeaders", default=False),
        client=producer,
        left_out=left_out,
    )
    _refuse_contradictions(made, options, config)
    return made


def _sorted_out(given: Mapping[str, str], scheme: str) -> tuple[dict[str, str], dict[str, str]]:
    """(our options, in their proper spelling; the producer's, without ``kafka.`` or the address's scheme).

    Spark's own options are left out.
    """
    prefixes = (_CLIENT, f"{scheme}.")
    options: dict[str, str] = {}
    client: dict[str, str] = {}
    for name, text in given.items():
        lower = name.lower()
        prefix = next((each for each in prefixes if lower.startswith(each)), None)
        if lower in _SPELLING:
            options[_SPELLING[lower]] = text
        elif lower in _CLIENT_FORBIDDEN:
            raise ConfigError(f"option {name} cannot be set: {_CLIENT_FORBIDDEN[lower]}")
        elif prefix is not None:
            client[lower.removeprefix(prefix)] = text
        elif lower not in _OF_SPARK:
            raise _unknown(name)
    return options, client


def _address(options: Mapping[str, str]) -> tuple[str, str | None, Mapping[str, str]]:
    """(scheme and servers, topic if one is named, the producer's options in the address's query)."""
    path, servers, topic = options.get("path"), options.get(_SERVERS), options.get("topic") or None
    if path and servers:
        shown = path.partition("?")[0]  # the rest may hold secrets
        raise ConfigError(f"both an address ({shown}) and {_SERVERS} are given", hint="Keep one of them")
    if not path:
        if not servers:
            raise ConfigError(
                f"neither an address nor {_SERVERS} is given",
                hint='Use .save("kafka://host:port/topic"); in SQL: INSERT INTO t WITH (path = "…") SELECT …',
            )
        return f"{MOVED_FROM}://{servers}", topic, {}
    address = address_of(path, ProducerConfig)
    if len(address.topics) > 1:
        raise ConfigError(
            f"the address names {len(address.topics)} topics", hint="Name one, or give each row its own column topic"
        )
    in_path = address.topics[0] if address.topics else None
    if in_path and topic and in_path != topic:
        raise ConfigError(f"the address names topic {in_path}, option topic {topic}", hint="Keep one of them")
    return str(type(address)(address.scheme, address.endpoints)), topic or in_path, address.options


def _guarantee(options: Mapping[str, str]) -> Guarantee:
    text = options.get("deliveryGuarantee", Guarantee.AT_LEAST_ONCE.value)
    try:
        return Guarantee(text.strip().lower().replace("_", "-"))
    except ValueError:
        known = " or ".join(each.value for each in Guarantee)
        raise ConfigError(f"deliveryGuarantee is '{text}', expected {known}") from None


def _app(options: Mapping[str, str]) -> tuple[str, int] | None:
    name, version = options.get("txnAppId"), count(options, "txnVersion", least=0)
    if name is None and version is None:
        return None
    if not name or version is None:
        raise ConfigError("txnAppId and txnVersion belong together", hint="Set both, or neither")
    return name, version


def _refuse_contradictions(made: SinkOptions, options: Mapping[str, str], config: ProducerConfig) -> None:
    if not made.exactly_once:
        for name in ("transactionalIdPrefix", "markerTopic", "txnAppId"):
            if name in options:
                raise ConfigError(
                    f"{name} has no effect with deliveryGuarantee={made.guarantee.value}",
                    hint="Set deliveryGuarantee to exactly-once, or remove it",
                )
        return
    if config.acks is not Acks.ALL or not config.enable_idempotence:
        raise ConfigError(
            "exactly-once needs acks=all and enable_idempotence=true",
            hint="Remove kafka.acks and kafka.enable.idempotence: these are their defaults",
        )
    if made.dedup_headers:
        raise ConfigError(
            "dedupHeaders are for logs without transactions: with exactly-once nothing is repeated", hint="Remove one"
        )


def _unknown(name: str) -> ConfigError:
    near, *others = nearest(name.lower(), _SPELLING)
    if others:
        hint = f"The nearest are {', '.join([near, *others])}; and there is kafka.* for the producer"
    else:
        hint = f"Did you mean {near} ({SINK_OPTIONS[near]})?"
    return ConfigError(f"there is no option {name} for writing", hint=hint)
