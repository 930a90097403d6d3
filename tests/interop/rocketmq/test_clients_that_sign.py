"""Other people's clients sign what they ask: our node believes whose accounts it has, before brokers and alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.client import Admin
from penstock.interfaces import NewTopic
from penstock.testing import Broker
from tests.interop.peers.rocketmq_fixtures import RocketMQ
from tools.peers import ons, rocketmq, rocketmq_clients, rocketmq_java
from tools.peers.maven import Unavailable
from tools.peers.rocketmq_clients import Mail

pytestmark = pytest.mark.interop

WITHIN_S = 60.0
WRONG = "penstock:87654321"
RIGHT = "penstock:12345678"


def it_works(names: str, topic: str, version: str) -> None:
    """Java's clients write, read and give back; with another secret they get an error that names the account."""
    with (
        rocketmq_clients.producer(names, version=version, user=RIGHT) as sender,
        rocketmq_clients.push(names, f"{topic}-readers", topic, version=version, user=RIGHT) as reader,
    ):
        answers = sender.send([Mail(topic, [b"1"]), Mail(topic, [b"2"]), Mail(topic, [b"3", b"4"])])
        assert [line["event"] for line in answers] == ["sent"] * 3, answers
        reader.wait_messages(4, WITHIN_S)
    assert sorted(reader.bodies) == [b"1", b"2", b"3", b"4"]
    with rocketmq_clients.producer(names, version=version, user=WRONG) as stranger:
        (line,) = stranger.send([Mail(topic, [b"no"])])
        assert line["event"] == "failed"


@pytest.mark.parametrize("version", [pytest.param("4.9.7", marks=pytest.mark.long), "5.4.0"])
def test_java_at_our_node(version: str, tmp_path: Path) -> None:
    try:
        rocketmq_java.classes(version)
    except Unavailable as reason:
        pytest.skip(f"no RocketMQ client: {reason}")
    store = f"file:{tmp_path / 'node'}"
    with Broker(store, listen="rocketmq://127.0.0.1:0", rocketmq_accounts=RIGHT) as node:
        node.create_topic("flow", partitions=2)
        it_works(node.url("rocketmq").removeprefix("rocketmq://"), "flow", version)


@pytest.mark.long
def test_javascript_at_our_node(tmp_path: Path) -> None:
    try:
        ons.modules()
    except Unavailable as reason:
        pytest.skip(f"no ali-ons: {reason}")
    store = f"file:{tmp_path / 'node'}"
    with Broker(store, listen="rocketmq://127.0.0.1:0", rocketmq_accounts="name:secret") as node:
        node.create_topic("flow", partitions=2)
        names = node.url("rocketmq").removeprefix("rocketmq://")
        with ons.push(names, "ons-readers", "flow", "A") as reader, ons.producer(names) as sender:
            (line,) = sender.send([Mail("flow", [b"a"], tags="A", keys="k")])
            assert line["event"] == "sent"
            reader.wait_messages(1, WITHIN_S)
        assert reader.bodies == [b"a"]


@pytest.mark.long
@pytest.mark.parametrize("version", rocketmq.VERSIONS)
def test_java_before_brokers_that_check_signatures_themselves(version: str, rocketmq_own: RocketMQ) -> None:
    own = rocketmq_own(version, account=("penstock", "12345678"))
    cluster = f"rocketmq://{own.address}?access_key=penstock&secret_key=12345678"
    with Admin(cluster) as admin:
        admin.create_topics([NewTopic("flow", 2)])
    with Broker(cluster, listen="rocketmq://127.0.0.1:0", rocketmq_accounts=RIGHT) as node:
        it_works(node.url("rocketmq").removeprefix("rocketmq://"), "flow", version)
