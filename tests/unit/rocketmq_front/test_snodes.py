"""Snodes of the first kind find each other at our node, and read from it as from the brokers of their own branch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.errors import ServerError
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.server.cluster import Snodes
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand, command_of, encode
from penstock.protocols.rocketmq.wire.rpc import (
    CREATE_RETRY_TOPIC,
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    GET_BROKER_CLUSTER_INFO,
    GET_SNODE_CLUSTER_INFO,
    GET_SNODE_INFO,
    GET_TOPIC_CONFIG,
    REGISTER_SNODE,
    SNODE_PULL_MESSAGE,
    Answered,
)
from tests.unit.rocketmq_front.kit import Client, Kit, run, stored

HERE = "penstock-1@127.0.0.1:9876"
PULLED = (Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED)


def snode(name: str = "s", address: str = "10.0.0.1:11911", cluster: str = "c") -> m.RegisterSnode:
    return m.RegisterSnode(snode_name=name, snode_addr=address, cluster_name=cluster)


async def known(client: Client) -> dict[str, str]:
    answer = await client.ask(GET_SNODE_CLUSTER_INFO, m.NoFields())
    table = m.read_body(m.SnodeClusterInfo, answer.body).snode_table
    return {name: each.address for name, each in table.items()}


async def snode_pull(kit: Client, offset: int = 0, **more: Any) -> Answered[m.Pulled]:
    """As a Snode asks a broker for a push consumer, whose group is known to the Snode alone."""
    fields: dict[str, Any] = {"sys_flag": 0, "max_msg_nums": 32, "consumer_group": "far", **more}
    header = m.PullMessage(topic="demo", queue_id=0, queue_offset=offset, **fields)
    return await kit.ask(SNODE_PULL_MESSAGE, header, accept=PULLED, extra={"enodeName": "penstock-1"})


def test_who_registers_is_known_until_its_connection_is_gone() -> None:
    async def check(kit: Kit) -> None:
        assert await known(kit) == {HERE: "127.0.0.1:9876"}
        first, second = kit.client("one"), kit.client("two")
        await first.ask(REGISTER_SNODE, snode("a"))
        await second.ask(REGISTER_SNODE, snode("b", "10.0.0.2:11911", "other"))
        assert await known(kit) == {HERE: "127.0.0.1:9876", "a": "10.0.0.1:11911", "b": "10.0.0.2:11911"}
        answer = await kit.ask(GET_SNODE_INFO, m.OfSnodeCluster(snode_cluster_name="other"))
        found = m.read_body(m.SnodeClusterInfo, answer.body)
        assert (found.snode_table.keys(), found.snode_cluster) == ({"b"}, {"other": ("b",)})
        cluster = m.read_body(m.ClusterInfo, (await kit.ask(GET_BROKER_CLUSTER_INFO, m.NoFields())).body)
        assert cluster.snode_cluster == {"DefaultCluster": (HERE,), "c": ("a",), "other": ("b",)}
        first.session.lost()
        assert (await known(kit)).keys() == {HERE, "b"}

    run(check)


def test_a_snode_that_moved_is_where_it_said_last() -> None:
    async def check(kit: Kit) -> None:
        before, after = kit.client("before"), kit.client("after")
        await before.ask(REGISTER_SNODE, snode("a"))
        await after.ask(REGISTER_SNODE, snode("a", "10.0.0.7:11911"))
        before.session.lost()
        assert (await known(kit))["a"] == "10.0.0.7:11911"

    run(check)


def test_who_is_silent_for_two_minutes_is_forgotten() -> None:
    async def check(kit: Kit) -> None:
        snodes = Snodes()
        snodes.register(kit.session.line, snode("old"), 0.0)
        snodes.register(kit.session.line, snode("new"), 60.0)
        snodes.expire(120.0)
        assert [each.snode_name for each in snodes.all] == ["old", "new"]
        snodes.expire(121.0)
        assert [each.snode_name for each in snodes.all] == ["new"]

    run(check)


def test_how_many_are_known_is_bounded_and_so_are_their_names() -> None:
    async def check(kit: Kit) -> None:
        snodes = kit.front.shared.snodes
        for number in range(100):
            snodes.register(kit.session.line, snode(f"s{number}"), 0.0)
        with pytest.raises(ServerError, match="100 Snodes registered over this connection, its share of 1000"):
            await kit.ask(REGISTER_SNODE, snode("one more"))
        for client in range(4):
            line = kit.client().session.line
            for number in range(100):
                snodes.register(line, snode(f"s{client}-{number}"), 0.0)
        with pytest.raises(ServerError, match=r"500 Snodes registered from 127\.0\.0\.1, its share of 1000"):
            await kit.client().ask(REGISTER_SNODE, snode("one more"))
        await kit.ask(REGISTER_SNODE, snode("s0", "10.0.0.9:11911"))
        for wrong in (snode(""), snode("a" * 256), snode(address=""), snode(cluster="")):
            with pytest.raises(ServerError, match="letters"):
                await kit.ask(REGISTER_SNODE, wrong)

    run(check)


def test_a_snode_s_pull_brings_everything_to_a_group_that_nobody_here_knows() -> None:
    async def check(kit: Kit) -> None:
        for n in range(3):
            await kit.put(b"%d" % n, properties=f"TAGS\1{'ab'[n % 2]}\2")
        answer = await snode_pull(kit)
        assert [each.body for each in stored(answer)] == [b"0", b"1", b"2"]
        assert (answer.header.next_begin_offset, answer.header.suggest_which_broker_id) == (3, 0)
        inline = {"sys_flag": m.PullFlag.INLINE, "subscription": "b", "expression_type": "TAG"}
        assert [each.body for each in stored(await snode_pull(kit, **inline))] == [b"1"]

    run(check)


def test_what_a_group_wants_counts_where_it_is_known_and_sql_has_to_be_said() -> None:
    async def check(kit: Kit) -> None:
        for n in range(3):
            await kit.put(b"%d" % n, properties=f"TAGS\1{'ab'[n % 2]}\2n\1{n}\2")
        wanted = m.SubscriptionData(topic="demo", sub_string="a", sub_version=1)
        await kit.subscribe(wanted, group="far")
        assert [each.body for each in stored(await snode_pull(kit))] == [b"0", b"2"]
        with pytest.raises(ServerError) as said:  # its clients do not filter by properties themselves
            await snode_pull(kit, consumer_group="farther", expression_type="SQL92")
        assert said.value.code == Code.SUBSCRIPTION_NOT_EXIST
        inline = {"sys_flag": m.PullFlag.INLINE, "subscription": "n > 1", "expression_type": "SQL92"}
        assert [each.body for each in stored(await snode_pull(kit, **inline))] == [b"2"]

    run(check)


def test_a_snode_s_held_pulls_are_all_woken_by_a_message() -> None:
    async def check(kit: Kit) -> None:
        held = {"sys_flag": m.PullFlag.SUSPEND, "suspend_timeout_millis": 20_000}
        clients = [kit.client(f"c{n}") for n in range(5)]
        waiting = [asyncio.ensure_future(snode_pull(each, consumer_group=each.name, **held)) for each in clients]
        await asyncio.sleep(0)
        await kit.put(b"woken")
        for each in waiting:
            assert [message.body for message in stored(await each)] == [b"woken"]

    run(check)


def test_an_empty_hold_is_answered_and_an_offset_beyond_the_end_is_put_right() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"0")
        held = {"sys_flag": m.PullFlag.SUSPEND, "suspend_timeout_millis": 20}
        answer = await snode_pull(kit, 1, **held)
        assert (answer.code, answer.header.next_begin_offset) == (Code.PULL_NOT_FOUND, 1)
        answer = await snode_pull(kit, 70, **held)
        assert (answer.code, answer.header.next_begin_offset) == (Code.PULL_OFFSET_MOVED, 1)

    run(check)


def test_351_without_an_offset_asks_for_a_topic_s_settings_as_in_5x() -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.ask(GET_TOPIC_CONFIG, m.OfTopic(topic="demo"))
        assert m.read_body(m.TopicConfig, answer.body).read_queue_nums == 2

    run(check)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (353, {"group": "g", "topic": "demo", "readable": "true"}),
        (354, {"topic": "demo", "checkStoreTime": "0"}),
        (355, {"configType": "topics"}),
    ],
)
def test_what_5x_means_by_a_snode_s_number_is_not_taken_for_it(code: int, fields: dict[str, str]) -> None:
    async def check(kit: Kit) -> None:
        answered = await kit.send(b"".join(encode(RemotingCommand(code, 1, fields=fields))))
        assert answered is not None
        assert command_of(answered).code == Code.REQUEST_CODE_NOT_SUPPORTED

    run(check)


def test_a_retry_topic_is_made_where_a_snode_s_client_asks_for_it() -> None:
    async def check(kit: Kit) -> None:
        await kit.ask(CREATE_RETRY_TOPIC, m.CreateRetryTopic(group_name="far", enode_name="penstock-1"))
        await kit.ask(CREATE_RETRY_TOPIC, m.CreateRetryTopic(consumer_group="far", enode_name="penstock-1"))
        answer = await kit.ask(GET_ALL_TOPIC_LIST_FROM_NAMESERVER, m.NoFields())
        assert m.read_body(m.TopicList, answer.body).topic_list == ("demo", "%RETRY%far")
        with pytest.raises(ServerError, match="no group"):
            await kit.ask(CREATE_RETRY_TOPIC, m.CreateRetryTopic(enode_name="penstock-1"))

    run(check)
