"""One record, one request, at once: single sends, records read as they come; the server's CPU beside.

To a real Kafka broker and to our snode in memory, which run one after the other.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from bench.children import CaseFailed, child
from bench.clients.small_commits import CASES as COMMITTERS
from bench.clients.small_commits import WARM as WARM_COMMITS
from bench.clients.small_reading import CASES as READERS
from bench.clients.small_round_trips import CASES as ASKERS
from bench.clients.small_round_trips import PARTITIONS
from bench.clients.small_writing import CASES as SENDERS
from bench.goals import CPU_EACH, LATENCY_MS, SERVER_CPU, SINGLE_RATE
from bench.loading import create, delete, fill
from bench.rounds import rounds
from bench.servers import ROOT, Server, environment, snode
from bench.session import Session

__all__ = ["RIVALS", "run"]

RIVALS: Mapping[str, Sequence[str]] = {}
VALUE_BYTES = 100
SENDS = 3_000
FLYING_TIMES = 5
"""As many times more records where a hundred are in flight."""

RATES = {100: 600, 500: 3_000, 1_000: 6_000, 10_000: 40_000}
"""Records a second to records of a case."""

COMMITS = 1_000
ROUND_TRIPS = 2_000

REQUESTS = 10_000
CONNECTIONS = (1, 10, 100)
REQUESTED = ("produce", "fetch")
TUBEMQ_SEND = "TubeMQ send"

_numbers = itertools.count()


def run(session: Session) -> None:
    """Both servers, one after the other."""
    broker = session.kafka()
    kafka = Server("Kafka", broker.bootstrap, broker.pid)
    with snode("memory:", also="tubemq") as node:
        _requests(session, kafka, Server("snode", node.bootstrap, node.pid), node.other_port)
    _all(session, kafka)
    session.stop_kafka()
    with snode("memory:") as node:
        _all(session, Server("snode", node.bootstrap, node.pid))


def _requests(session: Session, kafka: Server, node: Server, tubemq_port: int) -> None:
    """The same bytes to both, in turn: what a request costs the server, by connections at once."""
    topics = {server.name: _topic(server) for server in (kafka, node)}
    count = REQUESTS // (5 if session.quick else 1)
    for connections in CONNECTIONS:
        for what in REQUESTED:
            variant = f"{what}, connections: {connections}"
            for number, case in rounds((kafka.name, node.name), warm=session.warm, runs=session.runs):
                server = kafka if case == kafka.name else node
                host, _, port = server.bootstrap.rpartition(":")
                spent = _asked(server, what, host, int(port), topics[case], connections, count)
                session.add("small", variant, SERVER_CPU, case, number, spent)
        for number in range(-session.warm, session.runs):
            spent = _asked(node, TUBEMQ_SEND, "127.0.0.1", tubemq_port, topics[node.name], connections, count)
            session.add("small", f"{TUBEMQ_SEND}, connections: {connections}", SERVER_CPU, node.name, number, spent)
    for server in (kafka, node):
        delete(server.bootstrap, topics[server.name])


def _asked(server: Server, what: str, host: str, port: int, topic: str, connections: int, count: int) -> float:
    """Microseconds of the server's CPU for each request."""
    before = server.cpu_s()
    job = {"part": "raw", "case": what, "host": host, "port": port, "topic": topic}
    child("bench.small_case", {**job, "connections": connections, "count": count})
    return (server.cpu_s() - before) / count * 1e6


