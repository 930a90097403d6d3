"""Groups that go over from one protocol to the other with their members: what the log knows, and when.

What members are answered meanwhile is compared with a real broker in `tests/interop/group_answers/migrating.py`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.errors import StoreError
from penstock.protocols.kafka.config import MigrationPolicy
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import Leaver
from penstock.protocols.kafka.groups.consumer_group import ConsumerGroupSettings
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.wire.consumer_protocol import (
    MemberAssignment,
    Subscription,
    TopicPartitions,
    read_assignment,
    write_assignment,
    write_subscription,
)
from penstock.protocols.kafka.wire.coordinator_admin import DeleteGroupsRequest, ListGroupsRequest
from penstock.protocols.kafka.wire.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartition,
    HeartbeatRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from penstock.store import Store, open_store
from tests.unit.kafka_front.group_kit import commit, committed, join, state
from tests.unit.kafka_front.kit import Kit, run, serving

ALL = (0, 1, 2, 3)
ASKED_AGAIN = (ErrorCode.GROUP_ID_NOT_FOUND,)
"""What is heard where an answer got lost, and the kit asks once more for what is done."""
HASTY = KafkaFrontOptions(newer_groups=ConsumerGroupSettings(session_timeout_ms=50))


@dataclass
class Classic:
    """A member of the older protocol."""

    kit: Kit
    session_ms: int = 10_000
    rebalance_ms: int = 60_000
    id: str = ""
    generation: int = -1
    owned: tuple[int, ...] = ()
    instance: str | None = None

    async def join(self, owned: tuple[int, ...] = (), **given: Any) -> int:
        held = [TopicPartitions(topic="t", partitions=owned)] if owned else []
        said = write_subscription(Subscription(topics=("t",), owned_partitions=held))
        protocols = [JoinGroupRequestProtocol(name="cooperative-sticky", metadata=said)]
        wanted = {
            "member_id": self.id,
            "group_instance_id": self.instance,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "protocols": protocols,
            **given,
        }
        answer = await join(self.kit, **wanted)
        if not answer.error_code:
            self.id, self.generation = answer.member_id, answer.generation_id
        return int(answer.error_code)

    async def sync(self, **shares: tuple[int, ...]) -> int:
        given = [
            SyncGroupRequestAssignment(member_id=self.id if name == "me" else name, assignment=share(numbers))
            for name, numbers in shares.items()
        ]
        request = SyncGroupRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="cooperative-sticky",
            assignments=given,
        )
        answer = await self.kit.ask(request, 5)
        if not answer.error_code:
            parts = read_assignment(answer.assignment).assigned_partitions
            self.owned = tuple(number for each in parts for number in each.partitions)
        return int(answer.error_code)

    async def beat(self) -> int:
        request = HeartbeatRequest(
            group_id="g", member_id=self.id, group_instance_id=self.instance, generation_id=self.generation
        )
        return int((await self.kit.ask(request, 4)).error_code)


def share(numbers: tuple[int, ...]) -> bytes:
    return write_assignment(MemberAssignment(assigned_partitions=[TopicPartitions(topic="t", partitions=numbers)]))


async def alone(kit: Kit, **given: Any) -> Classic:
    """An older group of one, that has all four partitions."""
    if await kit.enode.topic("t") is None:
        kit.store.create_topic("t", 4)
    one = Classic(kit, **given)
    assert await one.join() == 0
    assert await one.sync(me=ALL) == 0
    return one


async def beat(kit: Kit, owned: tuple[int, ...] | None = None, **given: Any) -> Any:
    if owned is not None:
        topic = await kit.enode.topic("t")
        assert topic is not None
        parts = [ConsumerGroupHeartbeatRequestTopicPartition(topic_id=topic.id, partitions=owned)] if owned else []
        given["topic_partitions"] = parts
    return await kit.ask(ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "c", **given}), 1)


async def come(kit: Kit, **given: Any) -> Any:
    return await beat(kit, (), rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], **given)


async def described(kit: Kit) -> Any:
    return (await kit.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)).groups[0]


async def mixed(kit: Kit) -> Classic:
    """``one`` has the first two partitions, the newer member ``c`` the others, both in epoch 2."""
    one = await alone(kit)
    assert (await come(kit)).member_epoch == 2
    assert await one.join(ALL) == 0
    assert await one.sync() == 0
    assert await one.join(one.owned) == 0
    assert (one.generation, one.owned) == (2, (0, 1))
    given = (await beat(kit, (), member_epoch=2)).assignment.topic_partitions
    assert [[*each.partitions] for each in given] == [[2, 3]]
    return one


def test_a_mixed_group_is_there_again_after_a_restart() -> None:
    async def test(store: Store) -> None:
        async with serving(store=store) as kit:
            one = await mixed(kit)
            assert await commit(kit, 5, version=8, member_id=one.id, generation_id_or_member_epoch=2) == 0
            before = await described(kit)
        async with serving(store=store) as kit:
            assert sorted(map(repr, (await described(kit)).members)) == sorted(map(repr, before.members))
            assert {(each.member_id, each.member_type) for each in before.members} == {(one.id, 0), ("c", 1)}
            one.kit = kit
            assert await one.beat() == 0
            assert await one.sync() == 0
            assert one.owned == (0, 1)
            assert await commit(kit, 6, version=8, member_id=one.id, generation_id_or_member_epoch=2) == 0
            assert await commit(kit, 7, version=8, member_id=one.id, generation_id_or_member_epoch=3) == 22
            assert (await committed(kit))[0] == 6

    over(test)


def over(test: Any) -> None:
    store = open_store("memory:")
    asyncio.run(test(store))
    store.close()


def test_a_group_that_went_back_is_there_again_after_a_restart() -> None:
    async def test(store: Store) -> None:
        async with serving(store=store) as kit:
            one = await mixed(kit)
            assert (await beat(kit, member_epoch=-1)).error_code == 0
            assert await one.beat() == ErrorCode.REBALANCE_IN_PROGRESS
        async with serving(store=store) as kit:
            found = await state(kit)
            assert (found.group_state, [each.member_id for each in found.members]) == ("Stable", [one.id])
            assert bytes(found.members[0].member_assignment) == share((0, 1))
            assert (await described(kit)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
            one.kit = kit
            assert await one.beat() == 0
            assert await one.join((0, 1)) == 0
            assert one.generation == 3

    over(test)


class Refusing:
    """A log that refuses what is written through it while ``left`` is not 0."""

    def __init__(self, write: Any, left: int) -> None:
        self._write = write
        self.left = left
        self.times = 0

    async def __call__(self, *given: Any) -> Any:
        self.times += 1
        if self.left:
            self.left -= 1
            raise StoreError("no room")
        return await self._write(*given)


@pytest.mark.parametrize("which", ["the older record", "the newer entries"])
def test_a_group_whose_way_back_was_not_written_is_a_newer_one_after_a_restart(which: str) -> None:
    async def test(store: Store) -> None:
        async with serving(store=store) as kit:
            one = await mixed(kit)
            keeper: Any = kit.front._shared.groups
            older = keeper._offsets.save_group = Refusing(
                keeper._offsets.save_group, 99 * (which == "the older record")
            )
            journal = keeper.newer._log._journal
            newer = Refusing(journal.append, 99 * (which != "the older record"))
            keeper.newer._log._journal = type("Journal", (), {"append": staticmethod(newer)})()
            assert (await beat(kit, member_epoch=-1)).error_code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, *ASKED_AGAIN)
            assert (await state(kit)).group_state == "PreparingRebalance"
            assert older.times > 0
            assert (newer.times > 0) == (which == "the newer entries")  # never before the other
        async with serving(store=store) as kit:
            found = await described(kit)
            assert {each.member_id: each.member_epoch for each in found.members} == {one.id: 2, "c": 2}
            one.kit = kit
            assert await one.beat() == 0

    over(test)


def test_what_the_log_refused_of_the_way_back_is_written_with_the_next_round() -> None:
    async def test(store: Store) -> None:
        async with serving(store=store) as kit:
            one = await mixed(kit)
            keeper: Any = kit.front._shared.groups
            refusing = keeper._offsets.save_group = Refusing(keeper._offsets.save_group, 9)
            assert (await beat(kit, member_epoch=-1)).error_code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, *ASKED_AGAIN)
            refusing.left = 0
            assert await one.join((0, 1)) == 0
            assert await one.sync(me=ALL) == 0
        async with serving(store=store) as kit:
            found = await state(kit)
            assert (found.group_state, bytes(found.members[0].member_assignment)) == ("Stable", share(ALL))

    over(test)


def test_a_group_that_is_deleted_on_its_way_back_does_not_come_again() -> None:
    async def test(store: Store) -> None:
        async with serving(store=store) as kit:
            one = await mixed(kit)
            keeper: Any = kit.front._shared.groups
            refusing = keeper._offsets.save_group = Refusing(keeper._offsets.save_group, 9)
            await beat(kit, member_epoch=-1)
            keeper.coordinator.leave("g", [Leaver(one.id)], keeper.now())
            refusing.left = 0
            code = (await kit.ask(DeleteGroupsRequest(groups_names=["g"]), 2)).results[0].error_code
            assert code in (0, *ASKED_AGAIN)
            await keeper.newer.save("g")
        async with serving(store=store) as kit:
            # Who had to ask again does not know whether the deletion was written.
            assert code or not (await kit.ask(ListGroupsRequest(), 5)).groups

    over(test)


def test_an_older_group_from_before_does_not_come_again_where_a_newer_one_gave_way() -> None:
    async def test(store: Store) -> None:
        async with serving(store=store) as kit:
            one = await mixed(kit)
            assert (await kit.ask(_leaving(one.id, "c"), 5)).error_code == 0
            assert (await described(kit)).group_state == "Empty"
            await join(kit, member_id="")  # an id is handed out, and nothing of the new group is written
            await kit.front._shared.groups.newer.save("g")
        async with serving(store=store) as kit:
            assert not (await state(kit)).members
            one.kit = kit
            assert await one.beat() == ErrorCode.UNKNOWN_MEMBER_ID

    over(test)


def _leaving(*members: str) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id="g", members=[LeaveGroupRequestMember(member_id=each) for each in members])


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_groups_go_the_ways_that_the_policy_opens(policy: MigrationPolicy) -> None:
    async def test(kit: Kit) -> None:
        one = await alone(kit)
        came = await come(kit)
        if not policy.upgrades:
            assert came.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert "online upgrade is disabled" in came.error_message
            assert await one.beat() == 0
            return
        assert came.error_code == 0
        assert await one.beat() == ErrorCode.REBALANCE_IN_PROGRESS
        await beat(kit, member_epoch=-1)
        assert (await state(kit)).group_state == ("PreparingRebalance" if policy.downgrades else "Dead")
        assert await one.join(ALL) == 0
        assert await one.sync(me=ALL) == 0
        assert one.owned == ALL
        assert (await state(kit)).group_state == ("Stable" if policy.downgrades else "Dead")

    run(test, KafkaFrontOptions(newer_groups=ConsumerGroupSettings(migration_policy=policy)))


def test_a_newer_member_that_is_not_heard_of_takes_the_group_back() -> None:
    async def test(kit: Kit) -> None:
        one = await alone(kit)
        await come(kit)
        async with asyncio.timeout(5):
            while (await state(kit)).group_state != "PreparingRebalance":
                await kit.runtime.sleep(0.005)
        assert await one.beat() == ErrorCode.ILLEGAL_GENERATION  # it has not joined in the epoch that this ended in
        assert await one.join(ALL) == 0

    run(test, HASTY)


@pytest.mark.parametrize("told", ["to join again", "its share"])
def test_an_older_member_that_does_not_do_what_it_is_to_is_taken_out_though_it_beats(told: str) -> None:
    async def test(kit: Kit) -> None:
        one = await alone(kit, rebalance_ms=50)
        await come(kit)
        if told == "its share":
            assert await one.join(ALL) == 0
        assert await one.beat() == ErrorCode.REBALANCE_IN_PROGRESS
        async with asyncio.timeout(5):
            while await one.beat() != ErrorCode.UNKNOWN_MEMBER_ID:
                await kit.runtime.sleep(0.005)
        assert (await beat(kit, (), member_epoch=2)).member_epoch == 3

    run(test)


def test_a_partition_that_a_leader_gave_to_two_is_the_firsts() -> None:
    async def test(kit: Kit) -> None:
        one = await alone(kit)
        other = Classic(kit)
        waiting = asyncio.ensure_future(other.join())
        async with asyncio.timeout(5):
            while await one.beat() != ErrorCode.REBALANCE_IN_PROGRESS:
                await kit.runtime.sleep(0.001)
        assert await one.join(ALL) == 0
        assert await waiting == 0
        assert await asyncio.gather(one.sync(**{"me": (0, 1, 2), other.id: (2, 3)}), other.sync()) == [0, 0]
        assert (await come(kit)).error_code == 0
        owned = {each.member_id: each.assignment.topic_partitions for each in (await described(kit)).members}
        numbers = {name: [n for part in parts for n in part.partitions] for name, parts in owned.items()}
        assert numbers == {one.id: [0, 1, 2], other.id: [3], "c": []}

    run(test)


def test_topics_that_a_member_was_given_and_nobody_wants_are_its_own_until_it_gives_them_up() -> None:
    """Its leader gave it another topic than it subscribed to: who wants that one now must wait."""

    async def test(kit: Kit) -> None:
        one = await alone(kit)
        kit.store.create_topic("u", 1)
        said = write_subscription(Subscription(topics=("u",)))
        assert await one.join(protocols=[JoinGroupRequestProtocol(name="cooperative-sticky", metadata=said)]) == 0
        assert await one.sync(me=ALL) == 0
        assert not (await come(kit)).assignment.topic_partitions
        assert await one.beat() == ErrorCode.REBALANCE_IN_PROGRESS

    run(test)
