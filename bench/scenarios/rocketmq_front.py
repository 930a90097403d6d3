"""RocketMQ's own Java client with our node (file store) and a real broker: awaited sends, sends in flight, and pulls of
32 messages. Both servers run all the time, and are measured in turn."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.children import CaseFailed, child
from bench.clients import rocketmq_java
from bench.goals import CPU_EACH, SERVER_CPU, SINGLE_RATE
from bench.rounds import rounds
from bench.servers import Server, kept, snode
from bench.session import Session
from penstock import Admin, NewTopic
from tools.peers import rocketmq

__all__ = ["RIVALS", "run"]

NODE, BROKER = "penstock snode", "RocketMQ"
RIVALS: Mapping[str, Sequence[str]] = {NODE: (BROKER,)}
COUNTS = {
    "Java sync send": 10_000,
    "Java sync send, ten threads": 30_000,
    "Java async send": 50_000,
    "Java pull, 32 at once": 400_000,
}
VALUE_BYTES = 100
QUEUES = 4
QUICK_SHARE = 10
SETTINGS = {"mappedFileSizeCommitLog": 1 << 28, "mappedFileSizeConsumeQueue": 20 * 1_000_000}

_numbers = itertools.count(1)


def run(session: Session) -> None:
    """Run all cases of Java's client with both servers."""
    session.stop_kafka()
    with (
        tempfile.TemporaryDirectory(dir=kept()) as home,
        rocketmq.cluster(Path(home) / "real", settings=SETTINGS, heap="1g", quick=False) as cluster,
        snode(f"file:{Path(home) / 'ours'}", also="rocketmq") as node,
    ):
        servers = (
            Server(NODE, f"127.0.0.1:{node.other_port}", node.pid),
            Server(BROKER, cluster.address, cluster.broker.process.pid),
        )
        for case, count in COUNTS.items():
            _rounds(session, servers, case, count // (QUICK_SHARE if session.quick else 1))


def _rounds(session: Session, servers: Sequence[Server], case: str, count: int) -> None:
    topics = {server.name: _topic(server) for server in servers}
    if "pull" in case:
        count = min(_filled(server, topics[server.name], count) for server in servers)
    by_name = {server.name: server for server in servers}
    for number, name in rounds(tuple(by_name), warm=0, runs=session.runs):
        _measure(session, by_name[name], case, number, topics[name], count)


def _measure(session: Session, server: Server, case: str, number: int, topic: str, count: int) -> None:
    if ("rocketmq-front", case, server.name) in session.broken:
        return
    before = server.cpu_s()
    warm = count // 4
    try:
        result = rocketmq_java.measure(case, server.bootstrap, topic, count=count, warm=warm, value_bytes=VALUE_BYTES)
    except RuntimeError as error:
        session.failed("rocketmq-front", case, server.name, CaseFailed(str(error)))
        return
    spent = server.cpu_s() - before
    records, seconds, cpu = (float(str(result[name])) for name in ("records", "seconds", "cpu_s"))
    session.add("rocketmq-front", case, SINGLE_RATE, server.name, number, records / seconds, records=records)
    session.add("rocketmq-front", case, CPU_EACH, server.name, number, cpu / records * 1e6)
    session.add("rocketmq-front", case, SERVER_CPU, server.name, number, spent / (count + warm) * 1e6)


def _topic(server: Server) -> str:
    topic = f"front{next(_numbers)}"
    with Admin(f"rocketmq://{server.bootstrap}") as admin:
        admin.create_topics([NewTopic(topic, QUEUES)])
    return topic


def _filled(server: Server, topic: str, count: int) -> int:
    """Write records; returns their number if all queues are read up to the length of the shortest one."""
    job = {"servers": server.bootstrap, "topic": topic, "count": count, "warm": 0, "value_bytes": VALUE_BYTES}
    child("bench.rocketmq_case", {"case": "penstock send_batch (Arrow)", **job})
    with Admin(f"rocketmq://{server.bootstrap}") as admin:
        queues = [info.partition for info in admin.topics([topic])[topic].partitions]
        return min(admin.end_offsets(queues).values()) * QUEUES
