"""Records to a real Kafka broker and to our snode, until all are acknowledged: ours against confluent-kafka."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from bench.children import CaseFailed, child
from bench.goals import CPU_EACH, RATE
from bench.loading import create, delete, ends
from bench.produce_case import CASES
from bench.rounds import rounds
from bench.servers import snode
from bench.session import Session

__all__ = ["RIVALS", "run"]

RIVALS: Mapping[str, Sequence[str]] = {}
VALUE_BYTES = 100
COUNTS = {"penstock send_batch (Arrow)": 5_000_000}
COUNT = 1_000_000
"""Records per case; fast cases send more, so that no case ends within a fraction of a second."""

_numbers = itertools.count()


def run(session: Session) -> None:
    """Run every case with both servers."""
    _rounds(session, "to Kafka", session.kafka().bootstrap)
    session.stop_kafka()
    with snode("memory:") as node:
        _rounds(session, "to snode (memory:)", node.bootstrap)


def _rounds(session: Session, variant: str, bootstrap: str) -> None:
    for number, case in rounds(tuple(CASES), warm=session.warm, runs=session.runs):
        if ("produce", variant, case) not in session.broken:
            _measure(session, variant, case, number, bootstrap)


def _measure(session: Session, variant: str, case: str, number: int, bootstrap: str) -> None:
    count = COUNTS.get(case, COUNT) // (5 if session.quick else 1)
    topic = f"bench-produce-{next(_numbers)}"
    # An earlier run that was killed may have left it.
    if ends(bootstrap, topic):
        delete(bootstrap, topic)
    create(bootstrap, topic)
    try:
        job = {"case": case, "bootstrap": bootstrap, "topic": topic, "count": count, "value_bytes": VALUE_BYTES}
        result = child("bench.produce_case", job)
        arrived = sum(ends(bootstrap, topic))
        if arrived != count + 1:
            raise CaseFailed(f"{count + 1} records were sent, {arrived} are there")
    except CaseFailed as error:
        session.failed("produce", variant, case, error)
        return
    finally:
        delete(bootstrap, topic)
    seconds, cpu = float(str(result["seconds"])), float(str(result["cpu_s"]))
    session.add("produce", variant, RATE, case, number, count / seconds / 1e6)
    session.add("produce", variant, CPU_EACH, case, number, cpu / count * 1e6)
