"""What RocketMQ's tools ask for is done, or refused in words: none of it is answered as done where nothing changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from penstock.model import Partition
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.server.clients import Counts
from penstock.protocols.rocketmq.server.cluster import RocketFrontOptions
from penstock.protocols.rocketmq.server.dispatch import REFUSED, TABLE
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RESPONSE, RemotingCommand, encode
from penstock.protocols.rocketmq.wire.properties import parse_properties
from penstock.protocols.rocketmq.wire.rpc import NOTIFY_CONSUMER_IDS_CHANGED, PUSH_REPLY_MESSAGE_TO_CLIENT
from tests.unit.rocketmq_front.kit import BROKER, Kit, now_ms, run, serving

NO_PERMISSION, NO_TOPIC, REFUSES = Code.NO_PERMISSION, Code.TOPIC_NOT_EXIST, Code.REQUEST_CODE_NOT_SUPPORTED
NOTHING: dict[str, object] = {}
VALUE: dict[str, object] = {"namespace": "n", "key": "k"}
RESET: dict[str, object] = {"topic": "demo", "group": "g", "timestamp": -1, "isForce": "true"}


def topic(name: str = "demo", read: int = 2, write: int = 2, perm: int = 6, **more: object) -> dict[str, object]:
    """The header of 17 as mqadmin writes it."""
    fixed = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
    return {**fixed, "topic": name, "readQueueNums": read, "writeQueueNums": write, "perm": perm, **more}


def group(name: str = "g", **more: object) -> bytes:
    return json.dumps({"groupName": name, **more}).encode()


def listed_topics(*names: str) -> bytes:
    """The body of 18."""
    found = [{"topicName": name, "readQueueNums": 1, "writeQueueNums": 1} for name in names]
    return json.dumps({"topicConfigList": found}).encode()


def table(body: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bytes(body))  # type: ignore[call-overload]
    return found


async def route(kit: Kit, name: str = "demo") -> tuple[int, int, int] | int:
    """Queues to read, queues to write and the permission that clients are told; else the code of the refusal."""
    found = await kit.said(105, {"topic": name, "acceptStandardJsonOnly": "true"})
    if found.code:
        return found.code
    (queues,) = table(found.body)["queueDatas"]
    return queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]


async def setting(kit: Kit, name: str = "demo") -> dict[str, Any]:
    return table((await kit.said(351, {"topic": name})).body)


async def pulled(kit: Kit, name: str = "demo", queue: int = 0, group: str = "g", **more: object) -> int:
    """The code that a pull is answered with."""
    fixed = {"queueOffset": 0, "maxMsgNums": 1, "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0}
    inline = {"sysFlag": 4, "subscription": "*", "expressionType": "TAG"}
    asked = {"consumerGroup": group, "topic": name, "queueId": queue, **fixed, **inline, **more}
    return (await kit.said(11, asked)).code


async def sent(kit: Kit, name: str = "demo", queue: int = 0, default: str = "TBW102", code: int = 10) -> int:
    """The code that a send is answered with."""
    asked = {"producerGroup": "p", "topic": name, "defaultTopic": default, "defaultTopicQueueNums": 4}
    more = {"queueId": queue, "sysFlag": 0, "bornTimestamp": now_ms(), "flag": 0, "properties": ""}
    return (await kit.said(code, {**asked, **more}, b"x")).code


async def committed(kit: Kit, group: str = "g") -> int:
    """Where the group is in the first queue; -1 for nowhere."""
    asked = {"consumerGroup": group, "topic": "demo", "queueId": 0, "setZeroIfNotFound": "false"}
    return int((await kit.said(14, asked)).fields.get("offset", -1))


async def config(kit: Kit, name: str) -> str:
    lines = bytes((await kit.said(26)).body).decode().splitlines()
    return dict(line.split("=", 1) for line in lines)[name]


async def listed(kit: Kit, code: int = 206, **fields: object) -> list[str]:
    return sorted(table((await kit.said(code, fields)).body)["topicList"])


Look = Callable[[Kit], Awaitable[object]]


class Row(NamedTuple):
    """A request that changes something: what is seen before and afterwards."""

    code: int
    fields: dict[str, object]
    body: bytes
    look: Look
    before: object
    after: object
    first: tuple[int, dict[str, object], bytes] | None = None
    """A request that comes before all that."""


async def _retry_queues(kit: Kit) -> int:
    await kit.beat("demo", "%RETRY%g")
    found = await kit.enode.topic("rocketmq.RETRY.g")
    return 0 if found is None else found.partitions


async def _notices(kit: Kit) -> int:
    kit.pushed.clear()
    await kit.beat(f"other{len(kit.front.shared.clients.consumers)}{now_ms()}")
    return len(kit.told(NOTIFY_CONSUMER_IDS_CHANGED.code))


async def _broadcasts(kit: Kit) -> int:
    wanted = (m.SubscriptionData(topic="demo", sub_string="*"),)
    said = m.ConsumerData(group_name="g", message_model="BROADCASTING", subscription_data_set=wanted)
    await kit.said(34, body=m.write_body(m.HeartbeatData(client_id="c", consumer_data_set=(said,))))
    return await pulled(kit, sysFlag=0)


async def _retries(kit: Kit) -> int:
    return kit.front.shared.retries("g")


async def _kv(kit: Kit) -> str | None:
    return (await kit.said(101, {"namespace": "n", "key": "k"})).fields.get("value")


def _setting(name: str) -> Look:
    async def look(kit: Kit) -> object:
        return (await setting(kit))[name]

    return look


def _perm(kit: Kit) -> Awaitable[str]:
    return config(kit, "brokerPermission")


OBEYED = {
    "updateTopic, fewer queues": Row(17, topic(read=1, write=1), b"", route, (2, 2, 6), (1, 1, 6)),
    "updateTopic, more queues": Row(17, topic(read=3, write=5), b"", route, (2, 2, 6), (3, 5, 6)),
    "updateTopic, none to write": Row(17, topic(write=0), b"", route, (2, 2, 6), (2, 0, 6)),
    "updateTopic, a new one": Row(17, topic("new", 1, 3), b"", lambda kit: route(kit, "new"), NO_TOPIC, (1, 3, 6)),
    "updateTopic, its order": Row(17, topic(order="true"), b"", _setting("order"), False, True),
    "updateTopic, its filter": Row(
        17, topic(topicFilterType="MULTI_TAG"), b"", _setting("topicFilterType"), "SINGLE_TAG", "MULTI_TAG"
    ),
    "updateTopic, its unit": Row(17, topic(topicSysFlag=1), b"", _setting("topicSysFlag"), 0, 1),
    "updateTopic, its kind": Row(
        17, topic(attributes="+message.type=FIFO"), b"", _setting("attributes"), {}, {"message.type": "FIFO"}
    ),
    "updateTopicPerm, to read": Row(17, topic(perm=4), b"", route, (2, 2, 6), (2, 2, 4)),
    "updateTopicPerm, to write": Row(17, topic(perm=2), b"", pulled, 0, NO_PERMISSION),
    "updateTopicPerm, neither": Row(17, topic(perm=0), b"", route, (2, 2, 6), (2, 2, 0)),
    "updateTopicPerm, a template": Row(
        17, topic(perm=7), b"", lambda kit: sent(kit, f"child{now_ms()}", default="demo"), NO_TOPIC, 0
    ),
    "updateTopicList": Row(
        18,
        NOTHING,
        json.dumps({
            "topicConfigList": [
                {"topicName": "a", "readQueueNums": 1, "writeQueueNums": 2, "attributes": {"+message.type": "DELAY"}},
                {"topicName": "demo", "readQueueNums": 1, "writeQueueNums": 1, "perm": 4},
            ]
        }).encode(),
        lambda kit: both(route(kit), route(kit, "a")),
        ((2, 2, 6), NO_TOPIC),
        ((1, 1, 4), (1, 2, 6)),
    ),
    "updateBrokerConfig, not to read": Row(25, NOTHING, b"# x\nbrokerPermission=2\n", pulled, 0, NO_PERMISSION),
    "updateBrokerConfig, what it says": Row(25, NOTHING, b"brokerPermission=4\n", _perm, "6", "4"),
    "updateBrokerConfig, routes": Row(25, NOTHING, b"brokerPermission=4\n", route, (2, 2, 6), (2, 2, 4)),
    "updateKvConfig": Row(100, {"namespace": "n", "key": "k", "value": "v"}, b"", _kv, None, "v"),
    "updateSubGroup, not to consume": Row(200, NOTHING, group(consumeEnable=False), pulled, 0, NO_PERMISSION),
    "updateSubGroup, retries": Row(200, NOTHING, group(retryMaxTimes=3), _retries, 16, 3),
    "updateSubGroup, retry queues": Row(200, NOTHING, group(retryQueueNums=3), _retry_queues, 1, 3),
    "updateSubGroup, no notices": Row(200, NOTHING, group(notifyConsumerIdsChangedEnable=False), _notices, 1, 0),
    "updateSubGroup, no broadcasting": Row(
        200, NOTHING, group(consumeBroadcastEnable=False), _broadcasts, 0, NO_PERMISSION
    ),
    "updateSubGroupList": Row(
        225, NOTHING, b'{"groupConfigList":[{"groupName":"g","retryMaxTimes":2}]}', _retries, 16, 2
    ),
    "deleteSubGroup": Row(207, {"groupName": "g"}, b"", _retries, 3, 16, (200, NOTHING, group(retryMaxTimes=3))),
    "deleteSubGroup, its offsets": Row(
        207,
        {"groupName": "g", "cleanOffset": "true"},
        b"",
        committed,
        5,
        -1,
        (15, {"consumerGroup": "g", "topic": "demo", "queueId": 0, "commitOffset": 5}, b""),
    ),
    "deleteKvConfig": Row(
        102, VALUE, b"", _kv, "v", None, (100, {**VALUE, "value": "v"}, b"")
    ),
    "addWritePerm": Row(
        327, {"brokerName": BROKER}, b"", route, (2, 2, 4), (2, 2, 6), (205, {"brokerName": BROKER}, b"")
    ),
    "wipeWritePerm": Row(205, {"brokerName": BROKER}, b"", route, (2, 2, 6), (2, 2, 4)),
    "deleteTopic": Row(215, {"topic": "demo"}, b"", listed, ["demo"], []),
    "resetOffsetByTime without members": Row(
        222, RESET, b"", committed, -1, 1
    ),
}  # fmt: skip


async def both(first: Awaitable[object], second: Awaitable[object]) -> tuple[object, object]:
    return await first, await second


@pytest.mark.parametrize("name", OBEYED)
def test_what_is_answered_as_done_is_done(name: str) -> None:
    row = OBEYED[name]

    async def check(kit: Kit) -> None:
        await kit.put(b"x")
        if row.first is not None:
            assert (await kit.said(*row.first)).code == 0
        assert await row.look(kit) == row.before
        answer = await kit.said(row.code, row.fields, row.body)
        assert (answer.code, await row.look(kit)) == (0, row.after), answer.remark

    run(check)


UNDONE = {
    "a queue number below 0": (17, topic(read=-1), b""),
    "a topic without queues": (17, topic(read=0, write=0), b""),
    "a permission that there is not": (17, topic(perm=9), b""),
    "a topic that brokers have": (17, topic("TBW102"), b""),
    "a topic of the node's own": (17, topic("__consumer_offsets"), b""),
    "an attribute that does nothing": (17, topic(attributes="+cleanup.policy=COMPACTION"), b""),
    "a kind that there is not": (17, topic(attributes="+message.type=LOUD"), b""),
    "attributes without a sign": (17, topic(attributes="message.type"), b""),
    "one of several topics": (18, NOTHING, listed_topics("a", "b c")),
    "a setting of the broker's": (25, NOTHING, b"brokerPermission=4\nflushDiskType=SYNC_FLUSH\n"),
    "a permission of the broker's": (25, NOTHING, b"brokerPermission=all\n"),
    "a group's other retries": (200, NOTHING, group(groupRetryPolicy={"type": "EXPONENTIAL"})),
    "a group's own list of retries": (200, NOTHING, group(groupRetryPolicy={"customizedRetryPolicy": {"next": [1]}})),
    "a group's attributes": (200, NOTHING, group(attributes={"+a": "b"})),
    "a group without a name": (200, NOTHING, b'{"groupName":""}'),
    "a group's retry queues": (200, NOTHING, group(retryQueueNums=-1)),
    "one of several groups": (225, NOTHING, b'{"groupConfigList":[{"groupName":"h"},{"groupName":""}]}'),
    "a group that is there by its offsets": (207, {"groupName": "g", "cleanOffset": "false"}, b""),
    "a topic that brokers have, deleted": (215, {"topic": "SELF_TEST_TOPIC"}, b""),
    "a topic of the node's own, deleted": (215, {"topic": "__penstock_rocketmq"}, b""),
    "a topic that is still at the broker": (216, {"topic": "demo"}, b""),
    "a queue that is not there": (222, {**RESET, "queueId": 7}, b""),
    "an offset that is not there": (222, {**RESET, "queueId": 0, "offset": 9}, b""),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDONE)
def test_what_is_not_done_is_refused_and_changes_nothing(name: str) -> None:
    code, fields, body = UNDONE[name]

    async def seen(kit: Kit) -> list[object]:
        settings = table((await kit.said(201)).body)["subscriptionGroupTable"]
        return [
            await route(kit),
            await listed(kit),
            await setting(kit),
            await _perm(kit),
            settings,
            await committed(kit),
        ]

    async def check(kit: Kit) -> None:
        await kit.said(15, {"consumerGroup": "g", "topic": "demo", "queueId": 0, "commitOffset": 5})
        before = await seen(kit)
        answer = await kit.said(code, fields, body)
        assert answer.code not in (0, REFUSES)
        assert len(answer.remark or "") > 20
        assert await seen(kit) == before

    run(check)


TOOLS = {
    12, 17, 18, 21, 25, 26, 28, 29, 30, 31, 32, 33, 38, 43, 45, 50, 51, 52, 53, 100, 101, 102, 105, 106, 200, 201, 202,
    203, 204, 205, 206, 207, 208, 215, 216, 217, 219, 222, 223, 224, 225, 300, 303, 304, 305, 306, 307, 309, 311, 312,
    313, 314, 315, 316, 317, 318, 319, 321, 323, 324, 325, 327, 328, 329, 343, 345, 351, 352, 370, 400, 401,
    902, 903, 907, 908,
    *range(1_001, 1_014), *range(2_001, 2_006), *range(3_001, 3_011),
    200_050, 200_051, 200_052, 200_053,
}  # fmt: skip
"""Codes that mqadmin and the dashboard of RocketMQ 5.4 send; 353 to 355 are the Snode's here."""
CHANGES = {17, 18, 25, 100, 102, 200, 205, 207, 215, 216, 222, 225, 327}
"""Those of them that are served and are to change something."""


