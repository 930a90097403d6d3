"""Real clusters of two and three brokers: what happens to one of them costs nothing that was acknowledged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock import Producer
from tests.interop.peers.tubemq_fixtures import NewCluster
from tests.interop.tubemq.test_cluster_trouble import load, wait_for_all
from tests.interop.tubemq.watched import ours
from tools.peers import tubemq

pytestmark = [pytest.mark.interop, pytest.mark.slow]

Happens = Callable[[tubemq.Node], None]


def to_all(producer: Producer, first: int, count: int) -> list[bytes]:
    """Numbered messages to the topic flow, to its partitions in turn, all acknowledged."""
    places = len(producer.partitions_for("flow"))
    bodies = [b"one of all %d" % number for number in range(first, first + count)]
    for delivery in [producer.send("flow", body, partition=at % places) for at, body in enumerate(bodies)]:
        delivery.result(60)
    return bodies


def written(cluster: tubemq.Cluster) -> set[int]:
    """The running brokers that have messages of the topic."""
    return {broker for (broker, _), (_, end) in cluster.ends("flow").items() if end}


@pytest.mark.parametrize(
    ("brokers", "away", "back"),
    [
        pytest.param(2, tubemq.Node.kill, tubemq.Node.start, id="killed, of two"),
        pytest.param(3, tubemq.Node.kill, tubemq.Node.start, id="killed, of three"),
        pytest.param(2, tubemq.Node.freeze, tubemq.Node.thaw, id="frozen, of two"),
    ],
)
def test_a_broker_that_is_away_and_comes_back_costs_nothing(
    tubemq_own: NewCluster, brokers: int, away: Happens, back: Happens
) -> None:
    own = tubemq_own(brokers=brokers)
    own.create_topics("flow", stores=2)
    last = own.brokers[-1]
    with Producer(own.url, request_timeout_ms=3_000) as producer, ours(own.url, "survivors", "flow") as member:
        member.wait_holding(2 * brokers)
        sent = to_all(producer, 0, 100)
        assert written(own) == set(range(1, brokers + 1))
        wait_for_all(member, sent)
        last.stop()  # which flushes: one that is killed loses what it acknowledged and still had in memory
        last.start()
        own.wait_settled()
        away(last)
        with load(producer) as during:
            there = len(member.records)
            member.wait(lambda ours: len(ours.records) > there + 500)
            back(last)
            own.wait_settled()
            there = len(member.records)
            member.wait(lambda ours: len(ours.records) > there + 500)
        assert {type(delivery.exception(60)) for delivery in during.values()} == {type(None)}
        sent += [*during, *to_all(producer, 100, 100)]
        wait_for_all(member, sent)
        assert written(own) == set(range(1, brokers + 1))


def test_a_topic_of_two_brokers_of_three_is_read_and_written_there_alone(tubemq_own: NewCluster) -> None:
    own = tubemq_own(brokers=3)
    own.create_topics("flow", partitions=2, brokers=(1, 3))
    with Producer(own.url) as producer, ours(own.url, "readers", "flow") as member:
        assert {partition.node for partition in producer.partitions_for("flow")} == {"1", "3"}
        held = member.wait_holding(4)
        assert {key.partition(":")[0] for key in held} == {"1", "3"}
        sent = to_all(producer, 0, 200)
        wait_for_all(member, sent)
        assert written(own) == {1, 3}
        own.brokers[1].kill()  # it has nothing to do with it
        sent += to_all(producer, 200, 100)
        wait_for_all(member, sent)
