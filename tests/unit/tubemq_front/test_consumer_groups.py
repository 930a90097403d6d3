"""Consumers at the master, over the wire: who is let in, what events they get, bound and client-balanced groups."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocols.tubemq.wire.messages import (
    ClientSubRepInfo,
    CloseRequestC2M,
    EventProto,
    GetPartMetaRequestC2M,
    HeartRequestC2M,
    HeartRequestC2MV2,
    HeartResponseM2C,
    RegisterRequestC2M,
    RegisterRequestC2MV2,
)
from penstock.protocols.tubemq.wire.protobuf import has
from penstock.protocols.tubemq.wire.rpc import (
    BALANCED_HEARTBEAT,
    BALANCED_REGISTER,
    CONSUMER_CLOSE,
    CONSUMER_HEARTBEAT,
    CONSUMER_REGISTER,
    PARTITION_META,
    RpcFailure,
)
from tests.unit.tubemq_front.kit import Kit, run
from tests.unit.tubemq_front.web import call

WHERE = "1:127.0.0.1:8715#demo"


def joining(client: str = "c", **more: Any) -> RegisterRequestC2M:
    fields = {"group_name": "g", "host_name": "h", "topic_list": ["demo"], "require_bound": False, **more}
    return RegisterRequestC2M(client_id=client, **fields)


def balanced(client: str = "c", **more: Any) -> RegisterRequestC2MV2:
    fields = {"group_name": "v2", "host_name": "h", "topic_list": ["demo"], "source_count": 2, "node_id": 0, **more}
    return RegisterRequestC2MV2(client_id=client, **fields)


def bound(client: str, asks: str = "", **more: Any) -> RegisterRequestC2M:
    fields = {"session_key": "k", "total_count": 2, "required_partition": asks, "not_allocated": True, **more}
    return joining(client, **{"require_bound": True, **fields})


async def beat(kit: Kit, client: str = "c", **more: Any) -> HeartResponseM2C:
    fields = {"group_name": "g", "report_subscribe_info": False, **more}
    return await kit.ask(CONSUMER_HEARTBEAT, HeartRequestC2M(client_id=client, **fields))


async def join(kit: Kit, *clients: str) -> None:
    for client in clients:
        assert (await kit.ask(CONSUMER_REGISTER, joining(client))).success
        await beat(kit, client)


async def acknowledge(kit: Kit, event: EventProto, client: str, *holds: str) -> HeartResponseM2C:
    held = [f"{client}@g#{WHERE}:{partition}" for partition in holds]
    return await beat(kit, client, event=event, report_subscribe_info=True, subscribe_info=held)


def numbers(event: EventProto) -> list[str]:
    return [text.rpartition(":")[2] for text in event.subscribe_info]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"client": " "}, 400),
        ({"client": "c" * 1025}, 400),
        ({"host_name": ""}, 400),
        ({"group_name": ""}, 400),
        ({"topic_list": []}, 400),
        ({"topic_list": [" "]}, 400),
        ({"topic_list": ["nosuch"]}, 431),
        ({"topic_list": ["__consumer_offsets"]}, 431),
        ({"required_partition": "nonsense"}, 400),
        ({"required_partition": "1:other:0=28"}, 400),
        ({"topic_condition": ["other#a"]}, 400),
        ({"topic_condition": ["demo#" + ",".join(map(str, range(501)))]}, 400),
        ({"require_bound": True, "total_count": 1}, 400),
        ({"require_bound": True, "session_key": "k"}, 400),
        ({"subscribe_info": ["nonsense"]}, 400),
    ],
)
def test_who_does_not_say_what_is_needed_is_not_let_in(change: dict[str, Any], code: int) -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.ask(CONSUMER_REGISTER, joining(**change))
        assert (answer.success, answer.err_code) == (False, code)
        assert not list(kit.front.shared.groups)

    run(check)


def test_a_filter_without_items_throws_as_on_the_real_master() -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(RpcFailure, match="InvocationTargetException"):
            await kit.ask(CONSUMER_REGISTER, joining(topic_condition=["demo#"]))

    run(check)


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        (joining("d", topic_list=["demo", "one"]), 425),
        (joining("d", topic_condition=["demo#red"]), 426),
        (bound("d"), 424),
        (joining("d"), 200),
        (joining("c", topic_list=["one"]), 200),
    ],
)
def test_a_newcomer_must_fit_its_group_and_who_is_alone_may_change_it(
    request_of: RegisterRequestC2M, code: int
) -> None:
    async def check(kit: Kit) -> None:
        kit.store.create_topic("one", 1)
        await join(kit, "c")
        assert (await kit.ask(CONSUMER_REGISTER, request_of)).err_code == code

    run(check)


def test_who_is_not_in_is_told_to_register() -> None:
    async def check(kit: Kit) -> None:
        assert (await beat(kit)).err_code == 411
        await join(kit, "c")
        assert (await beat(kit, "other")).err_code == 411
        assert (await kit.ask(CONSUMER_CLOSE, CloseRequestC2M(client_id="c", group_name="g"))).success
        assert (await beat(kit)).err_code == 411

    run(check)


def test_partitions_come_with_a_heartbeat_and_move_to_a_newcomer_once_given_up() -> None:
    async def check(kit: Kit) -> None:
        await join(kit, "c")
        await kit.balance()
        first = await beat(kit)
        assert (first.event.op_type, numbers(first.event), first.not_allocated) == (10, ["0", "10000"], True)
        assert not (await acknowledge(kit, first.event, "c", "0", "10000")).not_allocated
        await join(kit, "d")
        await kit.balance()
        assert not has(await beat(kit, "d"), "event")
        second = await beat(kit)
        assert (second.event.op_type, numbers(second.event)) == (20, ["0"])
        assert not has(await beat(kit, "d"), "event")
        await acknowledge(kit, second.event, "c", "10000")
        third = await beat(kit, "d")
        assert (third.event.op_type, numbers(third.event)) == (10, ["0"])
        assert third.event.rebalance_id == second.event.rebalance_id

    run(check)


def test_an_operator_takes_partitions_from_a_member() -> None:
    async def check(kit: Kit) -> None:
        await join(kit, "c", "d")
        await kit.balance()
        for client in "cd":
            event = (await beat(kit, client)).event
            await acknowledge(kit, event, client, *numbers(event))
        given = {"groupName": "g", "consumerId": "c", "modifyUser": "me", "reJoinWait": 3}
        assert (await call(kit, "admin_rebalance_group_allocate", **given))["result"]
        await kit.balance()
        event = (await beat(kit, "c")).event
        assert event.op_type == 20
        await acknowledge(kit, event, "c")
        assert (await beat(kit, "d")).event.op_type == 10
        unknown = await call(kit, "admin_rebalance_group_allocate", **{**given, "consumerId": "x"})
        assert unknown["errCode"] == 400

    run(check)


def test_a_bound_group_waits_for_all_and_gives_who_asked_for_more() -> None:
    async def check(kit: Kit) -> None:
        await kit.ask(CONSUMER_REGISTER, bound("c", "1:demo:0=28"))
        await beat(kit, "c")
        await kit.balance()
        assert not has(await beat(kit, "c"), "event")
        assert (await kit.ask(CONSUMER_REGISTER, bound("d", "1:demo:0=56", session_key="other"))).err_code == 427
        assert (await kit.ask(CONSUMER_REGISTER, bound("d", "1:demo:0=56", select_big=False))).err_code == 428
        assert (await kit.ask(CONSUMER_REGISTER, bound("d", "1:demo:0=56", total_count=3))).err_code == 429
        assert (await kit.ask(CONSUMER_REGISTER, bound("d", "1:demo:0=56"))).not_allocated
        await beat(kit, "d")
        await kit.balance()
        assert not has(await beat(kit, "c"), "event")
        answer = await beat(kit, "d")
        assert (answer.event.op_type, numbers(answer.event)) == (10, ["0"])
        await acknowledge(kit, answer.event, "d", "0")
        await kit.balance()
        assert numbers((await beat(kit, "c")).event) == ["10000"]

    run(check)


def test_client_balanced_members_learn_where_partitions_are() -> None:
    async def check(kit: Kit) -> None:
        first = await kit.ask(BALANCED_REGISTER, balanced())
        assert (first.err_code, list(first.broker_config_list)) == (200, ["1:127.0.0.1:8715"])
        assert (await kit.ask(BALANCED_REGISTER, balanced("d"))).err_code == 430
        assert (await kit.ask(BALANCED_REGISTER, balanced("d", source_count=3, node_id=1))).err_code == 429
        assert (await kit.ask(BALANCED_REGISTER, balanced("d", node_id=2))).err_code == 400
        assert (await kit.ask(BALANCED_REGISTER, balanced("d", node_id=1))).err_code == 200
        fields: dict[str, Any] = {"client_id": "c", "group_name": "v2", "broker_config_id": first.broker_config_id}
        meta = await kit.ask(PARTITION_META, GetPartMetaRequestC2M(topic_meta_info_id=-2, **fields))
        assert (list(meta.topic_meta_info_list), list(meta.broker_config_list)) == (["demo#1:2:1:1"], [])
        known = GetPartMetaRequestC2M(topic_meta_info_id=meta.topic_meta_info_id, **fields)
        assert not (await kit.ask(PARTITION_META, known)).topic_meta_info_list
        await kit.enode.add_partitions("demo", 3)
        changed = await kit.ask(PARTITION_META, known)
        assert list(changed.topic_meta_info_list) == ["demo#1:3:1:1"]
        assert changed.topic_meta_info_id > meta.topic_meta_info_id
        await kit.balance()
        report = ClientSubRepInfo(
            broker_config_id=1, topic_meta_info_id=2, report_sub_info=True, part_sub_info=["demo#1:0,1:10000"]
        )
        beaten = await kit.ask(
            BALANCED_HEARTBEAT, HeartRequestC2MV2(client_id="c", group_name="v2", sub_rep_info=report)
        )
        assert beaten.err_code == 200
        detail = await call(kit, "admin_query_consume_group_detail", consumeGroup="v2")
        assert [member["parCount"] for member in detail["data"]] == [2, 0]

    run(check)


def test_client_balanced_members_are_told_to_skip_to_the_end() -> None:
    async def check(kit: Kit) -> None:
        await kit.ask(BALANCED_REGISTER, balanced())
        given = {"groupName": "v2", "modifyUser": "me"}
        assert (await call(kit, "admin_set_client_balance_group_consume_from_max", **given))["result"]
        beaten = await kit.ask(BALANCED_HEARTBEAT, HeartRequestC2MV2(client_id="c", group_name="v2"))
        assert beaten.ops_task_info.csm_frm_max_offset_ctrl_id > 0

    run(check)


def test_a_controlled_topic_refuses_client_balanced_groups_too() -> None:
    async def check(kit: Kit) -> None:
        await call(kit, "admin_set_topic_authorize_control", topicName="demo", isEnable="true", createUser="me")
        assert (await kit.ask(BALANCED_REGISTER, balanced())).err_code == 450

    run(check)