def test_every_request_of_the_tools_is_served_or_refused_in_words() -> None:
    async def check(kit: Kit) -> None:
        for code in sorted(TOOLS - TABLE.keys()):
            answer = await kit.said(code)
            assert answer.code == REFUSES
            assert answer.remark == f" request type {code} not supported: {REFUSED[code]}"
        for code, only in ((353, "readable"), (354, "checkStoreTime"), (355, "configType")):
            answer = await kit.said(code, {only: "1"})
            assert (answer.code, ":" in (answer.remark or "")) == (REFUSES, True)

    run(check)
    assert TABLE.keys() & REFUSED.keys() == {353, 354, 355}
    assert {each.code for each in OBEYED.values()} | {code for code, _, _ in UNDONE.values()} >= CHANGES


@pytest.mark.near  # a second front over the same log
def test_what_operators_set_is_there_after_a_restart_and_gone_with_its_topic() -> None:
    async def check(kit: Kit) -> None:
        await kit.said(17, topic(read=1, write=1, perm=4, attributes="+message.type=FIFO"))
        await kit.said(17, topic("kept", 1, 1, 2))
        await kit.said(25, body=b"brokerPermission=4")
        async with serving(store=kit.store) as again:
            assert await route(again) == (1, 1, 4)
            assert (await setting(again))["attributes"] == {"message.type": "FIFO"}
            assert await _perm(again) == "4"
            await again.said(25, body=b"brokerPermission=6")
            await again.said(215, {"topic": "demo"})
            await again.said(17, topic())
            assert await route(again) == (2, 2, 6)
            assert await route(again, "kept") == (1, 1, 2)

    run(check)


