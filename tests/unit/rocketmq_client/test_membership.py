"""Members of groups: who is there, what each reads, when they look again, and what they tell of themselves."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from penstock.errors import ConfigError
from penstock.interfaces.client import GroupOptions, Verdict
from penstock.model import Committed, Partition
from penstock.protocols.rocketmq.client.membership import RocketMembership
from penstock.protocols.rocketmq.config import MessageModel
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire import rpc
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_client.cluster import Cluster, Stage, go, stage

GROUP = GroupOptions(group="g")
QUEUES = [Partition("demo", number, broker) for broker in ("broker-a", "broker-b") for number in range(2)]


def member(s: Stage, name: str, **options: object) -> RocketMembership:
    return s.client(group="g", instance_name=name, **options).membership(GROUP)


def queues(places: str) -> frozenset[Partition]:
    return frozenset(QUEUES[int(each)] for each in places)


def test_one_member_reads_everything_and_two_share_it_as_javas_do() -> None:
    async def work() -> None:
        async with stage() as s:
            one, two = member(s, "1"), member(s, "2")
            assert (await one.join(["demo"], (), "")).partitions == queues("0123")
            assert (await two.join(["demo"], (), "")).partitions == queues("23")
            beat = await one.heartbeat()
            assert (beat.verdict, beat.revoked, beat.assigned) == (Verdict.STEADY, queues("23"), frozenset())
            await two.leave("")
            beat = await one.heartbeat()
            assert (beat.revoked, beat.assigned) == (frozenset(), queues("23"))

    go(work())


def test_nobody_looks_without_a_reason() -> None:
    async def work() -> None:
        async with stage() as s:
            one = member(s, "1")
            await one.join(["demo"], (), "")
            looks = len(s.cluster.asked(rpc.GET_CONSUMER_LIST_BY_GROUP))
            await one.heartbeat()  # the notice of its own coming
            for _ in range(10):
                assert await one.heartbeat() == type(await one.heartbeat())(Verdict.STEADY)
            assert len(s.cluster.asked(rpc.GET_CONSUMER_LIST_BY_GROUP)) <= looks + 1

    go(work())


def test_a_lost_notice_is_made_up_for_by_the_clock() -> None:
    async def work() -> None:
        async with stage() as s:
            one = member(s, "1")
            await one.join(["demo"], (), "")
            await one.heartbeat()
            assert s.cluster.members["g"]
            s.cluster.members["g"]["penstock@0"] = next(iter(s.cluster.members["g"].values()))
            assert not (await one.heartbeat()).revoked
            await passing(20.1)
            assert (await one.heartbeat()).revoked == queues("01")

    go(work())


def test_new_queues_are_shared_when_topics_are_asked_for_again() -> None:
    async def work() -> None:
        async with stage() as s:
            one = member(s, "1")
            await one.join(["demo"], (), "")
            await one.heartbeat()
            s.cluster.topics["demo"] = 3
            assert not await one.stale(["demo"])
            assert {each.id for each in (await one.heartbeat()).assigned} == {2}

    go(work())


def test_who_cannot_see_goes_on_with_what_it_has() -> None:
    async def work() -> None:
        async with stage() as s:
            one = member(s, "1")
            await one.join(["demo"], (), "")
            s.cluster.refuse[38] = lambda _: 1
            await passing(20.1)
            beat = await one.heartbeat()
            assert (beat.verdict, beat.revoked, beat.assigned, beat.lost) == (Verdict.STEADY, *[frozenset()] * 3)
            del s.cluster.refuse[38]
            await passing(1.0)
            s.cluster.topics["demo"] = 1
            assert {each.id for each in (await one.heartbeat()).revoked} == {1}

    go(work())


def test_brokers_are_told_again_before_they_forget() -> None:
    async def work() -> None:
        async with stage() as s:
            one = member(s, "1", heartbeat_broker_ms=1_000)
            await one.join(["demo"], (), "")
            assert len(s.cluster.asked(rpc.HEART_BEAT)) == 2
            await one.heartbeat()
            assert len(s.cluster.asked(rpc.HEART_BEAT)) == 2
            await passing(1.1)
            await one.heartbeat()
            assert len(s.cluster.asked(rpc.HEART_BEAT)) == 4

    go(work())


def test_a_member_of_which_one_broker_has_not_heard_keeps_its_queues() -> None:
    async def work() -> None:
        async with stage() as s:
            one, two = member(s, "1", rebalance_ms=1_000), member(s, "2")
            await one.join(["demo"], (), "")
            await two.join(["demo"], (), "")
            assert (await one.heartbeat()).revoked == queues("23")
            for broker in ("broker-a", "broker-b") * 4:
                s.cluster.unheard = {broker: frozenset({two.member_id})}
                await passing(1.1)
                beat = await one.heartbeat()
                assert (beat.verdict, beat.revoked, beat.assigned) == (Verdict.STEADY, frozenset(), frozenset())

    go(work())


def test_a_broker_that_forgot_this_member_is_told_at_once() -> None:
    async def work() -> None:
        async with stage() as s:
            one = member(s, "1")
            await one.join(["demo"], (), "")
            await one.heartbeat()
            s.cluster.members["g"].clear()  # it was restarted
            await passing(20.1)
            await one.heartbeat()
            await one.heartbeat()
            assert set(s.cluster.members["g"]) == {one.member_id}

    go(work())


def test_a_heartbeat_says_what_is_wanted() -> None:
    async def work() -> None:
        async with stage() as s:
            one = member(s, "1", tags="TagA || TagB")
            said = one._said()  # before joining: nothing but the group
            assert said.consumer_data_set[0].group_name == "g"
            await one.join(["demo"], (), "")
            demo, retry = one._said().consumer_data_set[0].subscription_data_set
            assert (demo.topic, demo.tags_set, demo.code_set) == ("demo", ("TagA", "TagB"), (2598919, 2598920))
            assert (retry.topic, retry.sub_string) == ("%RETRY%g", "*")

    go(work())


def test_broadcasting_members_read_everything_each() -> None:
    async def work() -> None:
        async with stage() as s:
            for name in "12":
                one = member(s, name, message_model=MessageModel.BROADCASTING)
                assert (await one.join(["demo"], (), "")).partitions == queues("0123")

    go(work())


def test_queues_that_are_locked_are_taken_once_the_other_member_is_through_with_them() -> None:
    async def work() -> None:
        async with stage() as s:
            one, two = member(s, "1", orderly=True), member(s, "2", orderly=True)
            assert (await one.join(["demo"], (), "")).partitions == queues("0123")
            assert (await two.join(["demo"], (), "")).partitions == frozenset()
            assert (await one.heartbeat()).verdict is Verdict.REJOIN
            await passing(1.0)
            assert not (await two.heartbeat()).assigned  # the first one may still work on them
            assert one.must_revoke(queues("0123")) == queues("23")
            assert (await one.join(["demo"], queues("01"), "")).partitions == queues("01")
            await passing(1.0)
            assert (await two.heartbeat()).assigned == queues("23")

    go(work())


def test_a_lock_that_a_broker_gave_away_is_a_queue_lost() -> None:
    async def work() -> None:
        async with stage() as s:
            one = member(s, "1", orderly=True)
            await one.join(["demo"], (), "")
            s.cluster.locks["demo", "broker-a", 0] = "another"
            await passing(20.1)
            assert (await one.heartbeat()).lost == queues("0")

    go(work())


def test_a_name_for_a_member_is_refused() -> None:
    async def work() -> None:
        async with stage() as s:
            with pytest.raises(ConfigError, match="group_instance_id"):
                s.client(group="g").membership(GroupOptions(group="g", instance_id="me"))
            with pytest.raises(ConfigError, match="group_protocol is 'consumer', but RocketMQ"):
                s.client(group="g").membership(GroupOptions(group="g", protocol="consumer"))

    go(work())


@pytest.mark.parametrize("version", [409, 493])
def test_a_group_that_committed_nothing_stands_nowhere_whatever_old_brokers_say(version: int) -> None:
    async def work() -> None:
        async with stage(Cluster(version=version)) as s:
            client = s.client()
            zero, one, two, _ = QUEUES
            assert await client.committed("g", [zero, two]) == {}
            await client.commit("g", {zero: Committed(0), two: Committed(7)})
            assert await client.committed("g", [zero, one, two]) == {zero: Committed(0), two: Committed(7)}
            assert await client.committed("g", QUEUES) == {zero: Committed(0), two: Committed(7)}

    go(work())


def test_a_group_that_a_broker_does_not_know_is_made() -> None:
    async def work() -> None:
        async with stage() as s:
            made = rpc.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            s.cluster.refuse[15] = lambda _: None if s.cluster.asked(made) else 26
            await s.client().commit("g", {QUEUES[0]: Committed(3)})
            assert len(s.cluster.asked(made)) == 1
            assert s.cluster.offsets == {("g", ("demo", "broker-a", 0)): 3}

    go(work())


def test_the_next_name_server_is_asked_where_one_does_not_answer() -> None:
    async def work() -> None:
        async with stage(names=3, down=2) as s:
            assert set(await s.client().topics(["demo"])) == {"demo"}
            assert isinstance(s.cluster.asked(rpc.GET_ROUTEINFO_BY_TOPIC)[0], m.GetRoute)

    go(work())


def test_what_a_group_gave_back_is_shared_out_like_its_topics() -> None:
    async def work() -> None:
        async with stage() as s:
            one = member(s, "1")
            assert (await one.join(["demo"], (), "")).partitions == queues("0123")
            s.cluster.topics["%RETRY%g"] = 1  # name servers hear of it late
            await passing(1.1)
            retries = frozenset(Partition("%RETRY%g", 0, broker) for broker in ("broker-a", "broker-b"))
            assert (await one.heartbeat()).assigned == retries
            two = member(s, "2")
            share = (await two.join(["demo"], (), "")).partitions
            assert share == queues("23") | {Partition("%RETRY%g", 0, "broker-b")}
            assert (await one.heartbeat()).revoked == share

    go(work())


def test_members_that_share_nothing_read_no_retry_topic() -> None:
    async def work() -> None:
        async with stage(Cluster(topics={"demo": 2, "%RETRY%g": 1})) as s:
            alone = member(s, "1", message_model=MessageModel.BROADCASTING)
            assert (await alone.join(["demo"], (), "")).partitions == queues("0123")

    go(work())


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("brokers", [1, 2])
def test_what_a_killed_broker_forgot_is_committed_again_by_who_had_its_queues(brokers: int, orderly: bool) -> None:
    """Its file of offsets is 5 s old, and of a new group has nothing; the queues come back with it."""

    async def work() -> None:
        async with stage(brokers=brokers) as s:
            one = member(s, "1", rebalance_ms=1_000, orderly=orderly)
            had = (await one.join(["demo"], (), "")).partitions
            for n in range(9):
                for each in had:
                    s.cluster.put(("demo", each.node, each.id), b"%d" % n)
            mine = {each for each in had if each.node == "broker-a"}
            await one.commit({each: Committed(7) for each in mine})
            at = s.cluster.brokers.pop("broker-a")
            s.cluster.offsets.clear()
            left = await went(one, had)
            assert left == had - mine
            s.cluster.brokers["broker-a"] = at
            s.cluster.refuse[38] = lambda _: 1  # it knows no group yet
            assert await went(one, left) == left
            del s.cluster.refuse[38]
            assert await went(one, left) == had
            assert s.cluster.offsets == {("g", ("demo", "broker-a", each.id)): 7 for each in mine}

    go(work())


def test_what_is_committed_again_is_neither_behind_the_end_nor_before_what_others_committed() -> None:
    async def work() -> None:
        async with stage(brokers=1) as s:
            one = member(s, "1", rebalance_ms=1_000)
            had = (await one.join(["demo"], (), "")).partitions
            for n in range(9):
                for each in had:
                    s.cluster.put(("demo", each.node, each.id), b"%d" % n)
            await one.commit({each: Committed(7) for each in had})
            at = s.cluster.brokers.pop("broker-a")
            assert await went(one, had) == frozenset()
            lost_messages, read_on = ("demo", "broker-a", 0), ("demo", "broker-a", 1)
            del s.cluster.queues[lost_messages][4:]
            s.cluster.offsets.update({("g", lost_messages): 2, ("g", read_on): 8})
            s.cluster.brokers["broker-a"] = at
            assert await went(one, ()) == had
            assert s.cluster.offsets == {("g", lost_messages): 2, ("g", read_on): 8}

    go(work())


async def went(one: RocketMembership, owned: Collection[Partition]) -> frozenset[Partition]:
    """What the member has after its next look, as an engine would see it."""
    await passing(1.1)
    beat = await one.heartbeat()
    if beat.verdict is Verdict.REJOIN:
        return (await one.join(["demo"], (), "")).partitions
    return (frozenset(owned) - beat.revoked - beat.lost) | beat.assigned
