"""Requests go on to the broker that they mean, and come back as they were: number, body, code."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model import Endpoint
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.messages import read_body
from penstock.protocols.rocketmq.records.stored import StoredMessage, write_stored
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import HERE, World, ok, run

BODY = bytes(range(256)) * 5_000


def test_a_send_goes_to_the_broker_it_names_and_its_body_is_what_it_was() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: ok(fields={"msgId": "X", "queueOffset": "7"}))
        client = await world.client()
        said = await client.ask(310, BODY, n="b", a="p", b="t", e=1, i="KEYS\x01k")
        assert (said.code, said.fields) == (0, {"msgId": "X", "queueOffset": "7"})
        (seen,) = world.brokers["b:0"].of(310)
        assert seen.body == BODY
        assert seen.fields == {"n": "b", "a": "p", "b": "t", "e": "1", "i": "KEYS\x01k"}
        assert not world.brokers["a:0"].of(310)

    run(test)


def test_two_clients_with_the_same_numbers_get_their_own_answers() -> None:
    async def test(world: World) -> None:
        held: list[RemotingCommand] = []
        world.serve(lambda server, asked: None)
        one, two = await world.client(), await world.client()
        answers = [client.begin(30, bname="a", topic="t", queueId=number) for number, client in enumerate((one, two))]
        await passing(0.1)
        held = world.brokers["a:0"].of(30)
        for asked in reversed(held):
            world.brokers["a:0"].answer(asked, ok(fields={"offset": asked.fields["queueId"]}))
        assert [(await each).fields["offset"] for each in answers] == ["0", "1"]

    run(test)


def test_routes_say_the_snode_and_keep_names_and_queues() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        route = read_body(m.Route, (await client.ask(105, topic="t")).body)
        assert {each.broker_name: each.broker_addrs for each in route.broker_datas} == {
            "a": {0: str(HERE), 1: str(HERE)},
            "b": {0: str(HERE)},
        }
        assert [each.read_queue_nums for each in route.queue_datas] == [2, 2]
        cluster = read_body(m.ClusterInfo, (await client.ask(106)).body)
        assert cluster.broker_addr_table["b"].broker_addrs == {0: str(HERE)}
        assert (await client.ask(105, topic="other")).code == 17

    run(test)


def test_a_route_outlives_the_name_servers() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        await client.ask(105, topic="t")
        world.names.serves = lambda server, asked: None
        assert (await client.ask(105, topic="t")).code == 0
        assert (await client.ask(105, topic="new")).code == 2

    run(test)


def test_a_name_that_nobody_knows_is_refused_at_once_and_no_address_of_a_client_is_reached() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        for fields in ({"n": "evil:1234"}, {"n": "nobody"}, {"bname": "evil:1234"}, {"enodeAddr": "evil:1234"}):
            before = asyncio.get_running_loop().time()
            said = await client.ask(310, b"body", a="p", b="t", **fields)
            assert said.code == 14
            assert asyncio.get_running_loop().time() - before < 0.01
        (seen,) = [(await client.ask(10, b"by address", enodeAddr="broker-b:10911", topic="t")).code]
        assert seen == 0
        assert Endpoint("evil", 1234) not in world.network.reached

    run(test)


def test_who_names_no_broker_is_served_where_only_one_has_the_topic() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        said = await client.ask(10, b"body", topic="t", producerGroup="p")
        assert (said.code, "bname" in (said.remark or "")) == (15, True)
        del world.addresses["b"]
        assert (await client.ask(10, b"body", topic="t", producerGroup="p")).code == 0
        assert world.brokers["a:0"].of(10)

    run(test)


def test_tools_that_ask_every_address_hear_every_broker() -> None:
    async def test(world: World) -> None:
        for name in ("a:0", "b:0"):
            world.serve(lambda server, asked, name=name: ok(name.encode()), name)  # type: ignore[misc]
        client, other = await world.client(), await world.client()
        assert [bytes((await client.ask(202, topic="t")).body) for _ in range(4)] == [b"a:0", b"b:0", b"a:0", b"b:0"]
        assert (await other.ask(202, topic="t")).body == b"a:0"

    run(test)


def test_a_topic_is_made_at_every_master_and_a_refusal_of_one_is_the_answer() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        assert (await client.ask(17, topic="new")).code == 0
        assert [len(world.brokers[name].of(17)) for name in ("a:0", "b:0", "a:1")] == [1, 1, 0]
        world.serve(lambda server, asked: RemotingCommand(16, remark="no"), "b:0")
        assert ((await client.ask(17, topic="new")).code, (await client.ask(17, topic="new")).remark) == (16, "no")

    run(test)


def test_what_nobody_waits_for_is_not_answered_and_reaches_its_broker() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        client.tell(15, bname="a", topic="t", queueId=0, consumerGroup="g", commitOffset=5)
        await passing(0.1)
        (seen,) = world.brokers["a:0"].of(15)
        assert seen.is_one_way
        assert (await client.ask(99)).code == 3

    run(test)


def test_an_end_goes_to_the_broker_that_asked() -> None:
    """Java's 4.9 names none in its answer."""

    async def test(world: World) -> None:
        client = await world.client()
        await client.beat(produces="p")
        await passing(0.1)
        broker = world.brokers["b:0"]
        (beat,) = broker.of(34)
        told = read_body(m.HeartbeatData, beat.body)
        assert [each.group_name for each in told.producer_data_set] == ["p"]
        check = RemotingCommand(39, 1, 2, {"commitLogOffset": "77", "msgId": "U"}, half("p"))
        broker.by[broker.seen.index(beat)].write(check)
        await passing(0.1)
        (asked,) = client.pushed
        assert (asked.code, asked.fields, asked.body) == (39, check.fields, check.body)
        client.tell(37, commitLogOffset=77, msgId="U", commitOrRollback=8, fromTransactionCheck="true")
        await passing(0.1)
        assert (len(broker.of(37)), len(world.brokers["a:0"].of(37))) == (1, 0)

    run(test)


