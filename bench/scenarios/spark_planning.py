"""The time to plan a read, and its number of tasks: few and many partitions, our source and Spark's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.children import CaseFailed, lines
from bench.goals import PLAN_S, TASKS
from bench.loading import create, delete, ends, fill
from bench.session import Session
from bench.spark_run import WARM, tell

__all__ = ["RIVALS", "run"]

READERS = ("connector", "penstock", "penstock, a task a partition")
SHAPES = (1, 16, 200)
CASES = tuple(f"{reader}; {shape}" for shape in SHAPES for reader in READERS)
RIVALS: Mapping[str, Sequence[str]] = {
    f"{reader}; {shape}": (f"{READERS[0]}; {shape}",) for reader in READERS[1:] for shape in SHAPES
}
VARIANT = "partitions"
RECORDS = 100
"""Records in each partition."""


def run(session: Session) -> None:
    """One session of Spark; reading itself is not measured."""
    bootstrap = session.kafka().bootstrap
    topics = {str(partitions): f"bench-planning-{partitions}" for partitions in SHAPES}
    for partitions, name in topics.items():
        if ends(bootstrap, name):  # left by an earlier run that was killed
            delete(bootstrap, name)
        create(bootstrap, name, int(partitions))
        fill(bootstrap, name, int(partitions), RECORDS * int(partitions))
    try:
        for line in lines(
            "bench.spark_planning_case",
            {"bootstrap": bootstrap, "topics": topics, "cases": CASES, "warm": WARM, "runs": session.runs},
        ):
            if "round" in line:
                session.add("spark-planning", VARIANT, PLAN_S, line["case"], line["round"], line["seconds"])
                session.add("spark-planning", VARIANT, TASKS, line["case"], line["round"], line["tasks"])
            else:
                tell(session, "spark-planning", VARIANT, line)
    except CaseFailed as error:
        session.failed("spark-planning", VARIANT, "session", error)
    finally:
        for name in topics.values():
            delete(bootstrap, name)
