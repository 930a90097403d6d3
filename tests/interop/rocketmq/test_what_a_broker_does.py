"""A Snode before two masters does for Java's clients what the brokers do without it: slow, asked for replies, reset."""

from __future__ import annotations

import base64
import itertools
import threading
from collections.abc import Iterator

import pytest

from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import Fronted, snode_before
from tools.peers import rocketmq, rocketmq_clients, rocketmq_java
from tools.peers.maven import Unavailable
from tools.peers.rocketmq_clients import Mail
from tools.peers.rocketmq_frames import Answer, agreed, ask

pytestmark = [pytest.mark.interop, pytest.mark.long]

WITHIN_S = 60.0
NUMBERS = itertools.count()
SEND = {"producerGroup": "p", "defaultTopic": "TBW102", "defaultTopicQueueNums": 1, "queueId": 0,
        "sysFlag": 0, "bornTimestamp": 1, "flag": 0, "properties": "", "reconsumeTimes": 0,
        "unitMode": "false", "batch": "false"}  # fmt: skip


@pytest.fixture(scope="module", params=rocketmq.VERSIONS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[rocketmq.Cluster]:
    try:
        rocketmq_java.classes(request.param)
        with rocketmq.cluster(tmp_path_factory.mktemp("two-masters"), request.param, brokers=2) as running:
            yield running
    except Unavailable as reason:
        pytest.skip(f"no RocketMQ: {reason}")


@pytest.fixture(scope="module")
def fronted(cluster: rocketmq.Cluster) -> Iterator[Fronted]:
    with snode_before(cluster) as found:
        yield found


@pytest.fixture(params=["direct", "through a Snode"])
def served(request: pytest.FixtureRequest, cluster: rocketmq.Cluster, fronted: Fronted) -> rocketmq.Cluster:
    return fronted if request.param == "through a Snode" else cluster


def new(what: str) -> str:
    return f"{what}{next(NUMBERS)}"


def test_what_a_slow_broker_stores_is_there_once(fronted: Fronted) -> None:
    """Stopped for five seconds, of the fifteen that the producer waits; it may send again twice, to the other one."""
    topic, slow = new("slow"), fronted.brokers[0]
    fronted.create_topic(topic, 1)
    with rocketmq_clients.producer(fronted.address, version=fronted.version, timeout=15_000, retries=2) as sender:
        sender.send([Mail(topic, [b"before"], queue=(slow.name, 0))])
        thaw = threading.Timer(5.0, slow.thaw)
        slow.freeze()
        thaw.start()
        try:
            # Without a queue the producer may choose another broker for a second try; it takes turns among queues.
            answers = sender.send([Mail(topic, [b"%d" % row]) for row in range(2)])
        finally:
            thaw.join()
    assert [each["event"] for each in answers] == ["sent", "sent"]
    comes_to(lambda: sum(end for _, end in fronted.ends(topic).values()), 3, WITHIN_S)


def test_a_request_is_answered_by_a_reply(served: rocketmq.Cluster) -> None:
    topic = new("asked")
    served.create_topic(topic, 2)
    with (
        rocketmq_clients.push(served.address, f"{topic}-readers", topic, version=served.version, replies="yes"),
        rocketmq_clients.producer(served.address, f"{topic}-askers", version=served.version, timeout=20_000) as asker,
    ):
        answers = asker.send([Mail(topic, [b"%d" % row], how="request") for row in range(3)])
    assert [base64.b64decode(each.get("reply", "")) for each in answers] == [b"re:%d" % row for row in range(3)]


@pytest.mark.parametrize("how", [{"queueId": 0, "offset": 2, "timestamp": -1}, {"timestamp": 0}])
def test_a_group_without_members_is_reset_as_its_broker_does_it(
    cluster: rocketmq.Cluster, fronted: Fronted, how: dict[str, object]
) -> None:
    def reset(port: int) -> tuple[Answer, str | None]:
        topic = new("reset")
        cluster.create_topic(topic, 1)
        cluster.create_group(f"{topic}-group")
        broker = cluster.broker
        for _ in range(5):
            agreed(broker.port, 10, {**SEND, "topic": topic}, b"x")
        agreed(broker.port, 15, {"consumerGroup": f"{topic}-group", "topic": topic, "queueId": 0, "commitOffset": 5})
        comes_to(lambda: cluster.ends(topic)[broker.name, 0][1], 5, WITHIN_S)
        wanted = {"topic": topic, "group": f"{topic}-group", "isForce": "true", "bname": broker.name, **how}
        said = ask(port, 222, wanted)
        at = ask(broker.port, 14, {"consumerGroup": f"{topic}-group", "topic": topic, "queueId": 0})
        return said, at.fields.get("offset")

    direct, through = reset(cluster.broker.port), reset(int(fronted.address.rpartition(":")[2]))
    assert (through[0].code, through[1]) == (direct[0].code, direct[1])