def test_a_topic_that_was_never_set_has_the_queues_that_other_protocols_give_it() -> None:
    async def check(kit: Kit) -> None:
        await kit.said(17, topic())
        await kit.enode.add_partitions("demo", 4)
        assert await route(kit) == (4, 4, 6)
        await kit.said(17, topic(read=3, write=3))
        await kit.enode.add_partitions("demo", 6)
        assert await route(kit) == (3, 3, 6)

    run(check)


@pytest.mark.parametrize("code", [10, 310])
def test_queues_beyond_those_that_are_read_and_written_are_refused(code: int) -> None:
    async def send(kit: Kit, queue: int) -> int:
        if code == 10:
            return await sent(kit, queue=queue)
        asked = {"a": "p", "b": "demo", "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": now_ms(), "h": 0, "i": ""}
        return (await kit.said(310, asked, b"x")).code

    async def check(kit: Kit) -> None:
        await kit.said(17, topic(read=1, write=1))
        assert (await send(kit, 0), await send(kit, 1)) == (0, Code.INVALID_PARAMETER)
        assert (await pulled(kit), await pulled(kit, queue=1)) == (0, Code.INVALID_PARAMETER)
        assert {await send(kit, -1) for _ in range(8)} == {0}
        where = [each.end for each in await kit.enode.extents([Partition("demo", 0), Partition("demo", 1)])]
        assert where == [9, 0]
        await kit.said(17, topic(read=2, write=0))
        assert (await send(kit, 0), await send(kit, -1)) == (0, Code.INVALID_PARAMETER)

    run(check)


