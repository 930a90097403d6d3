"""Scripts of groups of the newer protocol (KIP-848): heartbeats in every state, and what else is asked of such a group.

Members have names of their own that a real broker keeps in this order, because who is asked first gets one partition
more. Nodes that run them are set up for it: `THEIRS` by Kafka's names.
"""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.protocols.kafka.wire.coordinator_admin import (
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocols.kafka.wire.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartition,
    HeartbeatRequest,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
)
from tests.interop.group_answers.asking import Asking
from tests.interop.group_answers.beaters import AWAY, NOT_YET, PATIENCE, Beater, beater, described, settled
from tests.interop.wire import told

THEIRS = {"group.consumer.assignment.interval.ms": "0", "group.consumer.migration.policy": "disabled"}
OURS = {"group_consumer_migration_policy": "disabled"}


async def bounds(asking: Asking) -> None:
    """What is refused before any group is looked for, and by groups that are not there."""
    one = await beater(asking, "a")
    asking.phase = "refused"
    await one.join(group_id="")
    await one.join(member_id="")
    await one.join(instance_id="")
    await one.join(rack_id="")
    await one.join(rebalance_timeout_ms=-1)
    await one.join(subscribed_topic_names=None)
    await one.join(server_assignor="")
    await one.join(server_assignor="mine")
    await one.join(subscribed_topic_regex="(")
    await one.beat(None, member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_names=["t"])
    await one.beat([1], member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_names=["t"])
    for epoch in (1, -1, -2, -3, -4):
        await one.beat(member_epoch=epoch)
    await one.beat(member_epoch=-2, instance_id="i")
    await one.beat(member_epoch=-1, instance_id="i")
    await asking.note(one.wire, ConsumerGroupDescribeRequest(group_ids=["missing", ""]), 1)
    asking.phase = "left out"
    await one.join(version=1, subscribed_topic_names=[])
    await described(asking, one.wire)
    await one.leave()
    await described(asking, one.wire)


async def shared(asking: Asking) -> None:
    """Two members share three partitions, and one after the other leaves."""
    await settled(asking)
    one, two = await beater(asking, "a"), await beater(asking, "b")
    asking.phase = "alone"
    await one.join()
    await described(asking, one.wire)
    await one.beat([0, 1, 2])
    await one.beat()
    await one.beat([0, 1, 2], rebalance_timeout_ms=60_000, subscribed_topic_names=[asking.topic])
    await one.join()
    asking.phase = "joined"
    await two.join()
    await described(asking, one.wire)
    await two.beat()
    await two.beat([])
    await two.commit(1)
    await one.commit(1)
    asking.phase = "to be revoked"
    await one.beat()
    await described(asking, one.wire)
    await one.beat([0, 1, 2])
    await two.beat()
    asking.phase = "revoked"
    await one.beat([0, 1])
    await described(asking, one.wire)
    await two.beat()
    await two.beat([2])
    await described(asking, one.wire)
    asking.phase = "epochs"
    await one.beat(member_epoch=one.epoch + 1)
    await one.beat(member_epoch=one.epoch - 1)
    await one.beat([0], member_epoch=one.epoch - 1)
    await one.beat([0, 1], member_epoch=one.epoch - 1)
    await one.beat([0, 1, 2], member_epoch=one.epoch - 1)
    await one.beat([2], member_epoch=1)
    await one.join()
    await one.beat([0, 1])
    await _offsets(asking, one)
    await _operated(asking, one)
    asking.phase = "one leaves"
    await one.leave()
    await one.beat()
    await described(asking, one.wire)
    await two.beat()
    await two.beat([0, 1, 2])
    asking.phase = "both left"
    await two.leave()
    await described(asking, one.wire)
    await one.commit(9, generation_id_or_member_epoch=-1, member_id="")
    await one.fetch(member_epoch=-1, member_id=None)
    await one.beat()
    await one.join()
    await one.leave()
    await asking.note(one.wire, DeleteGroupsRequest(groups_names=[asking.group]), 2)
    await described(asking, one.wire)


