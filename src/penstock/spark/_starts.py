"""The start and end of a read: parses what users write, and finds the offsets in a log.

Words and JSON are those of Spark's own Kafka source: ``earliest``, ``latest``, or ``{"topic": {"0": 23, "1": -2}}``
with -2 for earliest and -1 for latest, and the same with times; ``committed`` is ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Protocol, TypeAlias, TypeVar

from msgspec import Struct

from penstock.errors import ConfigError, UsageError
from penstock.model import Offset, Partition
from penstock.spark._offsets import Positions, partition_of
from penstock.spark._option_values import Moment, moment

__all__ = ["AtTime", "Endings", "FromGroup", "Knows", "Where", "parse_time", "parse_times", "resolve", "where"]

T = TypeVar("T")


class FromGroup(Struct, frozen=True):
    """The group's committed offsets; ``otherwise`` is for partitions without one, None makes them an error."""

    otherwise: Offset | None


class AtTime(Struct, frozen=True):
    """The first record at or after a time: one time for all, or one for each partition.

    ``otherwise`` is for partitions without such a record, None makes them an error.
    """

    option: str
    times: Moment | Mapping[Partition, Moment]
    otherwise: Offset | None


Where: TypeAlias = "Offset | Mapping[Partition, int] | FromGroup | AtTime"
"""One name for all partitions, an offset (or -1, -2) for each, or something to look up in the log."""

_NAMES = {"earliest": Offset.EARLIEST, "latest": Offset.LATEST}
_COMMITTED = "committed"


class Knows(Protocol):
    """The lookups in a log that positions need."""

    def at_times(self, times_ms: Mapping[Partition, int]) -> Mapping[Partition, int | None]: ...

    def committed(self, group: str, partitions: Collection[Partition]) -> Positions: ...

    def now_ms(self) -> int: ...


def where(option: str, text: str, *, allowed: Collection[Offset], committed: bool = False) -> Where:
    """Parse ``text``, given for ``option``; ``allowed`` are the names that make sense there, also as -1 and -2."""
    word, colon, fallback = text.strip().lower().partition(":")
    if committed and word == _COMMITTED and (not colon or fallback in _NAMES):
        return FromGroup(_NAMES.get(fallback))
    named = _NAMES.get(text.strip().lower())
    return _allowed(option, named, allowed) if named is not None else _offsets(option, text, allowed)


def parse_time(option: str, text: str, otherwise: Offset | None) -> AtTime:
    """Parse a time for all partitions."""
    return AtTime(option, moment(option, text), otherwise)


def parse_times(option: str, text: str, otherwise: Offset | None) -> AtTime:
    """Parse ``{"topic": {"0": time}}``; a time may be a number of ms or text."""
    found = _each(option, text, lambda _, value: moment(option, value))
    return AtTime(option, found, otherwise)


def resolve(
    option: str,
    wanted: Where,
    *,
    earliest: Positions,
    latest: Positions,
    log: Knows,
    group: str | None = None,
) -> dict[Partition, int]:
    """The offset at which each partition of ``earliest`` (and ``latest``) starts or ends.

    Raises ConfigError if an offset is missing, or is given for a partition that is not read: with such a typing mistake
    everything or nothing would silently be read. Raises UsageError if the log has no offset for it.
    """
    named = {Offset.EARLIEST: earliest, Offset.LATEST: latest}
    if isinstance(wanted, Offset):
        return dict(named[wanted])
    if isinstance(wanted, FromGroup):
        assert group is not None
        found = log.committed(group, earliest.keys())
        lacking = earliest.keys() - found.keys()
        if lacking and wanted.otherwise is None:
            raise UsageError(
                f"group {group} has committed no offset for {_listed(lacking)}",
                hint=f"Say where to start then: {option}=committed:earliest or committed:latest",
            )
        return {**found, **({p: named[wanted.otherwise][p] for p in lacking} if wanted.otherwise is not None else {})}
    if isinstance(wanted, AtTime):
        return _at_time(wanted, named, log)
    _check_names(option, wanted, earliest)
    return {
        partition: offset if offset >= 0 else named[Offset(offset)][partition] for partition, offset in wanted.items()
    }


def _at_time(wanted: AtTime, named: Mapping[Offset, Positions], log: Knows) -> dict[Partition, int]:
    now_ms, partitions = log.now_ms(), named[Offset.EARLIEST].keys()
    if isinstance(wanted.times, Moment):
        times_ms = dict.fromkeys(partitions, wanted.times.at(now_ms))
    else:
        _check_names(wanted.option, wanted.times, partitions)
        times_ms = {partition: each.at(now_ms) for partition, each in wanted.times.items()}
    answers = log.at_times(times_ms) if times_ms else {}
    found = {partition: offset for partition, offset in answers.items() if offset is not None}
    lacking = partitions - found.keys()
    if lacking and wanted.otherwise is None:
        raise UsageError(
            f"{wanted.option}: no record at or after that time in {_listed(lacking)}",
            hint="Set startingOffsetsByTimestampStrategy to latest to start such partitions at their end",
        )
    if wanted.otherwise is not None:
        found.update({partition: named[wanted.otherwise][partition] for partition in lacking})
    return found


