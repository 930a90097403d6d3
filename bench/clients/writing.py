"""What a producer case is given, and the settings that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["BATCH_BYTES", "LINGER_MS", "ProduceJob", "ProducerCase"]

BATCH_BYTES = 256 * 1024
LINGER_MS = 5
IN_FLIGHT = 5
BUFFER_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ProduceJob:
    """Send ``count`` records, the pairs of key and value again and again, partitions by the key's hash."""

    bootstrap: str
    topic: str
    pairs: Sequence[tuple[bytes, bytes]]
    count: int


ProducerCase: TypeAlias = Callable[[ProduceJob], float]
"""Sends everything, waits for every acknowledgement, and returns the seconds from the first send to the last answer."""
