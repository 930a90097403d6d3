"""Brokers that are silent, killed, back, or lie: every request ends in an answer, in time, and others go on."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model import Endpoint
from penstock.protocols.rocketmq.backend import relay
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import End, Server, World, ok, run
from tests.unit.rocketmq_relayed.test_pulls import HELD, member, now

SEND = {"n": "a", "a": "p", "b": "t", "e": 0}


JAVA_SENDS_AGAIN_ON = {1, 2, 14, 16, 17, 204, 205, 1500}
"""Codes on which Java's producer of 4.9 or 5.x sends a message again, to another broker."""


@pytest.mark.parametrize("code", [10, 310, 320, 36])
@pytest.mark.parametrize("slow_s", [3.0, 20.0, 55.0])
def test_a_slow_broker_stores_one_copy_and_its_answer_is_the_answer(code: int, slow_s: float) -> None:
    async def test(world: World) -> None:
        def slowly(server: Server, asked: RemotingCommand) -> None:
            said = ok(fields={"msgId": "stored"})._replace(opaque=asked.opaque, flag=1)
            asyncio.get_running_loop().call_later(slow_s, server.by[-1].write, said)

        world.serve(slowly, "a:0")
        client = await world.client()
        said = await client.ask(code, b"body", bname="a", **SEND)
        assert (said.code, said.fields["msgId"]) == (0, "stored")
        assert now() == pytest.approx(slow_s, abs=0.1)
        assert sum(len(each.of(code)) for each in world.brokers.values()) == 1

    run(test)


def test_a_silent_broker_ends_a_send_with_a_code_that_no_client_sends_again_on() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: None, "a:0")
        client = await world.client()
        first = client.begin(310, b"body", **SEND)
        await passing(30)
        second = client.begin(310, b"body", **SEND)
        assert (await client.ask(310, b"body", **{**SEND, "n": "b"})).code == 0
        assert (await client.ask(30, topic="t", queueId=0, bname="a")).code == 2, "a question may be asked again"
        said = await first
        assert now() == pytest.approx(60, abs=0.1)
        assert said.code not in JAVA_SENDS_AGAIN_ON | {0}
        assert "may store" in (said.remark or "")
        assert (await second).code == said.code, "its connection goes with the first one, and it may be stored as well"
        world.serve(lambda server, asked: ok(), "a:0")
        assert (await client.ask(310, b"body", **SEND)).code == 0
        assert [len(world.brokers[name].of(310)) for name in ("a:0", "b:0")] == [3, 1]

    run(test)


def test_a_silent_broker_does_not_take_the_room_of_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_MOST_WRITES", 5)

    async def test(world: World) -> None:
        world.serve(lambda server, asked: None, "a:0")
        client = await world.client()
        waiting = [client.begin(310, b"", **SEND) for _ in range(5)]
        await passing(1)
        said = await client.ask(310, b"", **SEND)
        assert (said.code, "writes wait" in (said.remark or "")) == (2, True), "it was not sent: it may be sent again"
        assert (await client.ask(310, b"", **{**SEND, "n": "b"})).code == 0
        assert not any(each.done() for each in waiting)
        assert len(world.brokers["a:0"].of(310)) == 5

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
        await passing(61)
        assert world.front.around.traffic.under_way == 0
        assert not world.front.around.clients.consumers
        assert len(asyncio.all_tasks()) < 20

    run(test)


def test_a_broker_that_name_servers_do_not_name_any_more_is_forgotten_in_time() -> None:
    async def test(world: World) -> None:
        gone = world.addresses.pop("b")
        await passing(300)
        assert (
            await (await world.client()).ask(30, topic="t", queueId=0, bname="b")
        ).code == 0  # it may be a name server that is young
        reached = len(world.network.reached)
        await passing(330)
        client = await world.client()
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
