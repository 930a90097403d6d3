"""Runs the cases of a Spark session, and prints their figures or errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.rounds import rounds
from bench.spark_jvm import say

__all__ = ["told_cases", "told_rounds"]

Measure = Callable[[str], Mapping[str, object]]


def told_cases(job: Mapping[str, Any], sums: Measure, figures: Measure) -> None:
    """Run the job's cases: checksums of each first, then the timed rounds of those without errors."""
    sound = [case for case in job["cases"] if _told(case, sums)]
    told_rounds(sound, figures, warm=job["warm"], runs=job["runs"])


def _told(case: str, measure: Measure) -> bool:
    """Measure and print; False if it failed. The error is printed, too, and the other cases can still be measured."""
    try:
        say({"case": case, **measure(case), "load": os.getloadavg()[0]})
    except Exception as error:  # py4j's, Spark's, ours
        say({"case": case, "error": f"{type(error).__name__}: {error}"[:3000]})
        return False
    return True


def told_rounds(cases: Sequence[str], measure: Measure, *, warm: int, runs: int) -> None:
    """Run each case in each round; a case that fails is left out of later rounds."""
    sound = set(cases)
    for number, case in rounds(cases, warm=warm, runs=runs):
        if case in sound and not _told(case, _numbered(number, measure)):
            sound.remove(case)


def _numbered(number: int, measure: Measure) -> Measure:
    return lambda case: {"round": number, **measure(case)}
