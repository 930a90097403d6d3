"""The offset that a Spark checkpoint stores for one micro-batch, as canonical JSON, version 1.

    {"v": 1, "from": {topic: {partition: offset}}, "to": {topic: {partition: offset}}, "ids": {topic: id},
     "epochs": {topic: {partition: epoch}}}

``ids`` distinguish a topic from a later one of the same name. ``epochs`` are the leader epochs in which the log was
seen to reach ``to``; they reveal that a log was truncated and rewritten. Both may be absent.

The form follows from two facts about Spark. Spark does not store the result of ``initialOffset()`` and asks for it
again after a crash in the first batch, when "latest" means something else: so the *end* offset carries its own start,
and ``partitions(start, end)`` reads only ``end``. And Spark compares offsets as strings: so keys are sorted, and
numbers are integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from penstock.errors import ConfigError
from penstock.model import LogRange, Partition

__all__ = ["VERSION", "BatchOffset", "Json", "Positions", "id_bytes", "partition_key", "partition_of"]

VERSION = 1

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Positions: TypeAlias = Mapping[Partition, int]
"""The offset of the next record to read, by partition."""


class BatchOffset(Struct, frozen=True):
    """One micro-batch: it reads ``[start, end)`` of every partition of ``end``, and ``start`` has each of those."""

    start: Positions
    end: Positions
    ids: Mapping[str, str] = field(default_factory=dict)
    epochs: Positions = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """The canonical form: equal offsets give equal text, independent of the order of insertion."""
        result: dict[str, Json] = {"v": VERSION, "from": _tree(self.start), "to": _tree(self.end)}
        if self.ids:
            result["ids"] = {topic: self.ids[topic] for topic in sorted(self.ids)}
        if self.epochs:
            result["epochs"] = _tree(self.epochs)
        return result

    @classmethod
    def from_json(cls, stored: object) -> BatchOffset:
        """The inverse of ``to_json``. Raises ConfigError if it is not ours, damaged, or from a newer penstock."""
        if not isinstance(stored, dict) or "v" not in stored:
            raise ConfigError(
                f"the checkpoint's offset is not one of penstock's: {_short(stored)}",
                hint="Use the checkpoint of this query, or a new checkpointLocation",
            )
        if stored["v"] != VERSION:
            raise ConfigError(
                f"the checkpoint holds offsets of version {_short(stored['v'])}; this penstock reads version {VERSION}",
                hint="Run the query with the version of penstock that wrote the checkpoint, or use a new one",
            )
        ids, epochs = _ids(stored.get("ids", {})), _positions(stored.get("epochs", {}))
        offset = cls(_positions(stored.get("from")), _positions(stored.get("to")), ids, epochs)
        for partition, end in offset.end.items():
            if not 0 <= offset.start.get(partition, -1) <= end:
                raise ConfigError(
                    f"the checkpoint holds an impossible range for {partition}: "
                    f"from {offset.start.get(partition)} to {end}",
                    topic=partition.topic,
                    partition=partition.id,
                )
        return offset

    def sizes(self) -> dict[Partition, int]:
        """The number of offsets of each partition."""
        return {partition: end - self.start[partition] for partition, end in self.end.items()}

    def topic_id(self, topic: str) -> bytes | None:
        """The id of the topic at the time of the batch; None if it is not stored."""
        return id_bytes(self.ids.get(topic, ""))

    def ranges(self) -> list[LogRange]:
        """The ranges of the batch, in the order of topic and partition, without empty ones."""
        return [
            LogRange.of(partition, self.start[partition], self.end[partition], self.topic_id(partition.topic))
            for partition in sorted(self.end)
            if self.start[partition] < self.end[partition]
        ]


def id_bytes(stored: str) -> bytes | None:
    """A topic's id in bytes, as clients use it; None if the text is not an id."""
    try:
        return bytes.fromhex(stored) or None
    except ValueError:
        return None


def partition_key(partition: Partition) -> str:
    """The partition inside its topic as a JSON key: "3", or "broker-a/3" if partitions belong to named nodes."""
    return f"{partition.node}/{partition.id}" if partition.node else str(partition.id)


def partition_of(topic: str, key: str) -> Partition:
    """The inverse of ``partition_key``. Raises ValueError for anything else."""
    node, _, number = key.rpartition("/")
    if not (number.isascii() and number.isdigit()):
        raise ValueError(f"'{key}' is not a partition number")
    return Partition(topic, int(number), node)


def _tree(positions: Positions) -> Json:
    tree: dict[str, Json] = {}
    for partition in sorted(positions, key=lambda each: (each.topic, each.node, each.id)):
        topic = tree.setdefault(partition.topic, {})
        assert isinstance(topic, dict)
        topic[partition_key(partition)] = positions[partition]
    return tree


def _positions(tree: object) -> dict[Partition, int]:
    if not isinstance(tree, dict):
        raise ConfigError(f"the checkpoint's offsets are not an object of topics: {_short(tree)}")
    found: dict[Partition, int] = {}
    for topic, partitions in tree.items():
        if not isinstance(topic, str) or not isinstance(partitions, dict):
            raise ConfigError(f"the checkpoint's offsets of topic {_short(topic)} are not an object of partitions")
        for key, offset in partitions.items():
            try:
                partition = partition_of(topic, str(key))
            except ValueError as error:
                raise ConfigError(f"the checkpoint names an invalid partition of topic {topic}: {error}") from error
            if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                raise ConfigError(
                    f"the checkpoint's offset {_short(offset)} is not valid", topic=topic, partition=partition.id
                )
            found[partition] = offset
    return found


def _ids(tree: object) -> dict[str, str]:
    if not isinstance(tree, dict) or not all(isinstance(each, str) for pair in tree.items() for each in pair):
        raise ConfigError(f"the checkpoint's topic ids are not valid: {_short(tree)}")
    return tree


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
