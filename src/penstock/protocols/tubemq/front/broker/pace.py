"""How fast one reader may be served: the broker's own limit, counted in minutes and slices of five seconds. Pure.

Each minute the rules say how many bytes a lag of this size may bring; a slice gets a twelfth of them. A reader that has
a rule of its own group says so and is let through, unless nothing at all is allowed. Nothing is limited before the
first read. Source: TubeMQ broker, flow control; code 452.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["Grant", "Pace", "Rule"]

_MINUTE_S: Final = 60.0
_SLICE_S: Final = 5.0
_SLICES: Final = 12


class Rule(NamedTuple):
    """At most ``limit_bytes`` a minute; a reader that is refused is told to come back after ``wait_ms``."""

    limit_bytes: int
    wait_ms: int


class Grant(NamedTuple):
    """How many bytes may be read now; where that is 0, ``wait_ms`` to stay away."""

    size: int
    wait_ms: int


@dataclass(slots=True)
class Pace:
    """One reader's counters; ``lag`` in bytes as of its last read, -1 before."""

    lag: int = -1
    rule: Rule | None = None
    minute_ends: float = 0.0
    slice_ends: float = 0.0
    in_minute: int = 0
    in_slice: int = 0

    def ask(self, now: float, most: int, exempt: bool, rule_for: Callable[[int], Rule | None]) -> Grant:
        """What may be read now; ``rule_for`` says which rule a lag falls under."""
        if self.lag < 0:
            return Grant(most, 0)
        if now >= self.minute_ends:
            self.rule = rule_for(self.lag)
            self.in_minute = self.in_slice = 0
            self.minute_ends, self.slice_ends = now + _MINUTE_S, now + _SLICE_S
        elif now >= self.slice_ends:
            self.in_slice = 0
            self.slice_ends = now + _SLICE_S
        if self.rule is None:
            return Grant(most, 0)
        unit = min(self.rule.limit_bytes // _SLICES, most)
        allowed = exempt or (
            self.rule.limit_bytes // _SLICES > self.in_slice and self.rule.limit_bytes > self.in_minute
        )
        return Grant(unit, 0) if allowed and unit else Grant(0, 0 if exempt else self.rule.wait_ms)

    def served(self, size: int, lag: int) -> None:
        """So much was read, and so much is left."""
        self.in_minute += size
        self.in_slice += size
        self.lag = lag
