"""Administrative calls: topics, offsets, flow control, who may read."""

import json
from typing import Any

import pytest

from penstock.model import Partition
from penstock.protocols.tubemq.wire.messages import (
    HeartRequestC2M,
    HeartRequestP2M,
    RegisterRequestC2M,
    RegisterRequestP2M,
)
from penstock.protocols.tubemq.wire.rpc import (
    CONSUMER_HEARTBEAT,
    CONSUMER_REGISTER,
    PRODUCER_HEARTBEAT,
    PRODUCER_REGISTER,
    SEND_MESSAGE,
)
from tests.unit.tubemq_front.kit import Kit, bodies, run, sent
from tests.unit.tubemq_front.web import call

MADE = {"brokerId": 1, "createUser": "me"}
CHANGED = {"brokerId": 1, "modifyUser": "me"}
RULES = (
    '[{"type":0,"rule":[{"start":"00:00","end":"24:00","dltInM":21,"limitInM":0,"freqInMs":1500}]},'
    '{"type":1,"rule":[{"zeroCnt":3,"freqInMs":300},{"zeroCnt":8,"freqInMs":1000}]}]'
)


def register(**more: Any) -> RegisterRequestC2M:
    fields = {"client_id": "c", "group_name": "g", "host_name": "h", "topic_list": ["demo"], **more}
    return RegisterRequestC2M(**fields)


async def one(kit: Kit, method: str, **parameters: object) -> dict[str, Any]:
    """The only row of an answer."""
    answer = await call(kit, method, **parameters)
    assert answer["result"], answer
    (row,) = answer.get("data") or answer["dataSet"]
    assert isinstance(row, dict)
    return row


def test_a_topic_is_made_with_as_many_partitions_as_stores_and_partitions_say() -> None:
    async def check(kit: Kit) -> None:
        made = await one(
            kit, "admin_add_topic_deploy_info", topicName="made", numPartitions=3, numTopicStores=2, **MADE
        )
        assert made == {"brokerId": 1, "topicName": "made", "success": True, "errCode": 200, "errInfo": "Ok!"}
        shown = await one(kit, "admin_query_topic_info", topicName="made")
        assert shown["totalRunNumPartCount"] == 6
        assert (shown["topicInfo"][0]["numTopicStores"], shown["topicInfo"][0]["numPartitions"]) == (2, 3)
        again = await one(kit, "admin_add_topic_deploy_info", topicName="made", **MADE)
        assert (again["success"], again["errCode"]) == (False, 402)

    run(check)


@pytest.mark.parametrize(
    "parameters",
    [
        {"topicName": "9bad", **MADE},
        {"topicName": "x", **MADE},
        {"topicName": "made", "brokerId": 1},
        {"topicName": "made", "numPartitions": "many", **MADE},
        {"topicName": "made", "numPartitions": 101, "numTopicStores": 100, **MADE},
        {"topicName": "made", "deletePolicy": "keep,9h", **MADE},
    ],
)
def test_a_topic_that_cannot_be_is_not_made(parameters: dict[str, object]) -> None:
    async def check(kit: Kit) -> None:
        answer = await call(kit, "admin_add_topic_deploy_info", **parameters)
        assert (answer["result"], answer["errCode"]) == (False, 400)
        assert len(await kit.enode.topics()) == 1

    run(check)


def test_a_topic_of_another_broker_is_refused_in_its_row() -> None:
    async def check(kit: Kit) -> None:
        row = await one(kit, "admin_add_topic_deploy_info", topicName="made", brokerId=7, createUser="me")
        assert (row["success"], row["errCode"]) == (False, 401)

    run(check)


def test_a_script_for_a_real_cluster_finds_its_broker_configured_and_online() -> None:
    async def check(kit: Kit) -> None:
        assert (await one(kit, "admin_add_broker_configure", brokerIp="127.0.0.1", **MADE))["errCode"] == 402
        assert (await one(kit, "admin_online_broker_configure", **CHANGED))["success"]
        assert (await one(kit, "admin_reload_broker_configure", **CHANGED))["success"]
        assert not (await one(kit, "admin_online_broker_configure", brokerId=2, modifyUser="me"))["success"]
        status = await one(kit, "admin_query_broker_run_status", brokerId=1)
        assert (status["runStatus"], status["subStatus"], status["brokerWebPort"]) == ("running", "idle", 8_715)

    run(check)


def test_retention_is_kept_as_the_topics_option() -> None:
    async def check(kit: Kit) -> None:
        await one(kit, "admin_add_topic_deploy_info", topicName="made", deletePolicy="delete,36h", **MADE)
        topic = await kit.enode.topic("made")
        assert topic is not None
        assert topic.config["retention.ms"] == str(36 * 3_600_000)
        await one(kit, "admin_modify_topic_info", topicName="made", deletePolicy="delete,90m", **CHANGED)
        shown = await one(kit, "admin_query_topic_info", topicName="made")
        assert shown["topicInfo"][0]["deletePolicy"] == "delete,90m"

    run(check)


