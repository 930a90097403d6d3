"""A node whose topics a Kafka cluster of three brokers keeps, while one of the brokers, or the node, is killed."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.client import Consumer, Producer
from penstock.testing import Broker
from tests.chaos.plain_sockets import free_port
from tests.chaos.snode_process import SnodeProcess
from tests.interop.cluster.traffic import stored, writing
from tools.peers.kafka_cluster import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.long]

SEEDS = int(os.environ.get("PENSTOCK_FAR_SEEDS", "3"))
PARTITIONS = 3
RECORDS = 1_500
WITHIN_S = 120.0
ALL = {b"%d" % number for number in range(RECORDS)}


class At:
    """Somewhere that records are written to."""

    def __init__(self, address: str) -> None:
        self.address = address


def test_a_killed_broker_takes_nothing_and_doubles_nothing(kafka_cluster: Cluster) -> None:
    topic = "killed-behind"
    kafka_cluster.create_topic(topic, PARTITIONS, min_insync_replicas="2")
    with (
        Broker(kafka_cluster.address, offsets_partitions=2, auto_create_topics=False) as node,
        writing(At(node.address), topic, delivery_timeout_ms=60_000) as written,  # type: ignore[arg-type]
    ):
        written.await_more(200)
        leader = kafka_cluster.leader(topic)
        kafka_cluster.kill(leader)
        written.await_more(500)
        kafka_cluster.start(leader)
        written.await_more(200)
    kafka_cluster.await_in_sync(topic)
    assert stored(kafka_cluster, topic, PARTITIONS).items() >= written.acknowledged.items()


@pytest.mark.parametrize("how", ["kill", "freeze"])
@pytest.mark.parametrize("scheme", ["rocketmq", "tubemq"])
def test_the_nodes_own_numbers_keep_what_was_sent_again_from_being_stored_twice(
    kafka_cluster: Cluster, scheme: str, how: str
) -> None:
    topic = f"own_numbers_{scheme}_{how}"
    kafka_cluster.create_topic(topic, PARTITIONS, min_insync_replicas="2")
    listen = f"{scheme}://127.0.0.1:0"
    with Broker(kafka_cluster.address, listen=listen, offsets_partitions=2) as node:
        patient = {"request_timeout_ms": 40_000, "delivery_timeout_ms": 90_000}
        with writing(At(node.url(scheme)), topic, **patient) as written:  # type: ignore[arg-type]
            written.await_more(100)
            leader = kafka_cluster.leader(topic)
            (kafka_cluster.kill if how == "kill" else kafka_cluster.freeze)(leader)
            written.await_more(300)
            (kafka_cluster.start if how == "kill" else kafka_cluster.thaw)(leader)
            written.await_more(100)
    kafka_cluster.await_in_sync(topic)
    assert stored(kafka_cluster, topic, PARTITIONS).keys() >= written.acknowledged.keys()


@contextmanager
def reading(address: str) -> Iterator[set[bytes]]:
    """A member of a group that reads until it has everything; at the end of the block it has, or time is over."""
    seen: set[bytes] = set()
    over = threading.Event()

    def run() -> None:
        with Consumer(address, group="readers", auto_offset_reset="earliest") as consumer:
            while seen != ALL and not over.is_set():
                batch = consumer.poll(1)
                seen.update(record.value or b"" for record in batch)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield seen
        thread.join(WITHIN_S)
    finally:
        over.set()


@pytest.mark.parametrize("scheme", ["kafka", "rocketmq", "tubemq"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_killed_node_takes_nothing(kafka_cluster: Cluster, scheme: str, seed: int) -> None:
    dice = random.Random(seed)
    topic = f"node_killed_{scheme}_{seed}"
    kafka_cluster.create_topic(topic, PARTITIONS, min_insync_replicas="2")
    listen = f"{scheme}://127.0.0.1:{free_port()}"
    kills = sorted(dice.sample(range(100, RECORDS - 100), 2))
    with (
        SnodeProcess(kafka_cluster.address, listen) as snode,
        reading(f"{listen}/{topic}") as seen,
        Producer(listen, delivery_timeout_ms=90_000) as producer,
    ):
        for number in range(RECORDS):
            sent = producer.send(topic, b"%d" % number)
            if number in kills:
                sent.result(WITHIN_S)
                snode.kill()
                snode.start()
        producer.flush()
    assert seen == ALL
