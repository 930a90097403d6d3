"""Brokers killed and frozen while our clients write and read, directly or through a Snode: nothing is lost."""

from __future__ import annotations

import threading
import time

import pytest

import penstock
from penstock.client import Consumer, Delivery, Producer
from penstock.config import OptionValue
from penstock.errors import PenstockError
from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import SERVED, RocketMQ
from tools.peers.rocketmq_frames import TOPICS, ask

pytestmark = [pytest.mark.interop, pytest.mark.long]

PATIENT: dict[str, OptionValue] = {"request_timeout_ms": 2_000, "first_contact_timeout_ms": 30_000}


class Load:
    """A thread that writes numbers until it is told to stop; ``sent`` are all deliveries, by their number."""

    def __init__(self, address: str, topic: str) -> None:
        self._address = address
        self._topic = topic
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent: list[Delivery] = []

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def _run(self) -> None:
        with Producer(self._address, delivery_timeout_ms=60_000, **PATIENT) as producer:
            while not self._enough.wait(0.01):
                self.sent += [producer.send(self._topic, b"%d" % len(self.sent)) for _ in range(1)]

    @property
    def acknowledged(self) -> set[bytes]:
        """What was stored, as far as the producer was told."""
        found = set()
        for n, delivery in enumerate(self.sent):
            try:
                delivery.result(0)
            except PenstockError:
                continue
            found.add(b"%d" % n)
        return found


@pytest.mark.parametrize("version", SERVED)
def test_nothing_acknowledged_is_lost(version: str, rocketmq_own: RocketMQ) -> None:
    own = rocketmq_own(version, brokers=2)
    own.create_topic("flow", queues=2)
    address = f"rocketmq://{own.address}"
    found: set[bytes] = set()
    settings: dict[str, OptionValue] = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 500, **PATIENT}
    with Consumer(f"{address}/flow", group="readers", **settings) as consumer:

        def read(seconds: float) -> None:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                found.update(record.value or b"" for record in consumer.poll(0.2))

        with Load(address, "flow") as load:
            read(2)
            own.brokers[0].kill()
            read(2)
            own.brokers[0].start()
            read(2)
            own.brokers[1].freeze()
            read(4)
            own.brokers[1].thaw()
            read(2)
            for node in own.brokers:
                node.kill()
            for node in own.brokers:
                node.start()
            read(2)
        acknowledged = load.acknowledged
        assert len(acknowledged) > 500
        deadline = time.monotonic() + 60
        while not acknowledged <= found and time.monotonic() < deadline:
            read(0.5)
    stored = {bytes(value) for value in penstock.read(f"{address}/flow", ["value"])["value"].to_pylist()}
    assert acknowledged <= stored
    assert acknowledged <= found


@pytest.mark.parametrize("brokers", [1, 2])
def test_what_was_committed_is_not_read_twice_after_a_kill(brokers: int, rocketmq_own: RocketMQ) -> None:
    # A broker that is killed within seconds has told its file of offsets nothing of a new group.
    own = rocketmq_own(brokers=brokers)
    own.create_topic("flow", queues=2)
    address = f"rocketmq://{own.address}"
    settings: dict[str, OptionValue] = {"auto_offset_reset": "earliest", "rebalance_ms": 1_000, **PATIENT}
    with (
        Producer(address) as producer,
        Consumer(f"{address}/flow", group="survivors", enable_auto_commit=False, **settings) as consumer,
    ):
        places = len(producer.partitions_for("flow"))

        def write(first: int, count: int) -> list[bytes]:
            bodies = [b"%d" % n for n in range(first, first + count)]
            for delivery in [producer.send("flow", body, partition=n % places) for n, body in enumerate(bodies)]:
                delivery.result(60)
            return bodies

        def read(count: int) -> list[bytes | None]:
            found: list[bytes | None] = []
            deadline = time.monotonic() + 90
            while len(found) < count and time.monotonic() < deadline:
                batch = consumer.poll(0.5)
                found += batch.value.to_pylist()
                consumer.commit(batch)
            return found

        sent = write(0, 200)
        found = read(200)
        own.brokers[0].kill()
        deadline = time.monotonic() + 60
        while any(each.node == "broker-1" for each in consumer.assignment()) and time.monotonic() < deadline:
            consumer.poll(0.5)
        own.brokers[0].start()
        sent += write(200, 20)
        found += read(20)
        assert sorted(found, key=str) == sorted(sent, key=str)


@pytest.mark.parametrize("version", SERVED)
def test_standbys_are_read_where_a_master_is_away_or_says_so(version: str, rocketmq_own: RocketMQ) -> None:
    # Whoever is behind by more than nothing is sent to the standby.
    ratio = {"accessMessageInMemoryMaxRatio": 0, "slaveReadEnable": "true"}
    own = rocketmq_own(version, standbys=1, settings=ratio)
    own.create_topic("flow", queues=2)
    address = f"rocketmq://{own.address}"
    with Producer(address) as producer:
        for n in range(1_000):
            producer.send("flow", b"%d" % n)
    comes_to(lambda: sum(end for _, end in own.ends("flow", own.standbys).values()), 1_000, 60)
    # A standby of 5.x gives nothing of a topic that it has not heard of, though it has the messages.
    comes_to(lambda: b'"flow"' in ask(own.standbys[0].port, TOPICS).body, True, 60)
    wanted = {b"%d" % n for n in range(1_000)}
    settings: dict[str, OptionValue] = {"auto_offset_reset": "earliest", "rebalance_ms": 1_000, **PATIENT}

    def all_of(consumer: Consumer) -> set[bytes]:
        found: set[bytes] = set()
        deadline = time.monotonic() + 60
        while found < wanted and time.monotonic() < deadline:
            found |= {record.value or b"" for record in consumer.poll(0.5)}
        return found

    with Consumer(f"{address}/flow", group="suggested", **settings) as consumer:
        assert all_of(consumer) == wanted
        own.broker.kill()
        comes_to(own.known, ["broker-1-standby"], 60)
        consumer.seek_to_beginning()
        assert all_of(consumer) == wanted
        assert penstock.read(f"{address}/flow", ["value"]).num_rows == 1_000
        with Consumer(f"{address}/flow", group="fresh", **settings) as other:
            assert all_of(other) == wanted
        own.broker.start()
        with Producer(address) as producer:
            producer.send("flow", b"back").result()
        deadline = time.monotonic() + 60
        found: set[bytes | None] = set()
        while b"back" not in found and time.monotonic() < deadline:
            found |= {record.value for record in consumer.poll(0.5)}
        assert b"back" in found