def test_a_topic_grows_and_does_not_shrink() -> None:
    async def check(kit: Kit) -> None:
        async def change(**count: int) -> tuple[bool, int]:
            told = await one(kit, "admin_modify_topic_info", topicName="demo", **count, **CHANGED)
            topic = await kit.enode.topic("demo")
            assert topic is not None
            return told["success"], topic.partitions

        assert await change(numTopicStores=5) == (True, 5)
        assert await change(numPartitions=2) == (True, 10)  # in each of the stores that there are
        assert await change(numTopicStores=6, numPartitions=2) == (True, 12)
        assert await change(numTopicStores=1) == (False, 12)

    run(check)


def test_a_topic_goes_in_steps_and_can_come_back_before_the_last() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a")
        assert (await one(kit, "admin_delete_topic_info", topicName="demo", **CHANGED))["errCode"] == 406
        assert (await one(kit, "admin_remove_topic_info", topicName="demo", **CHANGED))["errCode"] == 406
        closed = {"topicName": "demo", "acceptPublish": "false", "acceptSubscribe": "false"}
        await one(kit, "admin_modify_topic_info", **closed, **CHANGED)
        assert (await kit.ask(SEND_MESSAGE, sent(b"b"))).err_code == 403
        assert (await kit.book()).err_code == 403
        assert (await one(kit, "admin_delete_topic_info", topicName="demo", **CHANGED))["success"]
        assert (await one(kit, "admin_redo_deleted_topic_info", topicName="demo", **CHANGED))["success"]
        opened = {"topicName": "demo", "acceptPublish": "true", "acceptSubscribe": "true"}
        await one(kit, "admin_modify_topic_info", **opened, **CHANGED)
        await kit.book()
        assert bodies(await kit.get()) == [b"a"]
        await one(kit, "admin_modify_topic_info", **closed, **CHANGED)
        assert (await one(kit, "admin_remove_topic_info", topicName="demo", **CHANGED))["success"]
        assert (await kit.enode.topic("demo")) is None
        assert not (await kit.offsets.committed("g"))

    run(check)


def test_offsets_are_shown_for_partitions_and_groups() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b", b"c")
        await kit.book(curr_offset=28)
        await kit.get()
        pub = await one(kit, "admin_query_pubinfo", topicName="demo")
        assert [(row["partitionId"], row["offsetMin"], row["offsetMax"]) for row in pub["offsetInfo"]] == [
            (0, 0, 84),
            (10_000, 0, 0),
        ]
        group = await one(kit, "admin_query_offset", groupName="g", topicName="demo")
        first, second = group["subInfo"][0]["offsets"]
        assert (first["curOffset"], first["flightOffset"], first["offsetLag"], first["offsetMax"]) == (28, 56, 56, 84)
        assert second["curOffset"] == -2
        alone = await call(kit, "admin_query_group_offset", groupName="g", topicName="demo", partitionId=0)
        assert (alone["curOffset"], alone["minOffset"], alone["maxOffset"]) == (28, 0, 84)

    run(check)


def test_a_group_is_moved_also_where_it_is_not_there() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b", b"c")
        given = {"groupName": "g,h", "modifyUser": "me", "manualSet": "true"}
        assert (await call(kit, "admin_set_offset", offsetJsonInfo='{"1:demo:0": 56}', **given))["result"]
        for group in "gh":
            assert (await kit.offsets.committed(group))[Partition("demo", 0)].offset == 2
        assert (await call(kit, "admin_set_offset", offsetJsonInfo='{"1:demo:0": 5600}', **given))["result"]
        assert (await kit.offsets.committed("g"))[Partition("demo", 0)].offset == 3
        await call(kit, "admin_set_offset", groupName="h", topicName="demo", modifyUser="me", manualSet="false")
        assert (await kit.offsets.committed("h"))[Partition("demo", 1)].offset == 0
        cloned = {"sourceGroupName": "g", "targetGroupName": "i", "topicName": "demo", "modifyUser": "me"}
        assert (await call(kit, "admin_clone_offset", **cloned))["result"]
        assert (await kit.offsets.committed("i"))[Partition("demo", 0)].offset == 3
        assert (await call(kit, "admin_rmv_offset", groupName="i", topicName="demo", modifyUser="me"))["result"]
        assert not (await kit.offsets.committed("i"))

    run(check)


def test_a_reader_goes_on_where_it_was_moved() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b", b"c")
        await kit.book()
        await kit.get()
        one_partition = {"groupName": "g", "topicName": "demo", "partitionId": 0, "modifyUser": "me"}
        moved = await call(kit, "admin_manual_set_current_offset", manualOffset=28, **one_partition)
        assert moved["oldOffset"] == 0
        assert bodies(await kit.get(last_pack_consumed=True)) == [b"b", b"c"]

    run(check)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"1:demo:0":"x"}', '{"1:demo:0":true}', '{"demo":1}', "{" * 3_000, '{"1:no:0":1}']
)
def test_offsets_that_are_none_move_nobody(text: str) -> None:
    async def check(kit: Kit) -> None:
        given = {"groupName": "g", "modifyUser": "me", "manualSet": "true", "offsetJsonInfo": text}
        assert not (await call(kit, "admin_set_offset", **given))["result"]
        assert not (await kit.offsets.groups())

    run(check)


