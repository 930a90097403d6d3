"""The peer itself: if these fail, other interop failures say nothing about penstock."""

import pytest

from tests.interop.peers.listening import addresses
from tests.interop.peers.tubemq_fixtures import NewCluster, NewTopic
from tools.peers import tubemq, tubemq_clients
from tools.peers.tubemq_clients import Mail

pytestmark = pytest.mark.interop


def test_both_java_consumers_read_what_the_java_producer_sent(
    tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic
) -> None:
    topic = tubemq_topic(partitions=2)
    mails = [Mail(topic, b"body %d" % i, "blue" if i % 2 else None, attributes={"seq": str(i)}) for i in range(6)]
    with tubemq_clients.producer(tubemq_peer.address) as producer:
        answers = producer.send(mails)
    assert sorted(answer["offset"] for answer in answers) == [28 * i for i in range(6)]
    with tubemq_clients.pull(tubemq_peer.address, "pulling", topic) as pull:
        pull.wait_messages(6)
        assert pull.wait_holding(2) == [f"1:{topic}:0", f"1:{topic}:1"]
    with tubemq_clients.balance(tubemq_peer.address, "balancing", topic) as balance:
        balance.wait_messages(6)
    for consumer in (pull, balance):
        assert consumer.events("closed")
        assert sorted(consumer.bodies) == [mail.body for mail in mails]
        assert {line["attributes"].rpartition(",")[2] for line in consumer.messages} == {f"seq={i}" for i in range(6)}
        assert {line["body"]: line["filter"] for line in consumer.messages} == {
            mail.body: mail.filter for mail in mails
        }


def test_the_command_line_producer_counts_what_it_sent(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    line = [
        "--master-servers",
        tubemq_peer.address,
        "--topicName",
        topic,
        "--messages",
        "10",
        "--message-data-size",
        "9",
    ]
    tubemq_clients.tool("CliProducer", line)
    assert tubemq_peer.ends(topic) == {(1, 0): (0, 280)}


def test_only_a_broker_that_is_killed_forgets(tubemq_own: NewCluster) -> None:
    own = tubemq_own()
    own.create_topics("kept", "lost")
    with tubemq_clients.producer(own.address) as producer:
        producer.send([Mail("kept", b"1")])
        own.broker.stop()
        own.broker.start()
        own.wait_settled()
        assert own.ends("kept") == {(1, 0): (0, 28)}
        producer.send([Mail("lost", b"2")])
        own.broker.kill()
        own.broker.start()
        own.wait_settled()
    assert own.ends("kept") == {(1, 0): (0, 28)}
    assert own.ends("lost") in ({}, {(1, 0): (0, 0)})


def test_another_master_takes_over(tubemq_own: NewCluster) -> None:
    own = tubemq_own(masters=3)
    own.create_topics("flow")
    with tubemq_clients.producer(own.address) as producer, tubemq_clients.pull(own.address, "readers", "flow") as pull:
        producer.send([Mail("flow", b"before")])
        pull.wait_messages(1)
        own.master.kill()
        producer.send([Mail("flow", b"after")])
        assert [line["body"] for line in pull.wait_messages(2)] == [b"before", b"after"]


def test_nothing_listens_beyond_loopback(tubemq_peer: tubemq.Cluster) -> None:
    for node in (tubemq_peer.master, tubemq_peer.broker):
        assert addresses(node) == {"127.0.0.1"}
