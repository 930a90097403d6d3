"""Requests go on to the broker that they mean, and come back as they were: number, body, code."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model import Endpoint
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.message_format import StoredMessage, write_stored
from penstock.protocols.rocketmq.wire.messages import read_body, write_body
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import HERE, World, ok, run

BODY = bytes(range(256)) * 5_000
PULL = {"consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": 5, "sysFlag": 4, "subscription": "*"}


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


def test_a_reset_of_a_group_without_members_is_the_brokers() -> None:
    """Of 5.x they do it, of 4.9 they say that nobody is there, and mqadmin commits by itself."""

    async def test(world: World) -> None:
        wanted = {"topic": "t", "group": "g", "timestamp": -1, "queueId": 0, "offset": 2, "isForce": "true"}
        world.serve(lambda server, asked: ok(b"reset", {"x": "y"}), "b:0")
        world.serve(lambda server, asked: ok(code=206), "a:0")
        tool = await world.client()
        said = await tool.ask(222, bname="b", **wanted)
        assert (said.code, said.body, said.fields) == (0, b"reset", {"x": "y"})
        assert (await tool.ask(222, bname="a", **wanted)).code == 206
        (seen,) = world.brokers["b:0"].of(222)
        assert seen.fields == {name: str(value) for name, value in {**wanted, "bname": "b"}.items()}

    run(test)


def test_groups_that_beat_here_are_among_those_that_read_a_topic() -> None:
    async def test(world: World) -> None:
        body = write_body(m.Groups(group_list=("committed",)))
        world.serve(lambda server, asked: ok(body) if asked.code == 300 else ok())
        member, tool = await world.client(), await world.client()
        await member.beat(consumes={"t": "*"})
        assert read_body(m.Groups, (await tool.ask(300, topic="t")).body).group_list == ("committed", "g")
        assert read_body(m.Groups, (await tool.ask(300, topic="u")).body).group_list == ("committed",)
        await tool.ask(300, topic="t")
        assert [len(world.brokers[name].of(300)) for name in ("a:0", "b:0")] == [2, 1]

    run(test)


REPLY = {
    "a": "p", "b": "c_REPLY_TOPIC", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "n": "a",
    "i": "CORRELATION_ID\x01K\x02REPLY_TO_CLIENT\x01asker",
}  # fmt: skip


def test_a_reply_is_pushed_to_the_producer_that_asked() -> None:
    async def test(world: World) -> None:
        asker, replier = await world.client(), await world.client()
        assert "not found" in ((await replier.ask(325, b"yes", **REPLY)).remark or "")
        await asker.beat(produces="p", client_id="asker")
        asker.answers = lambda asked: ok()
        said = await replier.ask(325, b"yes", **REPLY)
        assert (said.code, said.fields) == (0, {"msgId": "0", "queueId": "0", "queueOffset": "0"})
        (pushed,) = asker.pushed
        assert (pushed.code, pushed.body, pushed.fields["topic"]) == (326, b"yes", "c_REPLY_TOPIC")
        assert pushed.fields["properties"].startswith(f"{REPLY['i']}\x02PUSH_REPLY_TIME\x01")
        assert pushed.fields["bornHost"].startswith("/")
        asker.answers = lambda asked: RemotingCommand(1, remark="nobody waits for this")
        said = await replier.ask(325, b"again", **REPLY)
        assert (said.code, said.remark) == (1, "nobody waits for this")
        assert not any(server.of(325) for server in world.brokers.values())

    run(test)


@pytest.mark.parametrize(
    ("code", "asked_of"),
    [
        (25, ["a:0", "b:0"]), (316, ["a:0", "b:0"]), (306, ["a:0", "b:0"]), (314, ["a:0", "b:0"]),
        (317, ["a:0"]), (907, ["a:0"]), (305, ["a:0"]), (303, ["a:0"]),
        (205, ["names"]), (327, ["names"]), (304, ["names"]), (318, ["names"]), (319, ["names"]), (311, ["names"]),
    ],
)  # fmt: skip
def test_what_operators_ask_goes_on_as_it_came(code: int, asked_of: list[str]) -> None:
    async def test(world: World) -> None:
        servers = {**world.brokers, "names": world.names}
        assert (await (await world.client()).ask(code, b"body", brokerName="", x="y")).code == 0
        found = {name: server.of(code) for name, server in servers.items()}
        assert [name for name, seen in found.items() if seen] == asked_of
        assert all(each.fields["x"] == "y" and each.body == b"body" for seen in found.values() for each in seen)

    run(test)


@pytest.mark.parametrize("code", [370, 200050, 200051, 200052, 200053, 200054, 200055, 200151])
def test_pops_and_recalls_go_to_the_broker_that_they_name_and_wait_there(code: int) -> None:
    async def test(world: World) -> None:
        client = await world.client()
        assert (await client.ask(code, consumerGroup="g", topic="t", queueId=-1, bname="b")).code == 0
        assert len(world.brokers["b:0"].of(code)) == 1

    run(test)


def test_a_pop_is_held_for_as_long_as_it_asks_and_no_longer_than_a_pull() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: None)
        client = await world.client()
        begun = asyncio.get_running_loop().time()
        waiting = client.begin(200050, consumerGroup="g", topic="t", queueId=-1, pollTime=15_000, bname="b")
        client.begin(200050, consumerGroup="g", topic="t", queueId=-1, pollTime=900_000, bname="a")
        await passing(19)
        assert not waiting.done()
        assert (await waiting).code == 2
        assert asyncio.get_running_loop().time() - begun == pytest.approx(15 + 5 + 2.5, abs=0.2)
        assert [each.fields["pollTime"] for each in world.brokers["a:0"].of(200050)] == ["60000"]

    run(test)


def test_an_enode_is_found_by_its_vip_address_and_by_the_address_that_routes_tell() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        for said in ("broker-b:10911", "broker-b:10909"):
            assert (await client.ask(310, b"body", b="t", enodeAddr=said)).code == 0
            assert (await client.ask(310, b"body", b="t", n=said)).code == 0
        assert len(world.brokers["b:0"].of(310)) == 4
        del world.addresses["a"]
        for at in (HERE, Endpoint(HERE.host, HERE.port - 2)):
            assert (await client.ask(310, b"body", b="t", enodeAddr=at)).code == 0
            assert (await client.ask(351, **PULL, enodeAddr=at)).code == 0
        assert (len(world.brokers["b:0"].of(310)), len(world.brokers["b:0"].of(11))) == (6, 2)
        assert (await client.ask(310, b"body", b="t", enodeAddr=Endpoint(HERE.host, 1))).code == 14

    run(test)


def test_a_connection_that_says_nothing_for_two_minutes_is_closed_and_one_that_waits_is_not() -> None:
    async def test(world: World) -> None:
        idle, beats, waits = [await world.client() for _ in range(3)]
        world.serve(lambda server, asked: None if asked.code == 310 else ok())
        for _ in range(5):
            await beats.beat(consumes={"t": "*"})
            waits.begin(310, b"", n="a", b="t")
            await passing(30)
        assert (idle.end.lost, beats.end.lost, waits.end.lost) == (True, False, False)

    run(test)


def test_a_reset_is_told_to_the_members() -> None:
    async def test(world: World) -> None:
        member, tool = await world.client(), await world.client()
        wanted = {"topic": "t", "group": "g", "timestamp": 5, "isForce": "true"}
        await member.beat(consumes={"t": "*"})
        world.serve(lambda server, asked: ok(fields={"offset": "3"}))
        await tool.ask(222, **wanted)
        said = await tool.ask(222, **wanted)
        assert read_body(m.ResetOffset, said.body).offset_table == {
            m.MessageQueue(topic="t", broker_name="b", queue_id=number): 3 for number in range(2)
        }
        assert [each.code for each in member.pushed if each.code != 40] == [220, 220]

    run(test)
