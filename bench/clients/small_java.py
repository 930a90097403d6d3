"""Kafka's own Java client with one record at a time: a JVM per case (tools/peers/java/kafka/Small), which warms up."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.clients.small_jvm import Told, measured
from bench.clients.writing import Spent
from tools.peers import kafka_java

__all__ = ["WARM", "WARM_COMMITS", "WARM_READS", "line", "read", "spent"]

WARM = 10_000
"""Records that are sent before the clock starts."""

WARM_READS = 5_000
WARM_COMMITS = 3_000


def spent(kind: str, bootstrap: str, topic: str, *, count: int, warm: int, size: int = 100) -> Spent:
    """Run ``send``, ``flying`` or ``commit``; returns the time of the records after the warm-up."""
    options = {"kind": kind, "bootstrap": bootstrap, "topic": topic, "count": count, "warm": warm, "size": size}
    said = measured(line(options))
    return Spent(float(str(said["seconds"])), float(str(said["cpu_s"])))


def read(bootstrap: str, topic: str, *, count: int, warm: int, ready: Callable[[], None]) -> Told:
    """Read records as they arrive; ``ready`` is called when the reader is at the topic's end."""
    options = {"kind": "read", "bootstrap": bootstrap, "topic": topic, "count": count, "warm": warm}
    return Told(measured(line(options), ready=ready))


def line(options: Mapping[str, object]) -> list[str]:
    """The command line."""
    words = {name: str(value) for name, value in options.items()}
    return kafka_java.command("Small", words, heap="512m", quick=False)
