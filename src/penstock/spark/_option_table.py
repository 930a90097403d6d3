"""The options of ``format("penstock")`` for reading, by name, and sorting given options by owner.

Names and meanings are those of Spark's own Kafka source (Structured Streaming + Kafka Integration Guide, 4.x), so that
a job moves by changing the format's name; those marked "(ours)" are penstock's own. Case does not matter, as everywhere
in Spark. What must not live here: parsing of values, and what client options mean (``_client_options``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.config.nearest import nearest
from penstock.errors import ConfigError
from penstock.spark._decode_options import DECODE_OPTIONS

__all__ = ["GROUP_ID", "OURS", "SERVERS", "sorted_out", "suggestion"]

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
"""How ``create table … using penstock options (…)`` spells them, besides plainly."""

_FORBIDDEN = {
    "kafka.auto.offset.reset": "startingOffsets says where to start",
    "kafka.enable.auto.commit": "commitOffsets commits what a batch completed",
    "kafka.key.deserializer": "keys are always binary",
    "kafka.value.deserializer": "values are always binary",
    "kafka.interceptor.classes": "there is no JVM client that could run them",
}
"""Spark's Kafka source refuses the same."""


def sorted_out(
    given: Mapping[str, str], scheme: str | None = None, *, in_address: bool = False
) -> tuple[dict[str, str], dict[str, str]]:
    """(our options, in their proper spelling; the client's, which begin with ``kafka.`` or the address's ``scheme``).

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
    """A hint for somebody who wrote ``word`` instead of one of ``names``."""
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