def _all(session: Session, server: Server) -> None:
    for what, words in SENDERS.items():
        _sends(session, server, what, _pairs(words))
    for rate, count in RATES.items():
        _trickles(session, server, rate, count // (5 if session.quick else 1))
    _commits(session, server, COMMITS // (5 if session.quick else 1))
    _round_trips(session, server, ROUND_TRIPS // (5 if session.quick else 1))


def _pairs(words: Sequence[str]) -> Mapping[str, str]:
    return dict(zip(words[::2], words[1::2], strict=True))


def _sends(session: Session, server: Server, what: str, cases: Mapping[str, str]) -> None:
    variant = f"{what}, {server.name}"
    count = SENDS * (FLYING_TIMES if "flight" in what else 1) // (5 if session.quick else 1)
    for number, case in rounds(tuple(cases), warm=session.warm, runs=session.runs):
        if ("small", variant, case) in session.broken:
            continue
        topic = _topic(server)
        before = server.cpu_s()
        job = {"part": "send", "case": cases[case], "bootstrap": server.bootstrap, "topic": topic}
        try:
            result = child("bench.small_case", {**job, "count": count, "value_bytes": VALUE_BYTES})
        except CaseFailed as error:
            session.failed("small", variant, case, error)
            continue
        finally:
            spent = server.cpu_s() - before
            delete(server.bootstrap, topic)
        seconds, cpu = float(str(result["seconds"])), float(str(result["cpu_s"]))
        session.add("small", variant, SINGLE_RATE, case, number, count / seconds)
        session.add("small", variant, CPU_EACH, case, number, cpu / count * 1e6)
        session.add("small", variant, SERVER_CPU, case, number, spent / count * 1e6)


def _trickles(session: Session, server: Server, rate: int, count: int) -> None:
    variant = f"read {rate:,} a second, {server.name}"
    for number, case in rounds(tuple(READERS), warm=0, runs=session.runs):
        if ("small", variant, case) in session.broken:
            continue
        topic = _topic(server)
        try:
            found = _trickle(server, topic, READERS[case], rate, count)
        except CaseFailed as error:
            session.failed("small", variant, case, error)
            continue
        finally:
            delete(server.bootstrap, topic)
        for quantile in ("p50", "p99", "p999"):
            session.add("small", f"{variant}, {quantile}", LATENCY_MS, case, number, float(str(found[quantile])))
        session.add("small", variant, CPU_EACH, case, number, float(str(found["cpu_us"])))


def _trickle(server: Server, topic: str, reader: str, rate: int, count: int) -> Mapping[str, object]:
    job = {"bootstrap": server.bootstrap, "topic": topic, "count": count}
    with _begun({**job, "part": "read", "case": reader}) as process:
        assert process.stdout is not None
        time.sleep(1)  # until it waits
        paced = child("bench.small_case", {**job, "part": "pace", "rate": rate, "value_bytes": VALUE_BYTES})
        said = process.stdout.read().strip().splitlines()
    if process.returncode or not said:
        raise CaseFailed(f"the reader ended with {process.returncode}")
    if int(str(paced["late"])) > count // 100:
        raise CaseFailed(f"the writer was late {paced['late']} times: the machine is too busy for {rate} a second")
    found = json.loads(said[-1])
    assert isinstance(found, dict)
    return found


@contextmanager
def _begun(job: Mapping[str, object]) -> Iterator[subprocess.Popen[str]]:
    """A process that has said that it is ready, and that has ended afterwards. Raises CaseFailed."""
    line = [sys.executable, "-m", "bench.small_case", json.dumps(job)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "@ready":
                raise CaseFailed(f"{job['part']} did not get ready")
            yield process
        except BaseException:
            process.kill()
            raise


def _commits(session: Session, server: Server, count: int) -> None:
    variant = f"commit per record, {server.name}"
    for number, case in rounds(tuple(COMMITTERS), warm=0, runs=session.runs):
        if ("small", variant, case) in session.broken:
            continue
        topic = _topic(server)
        fill(server.bootstrap, topic, 1, count + WARM_COMMITS)
        before = server.cpu_s()
        job = {"part": "commit", "case": COMMITTERS[case], "bootstrap": server.bootstrap, "topic": topic}
        try:
            found = child("bench.small_case", {**job, "count": count})
        except CaseFailed as error:
            session.failed("small", variant, case, error)
            continue
        finally:
            spent = server.cpu_s() - before
            delete(server.bootstrap, topic)
        session.add("small", variant, SINGLE_RATE, case, number, count / float(str(found["seconds"])))
        session.add("small", variant, CPU_EACH, case, number, float(str(found["cpu_s"])) / count * 1e6)
        session.add("small", variant, SERVER_CPU, case, number, spent / count * 1e6)


def _round_trips(session: Session, server: Server, count: int) -> None:
    variant = f"question and answer, {server.name}"
    for number, case in rounds(tuple(ASKERS), warm=0, runs=session.runs):
        if ("small", variant, case) in session.broken:
            continue
        topic = _topic(server, PARTITIONS)
        job = {"bootstrap": server.bootstrap, "topic": topic, "count": count}
        try:
            with _begun({**job, "part": "answer"}) as answering:
                found = child("bench.small_case", {**job, "part": "ask", "case": ASKERS[case]})
                answering.communicate()
        except CaseFailed as error:
            session.failed("small", variant, case, error)
            continue
        finally:
            delete(server.bootstrap, topic)
        for quantile in ("p50", "p99", "p999"):
            session.add("small", f"{variant}, {quantile}", LATENCY_MS, case, number, float(str(found[quantile])))
        session.add("small", variant, CPU_EACH, case, number, float(str(found["cpu_us"])))


def _topic(server: Server, partitions: int = 1) -> str:
    topic = f"bench-small-{time.monotonic_ns()}-{next(_numbers)}"
    create(server.bootstrap, topic, partitions)
    return topic
