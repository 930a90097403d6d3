"""Large groups on a real Kafka broker and on our node (file store); both run all the time and are measured in turn.

One classic group of a thousand members, a KIP-848 group of the same size, two thousand groups of one member each.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.children import CaseFailed, child
from bench.goals import CPU_DONE, DONE_S, HELD_MB
from bench.loading import create
from bench.rounds import rounds
from bench.servers import Server, kept, snode
from bench.session import Session
from tools.peers import kafka

__all__ = ["BROKER", "MANY", "NODE", "PARTS", "RIVALS", "Size", "add", "run", "variants"]

NODE, BROKER = "penstock snode", "Kafka"
RIVALS: Mapping[str, Sequence[str]] = {NODE: (BROKER,)}
ROUNDS = 3
DELAY_MS = 500
"""Time that a classic group's first member waits for others, on both servers; Kafka's default is 3,000, ours 0."""


@dataclass(frozen=True, slots=True)
class Size:
    """Members of the large group, partitions of its topic, number of groups with one member."""

    members: int
    partitions: int
    groups: int


FULL = Size(1_000, 2_000, 2_000)
QUICK = Size(50, 100, 100)
MANY = "many"
PARTS = ("classic", "newer", MANY)

_numbers = itertools.count(1)


def variants(size: Size) -> Mapping[str, str]:
    """The name of each part in tables."""
    return {
        "classic": f"classic group of {size.members:,}",
        "newer": f"KIP-848 group of {size.members:,}",
        MANY: f"{size.groups:,} groups",
    }


def run(session: Session) -> None:
    """Measure all parts on both servers, in turn."""
    session.stop_kafka()
    size = QUICK if session.quick else FULL
    with _servers() as servers:
        for server in servers.values():
            create(server.bootstrap, _topic(size), size.partitions)
        for part in PARTS:
            for number, name in rounds(tuple(servers), warm=session.warm, runs=min(session.runs, ROUNDS)):
                _measure(session, servers[name], part, number, size)


def _topic(size: Size) -> str:
    return f"bench-groups-{size.partitions}"


@contextmanager
def _servers() -> Iterator[Mapping[str, Server]]:
    delay = str(DELAY_MS)
    with (
        tempfile.TemporaryDirectory(dir=kept()) as home,
        kafka.broker(
            Path(home) / "real",
            heap="1g",
            quick=False,
            settings={"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": delay},
        ) as broker,
        snode(f"file:{Path(home) / 'ours'}", "--set", f"initial_rebalance_delay_ms={delay}") as node,
    ):
        yield {
            NODE: Server(NODE, node.bootstrap, node.pid),
            BROKER: Server(BROKER, broker.bootstrap, broker.pid),
        }


def _measure(session: Session, server: Server, part: str, number: int, size: Size) -> None:
    variant = variants(size)[part]
    if ("groups", variant, server.name) in session.broken:
        return
    job = {
        "part": part,
        "bootstrap": server.bootstrap,
        "pid": server.pid,
        "topic": _topic(size),
        "group": f"bench-{part}-{next(_numbers)}",
        "members": size.members,
        "partitions": size.partitions,
        "groups": size.groups,
    }
    try:
        add(session, variant, server.name, number, child("bench.groups_case", job))
    except CaseFailed as error:
        session.failed("groups", variant, server.name, error)


def add(session: Session, variant: str, case: str, number: int, told: Mapping[str, Any]) -> None:
    """Keep a case's result: seconds and the server's CPU by phase, its memory by the time of measurement."""
    for phase, figures in told["phases"].items():
        seconds, server_s = figures["seconds"], figures["server_s"]
        detail = {name: value for name, value in figures.items() if name not in ("seconds", "server_s")}
        session.add("groups", f"{variant}, {phase}", DONE_S, case, number, seconds, **detail)
        session.add("groups", f"{variant}, {phase}", CPU_DONE, case, number, server_s)
    for when, megabytes in told["memory"].items():
        session.add("groups", f"{variant}, memory {when}", HELD_MB, case, number, megabytes)
