"""Pace: how long one partition rests after each poll. The client's side of flow control.

Bytes are counted in minutes and in slices of five seconds; a slice may have a twelfth of the minute's limit. Both begin
with a poll, not with the clock, and the limit is looked up once a minute. Minutes are counted by a clock that never
goes back; the time of day, by which rules apply, is the wall clock's. Source: ``FlowCtrlRuleHandler`` and
``PartitionExt`` of TubeMQ's Java client, whose first poll of a minute is not counted either.
"""

from __future__ import annotations

from typing import Final

from penstock._dataclasses import dataclass
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.flow_control.control import FlowControl
from penstock.protocols.tubemq.flow_control.rules import DataLimit, Intervals

__all__ = ["MINUTE_MS", "SLICES", "SLICE_MS", "Pace", "Polled", "timer_of"]

MINUTE_MS: Final = 60_000
SLICE_MS: Final = 5_000
SLICES: Final = 12

_LAG_UNKNOWN: Final = DataLimit((1 << 31) - 1, 20)
_LEAST_TIMER_MS: Final = 10
_ANSWERED: Final = frozenset((Code.SUCCESS, Code.NOT_FOUND))


@dataclass(frozen=True, slots=True)
class Polled:
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
