"""A topic of a real Kafka broker into Spark: format("penstock") against Spark's own Kafka connector.

Two scenarios: ``spark`` reads into the noop sink, in batches and in streams; ``spark-jobs`` does with the rows what
users do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench import machine
from bench.children import CaseFailed, lines
from bench.goals import CPU, RATE
from bench.session import Session
from bench.topics import Topic, topic

__all__ = ["JOBS_RIVALS", "RIVALS", "run", "run_jobs"]

READERS = ("connector", "connector tuned", "penstock")


def _cases(*actions: str) -> Sequence[str]:
    """Each action by each reader."""
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
# The first query of a session takes seconds longer; the one that makes the checksums, before all rounds, is that one.
WARM = 1


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
    job = {"bootstrap": bootstrap, "topic": wanted.name, "count": wanted.count, "cases": cases}
    sums: dict[str, dict[str, str]] = {}
    try:
        for line in lines("bench.spark_case", {**job, "warm": WARM, "runs": session.runs}):
            case = line.get("case", "")
            if "error" in line:
                session.failed(scenario, variant, case, CaseFailed(line["error"]))
            elif "sums" in line:
                sums.setdefault(line["evidence"], {})[case] = line["sums"]
            elif "round" in line:
                rate = wanted.count / line["seconds"] / 1e6
                session.add(scenario, variant, RATE, case, line["round"], rate, seconds=line["seconds"])
                session.add(scenario, variant, CPU, case, line["round"], line["cpu_s"] / wanted.count * 1e6)
            else:
                session.say(f"{scenario}, {variant}: {line}, load {machine.load()}")
    except CaseFailed as error:
        session.failed(scenario, variant, "session", error)
    for found in sums.values():
        if len(set(found.values())) > 1:
            session.failed(scenario, variant, "checksums", CaseFailed(f"they differ: {found}"))
