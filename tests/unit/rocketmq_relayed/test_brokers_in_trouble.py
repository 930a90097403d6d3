"""Brokers that are silent, killed, back, or lie: every request ends in an answer, in time, and others go on."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model import Endpoint
from penstock.protocols.rocketmq.command import RemotingCommand
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import End, Server, World, ok, run
from tests.unit.rocketmq_relayed.test_pulls import HELD, member, now

SEND = {"n": "a", "a": "p", "b": "t", "e": 0}


def test_a_silent_broker_ends_a_send_before_its_client_gives_up() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: None, "a:0")
        client = await world.client()
        said = await client.ask(310, b"body", **SEND)
        assert said.code == 2
        assert now() == pytest.approx(2.5, abs=0.1)
        assert (await client.ask(310, b"body", **{**SEND, "n": "b"})).code == 0
        world.serve(lambda server, asked: ok(), "a:0")
        assert (await client.ask(310, b"body", **SEND)).code == 0
        assert [len(world.brokers[name].of(310)) for name in ("a:0", "b:0")] == [2, 1]

    run(test)


def test_a_silent_broker_ends_a_held_pull_before_its_client_gives_up() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: None, "a:0")
        client = await member(world)
        begun = now()
        assert (await client.ask(11, **HELD)).code == 2
        assert now() - begun == pytest.approx(15 + 5 + 2.5, abs=0.2)

    run(test)


def test_a_broker_that_dies_ends_what_it_holds_at_once_and_is_reached_again() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: None, "a:0")
        client = await member(world)
        waiting = [client.begin(11, **{**HELD, "queueId": row}) for row in range(5)]
        await passing(0.1)
        world.network.memory.forget(Endpoint("broker-a", 10911))
        for end in world.brokers["a:0"].ends:
            end.hang_up()
        begun = now()
        assert {(await each).code for each in waiting} == {2}
        assert now() - begun < 0.1
        assert (await client.ask(310, b"body", **SEND)).code == 2
        assert now() - begun < 2.5
        world.serve(lambda server, asked: ok(), "a:0")
        await world.network.listen(world.brokers["a:0"].end, Endpoint("broker-a", 10911), backlog=1)
        await passing(2)
        assert (await client.ask(310, b"body", **SEND)).code == 0

    run(test)


def test_a_broker_that_comes_later_is_found() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        assert (await client.ask(310, b"body", **{**SEND, "n": "c"})).code == 14
        world.addresses["c"] = {0: "broker-c:10911"}
        server = world.brokers["c:0"] = Server(lambda server, asked: ok())
        await world.network.listen(server.end, Endpoint("broker-c", 10911), backlog=1)
        await passing(1)
        assert (await client.ask(310, b"body", **{**SEND, "n": "c"})).code == 0

    run(test)


def test_brokers_are_known_while_name_servers_are_away_or_know_none() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        served = world.names.serves
        for serves in (lambda server, asked: None, lambda server, asked: ok(b'{"brokerAddrTable":{}}')):
            world.names.serves = serves
            await passing(30)
            assert (await client.ask(310, b"body", **SEND)).code == 0
        world.names.serves = served

    run(test)


@pytest.mark.parametrize(
    "lie",
    [
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff" * 4,
        b"\x00\x00\x00\x10\x00\x00\x00\x0cnot any JSON",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b'\x00\x00\x00\x25\x00\x00\x00\x21{"code":0,"flag":1,"opaque":99999}',
    ],
)
def test_a_broker_that_lies_is_answered_for(lie: bytes) -> None:
    async def test(world: World) -> None:
        def lies(server: Server, asked: RemotingCommand) -> None:
            server.by[-1].raw(lie)

        world.serve(lies, "a:0")
        client = await member(world)
        answers = [client.begin(310, b"body", **SEND), client.begin(11, **HELD), client.begin(14, bname="a")]
        assert {(await each).code for each in answers} == {2}
        world.serve(lambda server, asked: ok(), "a:0")
        assert (await client.ask(310, b"body", **SEND)).code == 0

    run(test)


def test_what_brokers_say_unasked_is_passed_over_unless_it_is_about_a_transaction() -> None:
    async def test(world: World) -> None:
        client = await member(world)
        assert (await client.ask(310, b"body", **SEND)).code == 0
        client.pushed.clear()
        end: End = world.brokers["a:0"].by[-1]
        for code in (39, 40, 220, 307, 12_345):
            end.write(RemotingCommand(code, 1, fields={"consumerGroup": "g"}, body=b"no message"))
        await passing(0.1)
        assert not client.pushed
        assert (await client.ask(310, b"body", **SEND)).code == 0

    run(test)


def test_a_client_that_leaves_is_not_waited_for() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: None, "a:0")
        client = await member(world)
        for row in range(3):
            client.begin(11, **{**HELD, "queueId": row})
        client.begin(310, b"body", **SEND)
        await passing(0.1)
        client.end.hang_up()
        await passing(30)
        assert world.front.around.traffic.under_way == 0
        assert not world.front.around.clients.consumers
        assert len(asyncio.all_tasks()) < 20

    run(test)


def test_a_broker_that_name_servers_do_not_name_any_more_is_forgotten_in_time() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        gone = world.addresses.pop("b")
        await passing(300)
        assert (
            await client.ask(30, topic="t", queueId=0, bname="b")
        ).code == 0  # it may be a name server that is young
        reached = len(world.network.reached)
        await passing(330)
        said = await client.ask(30, topic="t", queueId=0, bname="b")
        assert (said.code, "no name server knows" in (said.remark or "")) == (14, True)
        assert not [each for each in world.network.reached[reached:] if each.host == "broker-b"]
        world.addresses["b"] = gone
        await passing(2)
        assert (await client.ask(30, topic="t", queueId=0, bname="b")).code == 0

    run(test)


def test_name_servers_that_know_no_broker_make_nobody_forget_one() -> None:
    async def test(world: World) -> None:
        world.addresses.clear()
        await passing(700)
        client = await world.client()
        assert (await client.ask(30, topic="t", queueId=0, bname="b")).code == 0

    run(test)
