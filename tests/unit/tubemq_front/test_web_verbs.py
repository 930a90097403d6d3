"""Verbs of TubeMQ's web interfaces: which there are, who calls them, and what becomes of each here.

The table is the list of what a real 2.4.0 master and broker serve (``admin_get_methods``) and of what the sources after
it have added. Each is obeyed, or refused in words; nothing is answered with success that was not done.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.protocols.tubemq.server.web_api.routes import REFUSED, ROUTES
from penstock.protocols.tubemq.wire.messages import (
    GetMessageRequestC2B,
    HeartRequestC2M,
    HeartRequestP2M,
    RegisterRequestP2M,
)
from penstock.protocols.tubemq.wire.records import pack
from penstock.protocols.tubemq.wire.rpc import (
    CONSUMER_HEARTBEAT,
    CONSUMER_REGISTER,
    GET_MESSAGE,
    PRODUCER_HEARTBEAT,
    PRODUCER_REGISTER,
    SEND_MESSAGE,
)
from tests.unit.tubemq_front.kit import Kit, run, sent
from tests.unit.tubemq_front.test_administration import register
from tests.unit.tubemq_front.web import call

PAGE = Path(__file__).parents[3] / "docs" / "node" / "tubemq-web-api.md"
ADD, CHANGE = {"createUser": "me"}, {"modifyUser": "me"}
BROKER = {"brokerId": 1}
NEW = {"brokerId": 1, "topicName": "made", **ADD}
RECORD = {"groupName": "readers", "topicName": "demo"}


def many(*items: dict[str, Any]) -> str:
    return json.dumps(items)


# Verb: parameters of a call that a real server takes. They are called in this order, on one node.
OBEYED: dict[str, dict[str, Any]] = {
    # Topics: the page, tubectl topic, InLong Manager.
    "admin_add_new_topic_record": NEW,
    "admin_add_topic_deploy_info": NEW | {"topicName": "made2"},
    "admin_bath_add_new_topic_record": {"topicJsonSet": many(NEW | {"topicName": "made3"}), **ADD},
    "admin_bath_add_topic_deploy_info": {"topicJsonSet": many(NEW | {"topicName": "made4"}), **ADD},
    "admin_modify_topic_info": {**BROKER, "topicName": "made", "acceptPublish": "false", **CHANGE},
    "admin_update_topic_deploy_info": {**BROKER, "topicName": "made", "acceptSubscribe": "false", **CHANGE},
    "admin_batch_update_topic_deploy_info": {
        "topicJsonSet": many({**BROKER, "topicName": "made2", "acceptPublish": False, "acceptSubscribe": False}),
        **CHANGE,
    },
    "admin_delete_topic_info": {**BROKER, "topicName": "made", **CHANGE},
    "admin_delete_topic_deploy_info": {**BROKER, "topicName": "made2", **CHANGE},
    "admin_redo_deleted_topic_info": {**BROKER, "topicName": "made", **CHANGE},
    "admin_redo_deleted_topic_deploy_info": {**BROKER, "topicName": "made2", **CHANGE},
    "admin_remove_topic_info": {**BROKER, "topicName": "made", **CHANGE},
    "admin_remove_topic_deploy_info": {**BROKER, "topicName": "made2", **CHANGE},
    "admin_query_topic_info": {},
    "admin_query_topic_deploy_info": {},
    "admin_query_topic_deploy_configure": {},
    "admin_query_cluster_topic_view": {},
    "admin_query_topic_broker_config_info": {},
    "admin_query_broker_topic_config_info": {},
    "admin_query_deployed_topics": {},
    "admin_query_deployed_broker_ids": {},
    # Topics: control.
    "admin_add_topic_control_info": {"topicName": "demo", "enableAuthControl": "true", **ADD},
    "admin_update_topic_control_info": {"topicName": "demo", "maxMsgSizeInMB": 4, **CHANGE},
    "admin_batch_add_topic_control_info": {"topicCtrlJsonSet": many({"topicName": "made3"}), **ADD},
    "admin_batch_update_topic_control_info": {
        "topicCtrlJsonSet": many({"topicName": "made3", "maxMsgSizeInMB": 2}),
        **CHANGE,
    },
    "admin_query_topic_control_info": {},
    "admin_set_topic_authorize_control": {"topicName": "demo", "isEnable": "true", **ADD},
    "admin_bath_add_topic_authorize_control": {"topicJsonSet": many({"topicName": "made3", "isEnable": True}), **ADD},
    "admin_query_topic_authorize_control": {},
    "admin_delete_topic_authorize_control": {"topicName": "made3", **CHANGE},
    "admin_delete_topic_control_info": {"topicName": "made3", **CHANGE},
    # Groups: what they may read.
    "admin_add_group_csmctrl_info": {**RECORD, **ADD},
    "admin_update_group_csmctrl_info": {**RECORD, "filterEnable": "true", "filterConds": ",a,b,", **CHANGE},
    "admin_batch_add_group_csmctrl_info": {"groupCsmJsonSet": many(RECORD | {"groupName": "others"}), **ADD},
    "admin_batch_update_group_csmctrl_info": {
        "groupCsmJsonSet": many(RECORD | {"groupName": "others", "consumeEnable": False}),
        **CHANGE,
    },
    "admin_query_group_csmctrl_info": {},
    "admin_query_booked_csmctrl_groups": {},
    "admin_add_authorized_consumergroup_info": {**RECORD, **ADD},
    "admin_bath_add_authorized_consumergroup_info": {"groupNameJsonSet": many(RECORD), **ADD},
    "admin_query_allowed_consumer_group_info": {},
    "admin_add_group_filtercond_info": {**RECORD, "filterConds": ",a,", "condStatus": 2, **ADD},
    "admin_bath_add_group_filtercond_info": {
        "filterCondJsonSet": many(RECORD | {"filterConds": ",a,", "condStatus": 2}),
        **ADD,
    },
    "admin_mod_group_filtercond_info": {**RECORD, "filterConds": ",b,", "condStatus": 2, **CHANGE},
    "admin_bath_mod_group_filtercond_info": {
        "filterCondJsonSet": many(RECORD | {"filterConds": ",b,", "condStatus": 2}),
        **CHANGE,
    },
    "admin_query_group_filtercond_info": {},
    "admin_del_group_filtercond_info": {**RECORD, **CHANGE},
    "admin_add_black_consumergroup_info": {**RECORD, **ADD},
    "admin_bath_add_black_consumergroup_info": {"groupNameJsonSet": many(RECORD), **ADD},
    "admin_query_black_consumer_group_info": {},
    "admin_delete_black_consumergroup_info": {**RECORD, **CHANGE},
    "admin_batch_delete_black_consumergroup_info": {"groupNameJsonSet": many(RECORD), **CHANGE},
    "admin_delete_allowed_consumer_group_info": {**RECORD, **CHANGE},
    "admin_batch_del_authorized_consumergroup_info": {"groupNameJsonSet": many(RECORD), **CHANGE},
    "admin_delete_group_csmctrl_info": {**RECORD, **CHANGE},
    "admin_batch_delete_group_csmctrl_info": {"groupCsmJsonSet": many(RECORD | {"groupName": "others"}), **CHANGE},
    # Groups: flow control and shares.
    "admin_add_group_resctrl_info": {
        "groupName": "readers",
        "resCheckEnable": "true",
        "alwdBrokerClientRate": 3,
        **ADD,
    },
    "admin_update_group_resctrl_info": {"groupName": "readers", "flowCtrlEnable": "true", **CHANGE},
    "admin_batch_add_group_resctrl_info": {"groupResCtrlJsonSet": many({"groupName": "others"}), **ADD},
    "admin_batch_update_group_resctrl_info": {
        "groupResCtrlJsonSet": many({"groupName": "others", "qryPriorityId": 303}),
        **CHANGE,
    },
    "admin_query_group_resctrl_info": {},
    "admin_query_booked_resctrl_groups": {},
    "admin_delete_group_resctrl_info": {"groupName": "readers,others", **CHANGE},
    "admin_add_consume_group_setting": {"groupName": "readers", "allowedBClientRate": 2, **ADD},
    "admin_bath_add_consume_group_setting": {"groupNameJsonSet": many({"groupName": "others"}), **ADD},
    "admin_upd_consume_group_setting": {"groupName": "readers", "allowedBClientRate": 4, **CHANGE},
    "admin_query_consume_group_setting": {},
    "admin_del_consume_group_setting": {"groupName": "readers,others", **CHANGE},
    "admin_set_group_flow_control_rule": {"groupName": "readers", "statusId": 1, **ADD},
    "admin_upd_group_flow_control_rule": {"groupName": "readers", "statusId": 0, **CHANGE},
    "admin_query_group_flow_control_rule": {},
    "admin_rmv_group_flow_control_rule": {"groupName": "readers", **CHANGE},
    "admin_set_def_flow_control_rule": {"statusId": 1, **ADD},
    "admin_upd_def_flow_control_rule": {"statusId": 0, **CHANGE},
    "admin_query_def_flow_control_rule": {},
    "admin_rmv_def_flow_control_rule": CHANGE,
    "admin_set_cluster_default_setting": {"maxMsgSizeInMB": 2, **ADD},
    "admin_update_cluster_default_setting": {"maxMsgSizeInMB": 1, **CHANGE},
    "admin_query_cluster_default_setting": {},
    # The broker: the page.
    "admin_online_broker_configure": {**BROKER, **CHANGE},
    "admin_reload_broker_configure": {**BROKER, **CHANGE},
    "admin_release_broker_autoforbidden_status": {**BROKER, "relReason": "none", **CHANGE},
    "admin_set_broker_read_or_write": {**BROKER, "acceptPublish": "true", **CHANGE},
    "admin_update_broker_configure": {**BROKER, "acceptSubscribe": "true", **CHANGE},
    "admin_batch_update_broker_configure": {"brokerJsonSet": many({**BROKER, "acceptSubscribe": True}), **CHANGE},
    "admin_query_broker_configure": {},
    "admin_query_broker_run_status": {},
    # What is going on.
    "admin_get_methods": {},
    "admin_query_server_version": {},
    "admin_query_master_group_info": {},
    "admin_query_sub_info": {},
    "admin_query_consume_group_detail": {"consumeGroup": "readers"},
    "admin_query_group_info_by_topic": {},
    "admin_query_client_balance_group_set": {},
    # The broker's own page.
    "admin_query_pubinfo": {},
    "admin_set_offset": {"groupName": "readers", "manualSet": "false", "topicName": "demo", **CHANGE},
    "admin_query_offset": {},
    "admin_query_group_offset": {**RECORD, "partitionId": 0},
    "admin_manual_set_current_offset": {**RECORD, "partitionId": 0, "manualOffset": 0, **CHANGE},
    "admin_clone_offset": {"sourceGroupName": "readers", "targetGroupName": "others", **CHANGE},
    "admin_query_group": {},
    "admin_get_booked_groupname": {},
    "admin_rmv_offset": {"groupName": "others", **CHANGE},
    "admin_snapshot_message": {"topicName": "demo", "msgCount": 5},
    "admin_query_broker_all_consumer_info": {},
    "admin_query_broker_all_store_info": {},
    "admin_query_consumer_regmap": {},
    "admin_get_group_detail_info": {},
    "admin_get_partition_reginfo": {},
}

# Obeyed as far as there is anything to do: the answer's row says what is wrong.
SAID_IN_THE_ROW: dict[str, tuple[dict[str, Any], int]] = {
    "admin_add_broker_configure": ({**BROKER, "brokerIp": "127.0.0.1", **ADD}, 402),
    "admin_batch_add_broker_configure": ({"brokerJsonSet": many(BROKER), **ADD}, 402),
    "admin_bath_add_broker_configure": ({"brokerJsonSet": many({"brokerId": 2}), **ADD}, 401),
}

# There has to be something that they are about; other tests have it.
ELSEWHERE = {"admin_rebalance_group_allocate", "admin_set_client_balance_group_consume_from_max"}

NOT_SERVED = {
    "admin_backup_group_offsets",
    "admin_delete_broker_configure",
    "admin_disable_all_stats",
    "admin_disable_stats",
    "admin_enable_stats",
    "admin_get_group_history_offset",
    "admin_get_metrics_info",
    "admin_get_msgstore_stats",
    "admin_offline_broker_configure",
    "admin_query_broker_memstore_info",
    "admin_set_offset_by_time",
    "admin_transfer_current_master",
}


def test_every_verb_is_in_the_table() -> None:
    assert {*OBEYED, *SAID_IN_THE_ROW, *ELSEWHERE} == set(ROUTES)
    assert set(REFUSED) == NOT_SERVED


def test_what_is_obeyed_says_so_and_names_nothing_that_it_left_out() -> None:
    async def check(kit: Kit) -> None:
        for verb, parameters in OBEYED.items():
            answer = await call(kit, verb, **parameters)
            assert (answer["result"], answer["errCode"]) == (True, 0), (verb, answer)
            assert "without any effect" not in answer["errMsg"] or "relReason" in answer["errMsg"], (verb, answer)
            rows = [row for row in answer.get("data", ()) if isinstance(row, dict)]
            assert all(row.get("success", True) for row in rows), (verb, answer)

    run(check)


@pytest.mark.parametrize("verb", SAID_IN_THE_ROW)
def test_what_cannot_be_done_is_said_in_its_row(verb: str) -> None:
    async def check(kit: Kit) -> None:
        parameters, code = SAID_IN_THE_ROW[verb]
        (row,) = (await call(kit, verb, **parameters))["data"]
        assert (row["success"], row["errCode"]) == (False, code)
        assert row["errInfo"]

    run(check)


def test_what_is_not_served_is_refused_in_words_and_stands_in_the_docs() -> None:
    async def check(kit: Kit) -> None:
        for verb in NOT_SERVED:
            answer = await call(kit, verb, **ADD, **CHANGE)
            assert (answer["result"], answer["errCode"]) == (False, 400)
            assert answer["errMsg"] == f"{verb} is not served: {REFUSED[verb]}"

    run(check)
    documented = dict(re.findall(r"^\| `(admin_\w+)` \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert documented == dict(REFUSED)


def test_a_batch_does_what_it_can_and_says_of_each_what_became_of_it() -> None:
    async def check(kit: Kit) -> None:
        items = many({"topicName": "made", "brokerId": 1}, {"topicName": "9", "brokerId": 1}, {"topicName": "demo"})
        answer = await call(kit, "admin_bath_add_topic_deploy_info", topicJsonSet=items, **ADD)
        assert [(row.get("topicName"), row["success"], row["errCode"]) for row in answer["data"]] == [
            ("made", True, 200),
            ("9", False, 400),
            ("demo", False, 400),  # it names no broker
        ]
        for wrong in ("", "[]", "{}", "[1]", "[", "[" * 5_000):
            refused = await call(kit, "admin_bath_add_topic_deploy_info", topicJsonSet=wrong, **ADD)
            assert (refused["result"], refused["errCode"]) == (False, 400)
            assert "topicJsonSet" in refused["errMsg"]

    run(check)


@pytest.mark.parametrize(
    ("verb", "parameters", "named"),
    [
        ("admin_set_cluster_default_setting", {"brokerPort": 8_123, **ADD}, "brokerPort"),
        ("admin_set_cluster_default_setting", {"numPartitions": 3, **ADD}, "numPartitions"),
        ("admin_update_broker_configure", {**BROKER, "brokerIp": "10.0.0.1", **CHANGE}, "brokerIp"),
        ("admin_update_broker_configure", {**BROKER, "numTopicStores": 2, **CHANGE}, "numTopicStores"),
        ("admin_set_broker_read_or_write", {**BROKER, **CHANGE}, "acceptPublish"),
        ("admin_rmv_offset", {"groupName": "readers", "onlyMemory": "true", **CHANGE}, "onlyMemory"),
        ("admin_clone_offset", {"sourceGroupName": "nobody", "targetGroupName": "others", **CHANGE}, "sourceGroupName"),
        ("admin_set_offset", {"groupName": "readers", "topicName": "demo", **CHANGE}, "manualSet"),
        (
            "admin_set_offset",
            {"groupName": "readers", "manualSet": "true", "offsetJsonInfo": '{"2:demo:0":28}', **CHANGE},
            "offsetJsonInfo",
        ),
        ("admin_add_group_csmctrl_info", {**RECORD, "filterConds": ",a,", **ADD}, "filterEnable"),
    ],
)
def test_what_would_not_be_done_is_refused_and_not_answered_with_success(
    verb: str, parameters: dict[str, Any], named: str
) -> None:
    async def check(kit: Kit) -> None:
        answer = await call(kit, verb, **parameters)
        assert (answer["result"], answer["errCode"]) == (False, 400)
        assert named in answer["errMsg"]

    run(check)


def test_parameters_without_an_effect_are_named() -> None:
    async def check(kit: Kit) -> None:
        tuned = {"unflushThreshold": 1_000, "memCacheMsgSizeInMB": 2, "deletePolicy": "delete,24h"}
        answer = await call(kit, "admin_add_new_topic_record", **NEW, **tuned)
        assert answer["result"]
        assert answer["errMsg"] == "OK, but without any effect here: memCacheMsgSizeInMB, unflushThreshold"

    run(check)


def test_short_names_of_parameters_are_understood() -> None:
    async def check(kit: Kit) -> None:
        made = await call(kit, "admin_add_new_topic_record", topic="made", brokerId=1, cur="me", numStore=3)
        assert made["data"][0]["success"]
        (row,) = (await call(kit, "admin_query_topic_info", topic="made"))["data"]
        assert row["totalRunNumPartCount"] == 3

    run(check)


def test_the_view_of_topics_that_inlong_manager_asks_for() -> None:
    async def check(kit: Kit) -> None:
        await call(kit, "admin_add_new_topic_record", **NEW, numTopicStores=2, numPartitions=3)
        (row,) = (await call(kit, "admin_query_cluster_topic_view", topicName="made"))["data"]
        assert row == {
            "topicName": "made",
            "totalCfgBrokerCnt": 1,
            "totalCfgNumStore": 2,
            "totalRunNumStore": 2,
            "totalCfgNumPart": 6,
            "totalRunNumPartCount": 6,
            "isSrvAcceptPublish": True,
            "isSrvAcceptSubscribe": True,
            "enableAuthControl": False,
        }
        for nothing in ({"topicName": "none"}, {"brokerId": 7}):
            assert (await call(kit, "admin_query_cluster_topic_view", **nothing))["data"] == []

    run(check)


def test_a_look_at_messages_needs_no_partition() -> None:
    async def check(kit: Kit) -> None:
        payload, flag = pack(None, b"body", [("a", b"b")])
        await kit.ask(SEND_MESSAGE, sent(payload, flag=flag))
        (row,) = (await call(kit, "admin_snapshot_message", topicName="demo", msgCount=10))["dataSet"]
        assert row["attr"] == "a=b"

    run(check)


def test_a_node_closed_for_writing_takes_nothing_and_one_closed_for_reading_gives_nothing_out() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"first")
        await kit.book()
        await kit.ask(PRODUCER_REGISTER, RegisterRequestP2M(client_id="p", host_name="h", broker_check_sum=-1))
        beat = HeartRequestP2M(client_id="p", host_name="h", broker_check_sum=-1, topic_list=["demo"])
        look = GetMessageRequestC2B(client_id="c", group_name="g", topic_name="demo", partition_id=0)
        assert (await kit.ask(PRODUCER_HEARTBEAT, beat)).topic_infos
        shut = {"acceptPublish": "false", "acceptSubscribe": "false"}
        await call(kit, "admin_set_broker_read_or_write", **BROKER, **shut, **CHANGE)
        assert not (await kit.ask(PRODUCER_HEARTBEAT, beat)).topic_infos
        assert (await kit.ask(SEND_MESSAGE, sent(b"second"))).err_code == 403
        assert (await kit.ask(GET_MESSAGE, look)).err_code == 403
        (row,) = (await call(kit, "admin_query_broker_run_status"))["data"]
        assert (row["acceptPublish"], row["acceptSubscribe"]) == ("false", "false")
        await call(kit, "admin_update_broker_configure", **BROKER, acceptPublish="true", **CHANGE)
        assert (await kit.ask(SEND_MESSAGE, sent(b"second"))).success

    run(check)


def test_a_group_that_is_on_the_black_list_may_not_read_a_controlled_topic() -> None:
    async def check(kit: Kit) -> None:
        async def code() -> int:
            return (await kit.ask(CONSUMER_REGISTER, register(group_name="readers"))).err_code

        await call(kit, "admin_add_authorized_consumergroup_info", **RECORD, **ADD)
        await call(kit, "admin_add_black_consumergroup_info", **RECORD, **ADD)
        assert await code() == 200  # the topic is not controlled
        await call(kit, "admin_set_topic_authorize_control", topicName="demo", isEnable="true", **ADD)
        assert await code() == 450
        assert (await call(kit, "admin_query_allowed_consumer_group_info"))["data"] == []
        (row,) = (await call(kit, "admin_query_black_consumer_group_info"))["data"]
        assert (row["groupName"], row["topicName"]) == ("readers", "demo")
        await call(kit, "admin_delete_black_consumergroup_info", topicName="demo", **CHANGE)
        assert await code() == 200
        record = {**RECORD, "consumeEnable": "false", "disableCsmRsn": "too_slow"}
        await call(kit, "admin_update_group_csmctrl_info", **record, **CHANGE)
        assert await code() == 450
        (row,) = (await call(kit, "admin_query_group_csmctrl_info"))["data"]
        assert (row["consumeEnable"], row["disableCsmRsn"], row["filterEnable"]) == (False, "too_slow", False)
        await call(kit, "admin_set_topic_authorize_control", topicName="demo", **ADD)  # no word means: off
        assert await code() == 200

    run(check)


def test_a_group_on_the_black_list_is_given_no_partition() -> None:
    async def check(kit: Kit) -> None:
        async def holds(group: str) -> int:
            await kit.ask(CONSUMER_REGISTER, register(group_name=group))
            beat = HeartRequestC2M(client_id="c", group_name=group, report_subscribe_info=False)
            await kit.ask(CONSUMER_HEARTBEAT, beat)
            await kit.balance()
            return len((await kit.ask(CONSUMER_HEARTBEAT, beat)).event.subscribe_info)

        await call(kit, "admin_add_black_consumergroup_info", **RECORD, **ADD)
        assert (await holds("readers"), await holds("others")) == (0, 2)
        await call(kit, "admin_delete_black_consumergroup_info", **RECORD, **CHANGE)
        assert await holds("readers") == 2

    run(check)


def test_records_are_made_once_and_changed_where_they_are() -> None:
    async def check(kit: Kit) -> None:
        async def code(verb: str, **more: object) -> int:
            (row,) = (await call(kit, verb, **more))["data"]
            return int(row["errCode"])

        assert await code("admin_update_group_csmctrl_info", **RECORD, **CHANGE) == 401
        assert await code("admin_add_group_csmctrl_info", **RECORD, **ADD) == 200
        assert await code("admin_add_group_csmctrl_info", **RECORD, **ADD) == 402
        assert await code("admin_update_group_resctrl_info", groupName="readers", **CHANGE) == 401
        assert await code("admin_add_group_resctrl_info", groupName="readers", **ADD) == 200
        assert await code("admin_add_group_resctrl_info", groupName="readers", **ADD) == 402
        assert await code("admin_delete_group_resctrl_info", groupName="readers", **CHANGE) == 200
        assert await code("admin_add_group_resctrl_info", groupName="readers", **ADD) == 200

    run(check)
