"""A topic of a real Kafka broker over loopback into Arrow: ours, the Python clients, Java's own measuring tool."""

from __future__ import annotations

from collections.abc import Sequence

from bench.children import CaseFailed, child
from bench.clients import java
from bench.consume_case import MODULES
from bench.goals import CPU_EACH, RATE
from bench.rounds import rounds
from bench.session import Session
from bench.topics import PARTITIONS, Digest, Topic, expected, topic

__all__ = ["measure", "run"]

START = "s to the first messages"
JAVA = "Java"
JAVA_TUNED = "Java tuned"
VARIANTS = ("100 B",)
CASES = (*MODULES, JAVA, JAVA_TUNED)
SLOW = {"kafka-python": 1, "aiokafka": 2}
"""How many of the four partitions these clients read. Their rate does not depend on it, but the bench's time does."""


def run(session: Session) -> None:
    """Run every case with each variant's topic."""
    for variant in session.chosen(VARIANTS):
        wanted = topic(variant, quick=session.quick)
        bootstrap = session.kafka(wanted).bootstrap
        for number, case in rounds(CASES, warm=session.warm, runs=session.runs):
            measure(session, "consume", variant, case, number, bootstrap, wanted, reader=case)


def measure(
    session: Session, scenario: str, variant: str, case: str, number: int, bootstrap: str, wanted: Topic, *, reader: str
) -> None:
    """Run one case once: check its checksums, and keep its rate and its CPU."""
    if (scenario, variant, case) in session.broken:
        return
    partitions = range(SLOW.get(reader, PARTITIONS))
    try:
        if reader in {JAVA, JAVA_TUNED}:
            result = _java(bootstrap, wanted, tuned=reader == JAVA_TUNED)
        else:
            result = _read(bootstrap, wanted, reader, partitions, thorough=number < 0)
    except CaseFailed as error:
        session.failed(scenario, variant, case, error)
        return
    count, seconds, cpu = (float(str(result[name])) for name in ("records", "seconds", "cpu_s"))
    if not seconds:
        session.failed(scenario, variant, case, CaseFailed("everything came at once: more records are needed"))
        return
    session.add(scenario, variant, RATE, case, number, count / seconds / 1e6, records=count)
    session.add(scenario, variant, START, case, number, float(str(result["start_s"])))
    session.add(scenario, variant, CPU_EACH, case, number, cpu / count * 1e6)


def _read(bootstrap: str, wanted: Topic, case: str, partitions: Sequence[int], *, thorough: bool) -> dict[str, object]:
    right = expected(wanted, partitions)
    job = {
        "case": case,
        "bootstrap": bootstrap,
        "topic": wanted.name,
        "partitions": ",".join(map(str, partitions)),
        "count": right.records,
        "thorough": thorough,
    }
    result = child("bench.consume_case", job)
    found = Digest(*result["digest"])  # type: ignore[misc]
    if not found.agrees(right):
        raise CaseFailed(f"it read {found}, but the topic holds {right}")
    return result


def _java(bootstrap: str, wanted: Topic, *, tuned: bool) -> dict[str, object]:
    try:
        return java.consume(bootstrap, wanted, tuned=tuned)
    except RuntimeError as error:
        raise CaseFailed(str(error)) from None
