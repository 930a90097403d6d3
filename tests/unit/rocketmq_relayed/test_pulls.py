"""Pulls reach brokers that have never heard of their group, wait there, and cost next to nothing here meanwhile."""

from __future__ import annotations

import asyncio
import json

import pytest

from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import Client, World, ok, run

WANTED = {"consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": 5, "maxMsgNums": 32, "bname": "a"}
HELD = {**WANTED, "sysFlag": 2, "suspendTimeoutMillis": 15_000, "subVersion": 1}
NOTHING = RemotingCommand(19, fields={"nextBeginOffset": "5", "minOffset": "0", "maxOffset": "5"})


def now() -> float:
    return asyncio.get_running_loop().time()


async def member(world: World, expression: str = "A || B", version: int = 1) -> Client:
    made = await world.client()
    await made.beat(consumes={"t": expression}, version=version)
    return made


@pytest.mark.parametrize("code", [11, 361, 351])
def test_a_pull_brings_its_groups_subscription_and_is_served_by_any_broker(code: int) -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: ok(b"messages", {"nextBeginOffset": "6", "suggestWhichBrokerId": "0"}))
        client = await member(world)
        said = await client.ask(code, **HELD)
        assert (said.code, said.body, said.fields["nextBeginOffset"]) == (0, b"messages", "6")
        (seen,) = world.brokers["a:0"].of(11)
        wanted = {"sysFlag": "6", "subscription": "A || B", "expressionType": "TAG", "subVersion": "0"}
        assert wanted.items() <= seen.fields.items()
        assert seen.fields["suspendTimeoutMillis"] == "15000"

    run(test)


def test_a_consumer_that_writes_numbers_in_quotes_is_in_its_group() -> None:
    """As rocketmq-client-go does; a broker would hear of its subscription from the Snode alone."""
    wanted = {"topic": "t", "subString": "A", "tagsSet": ["A"], "codeSet": ["65"], "subVersion": "1"}
    consumer = {"groupName": "g", "consumeType": 1, "messageModel": "1", "subscriptionDataSet": [wanted]}

    async def test(world: World) -> None:
        world.serve(lambda server, asked: ok(b"messages", {"nextBeginOffset": "6"}))
        client = await world.client()
        beat = json.dumps({"clientID": "go", "consumerDataSet": [consumer]}).encode()
        assert (await client.ask(34, beat)).code == 0
        assert (await client.ask(11, **HELD)).code == 0
        (seen,) = world.brokers["a:0"].of(11)
        assert seen.fields["subscription"] == "A"

    run(test)


def test_a_header_that_is_too_long_is_refused_here_and_a_pull_goes_on_waiting() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: None)
        client = await member(world)
        waits = client.begin(11, **HELD)
        await passing(0.1)
        assert (await client.ask(310, b"x", b="t", i="p" * 300_000)).code == 13
        assert (await client.ask(14, topic="p" * 300_000)).code == 1
        (asked,) = world.brokers["a:0"].of(11)
        assert not world.brokers["a:0"].of(310)
        world.brokers["a:0"].answer(asked, NOTHING)
        assert (await waits).code == 19

    run(test)


def test_what_a_pull_says_itself_counts() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: NOTHING)
        client = await world.client()
        more = {"subscription": "n > 5", "expressionType": "SQL92", "subVersion": 9, "sysFlag": 4}
        assert (await client.ask(11, **{**WANTED, **more})).code == 19
        (seen,) = world.brokers["a:0"].of(11)
        assert {name: seen.fields[name] for name in more} == {name: str(value) for name, value in more.items()}

    run(test)


def test_who_is_in_no_group_is_told_so_after_a_moment() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        assert (await client.ask(11, **HELD)).code == 24
        assert 1 <= now() < 1.2
        await client.beat(consumes={"other": "*"})
        assert (await client.ask(11, **HELD)).code == 24

    run(test)


