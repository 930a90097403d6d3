"""Kafka's own VerifiableConsumer and VerifiableProducer as running programs, with their output as lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.peers import kafka
from tools.peers.java_driver import Driver, Line

__all__ = ["Verifiable", "consumer", "producer"]


class Verifiable(Driver):
    """One of the two. Its ``name`` becomes ``event``: partitions_assigned, record_data, offsets_committed, …"""

    def line(self, raw: bytes) -> Line | None:
        """The content of a line; None for lines of its log."""
        if not raw.startswith(b"{"):
            return None
        line: Line = json.loads(raw)
        return {**line, "event": line["name"]}


@contextmanager
def consumer(
    bootstrap: str, group: str, topic: str, *arguments: str, config: Path, version: str = kafka.NEWEST
) -> Iterator[Verifiable]:
    """A consumer that prints each record. ``config`` is a file with further options of it. Raises maven.Unavailable."""
    told = "--consumer.config" if version.startswith("3.") else "--command-config"
    line = ["--group-id", group, "--topic", topic, "--verbose", told, str(config), *arguments]
    with _running("verifiable-consumer", bootstrap, line, version) as running:
        running.wait(lambda it: it.events("startup_complete"))
        yield running


@contextmanager
def producer(bootstrap: str, topic: str, *arguments: str, version: str = kafka.NEWEST) -> Iterator[Verifiable]:
    """A producer that sends 0, 1, 2 and so on, and prints each result. Raises maven.Unavailable."""
    with _running("verifiable-producer", bootstrap, ["--topic", topic, *arguments], version) as running:
        running.wait(lambda it: it.events("startup_complete"))
        yield running


@contextmanager
def _running(tool: str, bootstrap: str, line: list[str], version: str) -> Iterator[Verifiable]:
    command = kafka.tool_command(tool, ["--bootstrap-server", bootstrap, *line], version=version, heap="256m")
    running = Verifiable(command)
    try:
        yield running
    finally:
        running.stop()
