"""The order of measurements: cases in turn, every other round in reverse, the first rounds only to warm up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["rounds"]


def rounds(cases: Sequence[str], *, warm: int, runs: int) -> Iterator[tuple[int, str]]:
    """(round, case); the caller throws rounds below 0 away.

    Cases of one round have the same noise, and no case always runs after the same other one.
    """
    for number in range(-warm, runs):
        for case in cases if number % 2 == 0 else reversed(cases):
            yield number, case
