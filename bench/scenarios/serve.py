"""Clients reading the same records from our snode (file store) and from a real Kafka broker, both in the page cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.loading import load
from bench.rounds import rounds
from bench.scenarios.consume import JAVA, measure
from bench.servers import kept, snode
from bench.session import Session
from bench.topics import topic

__all__ = ["RIVALS", "run"]

READERS = ("confluent-kafka", JAVA, "penstock RangeReader", "penstock Consumer")
SERVERS = ("penstock snode", "Kafka")
RIVALS: Mapping[str, Sequence[str]] = {f"penstock snode → {reader}": (f"Kafka → {reader}",) for reader in READERS}
VARIANTS = ("100 B",)


def run(session: Session) -> None:
    """Run each reader with both servers, in turn; both run all the time."""
    for variant in session.chosen(VARIANTS):
        wanted = topic(variant, quick=session.quick)
        kafka = session.kafka(wanted).bootstrap
        with snode(f"file:{kept() / 'snode'}") as node:
            took = load(node.bootstrap, wanted, server="snode")
            session.say(f"loaded {wanted.name} into the snode in {took:.1f} s")
            bootstraps = dict(zip(SERVERS, (node.bootstrap, kafka), strict=True))
            cases = {f"{server} → {reader}": (server, reader) for reader in READERS for server in SERVERS}
            for number, case in rounds(tuple(cases), warm=session.warm, runs=session.runs):
                server, reader = cases[case]
                measure(session, "serve", variant, case, number, bootstraps[server], wanted, reader=reader)
