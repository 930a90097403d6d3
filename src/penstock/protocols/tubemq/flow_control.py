"""Flow control: how fast masters and operators let consumers read. Pure: the time comes in as milliseconds since 1970.

Source: Apache InLong TubeMQ 2.x, ``FlowCtrlRuleHandler`` and its users on both sides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from msgspec import Struct

from penstock.errors import ProtocolViolation
from penstock.protocols.tubemq.errors import Code

__all__ = [
    "FIRST_READ_BYTES",
    "MIB",
    "MINUTE_MS",
    "NOTHING",
    "SLICES",
    "SLICE_MS",
    "TRANSFER_BYTES",
    "UNDEFINED",
    "UNLIMITED",
    "DataLimit",
    "DataRule",
    "EmptyPolls",
    "FlowControl",
    "Grant",
    "Holder",
    "Intervals",
    "Pace",
    "Polled",
    "Quota",
    "Rules",
    "parse_rules",
    "time_of_day",
    "timer_of",
]

# Flow-control rules: what a master sends as JSON, checked, and what the rules say of a moment.
#
# The text is an array of ``{"type": t, "rule": […]}``; blank or empty means no rules, and the later of two entries of
# one type wins. Types: 0 limits data by lag and time of day, 1 spaces polls after empty ones, 2 is obsolete and
# ignored, 3 spaces requests. Whatever breaks a constraint makes the whole text unusable.
#
# Times of day are hour times 100 plus minute, in UTC+8, wherever servers and clients are.
T = TypeVar("T")


MIB: Final = 1 << 20

_MOST_CHARACTERS: Final = 1 << 20
_MOST_NUMBER: Final = (1 << 31) - 1
_MOST_INTERVAL_MS: Final = 300_000
_LEAST_LAG: Final = 21
_LEAST_DATA_INTERVAL_MS: Final = 200
_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{1,2})", re.ASCII)
_UTC_8_MINUTES: Final = 8 * 60


class DataLimit(Struct, frozen=True):
    """At most so many bytes a minute; where they are used up, wait so long between requests."""

    bytes_a_minute: int
    interval_ms: int


class DataRule(Struct, frozen=True):
    """Type 0: from ``start`` to ``end`` (both included), for who is more than ``lag`` units behind."""

    start: int
    end: int
    lag: int
    limit: DataLimit


class EmptyPolls(Struct, frozen=True):
    """Type 1: after this many polls in a row without data, wait so long before the next."""

    polls: int
    interval_ms: int


class Intervals(Struct, frozen=True):
    """Type 3: what lies between successful requests; -2 where no rule says so.

    ``normal_ms`` without filters; with them ``filtered_ms``, or ``near_end_ms`` where a broker says little is left.
    """

    normal_ms: int = -2
    filtered_ms: int = -2
    near_end_ms: int = -2


class Rules(Struct, frozen=True):
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


# Who holds rules: a client has its group's and the cluster's, and the group's come first.
UNDEFINED: Final = -2
"""Id of rules that were never sent, and priority of queries that was never set."""

UNLIMITED: Final = DataLimit((1 << 63) - 1, 0)

_ESCAPE_MS: Final = 10_000


class Holder(Struct):
    """Rules, and the id under which a master sent them."""

    flow_id: int = UNDEFINED
    rules: Rules = NOTHING

    def update(self, flow_id: int, text: str) -> bool:
        """Take what a master sent; True if it was new. Raises ProtocolViolation, and then keeps what it had."""
        if flow_id < 0 or flow_id == self.flow_id:
            return False
        self.rules = parse_rules(text)
        self.flow_id = flow_id
        return True


class FlowControl:
    """A client's rules. ``lag_unit`` is how many bytes a rule's unit of lag stands for, see `Rules.data_limit`;
    ``priority`` is the group's priority of queries, as the master said last."""

    __slots__ = ("_escapes", "_escapes_until", "_lag_unit", "group", "priority", "shared")

    def __init__(self, *, lag_unit: int = MIB) -> None:
        self.group = Holder()
        self.shared = Holder()
        self.priority = UNDEFINED
        self._lag_unit = lag_unit
        self._escapes = False
        self._escapes_until = 0

    def update_group(self, flow_id: int, text: str) -> bool:
        """Take the group's rules. Raises ProtocolViolation."""
        return self.group.update(flow_id, text)

    def update_shared(self, flow_id: int, text: str) -> bool:
        """Take the cluster's rules. Raises ProtocolViolation."""
        return self.shared.update(flow_id, text)

    def data_limit(self, lag: int, now_ms: int) -> DataLimit:
        """Return the limit for who is ``lag`` bytes behind: the group's, else the cluster's, else none."""
        for holder in (self.group, self.shared):
            limit = holder.rules.data_limit(lag, now_ms, lag_unit=self._lag_unit)
            if limit is not None:
                return limit
        return UNLIMITED

    def intervals(self) -> Intervals:
        """Return the spacing of requests: the group's where it has one."""
        own = self.group.rules.intervals
        return own if own.filtered_ms >= 0 else self.shared.rules.intervals

    def after_empty(self, polls: int, recommended_ms: int) -> int:
        """Return how long to wait after ``polls`` without data; rules of the group replace all of the cluster's."""
        holder = self.group if self.group.rules.empty else self.shared
        return holder.rules.after_empty(polls, recommended_ms)

    def escapes(self, now_ms: int, wall_ms: int) -> bool:
        """Whether requests ask the broker not to apply its own limit, because the group has one now.

        Looked up every ten seconds of ``now_ms``, a clock that never goes back. (``escFlowCtrl`` of GET_MESSAGE.)
        """
        if now_ms >= self._escapes_until:
            everything = UNLIMITED.bytes_a_minute
            found = self.group.rules.data_limit(everything, wall_ms, lag_unit=1)
            self._escapes = found is not None
            self._escapes_until = now_ms + _ESCAPE_MS
        return self._escapes


