"""A real TubeMQ broker: consuming and producing, ours against TubeMQ's own Java client at its best."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.children import CaseFailed, child
from bench.clients import tubemq_java
from bench.goals import CPU_EACH, RATE
from bench.rounds import rounds
from bench.servers import kept
from bench.session import Session
from tools.peers import tubemq

__all__ = ["CONSUMERS", "PRODUCERS", "RIVALS", "run"]

CONSUMERS = (
    "penstock RangeReader",
    "penstock Consumer, assigned",
    "penstock Consumer, group",
    "penstock Consumer, group, one connection",
    "penstock in Spark → noop",
    "Java pull (server-balanced)",
    "Java balance (client-balanced)",
)
PRODUCERS = ("penstock Producer.send", "penstock send_batch (Arrow)", "Java async send")
RIVALS: Mapping[str, Sequence[str]] = {}

SIZES = {"100 B": 100, "1 KB": 1000}
READ = {"100 B": 2_000_000, "1 KB": 600_000}
SENT = {"100 B": 300_000, "1 KB": 150_000}
STORES = 4
TO_READ = 0.99
"""Share of the records that is read: near the end of its file a broker returns half of the rest to each request."""
QUICK_SHARE = 10
SETTINGS = {"transferSize": 1 << 20}
"""Maximum size of a broker's response, for all clients."""

_numbers = itertools.count(1)


def run(session: Session) -> None:
    """Each variant: fill a topic, read it, write others."""
    session.stop_kafka()
    share = QUICK_SHARE if session.quick else 1
    with tempfile.TemporaryDirectory(dir=kept()) as home:
        options = {"broker_settings": SETTINGS, "heap": "1g", "quick": False}
        with tubemq.cluster(Path(home), **options) as cluster:  # type: ignore[arg-type]
            for variant in session.chosen(("100 B",)):
                if variant in SIZES:
                    _consume(session, cluster, variant, READ[variant] // share)
                    _produce(session, cluster, variant, SENT[variant] // share)


def _consume(session: Session, cluster: tubemq.Cluster, variant: str, count: int) -> None:
    topic = f"read{next(_numbers)}"
    cluster.create_topics(topic, stores=STORES)
    session.say(f"loading {count} records")
    tubemq_java.measure("send", cluster.address, topic, count=count, warm=0, value_bytes=SIZES[variant])
    wanted = int(count * TO_READ)
    for number, case in rounds(CONSUMERS, warm=session.warm, runs=session.runs):
        _measure(session, cluster, f"consume, {variant}", case, number, topic, wanted, SIZES[variant])


def _produce(session: Session, cluster: tubemq.Cluster, variant: str, count: int) -> None:
    topic = f"written{next(_numbers)}"
    cluster.create_topics(topic, stores=STORES)
    for number, case in rounds(PRODUCERS, warm=session.warm, runs=session.runs):
        before = _held(cluster, topic)
        _measure(session, cluster, f"produce, {variant}", case, number, topic, count, SIZES[variant])
        arrived = _held(cluster, topic) - before
        if arrived < count:
            session.failed("tubemq", f"produce, {variant}", case, CaseFailed(f"{arrived} of {count} records are there"))


def _measure(
    session: Session, cluster: tubemq.Cluster, variant: str, case: str, number: int, topic: str, count: int, size: int
) -> None:
    if ("tubemq", variant, case) in session.broken:
        return
    warm = count // 3
    try:
        if case in tubemq_java.CASES:
            kind = tubemq_java.CASES[case]
            result = tubemq_java.measure(kind, cluster.address, topic, count=count, warm=warm, value_bytes=size)
        else:
            job = {"servers": cluster.address, "topic": topic, "count": count, "warm": warm, "value_bytes": size}
            result = child("bench.tubemq_case", {"case": case, **job})
    except (CaseFailed, RuntimeError) as error:
        session.failed("tubemq", variant, case, CaseFailed(str(error)))
        return
    records, seconds, cpu = (float(str(result[name])) for name in ("records", "seconds", "cpu_s"))
    # A consumer reads whole batches, so a few more records than wanted, but every value has its size.
    if float(str(result["bytes"])) < count * size * 0.999:
        session.failed("tubemq", variant, case, CaseFailed(f"it handled {result['bytes']} bytes of {count} records"))
        return
    session.add("tubemq", variant, RATE, case, number, records / seconds / 1e6, records=records)
    session.add("tubemq", variant, CPU_EACH, case, number, cpu / records * 1e6)


def _held(cluster: tubemq.Cluster, topic: str) -> int:
    """The number of records in the topic; each of its stores has one partition."""
    return sum(end // 28 for _, end in cluster.ends(topic).values())
