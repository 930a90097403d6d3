"""RocketMQ's servers, seen by raw frames: if these fail, other interop failures say nothing about penstock."""

from collections.abc import Callable, Sequence

import pytest

from tests.eventually import comes_to
from tests.interop.peers.listening import addresses, listening
from tests.interop.peers.rocketmq_fixtures import RocketMQ
from tools.peers import rocketmq, rocketmq_clients, rocketmq_java
from tools.peers.rocketmq_clients import Mail
from tools.peers.rocketmq_frames import BROKER_FACTS, ROUTE, TOPICS, ask

pytestmark = pytest.mark.interop

TOPIC_NOT_EXIST, REQUEST_CODE_NOT_SUPPORTED = 17, 3
WITHIN_S = 60.0


def test_a_server_says_its_version_and_what_it_does_not_know(any_rocketmq: rocketmq.Cluster) -> None:
    facts = ask(any_rocketmq.broker.port, BROKER_FACTS)
    release = rocketmq_java.RELEASES[any_rocketmq.version]
    # The version is that of the library it has in common with its client.
    assert facts.table()["table"]["brokerVersionDesc"] == f"V{release.client.replace('.', '_')}"
    assert ask(any_rocketmq.names[0].port, ROUTE, {"topic": "nowhere"}).code == TOPIC_NOT_EXIST
    answer = ask(any_rocketmq.broker.port, 9_999)
    assert answer.code == REQUEST_CODE_NOT_SUPPORTED
    assert "9999" in answer.remark


def test_nothing_listens_beyond_loopback(any_rocketmq: rocketmq.Cluster) -> None:
    assert listening(any_rocketmq.names[0]) == {("127.0.0.1", any_rocketmq.names[0].port)}
    port = any_rocketmq.broker.port
    assert listening(any_rocketmq.broker) == {("127.0.0.1", each) for each in (port - 2, port, port + 1)}


def test_a_killed_broker_comes_back_with_its_port_and_its_messages(rocketmq_own: RocketMQ) -> None:
    own = rocketmq_own()
    comes_and_goes(own, [own.broker.kill])


@pytest.mark.long
@pytest.mark.parametrize("version", rocketmq.VERSIONS)
def test_a_broker_comes_back_however_it_ended(version: str, rocketmq_own: RocketMQ) -> None:
    own = rocketmq_own(version)
    comes_and_goes(own, [own.broker.kill, own.broker.stop])


def comes_and_goes(own: rocketmq.Cluster, ends: Sequence[Callable[[], None]]) -> None:
    """Ended, the name server hears of it at once; then frozen: what it took is there, what it was given is stored."""
    own.create_topic("flow", queues=1)
    where = ("broker-1", 0)
    with rocketmq_clients.producer(own.address, version=own.version, timeout=3000, retries=0) as sender:

        def events(body: bytes) -> list[str]:
            return [line["event"] for line in sender.send([Mail("flow", [body], queue=where)])]

        comes_to(lambda: events(b"taken"), ["sent"], WITHIN_S)
        for end in ends:
            before = own.ends("flow")[where]
            end()
            comes_to(own.known, list[str](), WITHIN_S)
            assert events(b"lost") == ["failed"]
            own.broker.start()
            assert own.known() == ["broker-1"]
            assert own.ends("flow")[where] == before
            comes_to(lambda: events(b"once more"), ["sent"], WITHIN_S)
        first, end_before = own.ends("flow")[where]
        own.broker.freeze()
        assert events(b"held") == ["failed"]
        assert own.known() == ["broker-1"]
        own.broker.thaw()
        # Its system had taken the bytes: what the client gave up is stored all the same.
        comes_to(lambda: own.ends("flow")[where], (first, end_before + 1), WITHIN_S)


@pytest.mark.long
@pytest.mark.parametrize("version", rocketmq.VERSIONS)
def test_a_standby_gives_what_its_master_had(version: str, rocketmq_own: RocketMQ) -> None:
    # Without it, standbys of 5.x send whoever asks them to a master, though there is none.
    own = rocketmq_own(version, names=2, brokers=2, standbys=2, settings={"slaveReadEnable": "true"})
    assert own.known() == ["broker-1", "broker-2", "broker-1-standby", "broker-2-standby"]
    for node in (*own.brokers, *own.standbys, *own.names):
        assert addresses(node) == {"127.0.0.1"}
    own.create_topic("flow", queues=2)
    with rocketmq_clients.producer(own.address, version=version) as sender:
        sender.send([Mail("flow", [b"%d" % number]) for number in range(20)])
    ends = own.ends("flow")
    comes_to(lambda: own.ends("flow", own.standbys), ends, WITHIN_S)
    # A standby of 5.x gives nothing of a topic that it has not heard of, though it has the messages.
    comes_to(lambda: all(b'"flow"' in ask(node.port, TOPICS).body for node in own.standbys), True, WITHIN_S)
    own.brokers[0].kill()
    comes_to(own.known, ["broker-2", "broker-1-standby", "broker-2-standby"], WITHIN_S)
    with rocketmq_clients.push(own.address, "readers", "flow", version=version) as reader:
        reader.wait_messages(20, WITHIN_S)
    assert {line["body"] for line in reader.messages} == {b"%d" % number for number in range(20)}


@pytest.mark.long
def test_a_proxy_stands_for_its_brokers(rocketmq_own: RocketMQ) -> None:
    own = rocketmq_own(proxy=True)
    assert own.proxy is not None
    assert addresses(own.proxy) == {"127.0.0.1"}
    own.create_topic("flow", queues=2)
    route = ask(own.proxy.port, ROUTE, {"topic": "flow"}).table()
    assert [row["brokerAddrs"] for row in route["brokerDatas"]] == [{"0": own.proxy.endpoint}]
    with rocketmq_clients.producer(own.proxy.endpoint) as sender:
        assert [line["event"] for line in sender.send([Mail("flow", [b"through"], tags="A")])] == ["sent"]
    assert sum(end for _, end in own.ends("flow").values()) == 1
    with rocketmq_clients.push(own.proxy.endpoint, "readers", "flow", tags="A") as reader:
        assert [line["body"] for line in reader.wait_messages(1, WITHIN_S)] == [b"through"]
