"""Shapes: how large a world is and how its clocks go. A seed says which; most are small.

Bugs of groups need two or three members, a partition or two, and some faults that meet. For its CPU a small world
finds planted ones about as soon as a large one, with a trace that can be read; what it cannot have (four members, two
topics, long lives) large ones do. Worlds of fewer faults find them later: most of what a world costs is that it is
there. What must not live here: what happens in them (`schedule`).
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

__all__ = ["LARGE", "SMALL", "Shape", "shape_of"]


@dataclass(frozen=True, slots=True)
class Shape:
    """For ``chaos_s`` things go wrong; members that are there at the end must then settle. Numbers are the most.

    A member is out without ``session_ms`` of heartbeats, or of polls for ``longest_poll_ms``; a request is waited for
    ``request_ms``, one for records is held for ``wait_ms``. A node is away for ``away_s``; ``pause_s`` lies between two
    rounds of writing, on average, each of one of ``writes`` records.
    """

    name: str
    chaos_s: float
    members: int
    topics: int
    partitions: int
    steps: tuple[int, int]
    session_ms: int
    heartbeat_ms: int
    longest_poll_ms: int
    rebalance_ms: int
    request_ms: int
    wait_ms: int
    away_s: float
    pause_s: float
    writes: tuple[int, ...]


LARGE = Shape(
    "large",
    chaos_s=25.0,
    members=4,
    topics=2,
    partitions=3,
    steps=(6, 16),
    session_ms=6_000,
    heartbeat_ms=2_000,
    longest_poll_ms=14_000,
    rebalance_ms=8_000,
    request_ms=4_000,
    wait_ms=2_000,
    away_s=4.0,
    pause_s=1.0,
    writes=(1, 1, 3),
)
SMALL = Shape(
    "small",
    chaos_s=7.0,
    members=3,
    topics=1,
    partitions=3,
    steps=(4, 9),
    session_ms=4_000,
    heartbeat_ms=1_500,
    longest_poll_ms=6_000,
    rebalance_ms=4_000,
    request_ms=2_000,
    wait_ms=1_500,
    away_s=2.0,
    pause_s=1.2,
    writes=(1, 1, 2),
)
_LARGE_ONE_IN = 10


def shape_of(seed: int) -> Shape:
    """The seed's."""
    return LARGE if Random(f"shape {seed}").randrange(_LARGE_ONE_IN) == 0 else SMALL
