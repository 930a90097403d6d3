"""A group whose members are connected to several Snodes is one group, whatever becomes of a Snode."""

from __future__ import annotations

import asyncio

from penstock.protocols.rocketmq.wire.framing import RESPONSE, RemotingCommand
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import ok
from tests.unit.rocketmq_relayed.several import FIRST, SECOND, THIRD, Snodes, place, run

PULL = {"consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": 5, "maxMsgNums": 32, "bname": "a"}
BOTH = ["a", "b"]
AGAIN_S = 2.0
"""Until one that is back is asked again."""
FOUND_S = 5.0
"""Until two that find each other through name servers have done so."""


async def two(world: Snodes) -> None:
    await world.snode(FIRST)
    await world.snode(SECOND)
    await passing(FOUND_S)


def test_members_of_two_snodes_are_one_group_and_hear_of_each_other_at_once() -> None:
    async def test(world: Snodes) -> None:
        await two(world)
        first = await world.member(FIRST, "a")
        await passing(0.1)
        before = first.notices()
        second = await world.member(SECOND, "b")
        await passing(0.1)
        assert first.notices() == before + 1
        assert await first.members() == await second.members() == BOTH
        await second.leave()
        await passing(0.1)
        assert first.notices() == before + 2
        assert await first.members() == ["a"]

    run(test)


def test_a_connection_that_breaks_is_heard_of_everywhere() -> None:
    async def test(world: Snodes) -> None:
        await two(world)
        first, second = await world.member(FIRST, "a"), await world.member(SECOND, "b")
        await passing(0.1)
        before = first.notices()
        second.end.hang_up()
        await passing(0.1)
        assert (first.notices(), await first.members()) == (before + 1, ["a"])

    run(test)


def test_other_topics_of_the_group_are_heard_of_everywhere() -> None:
    async def test(world: Snodes) -> None:
        await two(world)
        first, second = await world.member(FIRST, "a"), await world.member(SECOND, "b")
        await passing(0.1)
        before = first.notices()
        await second.join("t", "other")
        await passing(0.1)
        assert first.notices() == before + 1

    run(test)


def test_snodes_that_were_told_of_each_other_need_no_name_server_for_it() -> None:
    async def test(world: Snodes) -> None:
        await world.snode(FIRST, others=str(place(SECOND)), finds=False)
        await world.snode(SECOND, others=str(place(FIRST)), finds=False)
        await passing(2)
        first = await world.member(FIRST, "a")
        await world.member(SECOND, "b")
        await passing(0.1)
        assert await first.members() == BOTH
        assert world.kept == {}

    run(test)


def test_a_snode_that_was_killed_keeps_its_members_and_knows_them_when_it_is_back() -> None:
    async def test(world: Snodes) -> None:
        await two(world)
        first = await world.member(FIRST, "a")
        await world.member(SECOND, "b")
        await passing(0.1)
        before = first.notices()
        for _ in range(10):
            await world.kill(SECOND)
            await passing(3)
            assert await first.members() == BOTH
            await world.snode(SECOND)
            back = await world.member(SECOND, "b", joins=False)
            assert await back.members() == BOTH
            world.serve(lambda server, asked: ok(b"messages"))
            assert (await back.ask(11, **PULL)).body == b"messages"
        await back.join()
        await passing(AGAIN_S)
        assert first.notices() == before
        await back.leave()
        await passing(0.1)
        assert await first.members() == ["a"]

    run(test)


def test_a_member_that_moves_to_another_snode_was_never_gone() -> None:
    async def test(world: Snodes) -> None:
        await two(world)
        first = await world.member(FIRST, "a")
        await world.member(SECOND, "b")
        await passing(0.1)
        await world.kill(SECOND)
        await passing(60)
        moved = await world.member(FIRST, "b", joins=False)
        world.serve(lambda server, asked: ok(b"messages"))
        assert (await moved.ask(11, **PULL)).body == b"messages"
        for _ in range(4):
            await first.join()
            await moved.join()
            assert await first.members() == BOTH
            await passing(50)

    run(test)


def test_who_takes_leave_elsewhere_is_not_kept_for_the_sake_of_a_dead_snode() -> None:
    async def test(world: Snodes) -> None:
        await two(world)
        await world.snode(THIRD)
        await passing(FOUND_S)
        first = await world.member(FIRST, "a")
        await world.member(SECOND, "b")
        third = await world.member(THIRD, "c")
        await passing(0.1)
        await world.kill(SECOND)
        await passing(10)
        moved = await world.member(THIRD, "b", joins=False)
        await moved.leave()
        await passing(0.1)
        assert await first.members() == await third.members() == ["a", "c"]

    run(test)


