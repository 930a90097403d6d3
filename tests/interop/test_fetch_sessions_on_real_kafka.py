"""Fetch sessions with a real Kafka: kept while partitions come, go and pause, begun anew where the broker lost them."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.client import Admin, Consumer, Producer
from penstock.interfaces import NewTopic
from penstock.model import Partition
from penstock.protocols.kafka.client.client import KafkaClient
from penstock.protocols.kafka.client.fetch import FetchSession, State
from tests.interop.ends import until
from tools.peers import kafka
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

PARTITIONS = 6


def sessions(consumer: Consumer) -> list[FetchSession]:
    engine = consumer._inner._engine
    assert engine is not None
    assert isinstance(engine.client, KafkaClient)
    return list(engine.client._reader._sessions.values())


class Reading:
    """A consumer whose partitions are assigned by hand, what is written for it, and what it has to read next."""

    def __init__(self, address: str, topic: str) -> None:
        self.topic = topic
        self.consumer = Consumer(address, fetch_max_wait_ms=50)
        self.producer = Producer(address)
        self.next = [0] * PARTITIONS
        self.ends = [0] * PARTITIONS

    def __enter__(self) -> Reading:
        self.assign(range(PARTITIONS))
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()
        self.producer.close()

    def assign(self, numbers: range | list[int]) -> None:
        self.consumer.assign({Partition(self.topic, number): self.next[number] for number in numbers})

    def write(self, number: int, count: int) -> None:
        for _ in range(count):
            self.producer.send(self.topic, b"%d.%d" % (number, self.ends[number]), partition=number)
            self.ends[number] += 1
        self.producer.flush()

    def poll(self, timeout_s: float) -> None:
        for each in self.consumer.poll(timeout_s):
            assert (each.offset, each.value) == (self.next[each.partition], b"%d.%d" % (each.partition, each.offset))
            self.next[each.partition] += 1

    def finish(self) -> None:
        """Read to the end."""
        self.consumer.resume(self.consumer.paused())
        self.assign(range(PARTITIONS))
        for _ in range(200):
            if self.next == self.ends:
                return
            self.poll(0.2)
        raise AssertionError(f"read up to {self.next} of {self.ends}")


def anything(reading: Reading, dice: random.Random) -> None:
    number = dice.randrange(PARTITIONS)
    here = Partition(reading.topic, number)
    assigned = here in reading.consumer.assignment()
    match dice.choice(("write", "write", "pause", "resume", "assign", "seek")):
        case "write":
            reading.write(number, dice.randrange(1, 20))
        case "pause" if assigned:
            reading.consumer.pause([here])
        case "resume" if assigned:
            reading.consumer.resume([here])
        case "assign":
            reading.assign(dice.sample(range(PARTITIONS), dice.randrange(1, PARTITIONS + 1)))
        case "seek" if assigned:
            reading.next[number] = dice.randrange(reading.ends[number] + 1)
            reading.consumer.seek(here, reading.next[number])


def test_a_session_outlasts_partitions_that_come_and_go_and_pause(any_kafka: kafka.Broker) -> None:
    topic, dice = f"t-{uuid.uuid4().hex[:8]}", random.Random(7)
    any_kafka.create_topic(topic, PARTITIONS)
    with Reading(f"kafka://{any_kafka.bootstrap}", topic) as reading:
        for _ in range(80):
            anything(reading, dice)
            reading.poll(dice.choice((0.0, 0.01, 0.1)))
        (session,) = sessions(reading.consumer)
        begun = session._id
        assert (session.state, session._epoch > 20) == (State.KEPT, True)
        reading.finish()
        assert [(each.state, each._id) for each in sessions(reading.consumer)] == [(State.KEPT, begun)]


@contextmanager
def broker(home: Path, slots: int) -> Iterator[kafka.BrokerProcess]:
    """One that may be killed, with room for so many sessions, an eighth in each of its eight caches."""
    try:
        made = kafka.broker_process(home, settings={"max.incremental.fetch.session.cache.slots": str(slots)})
    except Unavailable as reason:
        pytest.skip(f"no Kafka to test with: {reason}")
    made.start()
    try:
        yield made
    finally:
        made.stop()


def create(on: kafka.BrokerProcess) -> str:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(on.address) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    return topic


@pytest.mark.long
def test_a_broker_that_was_killed_has_forgotten_the_session_and_nothing_else(tmp_path: Path) -> None:
    with broker(tmp_path, 8) as own, Reading(own.address, create(own)) as reading:
        reading.write(0, 10)
        reading.finish()
        (before,) = (each._id for each in sessions(reading.consumer))
        own.kill()
        own.start()
        for number in range(PARTITIONS):
            reading.write(number, 5)
        reading.finish()
        (after,) = sessions(reading.consumer)
        assert (after.state, after._id != before) == (State.KEPT, True)


@pytest.mark.long
def test_who_goes_leaves_his_place_to_the_next(tmp_path: Path) -> None:
    with broker(tmp_path, 8) as own:
        topic = create(own)
        for _ in range(20):
            with Reading(own.address, topic) as reading:
                until(lambda: reading.poll(0.1) is None and any(each._epoch for each in sessions(reading.consumer)))
                assert [each.state for each in sessions(reading.consumer)] == [State.KEPT]


@pytest.mark.long
def test_a_broker_without_room_is_read_as_well(tmp_path: Path) -> None:
    with broker(tmp_path, 1) as own, Reading(own.address, create(own)) as reading:
        for number in range(PARTITIONS):
            reading.write(number, 50)
        reading.finish()
        assert [each.state for each in sessions(reading.consumer)] == [State.NONE]