# Pace: how long one partition rests after each poll. The client's side of flow control.
#
# Bytes are counted in minutes and in slices of five seconds; a slice may have a twelfth of the minute's limit. Both
# begin with a poll, not with the clock, and the limit is looked up once a minute. Minutes are counted by a clock that
# never goes back; the time of day, by which rules apply, is the wall clock's. Source: ``FlowCtrlRuleHandler`` and
# ``PartitionExt`` of TubeMQ's Java client, whose first poll of a minute is not counted either.
MINUTE_MS: Final = 60_000
SLICE_MS: Final = 5_000
SLICES: Final = 12

_LAG_UNKNOWN: Final = DataLimit((1 << 31) - 1, 20)
_LEAST_TIMER_MS: Final = 10
_ANSWERED: Final = frozenset((Code.SUCCESS, Code.NOT_FOUND))


class Polled(Struct, frozen=True):
    """What one answer to GET_MESSAGE said. ``body_bytes`` are those of messages' bodies; ``data_lag`` -1: not said.

    ``recommended_ms`` is what the kind of error asks for, 0 after success.
    """

    code: int
    body_bytes: int = 0
    recommended_ms: int = 0
    data_lag: int = -1
    require_slow: bool = False
    esc_flow_ctrl: bool = False


class Pace:
    """One partition's counters."""

    __slots__ = (
        "_control", "_empty", "_filtered", "_intervals", "_lag", "_limit", "_minute_bytes", "_minute_until",
        "_slice_bytes", "_slice_until",
    )  # fmt: skip

    def __init__(self, control: FlowControl, *, filtered: bool) -> None:
        self._control = control
        self._filtered = filtered
        self._limit = _LAG_UNKNOWN
        self._intervals = Intervals()
        self._lag = -2
        self._empty = 0
        self._minute_bytes = self._slice_bytes = 0
        self._minute_until = self._slice_until = -1

    @property
    def empty_polls(self) -> int:
        """How many polls in a row brought nothing."""
        return self._empty

    def rest_ms(self, polled: Polled, now_ms: int, wall_ms: int) -> int:
        """Count one poll, and return how long to wait before the next one; called once for each.

        ``now_ms`` is of a clock that never goes back, ``wall_ms`` since 1970.
        """
        if polled.data_lag >= 0:
            self._lag = polled.data_lag
        self._minute_bytes += polled.body_bytes
        self._slice_bytes += polled.body_bytes
        self._turn(now_ms, wall_ms)
        if polled.code not in _ANSWERED:
            return polled.recommended_ms
        self._empty = self._empty + 1 if not polled.body_bytes and polled.code != Code.SUCCESS else 0
        if self._empty:
            return self._control.after_empty(self._empty, polled.recommended_ms)
        if polled.esc_flow_ctrl:
            return 0
        limit = self._limit
        if self._minute_bytes >= limit.bytes_a_minute or self._slice_bytes >= limit.bytes_a_minute // SLICES:
            return max(limit.interval_ms, polled.recommended_ms)
        spaced = self._spacing(polled) if polled.code == Code.SUCCESS else -1
        return spaced if spaced >= 0 else polled.recommended_ms

    def _turn(self, now_ms: int, wall_ms: int) -> None:
        """Begin a new minute, or a new slice, where the one before is over."""
        if now_ms > self._minute_until:
            self._minute_bytes = self._slice_bytes = 0
            self._limit = _LAG_UNKNOWN if self._lag < 0 else self._control.data_limit(self._lag, wall_ms)
            self._intervals = self._control.intervals()
            self._minute_until, self._slice_until = now_ms + MINUTE_MS, now_ms + SLICE_MS
        elif now_ms > self._slice_until:
            self._slice_bytes = 0
            self._slice_until = now_ms + SLICE_MS

    def _spacing(self, polled: Polled) -> int:
        intervals = self._intervals
        if not self._filtered:
            return intervals.normal_ms
        if intervals.filtered_ms < 0:
            return -1
        return intervals.near_end_ms if polled.require_slow else intervals.filtered_ms