def _check_names(option: str, given: Collection[Partition], read: Collection[Partition]) -> None:
    for word, odd in (("has nothing for", set(read) - set(given)), ("names what is not read:", set(given) - set(read))):
        if odd:
            raise ConfigError(f"{option} {word} {_listed(odd)}", hint="Name exactly the partitions that are read")


def _listed(partitions: Collection[Partition]) -> str:
    return ", ".join(map(str, sorted(partitions)[:5])) + (" …" if len(partitions) > 5 else "")


def _allowed(option: str, name: Offset, allowed: Collection[Offset]) -> Offset:
    if name not in allowed:
        words = " or ".join(word for word, each in _NAMES.items() if each in allowed)
        raise ConfigError(f"{option} cannot be {name.name.lower()} here", hint=f"Use {words}, or JSON with offsets")
    return name


def _offsets(option: str, text: str, allowed: Collection[Offset]) -> dict[Partition, int]:
    def offset_of(partition: Partition, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not Offset.EARLIEST <= value < 2**63:
            raise ValueError(f"{value!r} is not an offset of {partition}")
        if value < 0:
            _allowed(option, Offset(value), allowed)
        return value

    return _each(option, text, offset_of)


def _each(option: str, text: str, value_of: Callable[[Partition, object], T]) -> dict[Partition, T]:
    """Parse ``{"topic": {"0": value}}``."""
    found: dict[Partition, T] = {}
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_understood(option, text, f"neither a known word nor JSON ({error})") from None
    if not isinstance(tree, dict):
        raise _not_understood(option, text, "not an object of topics")
    for topic, partitions in tree.items():
        if not isinstance(partitions, dict):
            raise _not_understood(option, text, f"topic '{topic}' has no object of partitions")
        for key, value in partitions.items():
            try:
                partition = partition_of(topic, key)
                found[partition] = value_of(partition, value)
            except ConfigError:
                raise
            except ValueError as error:
                raise _not_understood(option, text, str(error)) from None
    return found


def _not_understood(option: str, text: str, reason: str) -> ConfigError:
    shown = text if len(text) <= 120 else f"{text[:117]}..."
    hint = None
    if option in {"startingOffsets", "endingOffsets"}:
        hint = f"A time is given by {option.removesuffix('Offsets')}Timestamp"
    return ConfigError(f"{option} = {shown} is not understood: {reason}", hint=hint)


# The end of a bounded stream.
#
# ``endingOffsets=latest`` and relative times refer to the start of the run. A time that the log has not reached yet is
# looked up again at each trigger: the stream continues until there is a record at or after it. A source cannot end a
# Spark query; with Trigger.AvailableNow it ends, otherwise it idles.
class Endings:
    """The ending offset of each partition, looked up as soon as it exists; for one run of one query."""

    def __init__(self, wanted: Where | None) -> None:
        self._wanted = wanted
        self._found: dict[Partition, int] | None = None
        self._times_ms: dict[Partition, int] = {}
        self._time_ms: int | None = None

    def check(self, earliest: Positions, latest: Positions, log: Knows) -> None:
        """Raise ConfigError unless the ending names exactly the partitions that a new query reads."""
        if self._wanted is not None:
            resolve("endingOffsets", self._wanted, earliest=earliest, latest=latest, log=log)

    def apply(self, begin: Positions, latest: Positions, log: Knows) -> Positions:
        """How far reading may go: to ``latest`` or, before that, to the stream's end; never below ``begin``.

        Partitions that the ending does not name, or that were added after it, end where they begin.
        """
        if self._wanted is None:
            return latest
        if self._found is None:
            self._begin(latest, log)
        assert self._found is not None
        if isinstance(self._wanted, AtTime):
            self._look(begin, log)
            stops = {
                partition: self._found.get(partition, latest[partition])
                for partition in begin
                if self._timed(partition)
            }
        else:
            stops = self._found
        return {
            partition: max(offset, min(stops.get(partition, offset), latest[partition]))
            for partition, offset in begin.items()
        }

    def _begin(self, latest: Positions, log: Knows) -> None:
        self._found = {}
        if isinstance(self._wanted, AtTime):
            now_ms = log.now_ms()
            if isinstance(self._wanted.times, Moment):
                self._time_ms = self._wanted.times.at(now_ms)
            else:
                self._times_ms = {partition: each.at(now_ms) for partition, each in self._wanted.times.items()}
        elif isinstance(self._wanted, Offset):
            self._found = dict(latest)
        elif isinstance(self._wanted, dict):
            self._found = {p: latest.get(p, 0) if offset < 0 else offset for p, offset in self._wanted.items()}

    def _timed(self, partition: Partition) -> bool:
        return self._time_ms is not None or partition in self._times_ms

    def _look(self, begin: Positions, log: Knows) -> None:
        """Look up the ending records of partitions that had none yet."""
        assert self._found is not None
        open_ones = {
            partition: self._times_ms.get(partition, self._time_ms or 0)
            for partition in begin
            if partition not in self._found and self._timed(partition)
        }
        if open_ones:
            answers = log.at_times(open_ones)
            self._found.update({partition: offset for partition, offset in answers.items() if offset is not None})
