"""Prometheus' text format: samples as lines. Written by hand, so that every installation has a node's metrics.

The library ``prometheus_client`` would keep the counters behind locks and threads' values, at several times the cost of
an addition, and would be one more package in the smallest image; its parser reads what is written here in tests.
Source: Prometheus documentation, "Exposition formats", text format 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from penstock._dataclasses import dataclass
from penstock.seams.meters import BOUNDS_S
from penstock.snode.ops.families import Family

__all__ = ["CONTENT_TYPE", "Histogram", "Sample", "text"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_BOUNDS: Final = (*(f"{bound:g}" for bound in BOUNDS_S), "+Inf")


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts by `BOUNDS_S`, each once, and the sum of what was measured."""

    buckets: Sequence[int]
    total: float


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of a family; ``labels`` in the family's order."""

    family: Family
    value: float | Histogram
    labels: tuple[str, ...] = ()


def text(samples: Iterable[Sample]) -> str:
    """The whole page; samples of a family have to follow each other."""
    return "".join(f"{line}\n" for line in _lines(samples))


def _lines(samples: Iterable[Sample]) -> Iterator[str]:
    last: Family | None = None
    for sample in samples:
        family = sample.family
        if family is not last:
            last = family
            yield f"# HELP {family.name} {family.says}"
            yield f"# TYPE {family.name} {family.kind.value}"
        if isinstance(sample.value, Histogram):
            yield from _histogram(family, sample.labels, sample.value)
        else:
            yield f"{family.name}{_labels(family.labels, sample.labels)} {_number(sample.value)}"


def _histogram(family: Family, labels: tuple[str, ...], found: Histogram) -> Iterator[str]:
    names = (*family.labels, "le")
    counts = list(accumulate(found.buckets))
    for bound, count in zip(_BOUNDS, counts, strict=True):
        yield f"{family.name}_bucket{_labels(names, (*labels, bound))} {count}"
    written = _labels(family.labels, labels)
    yield f"{family.name}_sum{written} {_number(found.total)}"
    yield f"{family.name}_count{written} {counts[-1]}"


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    said = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True))
    return f"{{{said}}}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
