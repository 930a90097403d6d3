"""The fixed cost of a micro-batch, with 1 and 16 partitions, for our source and Spark's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.children import CaseFailed, lines
from bench.goals import BATCH_MS, START_S
from bench.loading import create, delete, ends, fill
from bench.session import Session
from bench.spark_run import WARM, tell

__all__ = ["RIVALS", "run"]

READERS = ("rate", "connector", "connector tuned", "penstock")
SHAPES = {1: "1 partition", 16: "16 partitions"}
CASES = tuple(f"{reader}, {shape}" for shape in SHAPES.values() for reader in READERS)
RIVALS: Mapping[str, Sequence[str]] = {
    "penstock, 1 partition": tuple(f"{reader}, 1 partition" for reader in READERS[:-1]),
    "penstock, 16 partitions": (*(f"{reader}, 16 partitions" for reader in READERS[:-1]), "penstock, 1 partition"),
    "connector, 16 partitions": ("connector, 1 partition",),
}
VARIANT = "160 records a batch"
RECORDS = 160
"""Records in a batch: ten in each of sixteen partitions."""
BATCHES = 25
LEFT_OVER = 15
"""Further batches that are not measured, so that no stream reaches the end of its topic."""
QUICK_BATCHES = 5


def run(session: Session) -> None:
    """One session of Spark."""
    bootstrap = session.kafka().bootstrap
    batches = QUICK_BATCHES if session.quick else BATCHES
    topics = {partitions: f"bench-batches-{partitions}" for partitions in SHAPES}
    for partitions, name in topics.items():
        if ends(bootstrap, name):  # left by an earlier run that was killed
            delete(bootstrap, name)
        create(bootstrap, name, partitions)
        fill(bootstrap, name, partitions, RECORDS * (BATCHES + LEFT_OVER))
    job = {"bootstrap": bootstrap, "topics": topics, "records": RECORDS, "batches": batches, "cases": CASES}
    try:
        _measure(session, {**job, "warm": WARM, "runs": session.runs})
    finally:
        for name in topics.values():
            delete(bootstrap, name)


def _measure(session: Session, job: Mapping[str, object]) -> None:
    try:
        for line in lines("bench.spark_batches_case", job):
            if "round" in line:
                case, number = line["case"], line["round"]
                detail = {"batches": line["batches"], "phases": line["phases"]}
                session.add("spark-batches", VARIANT, BATCH_MS, case, number, line["ms"], **detail)
                session.add("spark-batches", VARIANT, START_S, case, number, line["first_s"])
            else:
                tell(session, "spark-batches", VARIANT, line)
    except CaseFailed as error:
        session.failed("spark-batches", VARIANT, "session", error)
