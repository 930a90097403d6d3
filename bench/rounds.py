"""The order of measurements: cases in turn, every other round backwards, the first rounds for warming up only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["rounds"]


def rounds(cases: Sequence[str], *, warm: int, runs: int) -> Iterator[tuple[int, str]]:
    """(round, case); rounds below 0 are to be thrown away.

    Neighbours see the same noise, and no case always runs after the same one.
    """
    for number in range(-warm, runs):
        for case in cases if number % 2 == 0 else reversed(cases):
            yield number, case