def test_rules_reach_clients_in_order_once_and_slow_readers_down() -> None:
    async def check(kit: Kit) -> None:
        shown = await one(kit, "admin_set_def_flow_control_rule", flowCtrlInfo=RULES, statusId=1, createUser="me")
        assert [rule["zeroCnt"] for rule in shown["flowCtrlInfo"][1]["rule"]] == [8, 3]
        told = await kit.ask(CONSUMER_REGISTER, register(def_flow_check_id=-2))
        assert json.loads(told.def_flow_control_info) == shown["flowCtrlInfo"]
        beat = HeartRequestC2M(
            client_id="c", group_name="g", report_subscribe_info=False, def_flow_check_id=told.def_flow_check_id
        )
        assert (await kit.ask(CONSUMER_HEARTBEAT, beat)).def_flow_control_info == " "
        await kit.put(*(bytes(1 << 18) for _ in range(4)))
        await kit.book()
        assert (await kit.get()).success
        limited = await kit.get()
        assert (limited.err_code, limited.min_limit_time) == (452, 1500)
        await one(kit, "admin_rmv_def_flow_control_rule", modifyUser="me")
        assert (await kit.ask(CONSUMER_HEARTBEAT, beat)).def_flow_control_info == "[]"

    run(check)


def test_rules_that_are_none_change_nothing() -> None:
    async def check(kit: Kit) -> None:
        answer = await call(kit, "admin_set_def_flow_control_rule", flowCtrlInfo='[{"type":9}]', createUser="me")
        assert (answer["result"], answer["errCode"]) == (False, 400)
        assert (await one(kit, "admin_query_def_flow_control_rule"))["ruleCnt"] == 0

    run(check)


def test_a_group_has_rules_and_a_priority_of_its_own() -> None:
    async def check(kit: Kit) -> None:
        given = {"groupName": "g", "flowCtrlInfo": RULES, "statusId": 1, "qryPriorityId": 303, "createUser": "me"}
        await one(kit, "admin_set_group_flow_control_rule", **given)
        told = await kit.ask(CONSUMER_REGISTER, register(group_flow_check_id=-2))
        assert (told.qry_priority_id, told.def_flow_check_id) == (303, -2)
        assert told.group_flow_control_info.startswith("[")
        other = await kit.ask(CONSUMER_REGISTER, register(group_name="other", group_flow_check_id=-2))
        assert (other.group_flow_check_id, other.group_flow_control_info) == (-2, " ")

    run(check)


def test_a_controlled_topic_lets_in_whom_it_was_told_to() -> None:
    async def check(kit: Kit) -> None:
        await one(kit, "admin_set_topic_authorize_control", topicName="demo", isEnable="true", createUser="me")
        assert (await kit.ask(CONSUMER_REGISTER, register())).err_code == 450
        allowed = {"topicName": "demo", "groupName": "g", "createUser": "me"}
        await one(kit, "admin_add_authorized_consumergroup_info", **allowed)
        assert (await kit.ask(CONSUMER_REGISTER, register())).err_code == 200
        await one(kit, "admin_add_group_filtercond_info", condStatus=1, filterConds=",a,b,", **allowed)
        assert (await kit.ask(CONSUMER_REGISTER, register())).err_code == 455
        assert (await kit.ask(CONSUMER_REGISTER, register(topic_condition=["demo#c"]))).err_code == 455
        assert (await kit.ask(CONSUMER_REGISTER, register(topic_condition=["demo#a"]))).err_code == 200

    run(check)


def test_the_largest_message_is_told_to_producers_and_kept_to() -> None:
    async def check(kit: Kit) -> None:
        await kit.ask(PRODUCER_REGISTER, RegisterRequestP2M(client_id="p", broker_check_sum=-1, host_name="h"))
        await one(kit, "admin_set_cluster_default_setting", maxMsgSizeInMB=2, createUser="me")
        beat = HeartRequestP2M(client_id="p", broker_check_sum=-1, host_name="h", topic_list=["demo"])
        told = await kit.ask(PRODUCER_HEARTBEAT, beat)
        assert told.appd_config.max_msg_size == 2 << 20
        assert list(told.topic_infos) == ["demo#1:1:2#"]
        assert (await kit.ask(SEND_MESSAGE, sent(bytes(2 << 20)))).success
        await one(kit, "admin_update_topic_control_info", topicName="demo", maxMsgSizeInMB=1, createUser="me")
        assert list((await kit.ask(PRODUCER_HEARTBEAT, beat)).topic_infos) == [f"demo#1:1:2#{1 << 20}"]
        assert (await kit.ask(SEND_MESSAGE, sent(bytes(2 << 20)))).err_code == 400

    run(check)


def test_the_last_messages_can_be_looked_at() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b", b"c")
        found = await call(kit, "admin_snapshot_message", topicName="demo", partitionId=0, msgCount=2)
        assert [row["data"] for row in found["dataSet"]] == ["Yg==", "Yw=="]

    run(check)
