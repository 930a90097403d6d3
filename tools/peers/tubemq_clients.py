"""TubeMQ's own Java clients as processes that report in JSON lines; for any master, also ours.

``producer`` is MessageProducer, ``pull`` the server-balanced PullMessageConsumer, ``balance`` ClientBalanceConsumer;
``tool`` runs a command line tool of the server's jar (CliProducer, CliConsumer). A signal ends each, properly or as a
crash.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from tools.peers import tubemq_java
from tools.peers.java_driver import WITHIN_S, Driver, Line

__all__ = ["Driver", "Line", "Mail", "Producer", "balance", "producer", "pull", "tool"]

TOOLS = "org.apache.inlong.tubemq.server.tools.cli"


@dataclass(frozen=True, slots=True)
class Mail:
    """A message for Java's producer. ``time`` is yyyyMMddHHmm and needs a filter."""

    topic: str
    body: bytes
    filter: str | None = None
    time: str = "202611211200"
    attributes: Mapping[str, str] = field(default_factory=dict)

    def line(self) -> str:
        """The line for Send.java."""
        wanted: dict[str, object] = {"topic": self.topic, "body": base64.b64encode(self.body).decode()}
        if self.filter is not None:
            wanted |= {"filter": self.filter, "time": self.time}
        if self.attributes:
            wanted["attributes"] = dict(self.attributes)
        return json.dumps(wanted) + "\n"


class Producer(Driver):
    """Java's producer; it waits for each result before it sends the next message."""

    def send(self, mails: Iterable[Mail], timeout_s: float = WITHIN_S) -> list[Line]:
        """Their results: success, code, text, partition key, offset, id, time (ms)."""
        before, wanted = len(self.events("sent")), list(mails)
        self.write("".join(mail.line() for mail in wanted))
        self.wait(lambda driver: len(driver.events("sent")) >= before + len(wanted), timeout_s)
        return self.events("sent")[before:]


@contextmanager
def producer(masters: str, **options: object) -> Iterator[Producer]:
    """The producer; options of Send.java: ``heartbeat`` (ms), ``timeout``. Raises maven.Unavailable."""
    driver = Producer(_line("Send", {"masters": masters, **options}))
    try:
        yield driver
    finally:
        driver.stop()


def pull(masters: str, group: str, *topics: str, **options: object) -> AbstractContextManager[Driver]:
    """The server-balanced consumer. A topic is ``name`` or ``name@item;item``; Options are in Pull.java."""
    return _running("Pull", {"masters": masters, "group": group, "topics": ",".join(topics), **options})


def balance(masters: str, group: str, *topics: str, **options: object) -> AbstractContextManager[Driver]:
    """The client-balanced consumer; options in Balance.java."""
    return _running("Balance", {"masters": masters, "group": group, "topics": ",".join(topics), **options})


@contextmanager
def _running(main: str, options: Mapping[str, object]) -> Iterator[Driver]:
    driver = Driver(_line(main, options))
    try:
        yield driver
    finally:
        driver.stop()


def _line(main: str, options: Mapping[str, object]) -> list[str]:
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    return tubemq_java.command(main, words, flags=[f"-Dpeer.level={os.environ.get('PEER_LOG', 'error')}"])


def tool(name: str, arguments: Sequence[str], *, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run ``CliProducer`` or another class of the server's command line tools to its end; returns its output."""
    line = tubemq_java.command(f"{TOOLS}.{name}", arguments, flags=["-Dpeer.level=error"])
    return subprocess.run(line, capture_output=True, text=True, timeout=timeout_s, check=True)
