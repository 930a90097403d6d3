"""TubeMQ's own Java clients as processes that say in JSON lines what they do; against any master, ours too.

``producer`` is MessageProducer, ``pull`` the server-balanced PullMessageConsumer, ``balance`` ClientBalanceConsumer;
``tool`` runs a command line tool of the server's jar (CliProducer, CliConsumer). A signal ends each, in order or not.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

from tools.peers import jvm, tubemq_java

Line = dict[str, Any]
WITHIN_S = 40.0
END_WITHIN_S = 25.0

TOOLS = "org.apache.inlong.tubemq.server.tools.cli"


@dataclass(frozen=True, slots=True)
class Mail:
    """A message for Java's producer. ``time`` is yyyyMMddHHmm and goes with a filter only."""

    topic: str
    body: bytes
    filter: str | None = None
    time: str = "202611211200"
    attributes: Mapping[str, str] = field(default_factory=dict)

    def line(self) -> str:
        """As Send.java reads it."""
        wanted: dict[str, object] = {"topic": self.topic, "body": base64.b64encode(self.body).decode()}
        if self.filter is not None:
            wanted |= {"filter": self.filter, "time": self.time}
        if self.attributes:
            wanted["attributes"] = dict(self.attributes)
        return json.dumps(wanted) + "\n"


class Driver:
    """A running driver and every line it has printed so far (messages have their ``body`` as bytes)."""

    def __init__(self, main: str, options: Mapping[str, object]) -> None:
        words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
        level = os.environ.get("PEER_LOG", "error")
        line = tubemq_java.command(main, words, flags=[f"-Dpeer.level={level}"])
        self.process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self.lines: list[Line] = []
        self.said = b""
        self._news = threading.Condition()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=[self.process.stdout], daemon=True),
            threading.Thread(target=self._listen, args=[self.process.stderr], daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def events(self, *kinds: str) -> list[Line]:
        """Lines of these kinds so far; ready, holding, message, confirm, connect, sent, error, closed."""
        with self._news:
            return [line for line in self.lines if line["event"] in kinds]

    @property
    def messages(self) -> list[Line]:
        return self.events("message")

    @property
    def bodies(self) -> list[bytes]:
        return [line["body"] for line in self.messages]

    @property
    def holding(self) -> list[str]:
        """Partition keys (broker:topic:partition) it holds now."""
        told = self.events("holding")
        return list(told[-1]["partitions"]) if told else []

    def wait(self, what: Callable[[Driver], object], timeout_s: float = WITHIN_S) -> None:
        """Until ``what(driver)`` is true, asked with every new line. Raises TimeoutError, also when it ended first."""
        with self._news:
            done = self._news.wait_for(lambda: what(self) or self._over(), timeout_s) and what(self)
        if not done:
            kinds = [line["event"] for line in self.lines]
            told = {kind: kinds.count(kind) for kind in kinds}
            last = [line for line in self.lines if line["event"] != "message"][-5:]
            raise TimeoutError(
                f"it printed {told}, last {last}, exit {self.process.poll()}\n{self.said[-2000:].decode()}"
            )

    def wait_messages(self, count: int, timeout_s: float = WITHIN_S) -> list[Line]:
        """The messages, once there are so many."""
        self.wait(lambda driver: len(driver.messages) >= count, timeout_s)
        return self.messages

    def wait_holding(self, count: int, timeout_s: float = WITHIN_S) -> list[str]:
        """What it holds, once that is so many partitions."""
        self.wait(lambda driver: len(driver.holding) == count, timeout_s)
        return self.holding

    def stop(self) -> None:
        """SIGTERM: it leaves its group in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: nobody hears from it again."""
        self._end(signal.SIGKILL)

    def finish(self) -> None:
        """Wait until it has what its ``max`` asked for, or has sent everything."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(WITHIN_S)
        self._end(signal.SIGTERM)

    def write(self, text: str) -> None:
        """To its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def _end(self, how: signal.Signals) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()  # a producer waits for more
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                jvm.end(self.process)
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def _over(self) -> bool:
        return not self._readers[0].is_alive()

    def _read(self, pipe: IO[bytes]) -> None:
        for raw in pipe:
            line: Line = json.loads(raw)
            if line["event"] == "message":
                line["body"] = base64.b64decode(line["body"])
            with self._news:
                self.lines.append(line)
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def _listen(self, pipe: IO[bytes]) -> None:
        for raw in pipe:
            self.said += raw


class Producer(Driver):
    """Java's producer; one message at a time, each answered before the next goes."""

    def send(self, mails: Iterable[Mail], timeout_s: float = WITHIN_S) -> list[Line]:
        """Their answers: success, code, text, partition key, offset, id, time (ms)."""
        before, wanted = len(self.events("sent")), list(mails)
        self.write("".join(mail.line() for mail in wanted))
        self.wait(lambda driver: len(driver.events("sent")) >= before + len(wanted), timeout_s)
        return self.events("sent")[before:]


@contextmanager
def producer(masters: str, **options: object) -> Iterator[Producer]:
    """Options of Send.java: ``heartbeat`` (ms), ``timeout``. Raises maven.Unavailable."""
    driver = Producer("Send", {"masters": masters, **options})
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
    driver = Driver(main, options)
    try:
        yield driver
    finally:
        driver.stop()


def tool(name: str, arguments: Sequence[str], *, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run ``CliProducer`` or another class of the server's command line tools to its end; what it prints."""
    line = tubemq_java.command(f"{TOOLS}.{name}", arguments, flags=["-Dpeer.level=error"])
    return subprocess.run(line, capture_output=True, text=True, timeout=timeout_s, check=True)
