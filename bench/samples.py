"""Samples (one per case and round) and their statistics: spreads and paired ratios."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Ratio", "Sample", "Spread", "ratio", "select", "spread"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure: ``value`` of ``metric`` (with its unit, like "M records/s") of one case in one round.

    ``variant`` is the topic or server; only samples of the same scenario, variant and metric can be compared.
    ``detail`` is kept in the results file and not shown.
    """

    scenario: str
    variant: str
    metric: str
    case: str
    round: int
    value: float
    load: float
    detail: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spread:
    """Minimum, median and maximum of a case over its rounds."""

    least: float
    median: float
    most: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ours ÷ rival, computed round by round, so that common noise cancels."""

    least: float
    median: float
    most: float


def select(samples: Iterable[Sample], scenario: str, variant: str, metric: str) -> Sequence[Sample]:
    """The samples that can be compared with each other."""
    wanted = (scenario, variant, metric)
    return [sample for sample in samples if (sample.scenario, sample.variant, sample.metric) == wanted]


def spread(samples: Iterable[Sample], case: str) -> Spread | None:
    """Min, median and max of a case; None without samples."""
    values = [sample.value for sample in samples if sample.case == case]
    return Spread(min(values), statistics.median(values), max(values), len(values)) if values else None


def ratio(samples: Sequence[Sample], case: str, rival: str) -> Ratio | None:
    """``case`` ÷ ``rival`` over the rounds that have both; None without such a round."""
    ours = {sample.round: sample.value for sample in samples if sample.case == case}
    theirs = {sample.round: sample.value for sample in samples if sample.case == rival}
    ratios = [ours[number] / theirs[number] for number in ours.keys() & theirs.keys() if theirs[number]]
    return Ratio(min(ratios), statistics.median(ratios), max(ratios)) if ratios else None