async def _offsets(asking: Asking, one: Beater) -> None:
    asking.phase = "offsets"
    for version in (8, 9, 10):
        await one.commit(3, version)
    epoch = one.epoch
    for given in (epoch - 1, epoch + 1, -1, 0):
        await one.commit(4, generation_id_or_member_epoch=given)
        await one.fetch(member_epoch=given)
    await one.commit(5, member_id="x")
    await one.commit(5, generation_id_or_member_epoch=-1, member_id="")
    await one.fetch()
    await one.fetch(member_id="x")
    await one.fetch(member_id=None)
    await one.fetch(member_id="", member_epoch=-1)
    await one.fetch(8)


async def _operated(asking: Asking, one: Beater) -> None:
    asking.phase = "operated"
    await asking.note(one.wire, DeleteGroupsRequest(groups_names=[asking.group]), 2)
    part = OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequestTopic(name=asking.topic, partitions=[part])
    await asking.note(one.wire, OffsetDeleteRequest(group_id=asking.group, topics=[topic]), 0)


async def static(asking: Asking) -> None:
    """Members with names that stay: rivals, who goes for a while, who comes back, who goes for good."""
    await settled(asking)
    one, two = await beater(asking, "a", "i"), await beater(asking, "b", "i")
    asking.phase = "alone"
    await one.join()
    await one.beat([0, 1, 2])
    await described(asking, one.wire)
    await two.join()
    await two.beat(member_epoch=2)
    await two.beat(member_epoch=-2)
    await two.beat(member_epoch=-1)
    await one.beat(instance_id=None)
    await one.beat(instance_id="j")
    asking.phase = "away"
    await one.leave(AWAY)
    await described(asking, one.wire)
    await one.beat()
    await one.commit(2)
    asking.phase = "back"
    await two.join()
    await described(asking, one.wire)
    await one.beat()
    await two.beat([0, 1, 2])
    await two.commit(3)
    await two.commit(3, group_instance_id="j")
    asking.phase = "back under the same name"
    await two.leave(AWAY)
    await two.join()
    asking.phase = "back for something else"
    await two.leave(AWAY)
    await two.join(subscribed_topic_names=[asking.topic, "other"])
    asking.phase = "back while others share"
    three = await beater(asking, "c")
    await three.join()
    await two.beat()
    await two.beat([0, 1])
    await three.beat()
    await two.leave(AWAY)
    await three.beat([2])
    await two.join(subscribed_topic_names=[asking.topic, "other"])
    asking.phase = "gone"
    await two.leave()
    await three.beat()
    await described(asking, one.wire)
    await three.leave()
    await one.join()
    await one.leave()
    await described(asking, one.wire)


async def changes(asking: Asking) -> None:
    """Subscriptions and assignors that change."""
    await settled(asking)
    one, two = await beater(asking, "a"), await beater(asking, "b")
    asking.phase = "range"
    await one.join(server_assignor="range")
    await two.join(server_assignor="range")
    await one.beat()
    await one.beat([0, 1])
    await two.beat()
    await described(asking, one.wire)
    asking.phase = "split"
    await one.beat([0, 1], server_assignor="uniform")
    await described(asking, one.wire)
    await one.beat(server_assignor="mine")
    asking.phase = "nothing"
    await one.beat(subscribed_topic_names=["missing"])
    await described(asking, one.wire)
    await one.beat([])
    await two.beat()
    await two.beat([0, 1, 2])
    await described(asking, one.wire)
    asking.phase = "again"
    await one.beat([], subscribed_topic_names=[asking.topic])
    await two.beat()
    await two.beat([2])
    await one.beat()
    asking.phase = "no names"
    await one.beat(subscribed_topic_names=[])
    await one.beat([])
    await described(asking, one.wire)
    asking.phase = "by a pattern"
    three = await beater(asking, "c")
    await three.join(subscribed_topic_names=None, subscribed_topic_regex="(")
    await one.beat(subscribed_topic_regex="(")
    await one.beat(subscribed_topic_regex="")
    await three.join(subscribed_topic_regex="")
    await three.join(subscribed_topic_names=[], subscribed_topic_regex="")
    await described(asking, one.wire)


