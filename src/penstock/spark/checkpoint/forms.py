"""The two forms of a source's offset: that of Spark's own Kafka connector, and ours; and the connector's initial file.

    the connector's    {"topic":{"0":23,"1":42}}                                      where the batch ends
    ours               {"v": 1, "from": {"topic": {…}}, "to": {"topic": {…}}}         where it begins, too

The connector keeps the place where a query's first batch begins in a separate file, ``sources/<source>/0``: a zero
byte, the line ``v1``, and an offset (``KafkaSourceInitialOffsetWriter``). What must not live here: files.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.model import Partition
from penstock.spark._offsets import BatchOffset, Positions

__all__ = ["Form", "begin_of", "connector_text", "form_of", "initial_content", "initial_of", "our_text", "positions_of"]

_INITIAL = b"\x00v1\n"


class Form(enum.Enum):
    """Which source an offset belongs to."""

    CONNECTOR = "connector"
    OURS = "penstock"
    ANOTHER = "another"


def form_of(text: str) -> Form:
    """Whose offset this is, judging by its text. Raises ConfigError if it is one of ours in an unknown version."""
    tree = _json(text)
    if isinstance(tree, dict) and isinstance(tree.get("v"), int) and {"from", "to"} <= tree.keys():
        BatchOffset.from_json(tree)
        return Form.OURS
    return Form.ANOTHER if _positions(tree) is None else Form.CONNECTOR


def positions_of(text: str) -> Positions:
    """Where a batch ends, in either form."""
    tree = _json(text)
    found = _positions(tree)
    return BatchOffset.from_json(tree).end if found is None else found


def begin_of(text: str) -> Positions | None:
    """Where a batch begins, if its form says so."""
    tree = _json(text)
    return BatchOffset.from_json(tree).start if _positions(tree) is None else None


def our_text(begin: Positions, end: Positions) -> str:
    """A batch in our form, as Spark stores it.

    To Spark equal text means "no new data", so this is exactly what PySpark writes: ``json.dumps`` with its defaults. A
    partition that ``begin`` lacks is new: the connector reads it from offset 0 on, and reports a loss if that is gone,
    as ours does. One that goes backwards was recreated: the connector reads nothing of it, as ours does.
    """
    start = {partition: min(begin.get(partition, 0), offset) for partition, offset in end.items()}
    return json.dumps(BatchOffset(start, end).to_json())


def connector_text(positions: Positions) -> str:
    """Positions in the connector's form. Raises ConfigError for partitions that Kafka cannot have."""
    tree: dict[str, dict[str, int]] = {}
    for partition in sorted(positions, key=lambda each: (each.topic, each.id)):
        if partition.node:
            raise ConfigError(
                f"{partition} cannot be a Kafka partition: Spark's own connector cannot read it",
                topic=partition.topic,
                partition=partition.id,
                hint="Nothing was changed",
            )
        tree.setdefault(partition.topic, {})[str(partition.id)] = positions[partition]
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def initial_of(content: bytes) -> Positions | None:
    """What a file ``sources/<source>/0`` says, None if the connector did not write it."""
    if not content.startswith(_INITIAL):
        return None
    return _positions(_json(content.removeprefix(_INITIAL).decode(errors="replace")))


def initial_content(positions: Positions) -> bytes:
    """What the connector would have written for a query that began there."""
    return _INITIAL + connector_text(positions).encode()


def _json(text: str) -> object:
    try:
        tree: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tree


def _positions(tree: object) -> dict[Partition, int] | None:
    """A tree of nothing but topics, partitions and offsets; None for anything else."""
    if not isinstance(tree, dict):
        return None
    found: dict[Partition, int] = {}
    for topic, partitions in tree.items():
        if not isinstance(partitions, Mapping) or not partitions:
            return None
        for key, offset in partitions.items():
            if not (key.isascii() and key.isdigit()) or isinstance(offset, bool) or not isinstance(offset, int):
                return None
            if offset < 0:
                return None
            found[Partition(topic, int(key))] = offset
    return found
