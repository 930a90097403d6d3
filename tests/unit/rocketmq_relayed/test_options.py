"""What an operator may choose of a Snode does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.config import SnodeConfig
from penstock.config.fields import fields
from penstock.protocols.rocketmq.config import RocketNodeConfig
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.messages import write_body
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import Client, Server, World, ok, run

WANTED = {
    "topic": "t",
    "queueId": 0,
    "queueOffset": 5,
    "maxMsgNums": 32,
    "bname": "a",
    "sysFlag": 4,
    "subscription": "*",
}


def fronts(**options: Any) -> tuple[object, ...]:
    return (RocketNodeConfig(**options),)


def having_made(world: World, *groups: str) -> None:
    """Brokers that have these groups, and give nobody anything."""
    table = {name: m.SubscriptionGroupConfig(group_name=name) for name in groups}

    def serves(server: Server, asked: RemotingCommand) -> RemotingCommand:
        del server
        return ok(write_body(m.SubscriptionGroups(subscription_group_table=table))) if asked.code == 201 else ok()

    world.serve(serves)


@pytest.mark.parametrize("code", [11, 351, 361])
def test_a_group_that_nobody_has_made_is_refused_and_brokers_do_not_make_it(code: int) -> None:
    async def test(world: World) -> None:
        having_made(world, "made")
        client = await world.client()
        said = await client.ask(code, consumerGroup="unmade", **WANTED)
        assert (said.code, "unmade" in (said.remark or "")) == (26, True)
        assert (await client.ask(36, group="unmade", offset=1, delayLevel=0, bname="a")).code == 26
        assert (await client.ask(code, consumerGroup="made", **WANTED)).code == 0
        assert (await client.ask(code, consumerGroup="made", **WANTED)).code == 0
        assert (await client.ask(11, consumerGroup="TOOLS_CONSUMER", **WANTED)).code == 0
        assert {each.fields["consumerGroup"] for each in world.brokers["a:0"].of(11)} == {"made", "TOOLS_CONSUMER"}
        await passing(2)
        having_made(world, "made", "unmade")
        assert (await client.ask(code, consumerGroup="unmade", **WANTED)).code == 0

    run(test, fronts=fronts(rocketmq_auto_create_groups=False))


def test_such_a_group_has_no_retry_topic_either() -> None:
    async def test(world: World) -> None:
        having_made(world, "made")
        client = await world.client()
        await client.beat(consumes={"t": "*", "%RETRY%g": "*"})
        assert (await client.ask(355, groupName="g", enodeName="a")).code == 26
        await passing(1)
        assert not world.brokers["a:0"].of(17)
        assert (await client.ask(355, groupName="made", enodeName="a")).code == 0
        assert len(world.brokers["a:0"].of(17)) == 1

    run(test, fronts=fronts(rocketmq_auto_create_groups=False))


@pytest.mark.parametrize("has_it", ["a:0", "b:0"])
def test_one_master_that_has_a_group_is_enough_and_one_that_is_silent_forgets_none(has_it: str) -> None:
    async def test(world: World) -> None:
        having_made(world)
        made, others = world.brokers[has_it].serves, world.brokers["a:0"].serves
        having_made(world, "made")
        made, world.brokers["a:0"].serves, world.brokers["b:0"].serves = world.brokers[has_it].serves, others, others
        world.serve(made, has_it)
        client = await world.client()
        assert (await client.ask(11, consumerGroup="made", **WANTED)).code == 0
        assert (await client.ask(11, consumerGroup="unmade", **WANTED)).code == 26
        world.serve(lambda server, asked: None if asked.code == 201 else ok(), has_it)
        await passing(31)
        assert (await client.ask(11, consumerGroup="made", **WANTED)).code == 0

    run(test, fronts=fronts(rocketmq_auto_create_groups=False))


def test_usually_nobody_is_asked_what_was_made() -> None:
    async def test(world: World) -> None:
        client, before = await world.client(), len(world.brokers["a:0"].of(201))
        assert (await client.ask(11, consumerGroup="any", **WANTED)).code == 0
        assert len(world.brokers["a:0"].of(201)) == before

    run(test)


@pytest.mark.parametrize("notify", [True, False])
def test_members_hear_of_each_other_or_find_out_by_themselves(notify: bool) -> None:
    async def test(world: World) -> None:
        first, second = await world.client(), await world.client()
        await first.beat(consumes={"t": "*"})
        first.pushed.clear()
        await second.beat(consumes={"t": "*"})
        await passing(0.1)
        assert [each.code for each in first.pushed] == ([40] if notify else [])
        assert (await first.ask(38, consumerGroup="g")).code == 0

    run(test, fronts=fronts(rocketmq_notify_members=notify))


@pytest.mark.parametrize(("says", "hears"), [((False, False), False), ((False, True), True), ((False, None), False)])
def test_a_group_that_says_so_is_not_told_who_comes(says: tuple[bool | None, ...], hears: bool) -> None:
    """``notifyConsumerIdsChangedEnable`` at masters a and b, None: it does not have the group."""

    async def test(world: World) -> None:
        for name, tells in zip(("a:0", "b:0"), says, strict=True):
            config = m.SubscriptionGroupConfig(group_name="g", notify_consumer_ids_changed_enable=bool(tells))
            body = write_body(m.SubscriptionGroups(subscription_group_table={} if tells is None else {"g": config}))
            world.serve(lambda server, asked, body=body: ok(body) if asked.code == 201 else ok(), name)  # type: ignore[misc]
        first, second = await world.client(), await world.client()
        await first.beat(consumes={"t": "*"})
        await passing(41)
        first.pushed.clear()
        await second.beat(consumes={"t": "*"})
        await passing(0.1)
        assert [each.code for each in first.pushed] == ([40] if hears else [])

    run(test)


async def silent(world: World) -> Client:
    client = await world.client()
    await client.beat(consumes={"t": "*"})
    return client


def test_a_silent_client_is_found_when_it_is_looked_for() -> None:
    async def test(world: World) -> None:
        client = await silent(world)
        await passing(1.5)
        assert client.end.lost

    run(test, fronts=fronts(rocketmq_timeout_ms=1_000, rocketmq_housekeeping_ms=200))


def test_brokers_and_producers_are_looked_after_as_often_as_it_was_said() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        await client.beat(produces="p")
        await passing(20.5)
        beats = len(world.brokers["a:0"].of(34))
        looks = len(world.names.of(106))
        assert (beats, 3 <= looks <= 6) == (1 + 4, True)

    run(test, fronts=fronts(producer_beat_ms=5_000, enode_look_ms=5_000))


def test_every_option_that_one_of_the_first_snode_s_became_is_there() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/node/first-snode.md").read_text(encoding="utf-8")
    table = page.partition("## Its configuration")[2].partition("##")[0]
    named = [
        name
        for row in table.splitlines()
        for name in re.findall(r"`(\w+)`", row.rpartition("| ")[0].partition(" | ")[2])
    ]
    assert len(named) > 8
    assert set(named) <= {option.name for config in (SnodeConfig, RocketNodeConfig) for option in fields(config)}
