"""Quota: how much a broker gives to one registration. The server's side of flow control.

Source: ``ConsumerNodeInfo`` of TubeMQ's broker. A registration's first read is free; from then on the limit is
looked up once a minute in the cluster's rules, by how far the reader was behind at its last read.
"""

from __future__ import annotations

from typing import Final

from penstock._dataclasses import dataclass
from penstock.protocols.tubemq.flow_control.control import UNLIMITED
from penstock.protocols.tubemq.flow_control.pace import MINUTE_MS, SLICE_MS, SLICES
from penstock.protocols.tubemq.flow_control.rules import Rules

__all__ = ["FIRST_READ_BYTES", "TRANSFER_BYTES", "Grant", "Quota"]

FIRST_READ_BYTES: Final = 327_680
TRANSFER_BYTES: Final = 512 * 1024
"""The most one answer holds."""


@dataclass(frozen=True, slots=True)
class Grant:
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