def test_a_pull_that_waits_ends_with_the_permission() -> None:
    async def check(kit: Kit) -> None:
        pull = asyncio.ensure_future(pulled(kit, sysFlag=6, suspendTimeoutMillis=20_000))
        other = kit.client()
        while not kit.session.line.held:
            await kit.runtime.sleep(0.01)
        await other.said(17, topic(perm=2))
        await other.said(
            10,
            {
                "producerGroup": "p",
                "topic": "demo",
                "defaultTopic": "TBW102",
                "queueId": 0,
                "sysFlag": 0,
                "bornTimestamp": now_ms(),
            },
            b"x",
        )
        assert await pull == NO_PERMISSION

    run(check)


def test_a_broker_that_is_not_written_to_takes_back_nothing_and_nothing_for_topics_in_order() -> None:
    async def check(kit: Kit) -> None:
        await kit.said(17, topic(order="true"))
        await kit.said(17, topic("free", 1, 1))
        assert await sent(kit) == 0
        await kit.said(25, body=b"brokerPermission=4")
        assert (await sent(kit), await sent(kit, "free")) == (NO_PERMISSION, 0)
        back = await kit.said(36, {"offset": 0, "group": "g", "delayLevel": 1})
        assert back.code == NO_PERMISSION

    run(check)


