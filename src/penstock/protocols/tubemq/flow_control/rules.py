"""Flow-control rules: what a master sends as JSON, checked, and what the rules say of a moment.

The text is an array of ``{"type": t, "rule": […]}``; blank or empty means no rules, and the later of two entries of one
type wins. Types: 0 limits data by lag and time of day, 1 spaces polls after empty ones, 2 is obsolete and ignored, 3
spaces requests. Whatever breaks a constraint makes the whole text unusable.

Times of day are hour times 100 plus minute, in UTC+8, wherever servers and clients are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from penstock._dataclasses import dataclass
from penstock.errors import ProtocolViolation

T = TypeVar("T")

__all__ = ["MIB", "NOTHING", "DataLimit", "DataRule", "EmptyPolls", "Intervals", "Rules", "parse_rules", "time_of_day"]

MIB: Final = 1 << 20

_MOST_CHARACTERS: Final = 1 << 20
_MOST_NUMBER: Final = (1 << 31) - 1
_MOST_INTERVAL_MS: Final = 300_000
_LEAST_LAG: Final = 21
_LEAST_DATA_INTERVAL_MS: Final = 200
_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{1,2})", re.ASCII)
_UTC_8_MINUTES: Final = 8 * 60


@dataclass(frozen=True, slots=True)
class DataLimit:
    """At most so many bytes a minute; where they are used up, wait so long between requests."""

    bytes_a_minute: int
    interval_ms: int


@dataclass(frozen=True, slots=True)
class DataRule:
    """Type 0: from ``start`` to ``end`` (both included), for who is more than ``lag`` units behind."""

    start: int
    end: int
    lag: int
    limit: DataLimit


@dataclass(frozen=True, slots=True)
class EmptyPolls:
    """Type 1: after this many polls in a row without data, wait so long before the next."""

    polls: int
    interval_ms: int


@dataclass(frozen=True, slots=True)
class Intervals:
    """Type 3: what lies between successful requests; -2 where no rule says so.

    ``normal_ms`` without filters; with them ``filtered_ms``, or ``near_end_ms`` where a broker says little is left.
    """

    normal_ms: int = -2
    filtered_ms: int = -2
    near_end_ms: int = -2


@dataclass(frozen=True, slots=True)
class Rules:
    """One checked set of rules; ``data`` by ascending start, ``empty`` by descending number of polls."""

    data: tuple[DataRule, ...] = ()
    empty: tuple[EmptyPolls, ...] = ()
    intervals: Intervals = Intervals()

    def data_limit(self, lag: int, now_ms: int, *, lag_unit: int = MIB) -> DataLimit | None:
        """Return the limit for who is ``lag`` bytes behind; None without one.

        Rules count lag in ``lag_unit`` bytes. Their key, dltInM, says MiB, and C++'s client reads it so; Java compares
        it with bytes, as if it were 1.
        """
        now = time_of_day(now_ms)
        for rule in self.data:
            if lag > rule.lag * lag_unit and rule.start <= now <= rule.end:
                return rule.limit
        return None

    def after_empty(self, polls: int, recommended_ms: int) -> int:
        """Return how long to wait after ``polls`` in a row without data."""
        for rule in self.empty:
            if polls >= rule.polls:
                return rule.interval_ms
        return recommended_ms


NOTHING: Final = Rules()


def time_of_day(now_ms: int) -> int:
    """Return hour times 100 plus minute in UTC+8."""
    minutes = (now_ms // 60_000 + _UTC_8_MINUTES) % 1440
    return minutes // 60 * 100 + minutes % 60


def parse_rules(text: str) -> Rules:
    """Read rules. Raises ProtocolViolation that says which constraint was broken."""
    if not text.strip():
        return NOTHING
    data: tuple[DataRule, ...] = ()
    empty: tuple[EmptyPolls, ...] = ()
    intervals = Intervals()
    for number, entry in enumerate(_array(_json(text), "flow control")):
        where = f"rules entry {number}"
        kind = _number(entry, "type", where, 0, 3)
        items = _array(_object(entry, where).get("rule"), f"{where}, rule")
        if kind == 0:
            data = tuple(sorted(_each(items, where, _data_rule), key=lambda rule: rule.start))
        elif kind == 1:
            empty = tuple(sorted(_each(items, where, _empty_polls), key=lambda rule: -rule.polls))
        elif kind == 3:
            intervals = _intervals(items, where)
    return Rules(data, empty, intervals)


def _data_rule(item: Any, where: str) -> DataRule:
    start, end = _clock(item, "start", where), _clock(item, "end", where)
    if start >= end:
        raise _broken(f"{where}: it ends at {end}, not after {start} where it starts")
    lag = _number(item, "dltInM", where, _LEAST_LAG)
    limit = _number(item, "limitInM", where)
    return DataRule(start, end, lag, DataLimit(limit * MIB, _number(item, "freqInMs", where, _LEAST_DATA_INTERVAL_MS)))


def _empty_polls(item: Any, where: str) -> EmptyPolls:
    return EmptyPolls(_number(item, "zeroCnt", where, 1), _number(item, "freqInMs", where))


def _intervals(items: list[Any], where: str) -> Intervals:
    if not items:
        return Intervals()
    if len(items) > 1:
        raise _broken(f"{where}: {len(items)} rules; there may be one")
    item = _object(items[0], where)
    filtered, near_end = "filterFreqInMs" in item, "minDataFilterFreqInMs" in item
    if filtered != near_end:
        raise _broken(f"{where}: filterFreqInMs and minDataFilterFreqInMs come together")
    normal_ms = _number(item, "normFreqInMs", where, 0, _MOST_INTERVAL_MS) if "normFreqInMs" in item else 0
    if not filtered:
        return Intervals(normal_ms, 0, 0)
    filtered_ms = _number(item, "filterFreqInMs", where, 0, _MOST_INTERVAL_MS)
    near_end_ms = _number(item, "minDataFilterFreqInMs", where, filtered_ms, _MOST_INTERVAL_MS)
    return Intervals(normal_ms, filtered_ms, near_end_ms)


# ---- JSON, strictly


def _broken(what: str) -> ProtocolViolation:
    return ProtocolViolation(f"flow-control rules cannot be used: {what[:300]}", hint="The rules before stay in force")


def _json(text: str) -> Any:
    if len(text) > _MOST_CHARACTERS:
        raise _broken(f"{len(text)} characters; {_MOST_CHARACTERS} are allowed")
    try:
        return json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:  # of digits beyond measure, and of brackets
        raise _broken(f"{type(error).__name__}: {error}") from None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _broken("a key comes twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise _broken(f"{name} is no JSON")


def _array(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _broken(f"{where} is not an array")
    return value


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _broken(f"{where} is not an object")
    return value


def _each(items: list[Any], where: str, read: Callable[[Any, str], T]) -> list[T]:
    return [read(item, f"{where}, rule {number}") for number, item in enumerate(items)]


def _number(item: Any, key: str, where: str, least: int = 0, most: int = _MOST_NUMBER) -> int:
    value = _object(item, where).get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _broken(f"{where}: {key} is {value!r}; a number from {least} to {most} is wanted")
    return value


def _clock(item: Any, key: str, where: str) -> int:
    value = _object(item, where).get(key)
    found = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[1]) > 24 or int(found[2]) > 59:
        raise _broken(f"{where}: {key} is {value!r}; a time from 00:00 to 24:59 is wanted")
    return int(found[1]) * 100 + int(found[2])
