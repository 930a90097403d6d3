"""How cases of a Spark session are told, whatever they measure: their figures, or that they failed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from bench.rounds import rounds
from bench.spark_jvm import say

__all__ = ["told", "told_rounds"]

Measure = Callable[[str], Mapping[str, object]]


def told(case: str, measure: Measure) -> bool:
    """Measure and tell; False if it failed, which is told too: the other cases can still be measured."""
    try:
        say({"case": case, **measure(case), "load": os.getloadavg()[0]})
    except Exception as error:  # py4j's, Spark's, ours
        say({"case": case, "error": f"{type(error).__name__}: {error}"[:3000]})
        return False
    return True


def told_rounds(cases: Sequence[str], measure: Measure, *, warm: int, runs: int) -> None:
    """Each case in each round; one that fails is left out of what follows."""
    sound = set(cases)
    for number, case in rounds(cases, warm=warm, runs=runs):
        if case in sound and not told(case, _numbered(number, measure)):
            sound.remove(case)


def _numbered(number: int, measure: Measure) -> Measure:
    return lambda case: {"round": number, **measure(case)}
