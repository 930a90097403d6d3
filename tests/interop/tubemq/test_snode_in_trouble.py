"""A Snode before a real TubeMQ cluster, and one of the two goes away in the middle of things."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.chaos.plain_sockets import free_port
from tests.chaos.snode_process import SnodeProcess
from tests.eventually import comes_to
from tests.interop.peers.tubemq_fixtures import NewCluster
from tools.peers import tubemq

pytestmark = [pytest.mark.interop, pytest.mark.long]
WITHIN_S = 120.0


@contextmanager
def snode_process(cluster: tubemq.Cluster, journals: Path) -> Iterator[tuple[SnodeProcess, str]]:
    port = free_port()
    listen = f"kafka://127.0.0.1:{port}"
    with SnodeProcess(cluster.url, listen, "--journals", f"file:{journals}") as snode:
        yield snode, f"127.0.0.1:{port}"


class Writer:
    """Sends numbers until it is told to stop; ``stored`` are those that were acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.stored: set[int] = set()
        self.over = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 100_000, "linger.ms": 5})
        self._topic, self._partitions = topic, partitions
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self.over.is_set():
            self._send(number)
            number += 1
            self._producer.poll(0.002)
        self._producer.flush(WITHIN_S)

    def _send(self, number: int) -> None:
        def told(error: object, message: object) -> None:
            if error is None:
                self.stored.add(number)

        self._producer.produce(self._topic, b"%d" % number, partition=number % self._partitions, on_delivery=told)

    def wait(self, count: int) -> None:
        """Until so many were acknowledged."""
        comes_to(lambda: len(self.stored) >= count, True, WITHIN_S)

    def end(self) -> set[int]:
        self.over.set()
        self._thread.join(WITHIN_S)
        return self.stored


class Reader:
    """A member of a group that commits what it has read, now and then."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.seen: list[int] = []
        self.over = threading.Event()
        options = {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**options, "auto.commit.interval.ms": 200, "session.timeout.ms": 10_000})
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self.over.is_set():
            for message in self._consumer.consume(100, 0.1):
                if message.error() is None:
                    self.seen.append(int(message.value() or b""))
        self._consumer.close()

    def wait(self, wanted: set[int]) -> None:
        """Until all of them were read."""
        comes_to(lambda: sorted(wanted.difference(self.seen))[:10], [], WITHIN_S)

    def end(self) -> None:
        self.over.set()
        self._thread.join(WITHIN_S)


def test_a_snode_killed_while_a_group_reads_and_others_write_loses_nothing(
    tubemq_own: NewCluster, tmp_path: Path
) -> None:
    own = tubemq_own()
    own.create_topics("flow", partitions=3, stores=2)
    with snode_process(own, tmp_path) as (snode, bootstrap):
        writer, reader = Writer(bootstrap, "flow", 6), Reader(bootstrap, "flow")
        for count in (500, 1_500):
            writer.wait(count)
            snode.kill()
            snode.start()
        writer.wait(2_500)
        stored = writer.end()
        reader.wait(stored)
        reader.end()
        assert reader.seen, "nothing was read"


def test_a_broker_restarted_in_order_under_load_costs_nothing(tubemq_own: NewCluster, tmp_path: Path) -> None:
    own = tubemq_own()
    own.create_topics("flow", partitions=3, stores=2)
    with snode_process(own, tmp_path) as (_, bootstrap):
        writer, reader = Writer(bootstrap, "flow", 6), Reader(bootstrap, "flow")
        writer.wait(500)
        own.broker.stop()
        own.broker.start()
        own.wait_settled()
        writer.wait(1_500)
        stored = writer.end()
        reader.wait(stored)
        reader.end()
