"""The server's CPU per request, by API and number of connections: the same bytes to both servers, in turn.

Also the CPU per record that real clients send and wait for. Before the measurement both servers get enough requests of
the same kind for a JIT compiler to finish its work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.children import CaseFailed, child
from bench.clients.small_connections import CASES as CLIENTS
from bench.clients.small_messages import KAFKA
from bench.clients.small_raw import AT_END, HEARTBEAT, TUBEMQ_SEND
from bench.goals import SERVER_CPU
from bench.loading import delete, ends, fresh
from bench.rounds import rounds
from bench.servers import Server
from bench.session import Session

__all__ = ["connections", "requests"]

MANY = (1, 10, 100)
FEW = (1, 10)
OFTEN = ("produce", "fetch")
"""APIs that are measured in all rounds; others in at most `FEWER` rounds."""

WIDELY = (*OFTEN, AT_END)
"""APIs that are measured over `MANY` connections; others over `FEW`."""

OTHERS = (*(case for case in KAFKA if case not in WIDELY), HEARTBEAT)
FEWER = 3
REQUESTS = 10_000
AT_END_REQUESTS = {1: 2_000, 10: 5_000, 100: 10_000}
"""Requests by number of connections. Each new record answers the fetches of all connections."""

WARM = 20_000
WARM_CONNECTIONS = 10
RECORDS = {1: 5_000, 10: 10_000, 100: 20_000}
WARM_SHARE = 0.2
QUICK_SHARE = 10


def requests(session: Session, kafka: Server, node: Server, tubemq_port: int) -> None:
    """Measure all kinds of requests with the raw client."""
    topics = {server.name: fresh(server.bootstrap, "bench-small") for server in (kafka, node)}
    for what in (*WIDELY, *OTHERS):
        runs = session.runs if what in OFTEN else min(FEWER, session.runs)
        _kind(session, (kafka, node), what, topics, MANY if what in WIDELY else FEW, runs)
    own = Server(node.name, f"127.0.0.1:{tubemq_port}", node.pid)
    _kind(session, (own,), TUBEMQ_SEND, topics, MANY, session.runs)
    for server in (kafka, node):
        delete(server.bootstrap, topics[server.name])


def _kind(
    session: Session,
    servers: Sequence[Server],
    what: str,
    topics: Mapping[str, str],
    numbers: Sequence[int],
    runs: int,
) -> None:
    """Warm up every server, then run all rounds."""
    by_name = {server.name: server for server in servers}
    for name, server in by_name.items():
        _add(session, server, what, topics[name], WARM_CONNECTIONS, -1, WARM)
    for connections in numbers:
        count = AT_END_REQUESTS[connections] if what == AT_END else REQUESTS
        for number, name in rounds(tuple(by_name), warm=0, runs=runs):
            _add(session, by_name[name], what, topics[name], connections, number, count)


def _add(session: Session, server: Server, what: str, topic: str, connections: int, number: int, count: int) -> None:
    variant = f"{what}, connections: {connections}"
    if ("small", variant, server.name) in session.broken:
        return
    count = max(count // (QUICK_SHARE if session.quick else 1), connections)
    host, _, port = server.bootstrap.rpartition(":")
    job = {"part": "raw", "case": what, "host": host, "port": int(port), "topic": topic, "pid": server.pid}
    try:
        if what == AT_END:
            job["end"] = ends(server.bootstrap, topic)[0]
        used = child("bench.small_case", {**job, "connections": connections, "count": count})
    except CaseFailed as error:
        session.failed("small", variant, server.name, error)
        return
    session.add("small", variant, SERVER_CPU, server.name, number, float(str(used["server_s"])) / count * 1e6)


def connections(session: Session, kafka: Server, node: Server, tubemq_port: int) -> None:
    """Measure producers of real clients; each process has one per connection."""
    by_name = {server.name: server for server in (kafka, node)}
    topics = {name: fresh(server.bootstrap, "bench-small") for name, server in by_name.items()}
    runs = min(FEWER, session.runs)
    for client in CLIENTS:
        for name, server in by_name.items():
            _sent(session, server, client, topics[name], WARM_CONNECTIONS, -1, WARM)
        for number_of, count in RECORDS.items():
            for number, name in rounds(tuple(by_name), warm=0, runs=runs):
                _sent(session, by_name[name], client, topics[name], number_of, number, count)
    for name, server in by_name.items():
        delete(server.bootstrap, topics[name])


def _sent(session: Session, server: Server, client: str, topic: str, connections: int, number: int, count: int) -> None:
    variant = f"{client}'s sends that are waited for, producers: {connections}"
    if ("small", variant, server.name) in session.broken:
        return
    count = max(count // (QUICK_SHARE if session.quick else 1), connections)
    job = {"part": "connections", "case": client, "bootstrap": server.bootstrap, "topic": topic, "pid": server.pid}
    try:
        warm = int(count * WARM_SHARE)
        used = child("bench.small_case", {**job, "connections": connections, "count": count, "warm": warm})
    except CaseFailed as error:
        session.failed("small", variant, server.name, error)
        return
    session.add("small", variant, SERVER_CPU, server.name, number, float(str(used["server_s"])) / count * 1e6)
