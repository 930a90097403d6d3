"""TubeMQ's clients with one message at a time, with a real broker and with our node, which run one after the other."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.children import CaseFailed, begun, child, last_words
from bench.clients.small_tubemq import FLIGHTS, PACE, READERS, SENDERS
from bench.goals import CPU_EACH, SERVER_CPU, SINGLE_RATE
from bench.loading import create
from bench.rounds import rounds
from bench.scenarios.small_clients import FEWER, SETTLE_S, latencies, punctual, too_late
from bench.servers import Server, kept, snode
from bench.session import Session
from tools.peers import tubemq

__all__ = ["RIVALS", "reads", "sends"]

RIVALS: Mapping[str, Sequence[str]] = {
    "penstock Consumer, group": ("Java pull (server-balanced)",),
    "penstock Consumer, assigned": ("Java balance (client-balanced)",),
}

SENT = {"send and wait": (SENDERS, 5_000), "a hundred in flight": (FLIGHTS, 25_000)}
JAVA = "Java"
WARM, WARM_JAVA = 1_000, 10_000
"""Messages that are sent before the clock starts."""

RATE = 500
READ = 2_000
WARM_READS = 10_000
QUICK_SHARE = 5

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Place:
    """A server for clients; ``create`` creates a topic with one partition."""

    name: str
    masters: str
    server: Server
    create: Callable[[str], None]

    def topic(self) -> str:
        """A new topic."""
        name = f"small{next(_numbers)}"
        self.create(name)
        return name


@contextmanager
def _real() -> Iterator[Place]:
    """A cluster of one broker."""
    with (
        tempfile.TemporaryDirectory(dir=kept()) as home,
        tubemq.cluster(Path(home), heap="1g", quick=False) as cluster,
    ):
        server = Server("TubeMQ", cluster.address, cluster.broker.process.pid)
        yield Place(server.name, cluster.address, server, cluster.create_topics)


@contextmanager
def _ours() -> Iterator[Place]:
    """Our node, in memory."""
    with snode("memory:", also="tubemq") as node:
        masters = f"127.0.0.1:{node.other_port}"
        yield Place(
            "snode", masters, Server("snode", masters, node.pid), lambda topic: create(node.bootstrap, topic, 1)
        )


def _at_each(what: Callable[[Place], None]) -> None:
    for opened in (_real, _ours):
        with opened() as place:
            what(place)


def sends(session: Session) -> None:
    """Measure sends that are awaited one by one, and with a hundred in flight."""

    def at(place: Place) -> None:
        topic = place.topic()
        for what, (cases, count) in SENT.items():
            for number, case in rounds(tuple(cases), warm=session.warm, runs=session.runs):
                _send(session, place, what, case, number, topic, _share(session, count))

    _at_each(at)


def _share(session: Session, count: int) -> int:
    return count // (QUICK_SHARE if session.quick else 1)


def _send(session: Session, place: Place, what: str, case: str, number: int, topic: str, count: int) -> None:
    variant = f"TubeMQ, {what}, {place.name}"
    if ("small", variant, case) in session.broken:
        return
    warm = _share(session, WARM_JAVA if case == JAVA else WARM)
    job = {"part": "tubemq", "what": what, "case": case, "masters": place.masters, "topic": topic}
    before = place.server.cpu_s()
    try:
        result = child("bench.small_case", {**job, "count": count, "warm": warm})
    except CaseFailed as error:
        session.failed("small", variant, case, error)
        return
    spent = place.server.cpu_s() - before
    seconds, cpu = float(str(result["seconds"])), float(str(result["cpu_s"]))
    session.add("small", variant, SINGLE_RATE, case, number, count / seconds)
    session.add("small", variant, CPU_EACH, case, number, cpu / count * 1e6)
    session.add("small", variant, SERVER_CPU, case, number, spent / (count + warm) * 1e6)


def reads(session: Session) -> None:
    """Measure the latency of messages that arrive at a constant rate."""

    def at(place: Place) -> None:
        variant = f"TubeMQ, read {RATE} a second, {place.name}"
        for number, case in rounds(tuple(READERS), warm=0, runs=min(FEWER, session.runs)):
            if ("small", variant, case) not in session.broken:
                _read(session, place, variant, case, number)

    _at_each(at)


def _read(session: Session, place: Place, variant: str, case: str, number: int) -> None:
    count, warm = _share(session, READ), _share(session, WARM_READS)
    try:
        found, spent = punctual(session, lambda: _followed(place, case, count, warm))
    except CaseFailed as error:
        session.failed("small", variant, case, error)
        return
    latencies(session, variant, case, number, found)
    session.add("small", variant, SERVER_CPU, case, number, spent / (count + warm) * 1e6)


def _followed(place: Place, case: str, count: int, warm: int) -> tuple[Mapping[str, object], float]:
    """The reader's result, and the server's CPU for all messages, including their sends."""
    job = {"part": "tubemq", "masters": place.masters, "topic": place.topic(), "count": count, "warm": warm}
    with begun("bench.small_case", {**job, "what": "read", "case": case}) as process:
        time.sleep(SETTLE_S)
        before = place.server.cpu_s()
        paced = child("bench.small_case", {**job, "what": PACE, "case": PACE, "rate": RATE})
        found = last_words(process)
        spent = place.server.cpu_s() - before
    too_late(paced, RATE, count)
    return found, spent
