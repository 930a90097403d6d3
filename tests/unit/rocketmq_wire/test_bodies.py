"""Bodies in JSON: golden ones to the letter, keys that are no text, and JSON that is too large, too deep or none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProtocolViolation
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.lenient_json import parse_body as parse

HEARTBEAT = (
    '{"clientID":"10.0.0.1@1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
    '"consumeType":"CONSUME_PASSIVELY","groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":['
    '{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB",'
    '"subVersion":1700000000000,"tagsSet":["TagA","TagB"],"topic":"T1"}],"unitMode":false}],'
    '"producerDataSet":[{"groupName":"pg"}]}'
)
ROUTE = (
    '{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:20911"},"brokerName":"broker-a","cluster":"DefaultCluster"}],'
    '"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,'
    '"writeQueueNums":4}]}'
)
RESET = '{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T1"}:5}}'
LOCKED = '{"lockOKMQSet":[{"brokerName":"broker-a","queueId":1,"topic":"T1"}]}'


def queue(topic: str, queue_id: int) -> m.MessageQueue:
    return m.MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue_id)


def test_a_heartbeat_is_javas() -> None:
    wants = m.SubscriptionData(
        topic="T1", sub_string="TagA || TagB", tags_set=("TagA", "TagB"), code_set=(2598919, 2598920),
        sub_version=1_700_000_000_000,
    )  # fmt: skip
    beat = m.HeartbeatData(
        client_id="10.0.0.1@1",
        consumer_data_set=(m.ConsumerData(group_name="g", subscription_data_set=(wants,)),),
        producer_data_set=(m.ProducerData(group_name="pg"),),
    )
    assert m.write_body(beat).decode() == HEARTBEAT
    assert m.read_body(m.HeartbeatData, HEARTBEAT.encode()) == beat


def test_a_route_is_read_and_written_with_numbers_as_keys_in_both_ways() -> None:
    bare = ROUTE.replace('"0":', "0:")
    route = m.read_body(m.Route, ROUTE.encode())
    assert route == m.read_body(m.Route, bare.encode())
    assert route.broker_datas[0].broker_addrs == {0: "127.0.0.1:20911"}
    assert m.write_body(route).decode() == ROUTE
    assert m.write_body(route, bare_numbers=True).decode() == bare


def test_a_queue_is_a_key() -> None:
    body = m.ResetOffset(offset_table={queue("T1", 0): 5})
    assert m.write_body(body).decode() == RESET
    assert m.read_body(m.ResetOffset, RESET.encode()) == body
    quoted = json.dumps({"offsetTable": {'{"brokerName":"broker-a","queueId":0,"topic":"T1"}': 5}})
    assert m.read_body(m.ResetOffset, quoted.encode()) == body


def test_locked_queues_are_javas() -> None:
    locked = m.LockedQueues(lock_ok_mq_set=(queue("T1", 1),))
    assert m.write_body(locked).decode() == LOCKED
    assert m.read_body(m.LockedQueues, LOCKED.encode()) == locked


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("{0:1,-7:{2:[{3:4}]}}", {"0": 1, "-7": {"2": [{"3": 4}]}}),
        ('{"a":{{"b":{1:"}"}}:2,{"c":"\\""}:3}}', {"a": {'{"b":{1:"}"}}': 2, '{"c":"\\""}': 3}}),
        ('[1,{ 1 : "x,:{" , 2 : null}]', [1, {"1": "x,:{", "2": None}]),
        ('{"a":[1,2],3:4}', {"a": [1, 2], "3": 4}),
        ("{1:{}}", {"1": {}}),
        ("""{'a':'b"c\\'d',\"e\":'\\x41\\n'}""", {"a": "b\"c'd", "e": "A\n"}),
        ('{"a":1,,"b":2 "c":[3,4,],}', {"a": 1, "b": 2, "c": [3, 4]}),
        ("[+5,007,-00,.5,1.,5L,1.e2,+.5]", [5, 7, 0, "0.5", 1, 5, "1e2", "0.5"]),
        ('// x\n{/* y */"a"://,\n1}', {"a": 1}),
        ('["a\n\x01"]', ["a\n\x01"]),
    ],
)
def test_keys_that_are_no_text_become_text(text: str, same: Any) -> None:
    assert parse(text.encode()) == same


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=12,
)


@given(JSON)
def test_what_is_json_is_read_as_json_beside_a_key_that_is_none(value: Any) -> None:
    text = json.dumps(value)
    assert parse(f"{{1:{text}}}".encode()) == {"1": value}


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a', "{1:}", "{a:1}", "{,1:2}", "[1,,2]", "[1 2]", "{1:2]", "{'a':1}}", "/* a", "{'a':0x1}", "[NaN]",
     "{1 2:3}", "}", "]{1:2}", "{1:2}}", '{{"a":1:2}', "{1:" * 200 + "0" + "}" * 200, "[" * 100_000,
     '{1:"' + "\\" * 50_001, "{" * 5000, "\xff"],
)  # fmt: skip
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ProtocolViolation):
        parse(text.encode("latin-1"))


def test_a_body_that_is_too_large_is_not_looked_at() -> None:
    with pytest.raises(ProtocolViolation, match="5 are allowed"):
        parse(b'{"a":1}', max_bytes=5)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('{"producerDataSet":[]}', "HeartbeatData lacks clientID"),
        ('{"clientID":null}', "HeartbeatData lacks clientID"),
        ('{"clientID":"c","producerDataSet":{}}', "HeartbeatData.producerDataSet lacks groupName"),
        ('{"clientID":"c","producerDataSet":null}', "HeartbeatData.producerDataSet is null"),
        ('{"clientID":"c","producerDataSet":[1]}', "HeartbeatData.producerDataSet is no object"),
        ('{"clientID":"c","withoutSub":"yes"}', "HeartbeatData.withoutSub is 'yes', which is neither true nor false"),
        ('{"clientID":"c","heartbeatFingerprint":[]}', r"heartbeatFingerprint is \[\], which is no number"),
        ('{"clientID":"c","heartbeatFingerprint":2147483648}', "heartbeatFingerprint does not fit 32 bits"),
    ],
)
def test_what_is_not_as_declared_is_told_by_its_place(text: str, wrong: str) -> None:
    with pytest.raises(ProtocolViolation, match=wrong):
        m.read_body(m.HeartbeatData, text.encode())