def test_the_right_to_write_comes_back() -> None:
    async def check(kit: Kit) -> None:
        for code, count, perm in ((205, "wipeTopicCount", 4), (327, "addTopicCount", 6)):
            assert (await kit.said(code, {"brokerName": "other"})).fields[count] == "0"
            assert (await kit.said(code, {"brokerName": BROKER})).fields[count] == "1"
            assert await route(kit) == (2, 2, perm)
        assert await sent(kit) == 0

    run(check)


def test_topics_are_made_as_their_template_is() -> None:
    async def check(kit: Kit) -> None:
        await kit.said(17, topic("like", 4, 2, 5))
        assert await sent(kit, "child", default="like") == 0
        assert await route(kit, "child") == (2, 2, 4)
        await kit.said(17, topic("like", 4, 2, 6))
        assert await sent(kit, "late", default="like") == NO_TOPIC

    run(check, RocketFrontOptions(auto_create_topics=False))


def test_a_group_without_retry_queues_gets_nothing_again() -> None:
    async def check(kit: Kit) -> None:
        await kit.said(200, body=group(retryQueueNums=0))
        await kit.beat("demo", "%RETRY%g")
        place = int((await kit.put(b"x")).msg_id[-16:], 16)
        assert (await kit.said(36, {"offset": place, "group": "g", "delayLevel": 1})).code == 0
        assert await kit.enode.topic("rocketmq.RETRY.g") is None
        assert await kit.enode.topic("__1_rocketmq_delayed") is None

    run(check)


