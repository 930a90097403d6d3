"""The options of ``format("penstock")`` for reading, by name; and which of what was given is whose.

Names and meanings are those of Spark's own Kafka source (Structured Streaming + Kafka Integration Guide, 4.x), so that
a job moves by changing the format's name; those marked so are ours. Case does not matter, as everywhere in Spark.
What must not live here: parsing of values, and what client options mean (``_client_options``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.config.nearest import nearest
from penstock.errors import ConfigError
from penstock.spark._decode_options import DECODE_OPTIONS

__all__ = ["GROUP_ID", "OURS", "SERVERS", "meant", "sorted_out"]

SERVERS = "kafka.bootstrap.servers"
GROUP_ID = "kafka.group.id"
_CLIENT = "kafka."

OURS: dict[str, str] = {
    "path": "an address: kafka://host:port[,host:port]/topic[,topic]",
    "subscribe": "topics, separated by commas",
    "subscribePattern": "a regular expression that names of topics match as a whole; looked at again every trigger",
    "assign": 'partitions as JSON: {"topic": [0, 1]}',
    "startingOffsets": "earliest, latest, JSON, or committed[:earliest|latest]; only for a query without a checkpoint",
    "startingTimestamp": "the first record at or after a time: ms since 1970, ISO 8601, -2h; wins over the two others",
    "startingOffsetsByTimestamp": 'a time for each partition as JSON: {"topic": {"0": 1700000000000, "1": "-2h"}}; '
    "wins over startingOffsets",
    "startingOffsetsByTimestampStrategy": "error or latest, for partitions without a record that young",
    "endingOffsets": "latest or JSON; ends a batch, or a stream",
    "endingTimestamp": "up to the first record at or after a time; ends a batch, or a stream; wins over the two others",
    "endingOffsetsByTimestamp": "such a time for each partition as JSON; wins over endingOffsets",
    "maxOffsetsPerTrigger": "at most so many offsets a micro-batch",
    "minOffsetsPerTrigger": "wait until there are so many offsets, at most maxTriggerDelay",
    "maxTriggerDelay": "how long minOffsetsPerTrigger waits: 15m",
    "maxBytesPerTrigger": "at most about so many bytes of keys, values and headers a micro-batch: 64m (ours)",
    "targetBatchDuration": "adapt the size of micro-batches so that one takes about so long: 10s (ours)",
    "minPartitions": "at least so many Spark tasks",
    "maxPartitions": "at most so many Spark tasks (ours)",
    "maxRecordsPerPartition": "at most so many offsets a Spark task",
    "parallelism": "plan for so many tasks at once, few partitions or many; else Spark's settings say it (ours)",
    "includeHeaders": "true adds the column headers",
    "columns": "the columns to read, separated by commas; fewer are faster; header:NAME is one header (ours)",
    "group": "the consumer group whose offsets are committed (ours)",
    "groupIdPrefix": "with commitOffsets and without a group: the beginning of the group's name",
    "commitOffsets": "true commits the group's offsets as batches complete (ours)",
    "failOnDataLoss": "true or fail ends the query if records are gone before they were read; false or warn goes on",
    "kafkaConsumer.pollTimeoutMs": "how long a task tries to get its records before it fails",
    "fetchOffset.numRetries": "how often looking up offsets is tried again",
    "fetchOffset.retryIntervalMs": "the pause before that, doubled each time",
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
    """Ours under their proper spelling; and the client's, which begin with ``kafka.`` or the address's ``scheme``.

    In an address that beginning may be left out. Raises ConfigError, for an unknown option with the nearest known one.
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
            raise ConfigError(f"there is no option {name}", hint=meant(name, OURS))
    return options, client


def meant(word: str, names: Iterable[str]) -> str:
    """What to tell somebody who wrote ``word`` where one of ``names`` was wanted."""
    name, *others = nearest(word.lower(), {name.lower(): name for name in names})
    if others:
        return f"The nearest are {', '.join([name, *others])}"
    return f"Did you mean {name}" + (f" ({OURS[name]})?" if name in OURS else "?")


def _refuse_table(given: Mapping[str, str]) -> None:
    if any(name.lower().startswith(_OF_SQL_TABLE) for name in given):
        raise ConfigError(
            "Spark does not hand the options of a table to a Python data source when it is read",
            hint="Write: create temporary view NAME using penstock options (…)",
        )