def half(group: str) -> bytes:
    properties = f"TRAN_MSG\x01true\x02PGROUP\x01{group}".encode()
    return bytes(write_stored(StoredMessage(topic="t", body=b"half", properties=properties)))


@pytest.mark.parametrize("leaves", ["says so", "is lost"])
def test_members_hear_at_once_who_comes_and_goes(leaves: str) -> None:
    async def test(world: World) -> None:
        one, two = await world.client(), await world.client()
        await one.beat(consumes={"t": "*", "%RETRY%g": "*"})
        one.pushed.clear()
        await two.beat(consumes={"t": "*", "%RETRY%g": "*"})
        await passing(0.01)
        assert [each.code for each in one.pushed] == [40]
        ids = read_body(m.ConsumerIds, (await one.ask(38, consumerGroup="g")).body).consumer_id_list
        assert len(ids) == 2
        if leaves == "is lost":
            two.end.hang_up()
        else:
            await two.ask(35, clientID=ids[1], consumerGroup="g")
        await passing(0.01)
        assert [each.code for each in one.pushed] == [40, 40]
        assert [bytes(each.fields["topic"].encode()) for each in world.brokers["a:0"].of(17)] == [b"%RETRY%g"]
        assert not any(server.of(34) for server in world.brokers.values())

    run(test)


def test_a_reset_is_told_to_the_members() -> None:
    async def test(world: World) -> None:
        member, tool = await world.client(), await world.client()
        wanted = {"topic": "t", "group": "g", "timestamp": 5, "isForce": "true"}
        assert (await tool.ask(222, **wanted)).code == 206
        await member.beat(consumes={"t": "*"})
        world.serve(lambda server, asked: ok(fields={"offset": "3"}))
        await tool.ask(222, **wanted)
        said = await tool.ask(222, **wanted)
        assert read_body(m.ResetOffset, said.body).offset_table == {
            m.MessageQueue(topic="t", broker_name="b", queue_id=number): 3 for number in range(2)
        }
        assert [each.code for each in member.pushed if each.code != 40] == [220, 220]

    run(test)