def test_a_state_of_settings_has_a_number_that_counts() -> None:
    async def versions(kit: Kit) -> tuple[int, int]:
        found = [table((await kit.said(code)).body)["dataVersion"]["counter"] for code in (21, 201)]
        return found[0], found[1]

    async def check(kit: Kit) -> None:
        first = await versions(kit)
        assert await versions(kit) == first
        await kit.said(17, topic(perm=4))
        assert await versions(kit) == (first[0] + 1, first[1])
        await kit.said(200, body=group())
        assert await versions(kit) == (first[0] + 1, first[1] + 1)
        await kit.enode.create_topic("elsewhere", 1, {})
        assert await versions(kit) == (first[0] + 2, first[1] + 1)

    run(check)


def test_groups_that_brokers_have_from_the_beginning_are_listed() -> None:
    async def check(kit: Kit) -> None:
        found = table((await kit.said(201)).body)["subscriptionGroupTable"]
        assert {"TOOLS_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONSAPI_PULL"} <= found.keys()
        assert {each["groupName"] for each in found.values()} == found.keys()
        assert (await kit.said(352, {"group": "TOOLS_CONSUMER"})).code == 0
        assert (await kit.said(352, {"group": "nosuch"})).code == Code.SUBSCRIPTION_GROUP_NOT_EXIST

    run(check, RocketFrontOptions(auto_create_groups=False))


def test_what_the_name_server_has_beside_topics() -> None:
    async def check(kit: Kit) -> None:
        answer = table((await kit.said(304)).body)
        assert (sorted(answer["topicList"]), answer["brokerAddr"]) == (["DefaultCluster", BROKER], "127.0.0.1:9876")
        assert "SELF_TEST_TOPIC" in await listed(kit, 305)
        assert b"listenPort=9876\n" in bytes((await kit.said(319)).body)

    run(check)


def test_routes_say_whether_a_standby_acts_as_master() -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.said(105, {"topic": "demo"})
        assert b'"enableActingMaster":false' in bytes(answer.body)
        assert b'"enableActingMaster":false' in bytes((await kit.said(106)).body)

    run(check)


def test_how_much_was_sent_to_a_topic_and_given_to_a_group() -> None:
    async def counted(kit: Kit, name: str, key: str) -> list[int] | int:
        answer = await kit.said(315, {"statsName": name, "statsKey": key})
        if answer.code:
            return answer.code
        found = table(answer.body)
        return [found[span]["sum"] for span in ("statsMinute", "statsHour", "statsDay")]

    async def check(kit: Kit) -> None:
        now = now_ms()
        assert await counted(kit, "GROUP_GET_NUMS", "demo@g") == Code.SYSTEM_ERROR
        for ago_s in (90_000, 80_000, 1_800, 1_700, 5):
            await kit.put(b"x", properties=f"penstock.timestamp\x01{now - ago_s * 1_000}")
        await kit.put(b"x", queue=1)
        assert await counted(kit, "TOPIC_PUT_NUMS", "demo") == [2, 4, 5]
        await kit.pull(1)
        await kit.pull(5)
        assert await counted(kit, "GROUP_GET_NUMS", "demo@g") == [4, 4, 4]
        for name, key in (("TOPIC_PUT_NUMS", "nosuch"), ("GROUP_GET_NUMS", "demo@h"), ("RT", "demo")):
            assert await counted(kit, name, key) == Code.SYSTEM_ERROR

    run(check)


