"""Everything that happens to brokers, one thing after the other, under a producer: minutes, so only with --long."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from tests.interop.cluster.traffic import check_all_there, stored, writing
from tools.peers.kafka_cluster import BROKERS, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.long]

PARTITIONS = 3
HARMS: dict[str, Callable[[Cluster, str], None]] = {}


def harm(do: Callable[[Cluster, str], None]) -> Callable[[Cluster, str], None]:
    HARMS[do.__name__] = do
    return do


@harm
def all_killed_in_turn(cluster: Cluster, topic: str) -> None:
    for broker in BROKERS:
        cluster.kill(broker)
        cluster.await_in_sync(topic, 0, [each for each in BROKERS if each != broker])
        cluster.start(broker)
        cluster.await_in_sync(topic)


@harm
def all_frozen_in_turn(cluster: Cluster, topic: str) -> None:
    for broker in BROKERS:
        cluster.freeze(broker)
        cluster.await_in_sync(topic, 0, [each for each in BROKERS if each != broker])
        cluster.thaw(broker)
        cluster.await_in_sync(topic)


@harm
def rolled(cluster: Cluster, topic: str) -> None:
    cluster.roll(topic)


@harm
def reassigned(cluster: Cluster, topic: str) -> None:
    cluster.reassign(topic, {0: (2, 3), 1: (3, 1), 2: (1, 2)})
    cluster.reassign(topic, {0: (3, 1, 2), 1: (1, 2, 3), 2: (2, 3, 1)})


@harm
def grown(cluster: Cluster, topic: str) -> None:
    cluster.grow(topic, PARTITIONS + 2)


@harm
def all_replaced(cluster: Cluster, topic: str) -> None:
    for broker in BROKERS:
        cluster.replace(broker)
        cluster.await_in_sync(topic)


@pytest.mark.parametrize("happens", HARMS)
def test_what_is_acknowledged_is_there_once(kafka_cluster: Cluster, happens: str) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(topic, PARTITIONS, min_insync_replicas="1")
    with writing(kafka_cluster, topic, acks="all") as written:
        written.await_more(100)
        HARMS[happens](kafka_cluster, topic)
        written.await_more(200)
    partitions = PARTITIONS + 2 if happens == "grown" else PARTITIONS
    check_all_there(written.acknowledged, stored(kafka_cluster, topic, partitions))
