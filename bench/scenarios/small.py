"""One record, one request, at once: single sends, records read as they come; the server's CPU beside.

To a real Kafka broker and to our snode in memory: requests in turn, clients first at the one and then at the other.
TubeMQ's clients likewise. What must not live here: the parts themselves, each of which can be chosen.
"""

from __future__ import annotations

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
"""Both servers run all the time; the number is the port that our node has for TubeMQ."""

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
"""With servers of their own."""

PARTS = (*IN_TURN, *AT_ONE, *ALONE)


def run(session: Session) -> None:
    """The parts that are wanted, one after the other."""
    in_turn = [part for name, part in IN_TURN.items() if session.wants(name)]
    at_one = [part for name, part in AT_ONE.items() if session.wants(name)]
    if in_turn or at_one:
        _kafka(session, in_turn, at_one)
    session.stop_kafka()
    if at_one:
        with snode("memory:") as node:
            for part in at_one:
                part(session, Server("snode", node.bootstrap, node.pid))
    for name, alone in ALONE.items():
        if session.wants(name):
            alone(session)


def _kafka(
    session: Session,
    in_turn: Sequence[Callable[[Session, Server, Server, int], None]],
    at_one: Sequence[Callable[[Session, Server], None]],
) -> None:
    broker = session.kafka()
    kafka = Server("Kafka", broker.bootstrap, broker.pid)
    for part in in_turn:
        with snode("memory:", also="tubemq") as node:
            part(session, kafka, Server("snode", node.bootstrap, node.pid), node.other_port)
    for each in at_one:
        each(session, kafka)