def test_counts_are_those_of_the_last_minute_hour_and_day() -> None:
    counts = Counts()
    seen = []
    for second in (5, 15, 75, 700, 4_000, 90_000):
        counts.give("t", "g", 1, second)
        seen.append(counts.given("t", "g", second))
    assert seen == [(1, 1, 1), (2, 2, 2), (1, 3, 3), (1, 4, 4), (1, 2, 5), (1, 1, 1)]
    assert counts.given("t", "g", 95_000) == (0, 0, 1)
    for row in range(10_000):
        counts.give("t", str(row), 1, 90_000)
    assert counts.given("t", "g", 90_000) is None


def test_all_producers_are_listed() -> None:
    async def check(kit: Kit) -> None:
        await kit.beat(producer="p")
        (found,) = table((await kit.said(328)).body)["data"]["p"]
        assert (found["clientId"], found["remoteIP"]) == ("first", "127.0.0.1:50000")
        assert abs(found["lastUpdateTimestamp"] - now_ms()) < 60_000

    run(check)


def test_a_reply_reaches_who_asked_for_it() -> None:
    async def check(kit: Kit) -> None:
        asker, other = kit.client("asker"), kit.client("other")
        await other.beat(producer="p")
        await asker.beat(producer="p")
        await kit.put(b"how?", properties="CORRELATION_ID\x01c\x02REPLY_TO_CLIENT\x01asker\x02TTL\x013000")
        (request,) = await kit.read()
        properties = parse_properties(request.properties.decode())
        assert [properties[name] for name in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL")] == ["c", "asker", "3000"]
        assert await route(kit, f"{properties['CLUSTER']}_REPLY_TOPIC") == (1, 1, 6)
        said = "CORRELATION_ID\x01c\x02REPLY_TO_CLIENT\x01asker\x02MSG_TYPE\x01reply"
        letters = {"a": "p", "b": "DefaultCluster_REPLY_TOPIC", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 5, "h": 0}
        answer = asyncio.ensure_future(kit.said(325, {**letters, "i": said}, b"so"))
        while not asker.pushed:
            await kit.runtime.sleep(0.01)
        (pushed,) = asker.told(PUSH_REPLY_MESSAGE_TO_CLIENT.code)
        assert (bytes(pushed.body), pushed.fields["properties"], pushed.is_one_way) == (b"so", said, False)
        assert (pushed.fields["bornHost"], pushed.fields["storeHost"]) == ("127.0.0.1:50000", "127.0.0.1:9876")
        await asker.send(b"".join(encode(RemotingCommand(0, pushed.opaque, RESPONSE))))
        assert (await answer).code == 0
        assert not other.pushed
        asker.session.lost()
        answer = await kit.said(325, {**letters, "i": said}, b"so")
        assert (answer.code, "asker" in answer.remark) == (Code.SYSTEM_ERROR, True)

    run(check)


def test_a_client_is_found_by_its_name_while_it_has_a_connection() -> None:
    async def check(kit: Kit) -> None:
        clients, one, two = kit.front.shared.clients, kit.client("a"), kit.client("a")
        for client, name in ((one, "p"), (one, "q"), (two, "p")):
            await client.beat(producer=name)
        assert clients.named("a") is two.session.line
        two.session.lost()
        assert clients.named("a") is one.session.line
        one.name = "b"
        await one.beat(producer="p")
        assert (clients.named("a"), clients.named("b")) == (one.session.line, one.session.line)
        one.session.lost()
        assert (clients.named("a"), clients.named("b"), clients._named) == (None, None, {})

    run(check)


def test_how_far_all_groups_are() -> None:
    async def check(kit: Kit) -> None:
        for _ in range(3):
            await kit.put(b"x")
        for name, offset in (("g", 1), ("h", 3)):
            await kit.said(15, {"consumerGroup": name, "topic": "demo", "queueId": 0, "commitOffset": offset})
        answer = await kit.said(317, {"isOrder": "false"})
        found = m.read_body(m.ConsumeStatsOfAll, answer.body)
        assert [list(each) for each in found.consume_stats_list] == [["g"], ["h"]]
        assert (found.total_diff, found.broker_addr) == (2, "127.0.0.1:9876")

    run(check)