def test_members_that_died_with_their_snode_are_gone_after_two_minutes() -> None:
    async def test(world: Snodes) -> None:
        await two(world)
        first = await world.member(FIRST, "a")
        await world.member(SECOND, "b")
        await passing(0.1)
        before = first.notices()
        await world.kill(SECOND)
        for _ in range(11):
            await passing(10)
            await first.join()
        assert await first.members() == BOTH
        await passing(12)
        assert (first.notices(), await first.members()) == (before + 1, ["a"])

    run(test)


def test_a_snode_that_stops_in_order_makes_nobody_rebalance() -> None:
    async def test(world: Snodes) -> None:
        await two(world)
        first = await world.member(FIRST, "a")
        await world.member(SECOND, "b")
        await passing(0.1)
        before = first.notices()
        await world.stop(SECOND)
        await passing(30)
        assert (first.notices(), await first.members()) == (before, BOTH)
        assert list(world.kept.values()) == [str(place(FIRST))]

    run(test)


def test_snodes_that_are_cut_off_from_each_other_keep_what_they_know_and_agree_when_they_are_back() -> None:
    async def test(world: Snodes) -> None:
        await two(world)
        first, second = await world.member(FIRST, "a"), await world.member(SECOND, "b")
        await passing(0.1)
        world.cut(FIRST, SECOND)
        third = await world.member(SECOND, "c")
        await passing(30)
        assert (await first.members(), await second.members()) == (BOTH, ["a", "b", "c"])
        await second.leave()
        world.mend(FIRST, SECOND)
        await passing(3)
        assert await first.members() == await third.members() == ["a", "c"]

    run(test)


def test_who_is_cut_off_from_one_hears_of_it_through_another() -> None:
    async def test(world: Snodes) -> None:
        await two(world)
        await world.snode(THIRD)
        await passing(FOUND_S)
        world.cut(FIRST, SECOND)
        await passing(10)
        first = await world.member(FIRST, "a")
        second = await world.member(SECOND, "b")
        await passing(0.2)
        assert await first.members() == await second.members() == BOTH
        for _ in range(4):
            await passing(40)
            await first.join()
            await second.join()
        assert await first.members() == BOTH

    run(test)


def test_nobody_is_connected_to_because_somebody_asked() -> None:
    async def test(world: Snodes) -> None:
        await world.snode(FIRST)
        stranger = await world.member(FIRST, "x", joins=False)
        said = await stranger.ask(5_264_212, b'{"id":"liar","name":"evil:1","known":{},"heard":[],"holdMs":0}')
        assert said.code == 0
        await passing(20)
        assert {each.host for each in world.wires[FIRST].reached} <= {"names", "broker-a", "broker-b", "standby-a"}

    run(test)


def test_an_operators_question_reaches_a_member_of_another_snode() -> None:
    async def test(world: Snodes) -> None:
        await two(world)
        await world.member(FIRST, "a")
        second = await world.member(SECOND, "b")
        await passing(0.1)
        tool = await world.member(FIRST, "tool", joins=False)
        asking = tool.begin(307, consumerGroup="g", clientId="b", jstackEnable="false")
        await passing(0.2)
        (question,) = [each for each in second.pushed if each.code == 307]
        second.end.write(RemotingCommand(0, question.opaque, RESPONSE, body=b"well"))
        assert (await asking).body == b"well"
        said = await tool.ask(307, consumerGroup="g", clientId="nobody", jstackEnable="false")
        assert (said.code, "not online" in (said.remark or "")) == (1, True)
        found = await tool.ask(203, consumerGroup="g")
        assert found.body.count(b'"clientId"') == 2

    run(test)


def test_a_peer_that_talks_nonsense_is_left_alone() -> None:
    async def test(world: Snodes) -> None:
        await world.snode(FIRST, others="broker-a:10911", finds=False)
        first = await world.member(FIRST, "a")
        await passing(30)
        asked = len(world.brokers["a:0"].of(5_264_212))
        assert 10 < asked < 150
        assert await first.members() == ["a"]
        assert len(asyncio.all_tasks()) < 30

    run(test)


def test_snodes_whose_clients_have_to_sign_sign_for_each_other() -> None:
    async def test(world: Snodes) -> None:
        first = await world.snode(FIRST, accounts="alice:wonder,bob:builder")
        second = await world.snode(SECOND, accounts="alice:wonder,bob:builder")
        third = await world.snode(THIRD, accounts="alice:other")
        await passing(FOUND_S)
        heard = [set(world.front_of(each).around.peers.union.others) for each in (first, second, third)]
        own = [world.front_of(each).around.peers.union.own.id for each in (first, second, third)]
        assert heard == [{own[1]}, {own[0]}, set()]

    run(test)
