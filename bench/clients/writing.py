"""The job of a producer case, and the settings that all producers share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

__all__ = ["BATCH_BYTES", "BUFFER_BYTES", "IN_FLIGHT", "LINGER_MS", "Instant", "ProduceJob", "ProducerCase", "Spent"]

BATCH_BYTES = 256 * 1024
LINGER_MS = 5
IN_FLIGHT = 5
BUFFER_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ProduceJob:
    """Send ``count`` records: the pairs of key and value repeatedly, with partitions by the key's hash."""

    bootstrap: str
    topic: str
    pairs: Sequence[tuple[bytes, bytes]]
    count: int


@dataclass(frozen=True, slots=True)
class Spent:
    """Wall-clock seconds, and CPU seconds of this process."""

    seconds: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Instant:
    """A point in time, by the wall clock and by the CPU time of this process."""

    clock: float
    cpu: float

    @classmethod
    def now(cls) -> Self:
        """The current point."""
        return cls(time.perf_counter(), time.process_time())

    def passed(self) -> Spent:
        """The time since then."""
        return Spent(time.perf_counter() - self.clock, time.process_time() - self.cpu)


ProducerCase: TypeAlias = Callable[[ProduceJob], Spent]
"""Sends everything, and returns the time from the first send to the last acknowledgement."""
