"""Compares measured values with the goals (`bench.goals`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.goals import GOALS, Goal
from bench.samples import Sample, ratio, select, spread

__all__ = ["Verdict", "judge"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal and its measured value, None if nothing was measured."""

    goal: Goal
    value: float | None

    @property
    def word(self) -> str:
        """The verdict in one word."""
        if self.value is None:
            return "not measured"
        sign = -1 if self.goal.smaller_is_better else 1
        if sign * self.value >= sign * self.goal.goal:
            return "goal met"
        if self.goal.must is None:
            return "below goal"
        return "must met" if sign * self.value >= sign * self.goal.must else "BELOW MUST"


def judge(samples: Sequence[Sample]) -> Sequence[Verdict]:
    """One verdict per goal, in the order of the table."""
    return [Verdict(goal, _value(goal, samples)) for goal in GOALS]


def _value(goal: Goal, samples: Sequence[Sample]) -> float | None:
    comparable = select(samples, goal.scenario, goal.variant, goal.metric)
    if goal.rival:
        found = ratio(comparable, goal.case, goal.rival)
        return found.median if found else None
    alone = spread(comparable, goal.case)
    return alone.median if alone else None
