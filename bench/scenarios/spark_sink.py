"""From Spark into topics of a real Kafka broker: format("penstock") against Spark's own Kafka connector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bench.session import Session
from bench.spark_run import keep_rates
from bench.topics import topic

__all__ = ["RIVALS", "run"]

CASES = (
    "connector write",
    "connector tuned write",
    "penstock write",
    "penstock exactly-once write",
    "connector copy",
    "connector tuned copy",
    "penstock copy",
    "penstock exactly-once copy",
    "penstock read",
)
RIVALS: Mapping[str, Sequence[str]] = {
    "penstock write": ("connector write", "connector tuned write"),
    "penstock exactly-once write": ("connector write", "connector tuned write"),
    "penstock copy": ("connector copy", "connector tuned copy", "penstock read"),
    "penstock exactly-once copy": ("connector copy", "connector tuned copy"),
    "penstock read": (),
}
VARIANT = "100 B"
COUNT = 2_000_000
QUICK_SHARE = 20


def run(session: Session) -> None:
    """One session of Spark."""
    count = COUNT // QUICK_SHARE if session.quick else COUNT
    wanted = replace(topic(VARIANT), count=count)
    job = {"bootstrap": session.kafka(wanted).bootstrap, "topic": wanted.name, "count": count}
    keep_rates(session, "spark-sink", VARIANT, "bench.spark_sink_case", job, CASES)