async def patterns(asking: Asking) -> None:
    """Members that want all topics of a pattern: a real one looks for them beside what it answers."""
    await settled(asking)
    one, two = await beater(asking, "a"), await beater(asking, "b")
    asking.phase = "by a pattern"
    pattern = f"{asking.topic[:-1]}.|{asking.topic[:-1]}"
    for each in (one, two):
        await _unnoted(each, pattern)
    await _given(asking, one, two)
    asking.phase = "not by part of the name"
    for part in (asking.topic[:-1], asking.topic[1:]):
        await asking.another_group()
        three = await beater(asking, "c")
        await _unnoted(three, part)
        await _given(asking, three)


async def _unnoted(one: Beater, pattern: str) -> None:
    """Join, or go on, with a pattern."""
    given: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topic_partitions": []} if not one.epoch else {}
    message = ConsumerGroupHeartbeatRequest(
        group_id=one.asking.group, member_id=one.name, member_epoch=one.epoch, subscribed_topic_regex=pattern, **given
    )
    one.epoch = (await one.wire.ask(message, 1)).member_epoch


async def _given(asking: Asking, *members: Beater) -> None:
    """Beat until the group is stable, and note who has what then."""
    owned: dict[str, Any] = {each.name: () for each in members}

    times = 0

    async def stable() -> int:
        nonlocal times
        for each in members:
            message = ConsumerGroupHeartbeatRequest(
                group_id=asking.group, member_id=each.name, member_epoch=each.epoch, topic_partitions=owned[each.name]
            )
            answer = await each.wire.ask(message, 1)
            assert not answer.error_code
            each.epoch = answer.member_epoch
            if answer.assignment is not None:
                owned[each.name] = [
                    ConsumerGroupHeartbeatRequestTopicPartition(topic_id=it.topic_id, partitions=it.partitions)
                    for it in answer.assignment.topic_partitions
                ]
        await quiet()
        group = (await members[0].wire.ask(ConsumerGroupDescribeRequest(group_ids=[asking.group]), 1)).groups[0]
        # Who has one more is left to the coordinator: a real one resolves patterns while members come.
        shares = [[it.partitions for it in each.assignment.topic_partitions] for each in group.members]
        numbers = [number for share in shares for partitions in share for number in partitions]
        asking.found[label] = sorted(numbers), sorted(len(share) for share in shares)
        arrived = group.group_state == "Stable" and {each.epoch for each in members} == {group.group_epoch}
        times = times + 1 if arrived else 0
        return 0 if times > PATIENCE else NOT_YET

    label = asking.label("given")
    await told(stable)


async def quiet() -> None:
    """A real broker resolves patterns beside what it answers, and does not say when."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.03, over.set_result, None)
    await over


async def mixed(asking: Asking) -> None:
    """Members of both protocols meet, where groups may not be converted."""
    await settled(asking)
    asking.phase = "a classic member comes"
    one = await beater(asking, "a")
    await one.join()
    classic = await asking.member("x")
    for version in (3, 5, 9):
        await classic.join(version)
    await classic.join(9, member_id="a")
    classic.id, classic.generation = "a", one.epoch
    await classic.heartbeat()
    await classic.sync()
    await classic.leave()
    await classic.leave(5, ("a", None), ("y", None))
    await one.beat()
    await classic.commit(1)
    asking.phase = "a static one"
    await one.join()
    two = await beater(asking, "b", "i")
    await two.join()
    await asking.note(
        one.wire,
        LeaveGroupRequest(
            group_id=asking.group, members=[LeaveGroupRequestMember(member_id="", group_instance_id="i")]
        ),
        5,
    )
    await described(asking, one.wire)
    await one.leave()
    await asking.another_group()
    asking.phase = "a newer member comes"
    older = await asking.member("x")
    await (await older.enter())
    await older.lead()
    three = await beater(asking, "c")
    await three.join()
    await three.beat(member_epoch=1)
    await three.beat(member_epoch=-1)
    await described(asking, one.wire)
    await older.leave()
    await asking.until("Empty", 0)
    await three.beat(member_epoch=1)
    await three.join()
    await described(asking, one.wire)
    await three.leave()
    asking.phase = "an older member comes back"
    older.id = ""
    await (await older.enter())
    await older.lead()
    await described(asking, one.wire)
    await asking.note(one.wire, HeartbeatRequest(group_id=asking.group, member_id="c", generation_id=1), 4)


SCRIPTS = {
    "beaten": bounds,
    "shared": shared,
    "returning": static,
    "changing": changes,
    "mixed": mixed,
    "patterns": patterns,
}
