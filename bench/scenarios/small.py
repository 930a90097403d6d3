"""Single records and small requests: sends, records that are read as they arrive, and the server's CPU.

Servers are a real Kafka broker and our snode in memory. Raw requests go to both in turn; clients run first with one
server and then with the other. The same for TubeMQ's clients. The parts are in other modules, and can be selected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from bench.scenarios import small_clients, small_requests, small_tubemq
from bench.servers import Server, snode
from bench.session import Session

__all__ = ["PARTS", "RIVALS", "run"]

RIVALS: Mapping[str, Sequence[str]] = {"snode": ("Kafka",), **small_tubemq.RIVALS}

IN_TURN: Mapping[str, Callable[[Session, Server, Server, int], None]] = {
    "requests": small_requests.requests,
    "connections": small_requests.connections,
}
"""Parts with both servers running all the time; the number is our node's port for TubeMQ."""

AT_ONE: Mapping[str, Callable[[Session, Server], None]] = {
    "sends": small_clients.sends,
    "reads": small_clients.reads,
    "commits": small_clients.commits,
    "answers": small_clients.round_trips,
}

ALONE: Mapping[str, Callable[[Session], None]] = {
    "tubemq-sends": small_tubemq.sends,
    "tubemq-reads": small_tubemq.reads,
}
"""Parts with their own servers."""

PARTS = (*IN_TURN, *AT_ONE, *ALONE)


def run(session: Session) -> None:
    """Run the selected parts, one after the other."""
    if any(map(session.wants, (*IN_TURN, *AT_ONE))):
        _kafka(session)
    session.stop_kafka()
    if any(map(session.wants, AT_ONE)):
        with snode("memory:") as node:
            _at_one(session, Server("snode", node.bootstrap, node.pid))
    for name, part in ALONE.items():
        _part(session, name, part)


def _kafka(session: Session) -> None:
    """Run the parts with both servers in turn, with a new node for each part, then those with one server at a time."""
    broker = session.kafka()
    kafka = Server("Kafka", broker.bootstrap, broker.pid)
    for name, part in IN_TURN.items():
        with snode("memory:", also="tubemq") as node:
            _part(session, name, part, kafka, Server("snode", node.bootstrap, node.pid), node.other_port)
    _at_one(session, kafka)


def _at_one(session: Session, server: Server) -> None:
    for name, part in AT_ONE.items():
        _part(session, name, part, server)


def _part(session: Session, name: str, part: Callable[..., None], *servers: object) -> None:
    """Run a part if it is selected, and print its duration."""
    if session.wants(name):
        begun = time.monotonic()
        part(session, *servers)
        session.say(f"small, {name}: {time.monotonic() - begun:.0f} s")
