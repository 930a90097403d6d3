"""Groups that our consumer shares with TubeMQ's Java consumer, balanced by a real master."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.interop.peers.tubemq_fixtures import NewCluster, NewTopic
from tests.interop.tubemq.watched import ours
from tools.peers import tubemq, tubemq_clients
from tools.peers.tubemq_clients import Driver, Mail

pytestmark = pytest.mark.interop


def send(cluster: tubemq.Cluster, topic: str, first: int, count: int) -> list[bytes]:
    """Numbered messages, round robin over the partitions."""
    bodies = [b"%d" % i for i in range(first, first + count)]
    with tubemq_clients.producer(cluster.address) as java:
        answers = java.send([Mail(topic, body) for body in bodies])
    assert {answer["code"] for answer in answers} == {200}
    return bodies


def confirmed_all(java: Driver) -> bool:
    """Whether the last that it said is that it confirmed: a partition's messages may come in several answers."""
    last = java.events("message", "confirm")[-1]
    return last["event"] == "confirm" and last["success"]


def test_alone_we_get_everything_and_go_on_where_we_were(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic(stores=4)
    early = send(tubemq_peer, topic, 0, 40)
    with ours(tubemq_peer.url, "alone", topic) as member:
        assert sorted(member.wait_messages(40)) == sorted(early)
        assert member.wait_holding(4) == [f"1:{topic}:{store * 10_000}" for store in range(4)]
    late = send(tubemq_peer, topic, 40, 20)
    with ours(tubemq_peer.url, "alone", topic) as member:
        assert sorted(member.wait_messages(20)) == sorted(late)


def test_partitions_of_one_store_are_read_whole(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic(partitions=3, stores=2)
    sent = send(tubemq_peer, topic, 0, 300)
    with ours(tubemq_peer.url, "packed", topic) as member:
        member.wait_messages(300)
        member.wait_holding(6)
    assert Counter(member.bodies) == Counter(sent)


def test_we_take_over_from_java_and_java_from_us(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic(stores=2)
    first = send(tubemq_peer, topic, 0, 20)
    with tubemq_clients.pull(tubemq_peer.address, "relay", topic) as java:
        java.wait_messages(20)
    second = send(tubemq_peer, topic, 20, 20)
    with ours(tubemq_peer.url, "relay", topic) as member:
        member.wait_messages(20)
    third = send(tubemq_peer, topic, 40, 20)
    with tubemq_clients.pull(tubemq_peer.address, "relay", topic) as last:
        last.wait_messages(20)
    assert [Counter(each.bodies) for each in (java, member, last)] == [Counter(first), Counter(second), Counter(third)]


def test_java_joins_our_group_and_leaves_it(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic(stores=4)
    with ours(tubemq_peer.url, "joined", topic) as member:
        member.wait_holding(4)
        with tubemq_clients.pull(tubemq_peer.address, "joined", topic) as java:
            java.wait_holding(2)
            member.wait_holding(2)
            assert not set(java.holding) & set(member.holding)
            both = send(tubemq_peer, topic, 0, 40)
            java.wait_messages(20)
            member.wait_messages(20)
            assert Counter(java.bodies) + Counter(member.bodies) == Counter(both)
        member.wait_holding(4)
        alone = send(tubemq_peer, topic, 40, 20)
        member.wait_messages(40)
        assert Counter(member.bodies[20:]) == Counter(alone)


def test_we_join_a_java_group_and_leave_it(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic(stores=4)
    with tubemq_clients.pull(tubemq_peer.address, "guests", topic) as java:
        java.wait_holding(4)
        with ours(tubemq_peer.url, "guests", topic) as member:
            member.wait_holding(2)
            java.wait_holding(2)
            both = send(tubemq_peer, topic, 0, 40)
            java.wait_messages(20)
            member.wait_messages(20)
        java.wait_holding(4)
        alone = send(tubemq_peer, topic, 40, 20)
        java.wait_messages(40)
    assert Counter(java.bodies) + Counter(member.bodies) == Counter(both) + Counter(alone)


@pytest.mark.slow
def test_partitions_of_a_killed_java_member_come_to_us(tubemq_own: NewCluster) -> None:
    # Twenty seconds are the least that a broker waits for a member that fell silent.
    own = tubemq_own(
        master_settings={"consumerHeartbeatTimeoutMs": 5_000}, broker_settings={"consumerRegTimeoutMs": 20_000}
    )
    own.create_topics("flow", stores=4)
    with ours(own.url, "bereaved", "flow") as member:
        member.wait_holding(4)
        with tubemq_clients.pull(own.address, "bereaved", "flow") as java:
            java.wait_holding(2)
            member.wait_holding(2)
            both = send(own, "flow", 0, 40)
            java.wait(lambda driver: len(driver.messages) == 20 and confirmed_all(driver))
            member.wait_messages(20)
            java.kill()
        orphaned = send(own, "flow", 40, 40)
        member.wait_holding(4)
        member.wait(lambda ours: {*orphaned} <= {record.value for record in ours.records})
    got = Counter(java.bodies) + Counter(member.bodies)
    assert sorted(got.elements()) == sorted(both + orphaned)
