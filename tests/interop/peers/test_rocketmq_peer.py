"""The peer itself: brokers register and answer raw frames."""

import pytest

from tests.interop.peers.rocketmq_fixtures import NewRocketCluster
from tools.peers import rocketmq

pytestmark = pytest.mark.interop


def test_two_brokers_register_and_have_a_topic(rocketmq_own: NewRocketCluster) -> None:
    own = rocketmq_own(brokers=2)
    assert own.known() == ["broker-1", "broker-2"]
    own.create_topic("flow", queues=3)
    route = rocketmq.ask(own.names.port, rocketmq.ROUTE, {"topic": "flow"})
    assert route.code == 0
    assert all(node.address.encode() in route.body for node in own.brokers)
    assert route.body.count(b'"readQueueNums":3') == 2
    facts = rocketmq.ask(own.brokers[0].port, rocketmq.BROKER_FACTS)
    assert (facts.code, facts.remark) == (0, "")
    assert b"V5_4_0" in facts.body


def test_what_a_server_does_not_know_is_refused_in_its_words(rocketmq_own: NewRocketCluster) -> None:
    own = rocketmq_own()
    assert rocketmq.ask(own.names.port, rocketmq.ROUTE, {"topic": "nowhere"}).code == 17  # TOPIC_NOT_EXIST
    answer = rocketmq.ask(own.brokers[0].port, 9_999)
    assert answer.code == 3  # REQUEST_CODE_NOT_SUPPORTED
    assert "9999" in answer.remark
