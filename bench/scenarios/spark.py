"""A topic of a real Kafka broker into Spark: format("penstock") against Spark's own Kafka connector.

Two scenarios: ``spark`` reads into the noop sink, in batches and in streams; ``spark-jobs`` processes the rows as
users do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.session import Session
from bench.spark_run import keep_rates
from bench.topics import Topic, topic

__all__ = ["JOBS_RIVALS", "RIVALS", "run", "run_jobs"]

READERS = ("connector", "connector tuned", "penstock")


def _cases(*actions: str) -> Sequence[str]:
    """Each action with each reader."""
    return tuple(f"{reader} {action}".strip() for action in actions for reader in READERS)


def _rivals(*actions: str) -> Mapping[str, Sequence[str]]:
    return {f"penstock {action}".strip(): _cases(action)[:-1] for action in actions}


NOOP = ("", "value", "stream", "stream limited")
JOBS = ("count", "window", "parquet")
CASES: Mapping[str, Sequence[str]] = {
    "100 B": _cases(*NOOP),
    "100 B lz4": _cases(""),
    "1 KB": _cases(""),
    "1 KB lz4": _cases(""),
}
JOBS_CASES: Mapping[str, Sequence[str]] = {"100 B": _cases(*JOBS)}
RIVALS = _rivals(*NOOP)
JOBS_RIVALS = _rivals(*JOBS)


def run(session: Session) -> None:
    """One session of Spark a variant."""
    for variant in session.chosen(tuple(CASES)):
        _measure(session, "spark", variant, topic(variant, quick=session.quick), CASES[variant])


def run_jobs(session: Session) -> None:
    """One session of Spark a variant."""
    for variant in session.chosen(tuple(JOBS_CASES)):
        if variant in JOBS_CASES:
            _measure(session, "spark-jobs", variant, topic(variant, quick=session.quick), JOBS_CASES[variant])


def _measure(session: Session, scenario: str, variant: str, wanted: Topic, cases: Sequence[str]) -> None:
    bootstrap = session.kafka(wanted).bootstrap
    job = {"bootstrap": bootstrap, "topic": wanted.name, "count": wanted.count}
    keep_rates(session, scenario, variant, "bench.spark_case", job, cases)
