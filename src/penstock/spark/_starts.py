"""``startingOffsets``, ``endingOffsets`` and ``assign`` as users write them, and what they mean for a given log.

Words and JSON are those of Spark's own Kafka source: ``earliest``, ``latest``, or ``{"topic": {"0": 23, "1": -2}}``
with -2 for earliest and -1 for latest. What must not live here: asking a log anything; offsets come in as arguments.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TypeAlias

from penstock.errors import ConfigError, UsageError
from penstock.model import Offset, Partition
from penstock.spark._offsets import Positions, partition_of

__all__ = ["Where", "assigned_partitions", "check_all_exist", "resolve", "where"]

Where: TypeAlias = "Offset | Mapping[Partition, int]"
"""One name for all partitions, or an offset (or -1, -2) for each."""

_NAMES = {"earliest": Offset.EARLIEST, "latest": Offset.LATEST}


def where(option: str, text: str, *, allowed: Collection[Offset]) -> Where:
    """Parse ``text``, given for ``option``; ``allowed`` are the names that make sense there, also as -1 and -2."""
    named = _NAMES.get(text.strip().lower())
    if named is not None:
        return _allowed(option, named, allowed)
    found: dict[Partition, int] = {}
    for topic, partitions in _object(option, text).items():
        if not isinstance(partitions, dict):
            raise _not_understood(option, text, f"topic '{topic}' has no object of partitions")
        for key, offset in partitions.items():
            partition = _partition(option, text, topic, key)
            if isinstance(offset, bool) or not isinstance(offset, int) or offset < Offset.EARLIEST:
                raise _not_understood(option, text, f"{offset!r} is no offset of {partition}")
            if offset < 0:
                _allowed(option, Offset(offset), allowed)
            found[partition] = offset
    return found


def assigned_partitions(text: str) -> frozenset[Partition]:
    """Parse ``assign``: ``{"topicA": [0, 1], "topicB": [2]}``."""
    found: set[Partition] = set()
    for topic, numbers in _object("assign", text).items():
        if not isinstance(numbers, list):
            raise _not_understood("assign", text, f"topic '{topic}' has no list of partitions")
        found |= {_partition("assign", text, topic, str(number)) for number in numbers}
    if not found:
        raise ConfigError("assign names no partition", hint='Write {"topic": [0, 1]}')
    return frozenset(found)


def resolve(
    option: str,
    wanted: Where,
    *,
    earliest: Positions,
    latest: Positions,
) -> dict[Partition, int]:
    """The offset each partition of ``earliest`` (and ``latest``) starts or ends at.

    Raises ConfigError where an offset is missing or one is given for a partition that is not read: a typing mistake
    there would silently read everything or nothing.
    """
    named = {Offset.EARLIEST: earliest, Offset.LATEST: latest}
    if isinstance(wanted, Offset):
        return dict(named[wanted])
    for word, odd in (
        ("has no offset for", earliest.keys() - wanted.keys()),
        ("names what is not read:", wanted.keys() - earliest.keys()),
    ):
        if odd:
            listed = ", ".join(map(str, sorted(odd)[:5])) + (" …" if len(odd) > 5 else "")
            raise ConfigError(f"{option} {word} {listed}", hint="Name exactly the partitions that are read")
    return {
        partition: offset if offset >= 0 else named[Offset(offset)][partition] for partition, offset in wanted.items()
    }


def check_all_exist(topics: Collection[str], assigned: Collection[Partition], found: Collection[Partition]) -> None:
    """Raise UsageError for a topic or partition that shall be read and is not there."""
    absent = sorted(set(topics) - {partition.topic for partition in found})
    gone = sorted(set(assigned) - set(found))
    if absent or gone:
        what = f"topic {absent[0]}" if absent else f"partition {gone[0]}"
        raise UsageError(f"{what} does not exist", hint="Create it first, or correct the name")


def _allowed(option: str, name: Offset, allowed: Collection[Offset]) -> Offset:
    if name not in allowed:
        words = " or ".join(word for word, each in _NAMES.items() if each in allowed)
        raise ConfigError(f"{option} cannot be {name.name.lower()} here", hint=f"Use {words}, or JSON with offsets")
    return name


def _object(option: str, text: str) -> dict[str, object]:
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise _not_understood(option, text, f"neither a known word nor JSON ({error})") from error
    if not isinstance(tree, dict):
        raise _not_understood(option, text, "no object of topics")
    return tree


def _partition(option: str, text: str, topic: str, key: str) -> Partition:
    try:
        return partition_of(topic, key)
    except ValueError as error:
        raise _not_understood(option, text, str(error)) from error


def _not_understood(option: str, text: str, reason: str) -> ConfigError:
    shown = text if len(text) <= 120 else f"{text[:117]}..."
    return ConfigError(f"{option} = {shown} is not understood: {reason}")
