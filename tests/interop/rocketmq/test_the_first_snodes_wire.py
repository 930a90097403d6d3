"""What the first Snode's clients say, said to ours before stock brokers and name servers, which know none of it."""

from __future__ import annotations

import json
import logging

import pytest

from penstock.testing import Broker
from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import NewRocketTopic, RocketMQ
from tools.peers import rocketmq
from tools.peers.rocketmq_frames import Answer, ask

pytestmark = pytest.mark.interop

WITHIN_S = 20.0
SEND_V2, PULL, REGISTER, SNODES, RETRY_TOPIC = 310, 351, 350, 353, 355
SENT = {"a": "p", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1_700_000_000_000, "h": 0, "i": "TAGS\1a\2", "j": 0}
PULLED = {"consumerGroup": "g", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "commitOffset": 0, "subVersion": 0}
INLINE = {"sysFlag": 4, "subscription": "a", "expressionType": "TAG", "suspendTimeoutMillis": 0}


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.mark.parametrize(
    "version", [rocketmq.VERSIONS[0], *(pytest.param(each, marks=pytest.mark.long) for each in rocketmq.VERSIONS[1:])]
)
@pytest.mark.parametrize("names_by", ["name", "address"])
def test_its_clients_write_and_read_over_stock_brokers(
    version: str,
    names_by: str,
    rocketmq_peer: RocketMQ,
    rocketmq_topic: NewRocketTopic,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = rocketmq_peer(version)
    topic = rocketmq_topic(cluster, 1)
    enode = cluster.broker.name if names_by == "name" else cluster.broker.endpoint
    of = {"enodeName": enode} if names_by == "name" else {"enodeAddr": enode}
    with Broker(f"rocketmq://{cluster.address}", listen="rocketmq://127.0.0.1:0", enode_timeout_ms=1_000) as node:
        port = port_of(node.url("rocketmq"))
        for body in (b"1", b"2"):
            assert ask(port, SEND_V2, {**SENT, "b": topic, "n": enode}, body).code == 0

        def pulled() -> Answer:
            return ask(port, PULL, {**PULLED, **INLINE, "topic": topic, **of})

        comes_to(lambda: pulled().fields.get("nextBeginOffset"), "2", WITHIN_S)
        assert pulled().code == 0
        assert ask(port, RETRY_TOPIC, {"groupName": f"{topic}-g", "enodeName": cluster.broker.name}).code == 0
        comes_to(lambda: cluster.queues(f"%RETRY%{topic}-g"), {cluster.broker.name: 1}, WITHIN_S)
        # Somebody else's address is no enode, and is connected to by nobody.
        assert ask(port, PULL, {**PULLED, **INLINE, "topic": topic, "enodeAddr": "127.0.0.1:1"}).code == 14
        (name,) = json.loads(ask(port, SNODES).body)["snodeTable"]
        assert name.endswith(f"@127.0.0.1:{port}")
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert [each.message for each in warnings if each.name != "penstock.refused"] == []
    # Those who asked for a broker that is none were told, and the log says so.
    assert all("(14): no name server knows a broker" in each.message for each in warnings)


def test_snodes_find_each_other_at_a_name_server_of_ours() -> None:
    with Broker(listen="rocketmq://127.0.0.1:0") as names:
        port = port_of(names.url("rocketmq"))

        def known() -> set[str]:
            return {each["snodeName"] for each in json.loads(ask(port, SNODES).body)["snodeTable"].values()} - {me}

        (me,) = json.loads(ask(port, SNODES).body)["snodeTable"]
        with (
            Broker(names.url("rocketmq"), listen="rocketmq://127.0.0.1:0", snode_name="east"),
            Broker(names.url("rocketmq"), listen="rocketmq://127.0.0.1:0", snode_name="west"),
        ):
            comes_to(known, {"east", "west"}, WITHIN_S)
        comes_to(known, set(), WITHIN_S)
