"""One suite, every log: the fixture ``log`` is each of them in turn. A new one is a row in ``LOGS``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from penstock.client import Admin
from penstock.model import Partition
from penstock.protocols import register
from penstock.seams import NewTopic
from penstock.testing import Broker
from tests.conformance.fake_log import FakeLogs
from tests.toy.registration import PROTOCOL as TOY
from tools.peers import kafka
from tools.peers.maven import Unavailable

_names = itertools.count(1)

# Quick reactions: a test that waits for a heartbeat waits for nothing else.
CONSUMER: dict[str, Any] = {"heartbeat_interval_ms": 50, "fetch_max_wait_ms": 100, "metadata_max_age_ms": 200}


@dataclass(frozen=True)
class Log:
    """Where a log is, and how tests make topics of their own in it."""

    address: str

    def topic(self, partitions: int = 1) -> str:
        """A fresh topic."""
        name = f"topic_{next(_names)}"
        with Admin(self.address) as admin:
            admin.create_topics([NewTopic(name, partitions)])
        return name

    def at(self, *topics: str) -> str:
        """The address with topics."""
        return f"{self.address}/{','.join(topics)}"

    def partitions(self, topic: str) -> list[Partition]:
        """A topic's partitions."""
        with Admin(self.address) as admin:
            return [info.partition for info in admin.topics([topic])[topic].partitions]


@contextmanager
def in_memory() -> Iterator[Log]:
    logs = FakeLogs()
    register(logs.protocol())
    yield Log("fake://conformance:1")


@contextmanager
def kafka_front() -> Iterator[Log]:
    with Broker(auto_create_topics=False) as broker:
        yield Log(broker.address)


@contextmanager
def tubemq_front() -> Iterator[Log]:
    with Broker(listen="tubemq://127.0.0.1:0") as broker:
        yield Log(broker.url("tubemq"))


@contextmanager
def toy_front() -> Iterator[Log]:
    register(TOY)
    with Broker(listen="toy://127.0.0.1:0") as broker:
        yield Log(broker.url("toy"))


@contextmanager
def real_kafka() -> Iterator[Log]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory()))
        try:
            broker = stack.enter_context(kafka.broker(home))
        except Unavailable as reason:
            pytest.skip(f"no Kafka: {reason}")
        yield Log(f"kafka://{broker.bootstrap}")


LOGS: dict[str, Callable[[], AbstractContextManager[Log]]] = {
    "fake": in_memory,
    "kafka": kafka_front,
    "toy": toy_front,
}

NO_ROW_OFFSETS: dict[str, Callable[[], AbstractContextManager[Log]]] = {"tubemq": tubemq_front}
"""Logs whose offsets do not count records and whose messages have no headers: some suites are theirs, too."""

PEERS = {"real kafka": real_kafka}
"""Servers of others: run by ./dev interop."""


@pytest.fixture(
    scope="session", params=[*sorted(LOGS), *(pytest.param(name, marks=pytest.mark.interop) for name in PEERS)]
)
def log(request: pytest.FixtureRequest) -> Iterator[Log]:
    with (LOGS | NO_ROW_OFFSETS | PEERS)[request.param]() as found:
        yield found


@pytest.fixture
def group() -> str:
    return f"group-{next(_names)}"
