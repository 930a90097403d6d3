"""A Snode that nobody could tell of groups starts anew: nobody takes queues of members that have not beaten yet."""

from __future__ import annotations

from typing import Final

from penstock.protocols.rocketmq.wire import messages as m
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.several import FIRST, Member, Snodes, run

PULL: Final = {"consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": 5, "maxMsgNums": 32, "bname": "a"}
BEFORE_MS: Final = 1_600_000_000_000
AFTER_MS: Final = 1 << 60
"""The clock on the wall shows today in virtual time, too."""


async def beat(member: Member, since_ms: int = BEFORE_MS) -> None:
    """It has subscribed then."""
    wanted = m.SubscriptionData(topic="t", sub_string="*", sub_version=since_ms)
    group = m.ConsumerData(group_name="g", subscription_data_set=(wanted,))
    said = m.HeartbeatData(client_id=member.name, consumer_data_set=(group,))
    assert (await member.ask(34, m.write_body(said))).code == 0


async def old(world: Snodes, name: str) -> Member:
    """A member that was there before the Snode started."""
    member = await world.member(FIRST, name, joins=False)
    await beat(member)
    return member


async def fresh(world: Snodes, name: str) -> Member:
    """A member that began to subscribe after the Snode had started."""
    member = await world.member(FIRST, name, joins=False)
    await beat(member, AFTER_MS)
    return member


async def refusal(member: Member) -> str:
    said = await member.ask(38, consumerGroup="g")
    return (said.remark or "") if said.code else ""


def test_a_group_that_comes_together_for_the_first_time_waits_for_nothing() -> None:
    async def test(world: Snodes) -> None:
        await world.snode(FIRST)
        member = await fresh(world, "a")
        assert await member.members() == ["a"]

    run(test)


def test_who_beats_first_after_a_restart_is_not_told_that_it_is_alone() -> None:
    async def test(world: Snodes) -> None:
        await world.snode(FIRST)
        first = await old(world, "a")
        assert "keep what they have" in await refusal(first)
        second = await world.member(FIRST, "b", joins=False)
        reading = second.begin(11, **PULL)
        await passing(10)
        assert "keep what they have" in await refusal(first)
        notices = first.notices()
        await beat(second)
        await passing(0.1)
        assert first.notices() == notices + 1
        assert await first.members() == await second.members() == ["a", "b"]
        assert (await reading).code in {0, 24}

    run(test)


def test_a_group_is_told_when_nobody_is_waited_for_any_more() -> None:
    async def test(world: Snodes) -> None:
        await world.snode(FIRST)
        first = await old(world, "a")
        assert "keep what they have" in await refusal(first)
        notices = first.notices()
        await passing(6)
        assert (first.notices(), await first.members()) == (notices + 1, ["a"])

    run(test)


def test_a_reader_that_never_beats_or_that_goes_holds_nobody_up_for_ever() -> None:
    async def test(world: Snodes) -> None:
        await world.snode(FIRST)
        first = await fresh(world, "a")
        stranger = await world.member(FIRST, "s", joins=False)
        stranger.begin(11, **PULL)
        going = await world.member(FIRST, "t", joins=False)
        going.begin(11, **PULL)
        await passing(5)
        assert "keep what they have" in await refusal(first)
        going.end.hang_up()
        await passing(20)
        assert "keep what they have" in await refusal(first)
        await passing(20)
        assert await first.members() == ["a"]
        assert world.front_of(world.running[FIRST]).around.peers.settling is None

    run(test)


def test_who_reads_with_a_subscription_of_its_own_is_no_member_to_be_waited_for() -> None:
    async def test(world: Snodes) -> None:
        await world.snode(FIRST)
        first = await fresh(world, "a")
        reader = await world.member(FIRST, "r", joins=False)
        await reader.ask(11, **PULL, sysFlag=4, subscription="*")
        assert await first.members() == ["a"]

    run(test)
