"""Generates the option tables of docs/spark/options.md from the registries of the source and the sink.

The meaning of an option is in the registry; this module has only the order of the options on the page, and their
defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.spark._options import OURS
from penstock.spark._sink_options import SINK_OPTIONS

__all__ = ["SINK", "SINK_DEFAULTS", "SOURCE_DEFAULTS", "sink", "source", "table"]

Sections = Mapping[str, Sequence[str]]

SOURCE: Sections = {
    "Where": ("path", "kafka.bootstrap.servers", "subscribe", "subscribePattern", "assign"),
    "From and to": (
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
    ),
    "How much a micro-batch": (
        "maxOffsetsPerTrigger",
        "maxBytesPerTrigger",
        "targetBatchDuration",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
    ),
    "How many tasks": ("minPartitions", "maxPartitions", "maxRecordsPerPartition", "parallelism"),
    "Which columns": ("columns", "includeHeaders", "valueFormat", "valueSchema", "mode", "deadLetter"),
    "Consumer groups": ("commitOffsets", "group", "kafka.group.id", "groupIdPrefix"),
    "When something is wrong": (
        "failOnDataLoss",
        "onBadRecord",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
    ),
}

SINK: Sections = {
    "Where": ("path", "kafka.bootstrap.servers", "topic"),
    "How safe": (
        "deliveryGuarantee",
        "transactionalIdPrefix",
        "markerTopic",
        "txnAppId",
        "txnVersion",
        "dedupHeaders",
    ),
}

SOURCE_DEFAULTS: Mapping[str, str] = {
    "maxTriggerDelay": "15m",
    "columns": "key,value,topic,partition,offset,timestamp,timestampType",
    "includeHeaders": "false",
    "valueFormat": "binary",
    "commitOffsets": "false",
    "failOnDataLoss": "true",
    "onBadRecord": "auto",
    "kafkaConsumer.pollTimeoutMs": "120000",
    "fetchOffset.numRetries": "3",
    "fetchOffset.retryIntervalMs": "10",
}
"""The default of each option; a test sets each to it and checks that nothing changes."""

SINK_DEFAULTS: Mapping[str, str] = {"deliveryGuarantee": "at-least-once", "dedupHeaders": "false"}

_IN_WORDS = {
    "startingOffsets": "`latest` in a stream, `earliest` in a batch",
    "startingOffsetsByTimestampStrategy": "`error`",
    "endingOffsets": "`latest` in a batch, none in a stream",
    "mode": "`FAILFAST`",
    "transactionalIdPrefix": "`penstock`",
    "markerTopic": "`_penstock_markers`",
}
"""Defaults that depend on other options, or that must not be set without them."""


def source() -> str:
    return table(SOURCE, OURS, SOURCE_DEFAULTS)


def sink() -> str:
    return table(SINK, SINK_OPTIONS, SINK_DEFAULTS)


def table(sections: Sections, meanings: Mapping[str, str], defaults: Mapping[str, str]) -> str:
    """All options as tables, one per section. Raises SystemExit for an option without a section, and the reverse."""
    placed = [name for names in sections.values() for name in names]
    if sorted(placed) != sorted(meanings):
        differing = sorted(set(placed) ^ set(meanings)) or "some twice"
        raise SystemExit(f"tools/spark_options.py and the code's options differ: {differing}")
    return "\n\n".join("\n".join(_section(title, names, meanings, defaults)) for title, names in sections.items())


def _section(
    title: str, names: Sequence[str], meanings: Mapping[str, str], defaults: Mapping[str, str]
) -> Iterator[str]:
    yield f"| {title} | meaning | default |"
    yield "|---|---|---|"
    for name in names:
        default = _IN_WORDS.get(name) or (f"`{defaults[name]}`" if name in defaults else "")
        yield f"| `{name}` | {_cell(meanings[name])} | {_narrow(default)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _narrow(default: str) -> str:
    # A long default would widen the whole column.
    return "all but headers" if len(default) > 50 else default