def test_nothing_is_left_out_by_a_subscription_that_is_not_the_newest() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: NOTHING)
        client = await member(world, "A", version=1)
        newer = {**HELD, "subVersion": 2}
        assert (await client.ask(11, **newer)).code == 25
        waiting = client.begin(11, **newer)  # its heartbeat is a moment behind it
        await passing(0.2)
        await client.beat(consumes={"t": "A || B"}, version=2)
        assert (await waiting).code == 19
        (seen,) = world.brokers["a:0"].of(11)
        assert seen.fields["subscription"] == "A || B"

    run(test)


def test_a_thousand_held_pulls_take_no_task() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: None)
        clients = [await member(world) for _ in range(10)]
        first = clients[0].begin(11, **HELD)  # connections are opened once
        await passing(0.1)
        before = len(asyncio.all_tasks())
        waiting = [client.begin(11, **{**HELD, "queueOffset": row}) for client in clients for row in range(100)]
        await passing(0.1)
        held = world.brokers["a:0"].of(11)
        assert (len(held), world.front.around.traffic.under_way) == (1_001, 1_001)
        assert len(asyncio.all_tasks()) - before < 20
        for asked in held:
            world.brokers["a:0"].answer(asked, NOTHING)
        assert {(await each).code for each in (first, *waiting)} == {19}
        assert world.front.around.traffic.under_way == 0

    run(test)


def test_what_clients_left_waiting_is_bounded() -> None:
    async def test(world: World) -> None:
        world.front.around.traffic.most = 3
        world.serve(lambda server, asked: None)
        client = await member(world)
        for row in range(3):
            client.begin(11, **{**HELD, "queueOffset": row})
        await passing(0.1)
        client.end.hang_up()
        other = await member(world)
        said = await other.ask(11, **HELD)
        assert (said.code, "try again" in (said.remark or "")) == (2, True)
        for asked in world.brokers["a:0"].of(11):
            world.brokers["a:0"].answer(asked, NOTHING)
        await passing(0.1)
        world.serve(lambda server, asked: NOTHING)
        assert (await other.ask(11, **HELD)).code == 19

    run(test)


def test_a_standby_is_read_where_the_broker_says_so_and_its_offsets_are_left_alone() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: ok(b"x", {"suggestWhichBrokerId": "1"}), "a:0")
        world.serve(lambda server, asked: ok(b"y", {"suggestWhichBrokerId": "0"}), "a:1")
        client = await member(world)
        commits = {**HELD, "sysFlag": 3, "commitOffset": 5}
        assert [(await client.ask(11, **commits)).body for _ in range(3)] == [b"x", b"y", b"x"]
        assert [each.fields["sysFlag"] for each in world.brokers["a:0"].of(11)] == ["7", "7"]
        assert [each.fields["sysFlag"] for each in world.brokers["a:1"].of(11)] == ["6"]

    run(test)


def test_a_standby_is_read_while_no_master_is_known_and_nobody_writes_to_it() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: ok(b"y"), "a:1")
        client = await member(world)
        del world.addresses["a"][0]
        await passing(12)
        assert (await client.ask(11, **HELD)).body == b"y"
        assert (await client.ask(310, b"body", n="a", b="t")).code == 14

    run(test)


def test_one_connection_holds_a_twentieth_of_all_pulls_and_others_are_served() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: None)
        greedy, other = await member(world), await member(world)
        waiting = [greedy.begin(11, **HELD) for _ in range(2_500)]
        await passing(0.1)
        refused = await greedy.ask(11, **HELD)
        assert refused.code == 2
        assert "2500 held requests over this connection, its share of 50000 (rocketmq_max_held)" in str(refused.remark)
        assert len(world.front.around.held) == 2_500
        world.serve(lambda server, asked: NOTHING)
        assert (await other.ask(11, **HELD)).code == 19
        for end in world.brokers["a:0"].ends:
            end.hang_up()
        await passing(1)
        assert len(world.front.around.held) == 0
        del waiting

    run(test)
