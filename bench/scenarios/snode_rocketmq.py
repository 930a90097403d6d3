"""A real RocketMQ broker, used directly, through our Snode and through RocketMQ's Proxy, all in one run.

Java's client sends and pulls; raw requests hold a thousand polls and pull large messages. The Snode is also measured
with two processes (``--processes``).
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.children import CaseFailed, child
from bench.clients import rocketmq_java
from bench.goals import ADDED_MS, CPU_EACH, HELD_KB, MB, REQUEST_MS, SERVER_CPU, SINGLE_RATE, WAKE_MS
from bench.rounds import rounds
from bench.servers import Server, before, kept
from bench.session import Session
from penstock.cli.snode import arguments
from tools.peers import rocketmq

__all__ = ["RIVALS", "run"]

SCENARIO = "snode-rocketmq"
NODE, TWO, DIRECT, PROXY = "penstock snode", "penstock snode, two processes", "RocketMQ, direct", "RocketMQ Proxy"
RIVALS: Mapping[str, Sequence[str]] = dict.fromkeys((NODE, TWO), (DIRECT, PROXY))
COUNTS = {
    "Java sync send": 10_000,
    "Java sync send, ten threads": 30_000,
    "Java async send": 50_000,
    "Java pull, 32 at once": 400_000,
}
SIZES = {"4 KB": 4_000, "64 KB": 64_000, "256 KB": 256_000, "1 MB": 1_000_000, "4 MB": 4_000_000}
LARGE = 8
POLLS = 1_000
VALUE_BYTES = 100
QUEUES = 4
QUICK_SHARE = 10
BROKER = "broker-1"
SETTINGS = {"mappedFileSizeCommitLog": 1 << 28, "mappedFileSizeConsumeQueue": 20 * 1_000_000}

_numbers = itertools.count(1)


def run(session: Session) -> None:
    """Run all cases with all servers."""
    session.stop_kafka()
    with ExitStack() as running:
        home = running.enter_context(tempfile.TemporaryDirectory(dir=kept()))
        real = rocketmq.cluster(Path(home), settings=SETTINGS, heap="1g", quick=False, proxy=True)
        cluster = running.enter_context(real)
        assert cluster.proxy is not None
        url = "rocketmq://" + cluster.address.replace(";", ",")
        nodes = [running.enter_context(before(url, NODE))]
        if "--processes" in arguments().format_help():
            nodes.append(running.enter_context(before(url, TWO, "--processes", "2")))
        for node in nodes:
            session.add(SCENARIO, "idle", MB, node.name, 0, node.resident_mb())
        servers = (
            *nodes,
            Server(DIRECT, cluster.broker.endpoint, cluster.broker.pid),
            Server(PROXY, cluster.proxy.endpoint, cluster.proxy.pid),
        )
        share = QUICK_SHARE if session.quick else 1
        for case, count in COUNTS.items():
            _java(session, cluster, servers, case, count // share)
        for variant, size in SIZES.items():
            _large(session, cluster, servers, variant, size)
        _held(session, cluster, servers, POLLS // share)
        for node in nodes:
            session.add(SCENARIO, "after all of it", MB, node.name, 0, node.resident_mb())


def _java(session: Session, cluster: rocketmq.Cluster, servers: Sequence[Server], case: str, count: int) -> None:
    topic = _topic(cluster)
    if "pull" in case:
        job = {"servers": cluster.address, "topic": topic, "count": count, "warm": 0, "value_bytes": VALUE_BYTES}
        child("bench.rocketmq_case", {"case": "penstock send_batch (Arrow)", **job})
        count = min(end for _, end in cluster.ends(topic).values()) * QUEUES
    by_name = {server.name: server for server in servers}
    p50: dict[tuple[int, str], float] = {}
    for number, name in rounds(tuple(by_name), warm=0, runs=session.runs):
        p50[number, name] = _measured(session, cluster, by_name[name], case, number, topic, count)
    for (number, name), took in p50.items():
        direct = p50.get((number, DIRECT), 0.0)
        if took and direct and name != DIRECT:
            session.add(SCENARIO, case, ADDED_MS, name, number, took - direct)


def _measured(
    session: Session, cluster: rocketmq.Cluster, server: Server, case: str, number: int, topic: str, count: int
) -> float:
    """Measure one server once; returns the median of a request in ms, 0 if there is none."""
    if (SCENARIO, case, server.name) in session.broken:
        return 0.0
    before_s, warm = server.cpu_s(), count // 4
    names = cluster.address if server.name == DIRECT else server.bootstrap
    try:
        result = rocketmq_java.measure(case, names, topic, count=count, warm=warm, value_bytes=VALUE_BYTES)
    except RuntimeError as error:
        session.failed(SCENARIO, case, server.name, CaseFailed(str(error)))
        return 0.0
    spent = server.cpu_s() - before_s
    records, seconds, cpu = (float(str(result[name])) for name in ("records", "seconds", "cpu_s"))
    p50, p99 = (float(str(result[name])) for name in ("p50_ms", "p99_ms"))
    session.add(SCENARIO, case, SINGLE_RATE, server.name, number, records / seconds, records=records)
    session.add(SCENARIO, case, CPU_EACH, server.name, number, cpu / records * 1e6)
    session.add(SCENARIO, case, SERVER_CPU, server.name, number, spent / (count + warm) * 1e6)
    if p50:
        session.add(SCENARIO, f"{case}, p50", REQUEST_MS, server.name, number, p50)
        session.add(SCENARIO, f"{case}, p99", REQUEST_MS, server.name, number, p99)
    return p50


def _large(session: Session, cluster: rocketmq.Cluster, servers: Sequence[Server], variant: str, size: int) -> None:
    job: dict[str, object] = {"broker": BROKER, "topic": _topic(cluster), "count": LARGE, "value_bytes": size}
    child("bench.rocketmq_raw_case", {**job, "case": "sent", "server": cluster.broker.endpoint})
    by_name = {server.name: server for server in servers}
    for number, name in rounds(tuple(by_name), warm=0, runs=min(session.runs, 2)):
        result = _raw(session, f"answer of {variant}", by_name[name], {**job, "case": "pulled"})
        if result:
            session.add(SCENARIO, f"answer of {variant}", REQUEST_MS, name, number, _figure(result, "p50_ms"))
            session.add(SCENARIO, f"answer of {variant}, slowest", REQUEST_MS, name, number, _figure(result, "max_ms"))


def _held(session: Session, cluster: rocketmq.Cluster, servers: Sequence[Server], polls: int) -> None:
    variant = f"{polls} polls held"
    for server in servers:
        job: dict[str, object] = {"broker": BROKER, "topic": _topic(cluster), "count": polls, "pids": server.pids()}
        there = {"broker_port": cluster.broker.port}
        result = _raw(session, variant, server, {**job, **there, "case": "held"})
        if result:
            session.add(SCENARIO, f"{variant}, p50", WAKE_MS, server.name, 0, _figure(result, "p50_ms"))
            session.add(SCENARIO, f"{variant}, p99", WAKE_MS, server.name, 0, _figure(result, "p99_ms"))
            session.add(SCENARIO, variant, "MB more", server.name, 0, _figure(result, "grown_mb"))
            session.add(SCENARIO, variant, HELD_KB, server.name, 0, _figure(result, "grown_mb") * 1_000 / polls)
            session.say(f"{server.name}: threads {result['threads']}")


def _raw(session: Session, variant: str, server: Server, job: Mapping[str, object]) -> Mapping[str, object]:
    """The result of a raw case; empty if it failed."""
    if (SCENARIO, variant, server.name) in session.broken:
        return {}
    try:
        return child("bench.rocketmq_raw_case", {**job, "server": server.bootstrap})
    except CaseFailed as error:
        session.failed(SCENARIO, variant, server.name, error)
        return {}


def _figure(result: Mapping[str, object], name: str) -> float:
    return float(str(result[name]))


def _topic(cluster: rocketmq.Cluster) -> str:
    topic = f"relayed{next(_numbers)}"
    cluster.create_topic(topic, queues=QUEUES)
    return topic
