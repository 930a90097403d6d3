"""Masters and brokers of a real cluster that go away under our clients, in order and without warning."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock import Consumer, Producer
from penstock.client import Delivery
from tests.interop.peers.tubemq_fixtures import NewCluster
from tests.interop.tubemq.watched import WITHIN_S, Ours, ours
from tools.peers import tubemq, tubemq_clients

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def produce(producer: Producer, first: int, count: int) -> list[bytes]:
    """Numbered messages to the topic flow, all acknowledged."""
    bodies = [b"%d" % i for i in range(first, first + count)]
    deliveries = [producer.send("flow", body) for body in bodies]
    producer.flush()
    for delivery in deliveries:
        delivery.result()
    return bodies


@contextmanager
def load(producer: Producer) -> Iterator[dict[bytes, Delivery]]:
    """Some 2,000 messages a second from a thread, until the block ends: what was sent, and what became of it."""
    sent: dict[bytes, Delivery] = {}
    over = threading.Event()

    def send() -> None:
        for number in itertools.count():
            sent[b"%d" % number] = producer.send("flow", b"%d" % number)
            if number % 20 == 0 and over.wait(0.01):
                return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        over.set()
        thread.join()


def wait_for_all(member: Ours, sent: list[bytes]) -> None:
    """Until every message came at least once; what was not confirmed in time may come again."""
    member.wait(lambda ours: set(sent) <= {record.value for record in ours.records})
    assert set(member.bodies) == set(sent)


def restart_broker(cluster: tubemq.Cluster) -> None:
    cluster.broker.stop()
    cluster.broker.start()


def restart_master(cluster: tubemq.Cluster) -> None:
    cluster.master.kill()
    cluster.master.start()


@pytest.mark.parametrize("trouble", [restart_master, restart_broker])
def test_reading_and_writing_go_on_after_a_restart(
    tubemq_own: NewCluster, trouble: Callable[[tubemq.Cluster], None]
) -> None:
    own = tubemq_own()
    own.create_topics("flow", stores=2)
    with Producer(own.url) as producer, ours(own.url, "survivors", "flow") as member:
        sent = produce(producer, 0, 200)
        wait_for_all(member, sent)
        trouble(own)
        sent += produce(producer, 200, 200)
        wait_for_all(member, sent)


def test_a_group_with_java_survives_its_master(tubemq_own: NewCluster) -> None:
    own = tubemq_own()
    own.create_topics("flow", stores=4)
    with (
        Producer(own.url) as producer,
        ours(own.url, "mixed", "flow") as member,
        tubemq_clients.pull(own.address, "mixed", "flow") as java,
    ):
        member.wait_holding(2)
        java.wait_holding(2)
        restart_master(own)
        own.wait_settled()
        sent = produce(producer, 0, 400)
        java.wait(lambda driver: set(driver.bodies) | set(member.bodies) >= set(sent))
        assert Counter(java.bodies) + Counter(member.bodies) == Counter(sent)


def test_another_master_takes_over(tubemq_own: NewCluster) -> None:
    own = tubemq_own(masters=3)
    own.create_topics("flow", stores=2)
    with Producer(own.url) as producer, ours(own.url, "survivors", "flow") as member:
        sent = produce(producer, 0, 50)
        wait_for_all(member, sent)
        own.master.kill()
        sent += produce(producer, 50, 50)
        wait_for_all(member, sent)
    with ours(own.url, "newcomers", "flow") as member:
        wait_for_all(member, sent)


def test_what_a_killed_broker_had_flushed_is_read_on(tubemq_own: NewCluster) -> None:
    own = tubemq_own()
    own.create_topics("flow")
    with Producer(own.url) as producer, ours(own.url, "survivors", "flow") as member:
        sent = produce(producer, 0, 20)
        wait_for_all(member, sent)
        own.broker.stop()  # flushes
        own.broker.start()
        own.wait_settled()
        own.broker.kill()
        own.broker.start()
        own.wait_settled()
        sent += produce(producer, 20, 20)
        wait_for_all(member, sent)


@pytest.mark.parametrize("balanced_by", ["master", "members", "application"])
def test_confirmed_messages_are_not_read_twice_after_a_kill(tubemq_own: NewCluster, balanced_by: str) -> None:
    # A broker that is killed within seconds has told its file of offsets nothing of a new group.
    own = tubemq_own()
    own.create_topics("flow", partitions=2)
    shared = {} if balanced_by == "master" else {"client_balance": True, "source_count": 1, "node_id": 0}
    with (
        Producer(own.url) as producer,
        Consumer(own.url, group="survivors", heartbeat_interval_ms=1_000, **shared) as consumer,
    ):
        sent = produce(producer, 0, 200)
        own.broker.stop()  # flushes the messages
        own.broker.start()
        own.wait_settled()
        if balanced_by == "application":
            consumer.assign(dict.fromkeys(consumer.partitions_for("flow"), 0))
        else:
            consumer.subscribe(["flow"])
        found = confirmed(consumer, 200)
        own.broker.kill()
        own.broker.start()
        own.wait_settled()
        sent += produce(producer, 200, 20)
        found += confirmed(consumer, 20)
        assert Counter(found) == Counter(sent)


def confirmed(consumer: Consumer, count: int) -> list[bytes | None]:
    """So many messages, each batch committed as it comes."""
    found: list[bytes | None] = []
    over = time.monotonic() + WITHIN_S
    while len(found) < count and time.monotonic() < over:
        batch = consumer.poll(0.5)
        found += batch.value.to_pylist()
        consumer.commit(batch)
    return found


def test_a_broker_restarted_in_order_under_load_costs_nothing(tubemq_own: NewCluster) -> None:
    # While it stops, it first answers 503, and then, for as long as its connections live, that it is not ready.
    own = tubemq_own()
    own.create_topics("flow", stores=2)
    with Producer(own.url) as producer, ours(own.url, "survivors", "flow") as member:
        with load(producer) as sent:
            member.wait_messages(500)
            before = len(sent)
            restart_broker(own)
            own.wait_settled()
            after = len(sent)
            member.wait(lambda _: len(sent) > after + 500)
        failed = Counter(type(delivery.exception(60)).__name__ for delivery in sent.values())
        assert before < after
        assert failed == {"NoneType": len(sent)}
        wait_for_all(member, list(sent))
