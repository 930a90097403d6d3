"""What a real master or broker says no to reaches the user under its code, with what to do about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock import Consumer, Partition, Producer
from penstock.errors import PenstockError, ServerError
from tests.interop.peers.tubemq_fixtures import NewCluster, NewTopic
from tests.interop.tubemq.watched import ours
from tools.peers import tubemq, tubemq_clients

pytestmark = pytest.mark.interop

POLLS = 60


@contextmanager
def java_group(cluster: tubemq.Cluster, group: str, *topics: str) -> Iterator[None]:
    """A server-balanced Java member that holds something."""
    with tubemq_clients.pull(cluster.address, group, *topics) as java:
        java.wait(lambda driver: driver.holding)
        yield


def refusal(address: str, group: str, **options: object) -> ServerError:
    """What our consumer raises when it joins like this."""
    query = "&".join(f"{name}={value}" for name, value in {"heartbeat_interval_ms": 500, **options}.items())
    with Consumer(f"{address}?{query}", group=group) as consumer, pytest.raises(ServerError) as caught:
        poll_on(consumer)
    return caught.value


def poll_on(consumer: Consumer) -> None:
    """Until something is raised, for half a minute."""
    for _ in range(POLLS):
        consumer.poll(0.5)


def says(error: PenstockError, code: int, name: str) -> bool:
    """Whether it has the code, its name, and a hint."""
    return isinstance(error, ServerError) and (error.code, error.name) == (code, name) and bool(error.hint)


@pytest.mark.parametrize(
    ("code", "name", "options"),
    [
        (424, "CLIENT_INCONSISTENT_CONSUMETYPE", {"client_balance": "true"}),
        (426, "CLIENT_INCONSISTENT_FILTERSET", {"filters": "blue"}),
        (
            424,
            "CLIENT_INCONSISTENT_CONSUMETYPE",
            {"bound_consume": "true", "session_key": "key", "source_count": 2, "start_offsets": "1:{topic}:0=0"},
        ),
    ],
)
def test_a_member_that_differs_from_its_group_is_told_in_what(
    tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic, code: int, name: str, options: dict[str, str]
) -> None:
    topic = tubemq_topic()
    with java_group(tubemq_peer, "uniform", topic):
        filled = {key: str(value).format(topic=topic) for key, value in options.items()}
        assert says(refusal(f"{tubemq_peer.url}/{topic}", "uniform", **filled), code, name)


def test_a_member_with_other_topics_is_told(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic, other = tubemq_topic(), tubemq_topic()
    with java_group(tubemq_peer, "unanimous", topic):
        error = refusal(f"{tubemq_peer.url}/{topic},{other}", "unanimous")
    assert says(error, 425, "CLIENT_INCONSISTENT_TOPICSET")


BOUND = {"bound_consume": "true", "session_key": "key", "source_count": 2, "select_big": "true"}


@pytest.mark.parametrize(
    ("code", "name", "differs"),
    [
        (427, "CLIENT_INCONSISTENT_SESSIONKEY", {"session_key": "other"}),
        (428, "CLIENT_INCONSISTENT_SELECTBIG", {"select_big": "false"}),
        (429, "CLIENT_INCONSISTENT_SOURCECOUNT", {"source_count": 3}),
    ],
)
def test_members_of_a_bound_group_agree_on_its_terms(
    tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic, code: int, name: str, differs: dict[str, object]
) -> None:
    topic, group = tubemq_topic(), f"bound{code}"
    offsets = f"1:{topic}:0=0"
    with tubemq_clients.pull(
        tubemq_peer.address, group, topic, session="key", count=2, big="true", offsets=offsets
    ) as java:
        java.wait(lambda driver: driver.events("ready"))
        options = {**BOUND, "start_offsets": offsets, **differs}
        assert says(refusal(f"{tubemq_peer.url}/{topic}", group, **options), code, name)


@pytest.mark.parametrize(
    ("code", "name", "options"),
    [
        (429, "CLIENT_INCONSISTENT_SOURCECOUNT", {"source_count": 3, "node_id": 1}),
        (430, "CLIENT_DUPLICATE_INDEXID", {"source_count": 2, "node_id": 0, "api_timeout_ms": 5_000}),  # tried so long
    ],
)
def test_nodes_of_a_client_balanced_group_have_their_numbers(
    tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic, code: int, name: str, options: dict[str, object]
) -> None:
    topic, group = tubemq_topic(), f"nodes{code}"
    with tubemq_clients.balance(tubemq_peer.address, group, topic, count=2, node=0) as java:
        java.wait(lambda driver: driver.events("ready"))
        error = refusal(f"{tubemq_peer.url}/{topic}", group, client_balance="true", **options)
    assert says(error, code, name)


def test_a_partition_that_another_node_holds_is_refused(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    address = f"{tubemq_peer.url}?client_balance=true&source_count=2&node_id=1&auto_offset_reset=earliest"
    mine = Partition(topic, 0, "1")
    with tubemq_clients.balance(
        tubemq_peer.address, "occupied", topic, count=2, node=0, offsets=f"1:{topic}:0=-1"
    ) as java:
        java.wait_holding(1)
        with Consumer(address, group="occupied") as consumer:
            consumer.assign([mine])
            with pytest.raises(ServerError) as caught:
                poll_on(consumer)
    error = caught.value
    assert says(error, 410, "PARTITION_OCCUPIED")
    assert (error.topic, error.partition) == (topic, 0)
    with ours(tubemq_peer.url, "occupied", at={mine: 0}, client_balance="true", source_count=2, node_id=1) as member:
        member.wait_holding(1)


def test_a_topic_that_nobody_deployed_is_told(tubemq_peer: tubemq.Cluster) -> None:
    with Consumer(f"{tubemq_peer.url}/nowhere", group="lost") as consumer, pytest.raises(PenstockError) as caught:
        poll_on(consumer)
    assert "nowhere" in str(caught.value)


def test_who_may_not_read_a_topic_is_told(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    tubemq_peer.admin("admin_set_topic_authorize_control", topicName=topic, isEnable="true")
    error = refusal(f"{tubemq_peer.url}/{topic}", "uninvited")
    assert says(error, 450, "CONSUME_GROUP_FORBIDDEN")


def test_who_must_filter_and_does_not_is_told(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    tubemq_peer.admin("admin_set_topic_authorize_control", topicName=topic, isEnable="true")
    tubemq_peer.admin("admin_add_authorized_consumergroup_info", topicName=topic, groupName="bluereaders")
    tubemq_peer.admin(
        "admin_add_group_filtercond_info", topicName=topic, groupName="bluereaders", filterConds="blue", condStatus=2
    )
    error = refusal(f"{tubemq_peer.url}/{topic}", "bluereaders", filters="red")
    assert says(error, 455, "CONSUME_CONTENT_FORBIDDEN")


def test_a_message_over_the_cluster_s_limit_is_refused(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    with Producer(tubemq_peer.url, max_request_bytes=4 << 20) as producer:
        producer.send(topic, bytes((1 << 20) - 100)).result()  # a hundred for attributes, the timestamp's for one
        with pytest.raises(ServerError) as caught:
            producer.send(topic, bytes((1 << 20) + 1)).result()
        producer.send(topic, b"after").result()
    assert says(caught.value, 445, "PARAMETER_MSG_OVER_MAX_LENGTH")


def test_a_topic_that_is_taken_away_is_told(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    with Producer(tubemq_peer.url, request_timeout_ms=3_000, delivery_timeout_ms=6_000) as producer:
        producer.send(topic, b"before").result()
        closed = {"acceptPublish": "false", "acceptSubscribe": "false"}
        tubemq_peer.admin("admin_modify_topic_info", topicName=topic, brokerId=1, **closed)
        with pytest.raises(PenstockError) as caught:
            send_on(producer, topic)
    assert topic in str(caught.value)


def send_on(producer: Producer, topic: str) -> None:
    """Until something is raised, for some seconds."""
    for _ in range(5_000):
        producer.send(topic, b"after").result()


def test_readers_keep_to_the_speed_that_operators_set(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    rule = [{"type": 0, "rule": [{"start": "00:00", "end": "24:00", "dltInM": 21, "limitInM": 1, "freqInMs": 700}]}]
    tubemq_peer.admin(
        "admin_set_group_flow_control_rule",
        groupName="slowly",
        flowCtrlInfo=json.dumps(rule),
        statusId=1,
        qryPriorityId=301,
    )
    with Producer(tubemq_peer.url) as producer:
        for _ in range(60):
            producer.send(topic, bytes(50_000))
        producer.flush()
    with ours(tubemq_peer.url, "slowly", topic) as member:
        member.wait_messages(60)
    assert [len(body or b"") for body in member.bodies] == [50_000] * 60


def test_who_does_not_sign_where_it_is_wanted_is_told(tubemq_own: NewCluster) -> None:
    own = tubemq_own(master_settings={"startConsumeAuthenticate": "true", "startProduceAuthenticate": "true"})
    own.create_topics("guarded")
    assert says(refusal(f"{own.url}/guarded", "strangers"), 415, "CERTIFICATE_FAILURE")
    signed = "user=anybody&password=secret"
    with Producer(f"{own.url}?{signed}") as producer:
        producer.send("guarded", b"signed").result()
    with ours(own.url, "friends", "guarded", user="anybody", password="secret") as member:
        assert member.wait_messages(1) == [b"signed"]
