"""Scripts of rounds: several members, each request in each state, late, early and wrong."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.protocols.kafka.wire.coordinator_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocols.kafka.wire.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.interop.group_answers.asking import Asking, Member, subscribed


async def rounds(asking: Asking) -> None:
    """Two members, then three: joins and syncs that wait, and everything else meanwhile."""
    one, two, three = [await asking.member(name) for name in "abc"]
    asking.phase = "alone"
    await (await one.enter())
    await one.lead()
    asking.phase = "preparing"
    joining = await two.enter()
    await asking.until("PreparingRebalance", 2)
    await _everything(asking, one)
    await two_of(asking, two)
    await one.join()
    await joining
    asking.phase = "completing"
    early = two.begin_sync()
    await _everything(asking, one)
    asking.phase = "synced"
    await one.sync(assignments={one.id: b"1"})  # nothing for the other
    await early
    await _everything(asking, two)
    await two.sync()
    await one.sync()
    asking.phase = "rejoins"
    for version in (0, 4, 9):
        await two.join(version)  # a follower's, as before: nothing begins
    await asking.note(one.wire, DescribeGroupsRequest(groups=[asking.group]), 5)
    changed = two.begin_join(protocols=[("range", subscribed(asking.topic, "other"))])
    await asking.until("PreparingRebalance", 2)
    await one.join()
    await changed
    await one.lead(two)
    leading = one.begin_join()
    await asking.until("PreparingRebalance", 2)
    await two.heartbeat()
    await two.join(protocols=[("range", subscribed(asking.topic, "other"))])
    await leading
    asking.phase = "given up"
    waiting = two.begin_sync()
    await _parked(two)
    third = await three.enter()
    await waiting
    await asking.until("PreparingRebalance", 3)
    await asking.note(one.wire, DescribeGroupsRequest(groups=[asking.group]), 5)
    await asyncio.gather(one.begin_join(), two.begin_join(), third)
    await one.lead(two, three)
    asking.phase = "twice"
    await _joins_twice(asking, one, two, three)


async def _joins_twice(asking: Asking, one: Member, two: Member, three: Member) -> None:
    """A member whose join, then whose sync waits asks again by another connection."""
    first = one.begin_join()
    await asking.until("PreparingRebalance", 3)
    again = await asking.member("a again", id=one.id)
    second = again.begin_join()
    await _parked(again)
    await asyncio.gather(two.begin_join(), three.begin_join(), second)
    _one_or_none(asking, "the first join", first)
    first = two.begin_sync()
    await _parked(two)
    twin = await asking.member("b again", id=two.id, generation=two.generation)
    second = twin.begin_sync()
    await _parked(twin)
    await again.sync(assignments={two.id: b"2", three.id: b"3"})
    await second
    _one_or_none(asking, "the first sync", first)
    await three.sync()


def _one_or_none(asking: Asking, what: str, first: asyncio.Task[Any]) -> None:
    asking.found[asking.label(what)] = first.result().error_code if first.done() else "no answer"
    first.cancel()


async def two_of(asking: Asking, two: Member) -> None:
    """The one whose join waits is asked about by others' connections."""
    other = await asking.member("b elsewhere")
    other.id = two.id
    await other.heartbeat(generation_id=-1)
    await other.heartbeat(generation_id=1)
    await other.sync(generation_id=1)
    await other.commit(1, generation_id_or_member_epoch=-1)
    await other.commit(1, generation_id_or_member_epoch=1)


async def _parked(member: Member) -> None:
    """Return once what the member has sent is likely to be there: nobody says so of a sync that waits."""
    await asyncio.sleep(0)
    for _ in range(10):
        await member.asking.described()


async def _everything(asking: Asking, one: Member) -> None:
    """Each request in the state that the group is in, right and wrong."""
    other = await asking.member(f"{one.name} elsewhere")
    other.id, other.generation = one.id, one.generation
    for version in (0, 3, 4):
        await other.heartbeat(version)
    for given in ({"generation_id": one.generation + 1}, {"member_id": "x"}, {"member_id": ""}, {"generation_id": -1}):
        await other.heartbeat(**given)
    await other.heartbeat(group_instance_id="i")
    await other.heartbeat(group_id="")
    await other.heartbeat(group_id="missing")
    for version in (0, 3, 5):
        wrong = {"generation_id": one.generation + 1}
        await other.sync(version, **wrong)
        await other.sync(version, member_id="x")
        await other.sync(version, group_id="")
        await other.sync(version, group_id="missing")
    for names in ((None, None), ("consumer", None), (None, "range"), ("connect", "range"), ("consumer", "x")):
        await other.sync(5, protocol_type=names[0], protocol_name=names[1])
    if (await asking.described()).group_state != "CompletingRebalance":
        await other.sync(0)
        await other.sync(5)
    await commits(other)
    wire = other.wire
    for version in (0, 4, 5, 6):
        await asking.note(wire, DescribeGroupsRequest(groups=[asking.group, asking.group, ""]), version)
    await asking.note(wire, DeleteGroupsRequest(groups_names=[asking.group]), 2)
    for topic, number in ((asking.topic, 0), ("missing", 0), (asking.topic, 9)):
        wanted = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=number)])
        message = OffsetDeleteRequest(group_id=asking.group, topics=[wanted])
        await asking.note(wire, message, 0, f"delete offset of {asking.plain(topic)}-{number}")
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=asking.group, topics=None)])
    await asking.note(wire, fetch, 8)
    for version in range(6):
        await other.leave(version, ("x", None)) if version >= 3 else await _leave_wrongly(other, version)


async def _leave_wrongly(other: Member, version: int) -> None:
    known, other.id = other.id, "x"
    await other.leave(version)
    other.id = known


async def commits(one: Member) -> None:
    """Right and wrong identities."""
    for version in (2, 6, 8, 9):
        await one.commit(10 + version, version)
        await one.commit(1, version, generation_id_or_member_epoch=one.generation + 1)
        await one.commit(1, version, generation_id_or_member_epoch=-1)
        await one.commit(1, version, member_id="x")
        await one.commit(1, version, member_id="x", generation_id_or_member_epoch=-1)
        await one.commit(1, version, member_id="", generation_id_or_member_epoch=-1)
        await one.commit(1, version, member_id="", generation_id_or_member_epoch=one.generation)
    for version in (7, 9):
        await one.commit(1, version, group_instance_id="i")
        await one.commit(1, version, group_instance_id="i", member_id="", generation_id_or_member_epoch=-1)


SCRIPTS = {"rounds": rounds}
