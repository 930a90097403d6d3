"""Fresh processes: the time from their start to the first and the last record, and their memory; and idle consumers.

They read from a real Kafka broker and from our snode in memory, which run one after the other.
"""

from __future__ import annotations

import time

from bench.children import CaseFailed, child
from bench.clients.fresh import IDLE, PARTITIONS, READERS
from bench.goals import ALL_S, CPU_ALL, FIRST_S, IDLE_SHARE, PEAK_MB
from bench.loading import create, delete, fill
from bench.rounds import rounds
from bench.servers import snode
from bench.session import Session

__all__ = ["run"]

COUNTS = {"1 M records": 1_000_000, "10 records": 10}
IDLE_S = 15.0

_FIGURES = {FIRST_S: "first_s", ALL_S: "all_s", CPU_ALL: "cpu_s", PEAK_MB: "peak_mb"}


def run(session: Session) -> None:
    """Measure both servers, one after the other."""
    _all(session, "Kafka", session.kafka().bootstrap)
    session.stop_kafka()
    with snode("memory:") as node:
        _all(session, "snode", node.bootstrap)


def _all(session: Session, server: str, bootstrap: str) -> None:
    for words, count in COUNTS.items():
        count //= 10 if session.quick and count > 10 else 1
        topic = _topic(bootstrap, count)
        _read(session, f"{words}, {server}", bootstrap, topic, count)
        delete(bootstrap, topic)
    topic = _topic(bootstrap, 0)
    _idle(session, f"nothing to read, {server}", bootstrap, topic)
    delete(bootstrap, topic)


def _read(session: Session, variant: str, bootstrap: str, topic: str, count: int) -> None:
    for number, case in rounds(tuple(READERS), warm=session.warm, runs=session.runs):
        if ("fresh", variant, case) in session.broken:
            continue
        job = {"case": case, "bootstrap": bootstrap, "topic": topic, "count": count}
        try:
            found = child("bench.fresh_case", {**job, "begun": time.monotonic()})
        except CaseFailed as error:
            session.failed("fresh", variant, case, error)
            continue
        for metric, name in _FIGURES.items():
            session.add("fresh", variant, metric, case, number, float(str(found[name])))


def _idle(session: Session, variant: str, bootstrap: str, topic: str) -> None:
    seconds = IDLE_S / (5 if session.quick else 1)
    for number, case in rounds(tuple(IDLE), warm=0, runs=session.runs):
        if ("fresh", variant, case) in session.broken:
            continue
        job = {"case": case, "bootstrap": bootstrap, "topic": topic, "seconds": seconds}
        try:
            found = child("bench.fresh_case", job)
        except CaseFailed as error:
            session.failed("fresh", variant, case, error)
            continue
        session.add("fresh", variant, IDLE_SHARE, case, number, float(str(found["share"])))
        session.add("fresh", variant, PEAK_MB, case, number, float(str(found["peak_mb"])))


def _topic(bootstrap: str, count: int) -> str:
    topic = f"bench-fresh-{time.monotonic_ns()}"
    create(bootstrap, topic, PARTITIONS)
    if count:
        fill(bootstrap, topic, PARTITIONS, count)
    return topic
