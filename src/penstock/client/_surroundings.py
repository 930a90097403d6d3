"""Time and dice of the engine, so that a simulation can replace them. Monotonic time is the event loop's."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import field

from penstock._dataclasses import dataclass

__all__ = ["Backoff", "Surroundings", "wall_clock_ms"]

_JITTER = 0.2


def wall_clock_ms() -> int:
    """Milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Surroundings:
    """``dice`` is uniform in [0, 1); ``now_ns`` the wall clock, in what Python has a function for."""

    dice: Callable[[], float] = random.random
    now_ns: Callable[[], int] = field(default_factory=lambda: time.time_ns)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential with jitter (20 %), as Kafka's clients do it (KIP-580)."""

    first_ms: int
    max_ms: int
    dice: Callable[[], float]

    def seconds(self, failures: int) -> float:
        """How long to wait after so many failures in a row (1 or more)."""
        delay_ms: int = min(self.max_ms, self.first_ms << min(failures - 1, 20))
        return delay_ms * (1 - _JITTER + 2 * _JITTER * self.dice()) / 1_000