def timer_of(rest_ms: int, since_answer_ms: int) -> int:
    """Return what is left of a rest once an answer was confirmed; up to ten milliseconds are not worth a timer."""
    left = rest_ms - max(since_answer_ms, 0)
    return left if left > _LEAST_TIMER_MS else 0


# Quota: how much a broker gives to one registration. The server's side of flow control.
#
# Source: ``ConsumerNodeInfo`` of TubeMQ's broker. A registration's first read is free; from then on the limit is looked
# up once a minute in the cluster's rules, by how far the reader was behind at its last read.
FIRST_READ_BYTES: Final = 327_680
TRANSFER_BYTES: Final = 512 * 1024
"""The most one answer holds."""


class Grant(Struct, frozen=True):
    """How many bytes the next answer may hold; 0: refused (code 452), come again in ``wait_ms``."""

    max_bytes: int
    wait_ms: int = 0


class Quota:
    """One registration's counters."""

    __slots__ = ("_lag_unit", "_limit", "_minute_bytes", "_minute_until", "_read", "_slice_bytes", "_slice_until")

    def __init__(self, *, lag_unit: int = 1) -> None:
        """``lag_unit`` as in `Rules.data_limit`; brokers take a rule's number for bytes."""
        self._lag_unit = lag_unit
        self._limit = UNLIMITED
        self._read = False
        self._minute_bytes = self._slice_bytes = 0
        self._minute_until = self._slice_until = -1

    def grant(self, rules: Rules, lag: int, now_ms: int, wall_ms: int, *, escapes: bool = False) -> Grant:
        """Return how much to give now to a reader that is ``lag`` bytes behind; ``escapes`` as its request says.

        ``now_ms`` is of a clock that never goes back, ``wall_ms`` since 1970.
        """
        if not self._read:
            return Grant(FIRST_READ_BYTES)
        self._turn(rules, lag, now_ms, wall_ms)
        limit = self._limit
        share = limit.bytes_a_minute // SLICES
        unit = min(share, TRANSFER_BYTES)
        if escapes:
            return Grant(unit)
        if share > self._slice_bytes and limit.bytes_a_minute > self._minute_bytes:
            return Grant(unit)
        return Grant(0, limit.interval_ms)

    def sent(self, size: int) -> None:
        """Count an answer of ``size`` bytes that was not refused."""
        self._read = True
        self._minute_bytes += size
        self._slice_bytes += size

    def _turn(self, rules: Rules, lag: int, now_ms: int, wall_ms: int) -> None:
        if now_ms > self._minute_until:
            self._minute_bytes = self._slice_bytes = 0
            self._limit = rules.data_limit(lag, wall_ms, lag_unit=self._lag_unit) or UNLIMITED
            self._minute_until, self._slice_until = now_ms + MINUTE_MS, now_ms + SLICE_MS
        elif now_ms > self._slice_until:
            self._slice_bytes = 0
            self._slice_until = now_ms + SLICE_MS
