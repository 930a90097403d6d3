"""A real RocketMQ broker: consuming and producing, ours against RocketMQ's own Java client."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.children import CaseFailed, child
from bench.clients import rocketmq_java
from bench.goals import CPU_EACH, RATE
from bench.rounds import rounds
from bench.servers import kept
from bench.session import Session
from tools.peers import rocketmq

__all__ = [
    "CONSUMERS", "PRODUCERS", "QUEUES", "QUICK_SHARE", "READ", "RIVALS", "SETTINGS", "filled", "measured", "run",
]  # fmt: skip

CONSUMERS = (
    "penstock RangeReader",
    "penstock RangeReader, 32 at once",
    "penstock Consumer, group",
    "penstock Consumer, group, 32 at once",
    "Java pull, 1024 at once",
    "Java pull, 32 at once",
)
PRODUCERS = (
    "penstock Producer.send",
    "penstock send_batch (Arrow)",
    "penstock send_batch (Arrow), one a request",
    "Java async send",
)
RIVALS: Mapping[str, Sequence[str]] = {}

READ = 1_500_000
SENT = 100_000
VALUE_BYTES = 100
QUEUES = 4
QUICK_SHARE = 10
SETTINGS = {
    "maxTransferCountOnMessageInMemory": 1_024,
    "maxTransferBytesOnMessageInMemory": 4 << 20,
    "mappedFileSizeCommitLog": 1 << 28,
    "mappedFileSizeConsumeQueue": 20 * 1_000_000,
}
"""A broker that returns as many messages as a client requests, for all clients; by default it returns 32."""

_numbers = itertools.count(1)


def run(session: Session) -> None:
    """Fill a topic, read it, write others."""
    session.stop_kafka()
    share = QUICK_SHARE if session.quick else 1
    variants = session.chosen(("100 B",))
    with (
        tempfile.TemporaryDirectory(dir=kept()) as home,
        rocketmq.cluster(Path(home), settings=SETTINGS, heap="1g", quick=False) as cluster,
    ):
        if "100 B" in variants:
            _consume(session, cluster, READ // share)
            _produce(session, cluster, SENT // share)


def _topic(cluster: rocketmq.Cluster) -> str:
    topic = f"bench{next(_numbers)}"
    cluster.create_topic(topic, queues=QUEUES)
    return topic


def filled(session: Session, cluster: rocketmq.Cluster, count: int) -> tuple[str, int]:
    """A topic with about ``count`` records, and their number if all queues are read to the length of the shortest."""
    topic = _topic(cluster)
    session.say(f"loading {count} records")
    job = {"servers": cluster.address, "topic": topic, "count": count, "warm": 0, "value_bytes": VALUE_BYTES}
    child("bench.rocketmq_case", {"case": "penstock send_batch (Arrow)", **job})
    return topic, min(end for _, end in cluster.ends(topic).values()) * QUEUES


def _consume(session: Session, cluster: rocketmq.Cluster, count: int) -> None:
    topic, wanted = filled(session, cluster, count)
    for number, case in rounds(CONSUMERS, warm=session.warm, runs=session.runs):
        measured(session, "rocketmq", cluster, "consume, 100 B", case, number, topic, wanted)


def _produce(session: Session, cluster: rocketmq.Cluster, count: int) -> None:
    topic = _topic(cluster)
    for number, case in rounds(PRODUCERS, warm=session.warm, runs=session.runs):
        before = _held(cluster, topic)
        measured(session, "rocketmq", cluster, "produce, 100 B", case, number, topic, count)
        arrived = _held(cluster, topic) - before
        if arrived < count:
            session.failed("rocketmq", "produce, 100 B", case, CaseFailed(f"{arrived} of {count} records are there"))


def measured(
    session: Session,
    scenario: str,
    cluster: rocketmq.Cluster,
    variant: str,
    case: str,
    number: int,
    topic: str,
    count: int,
) -> None:
    """Run one case once, and keep its rate and CPU, or its failure."""
    if (scenario, variant, case) in session.broken:
        return
    job = {"topic": topic, "count": count, "warm": count // 3, "value_bytes": VALUE_BYTES}
    try:
        if case in rocketmq_java.CASES:
            result = rocketmq_java.measure(case, cluster.address, **job)  # type: ignore[arg-type]
        else:
            result = child("bench.rocketmq_case", {"case": case, "servers": cluster.address, **job})
    except (CaseFailed, RuntimeError) as error:
        session.failed(scenario, variant, case, CaseFailed(str(error)))
        return
    records, seconds, cpu = (float(str(result[name])) for name in ("records", "seconds", "cpu_s"))
    if float(str(result["bytes"])) < count * VALUE_BYTES * 0.999:
        session.failed(scenario, variant, case, CaseFailed(f"it handled {result['bytes']} bytes of {count} records"))
        return
    session.add(scenario, variant, RATE, case, number, records / seconds / 1e6, records=records)
    session.add(scenario, variant, CPU_EACH, case, number, cpu / records * 1e6)


def _held(cluster: rocketmq.Cluster, topic: str) -> int:
    return sum(end for _, end in cluster.ends(topic).values())
