"""RocketMQ's own Java clients as processes that report in JSON lines; for any name server, also ours.

``producer`` is DefaultMQProducer, or with ``check`` TransactionMQProducer; ``push`` is DefaultMQPushConsumer, ``lite``
DefaultLitePullConsumer; ``admin`` runs a command of mqadmin. A signal ends each, properly or as a crash.
"""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from tools.peers import rocketmq_java
from tools.peers.java_driver import WITHIN_S, Driver, Line

_REBALANCING = "-Drocketmq.client.rebalance.waitInterval=1000"
"""A client without notifications checks every second, instead of every 20, whether to rebalance."""
MQADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"


@dataclass(frozen=True, slots=True)
class Mail:
    """A message for Java's producer, or a batch if it has several bodies.

    ``how`` is sync, async, oneway, transaction or request. ``queue`` is (broker's name, number); the hash of ``by``
    chooses a queue. ``delay`` is a level; 1 is a second. ``outcome`` is the producer's first decision about a
    transaction: commit, rollback or unknown.
    """

    topic: str
    bodies: Sequence[bytes]
    how: str = "sync"
    tags: str | None = None
    keys: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0
    delay: int | None = None
    queue: tuple[str, int] | None = None
    by: str | None = None
    outcome: str | None = None

    def line(self) -> str:
        """The line for Send.java."""
        bodies = [base64.b64encode(body).decode() for body in self.bodies]
        wanted: dict[str, object] = {"topic": self.topic, "bodies": bodies, "how": self.how, "flag": self.flag}
        named = {name: getattr(self, name) for name in ("tags", "keys", "delay", "by", "outcome")}
        wanted |= {name: value for name, value in named.items() if value is not None}
        if self.properties:
            wanted["properties"] = dict(self.properties)
        if self.queue is not None:
            wanted["broker"], wanted["queue"] = self.queue
        return json.dumps(wanted) + "\n"


class Producer(Driver):
    """Java's producer. Results of asynchronous sends come in any order."""

    def send(self, mails: Iterable[Mail], timeout_s: float = WITHIN_S) -> list[Line]:
        """Their results in order: event (sent, failed), status, id, broker, queue, offset; code and text of errors."""
        before, wanted = len(self._answers()), list(mails)
        self.write("".join(mail.line() for mail in wanted))
        self.wait(lambda driver: len(self._answers()) >= before + len(wanted), timeout_s)
        return sorted(self._answers(), key=lambda line: line["n"])[before:]

    def _answers(self) -> list[Line]:
        return self.events("sent", "failed")


@contextmanager
def producer(
    names: str, group: str = "senders", *, version: str = rocketmq_java.NEWEST, **options: object
) -> Iterator[Producer]:
    """The producer; options of Send.java, with underscores; ``check`` makes it transactional. Raises Unavailable."""
    with _home() as home:
        driver = Producer(_line("Send", {"names": names, "group": group, **options}, home, version))
        try:
            yield driver
        finally:
            driver.stop()


def push(
    names: str,
    group: str,
    *topics: str,
    version: str = rocketmq_java.NEWEST,
    home: Path | None = None,
    **options: object,
) -> AbstractContextManager[Driver]:
    """The push consumer; options are in Push.java, with underscores. ``home``: see `_home`; it is kept."""
    named = {"names": names, "group": group, "topics": ",".join(topics), **options}
    return _running("Push", named, version, home=home)


def lite(
    names: str, group: str, topic: str, *, version: str = rocketmq_java.NEWEST, **options: object
) -> AbstractContextManager[Driver]:
    """The lite pull consumer; options are in Lite.java, with underscores."""
    return _running("Lite", {"names": names, "group": group, "topic": topic, **options}, version)


def admin(names: str, *words: str, version: str = rocketmq_java.NEWEST, timeout_s: float = 60.0) -> str:
    """The output of ``mqadmin WORDS -n NAMES``. Its exit code is 0 even if it failed; then the output says why."""
    with _home() as home:
        line = rocketmq_java.command(MQADMIN, [*words, "-n", names], home=home, version=version)
        run = subprocess.run(line, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=home)
    if run.returncode:
        raise RuntimeError(f"mqadmin {words}: {run.stdout[-800:]}{run.stderr[-800:]}")
    return run.stdout


@contextmanager
def _running(main: str, options: Mapping[str, object], version: str, *, home: Path | None = None) -> Iterator[Driver]:
    with _home() if home is None else nullcontext(rocketmq_java.furnished(home)) as at:
        driver = Driver(_line(main, options, at, version))
        try:
            yield driver
        finally:
            driver.stop()


def _line(main: str, options: Mapping[str, object], home: Path, version: str) -> list[str]:
    words = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    return rocketmq_java.command(main, words, home=home, version=version, flags=[_REBALANCING])


@contextmanager
def _home() -> Iterator[Path]:
    """A folder for a client's log and for the offsets of broadcasts."""
    with tempfile.TemporaryDirectory(prefix="rocketmq-client-", ignore_cleanup_errors=True) as folder:
        yield rocketmq_java.furnished(Path(folder))
