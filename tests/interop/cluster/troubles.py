"""What can happen to brokers, by name: each takes a cluster and a topic of three partitions, and leaves both whole."""

from __future__ import annotations

from collections.abc import Callable

from tools.peers.kafka_cluster import BROKERS, Cluster

PARTITIONS = 3
GROWN = PARTITIONS + 2
TROUBLES: dict[str, Callable[[Cluster, str], None]] = {}


def trouble(do: Callable[[Cluster, str], None]) -> Callable[[Cluster, str], None]:
    TROUBLES[do.__name__] = do
    return do


@trouble
def all_killed_in_turn(cluster: Cluster, topic: str) -> None:
    for broker in BROKERS:
        cluster.kill(broker)
        cluster.await_in_sync(topic, 0, [each for each in BROKERS if each != broker])
        cluster.start(broker)
        cluster.await_in_sync(topic)


@trouble
def all_frozen_in_turn(cluster: Cluster, topic: str) -> None:
    for broker in BROKERS:
        cluster.freeze(broker)
        cluster.await_in_sync(topic, 0, [each for each in BROKERS if each != broker])
        cluster.thaw(broker)
        cluster.await_in_sync(topic)


@trouble
def rolled(cluster: Cluster, topic: str) -> None:
    cluster.roll(topic)


@trouble
def reassigned(cluster: Cluster, topic: str) -> None:
    cluster.reassign(topic, {0: (2, 3), 1: (3, 1), 2: (1, 2)})
    cluster.reassign(topic, {0: (3, 1, 2), 1: (1, 2, 3), 2: (2, 3, 1)})


@trouble
def grown(cluster: Cluster, topic: str) -> None:
    cluster.grow(topic, GROWN)


@trouble
def all_replaced(cluster: Cluster, topic: str) -> None:
    for broker in BROKERS:
        cluster.replace(broker)
        cluster.await_in_sync(topic)


def most_replaced(cluster: Cluster, topic: str) -> None:
    """All but one: who begins anew in the middle finds the others by it."""
    for broker in BROKERS[:-1]:
        cluster.replace(broker)
        cluster.await_in_sync(topic)


def partitions_after(happens: str) -> int:
    """How many partitions the topic has then."""
    return GROWN if happens == "grown" else PARTITIONS
