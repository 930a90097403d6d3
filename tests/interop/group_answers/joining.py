"""Scripts of joins: bounds, versions, protocols."""

from __future__ import annotations

from penstock.protocols.kafka.wire.coordinator_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from tests.interop.group_answers.asking import Asking, Member, subscribed


async def bounds(asking: Asking) -> None:
    """Who may not even ask."""
    for version in range(10):
        for session in (0, -1, 5_999, 1_800_001):
            asking.phase = f"session of {session}"
            await (await asking.member("a", session_ms=session)).join(version)
        asking.phase = "no group"
        await (await asking.member("a")).join(version, group_id="", member_id="x")
        asking.phase = "an unknown group"
        await (await asking.member("a")).join(version, member_id="x")
        asking.phase = "no protocols"
        await (await asking.member("a")).join(version, protocols=[])
        asking.phase = "no protocol type"
        await (await asking.member("a")).join(version, protocol_type="")
        if version >= 5:
            asking.phase = "an unknown instance"
            await (await asking.member("a", "i")).join(version, member_id="x")
        await asking.another_group()
    asking.phase = "refused"
    await (await asking.member("a")).join(9, protocols=[])
    await asking.note(await asking.wire(), DescribeGroupsRequest(groups=[asking.group]), 6)


async def lives(asking: Asking) -> None:
    """A group of one, in every version from its first join to its end."""
    for version in range(10):
        await _life(asking, version)
        await asking.another_group()


async def _life(asking: Asking, version: int) -> None:
    one = await asking.member("a")
    syncs, beats, leaves = min(version, 5), min(version, 4), min(version, 5)
    asking.phase = f"handed out {version}"
    if version >= 4:
        await one.join(version)
        await one.heartbeat(beats)
        await one.heartbeat(beats, generation_id=0)
        await one.sync(syncs)
        await one.commit(1)
        await one.commit(1, generation_id_or_member_epoch=0)
        await _views(asking, one)
    asking.phase = f"completing {version}"
    await one.join(version)
    await _views(asking, one)
    await one.heartbeat(beats)
    await one.heartbeat(beats, generation_id=one.generation - 1)
    await one.heartbeat(beats, member_id="x")
    await one.commit(2)
    await one.join(version)
    await one.sync(syncs, generation_id=one.generation + 1)
    await one.sync(syncs, member_id="x")
    asking.phase = f"stable {version}"
    await one.sync(syncs, {one.id: b"mine", "x": b"another's"})
    await _views(asking, one)
    await one.sync(syncs, {one.id: b"no more"})
    await one.heartbeat(beats)
    await one.heartbeat(beats, generation_id=-1)
    await one.commit(3)
    await one.commit(4, member_id="", generation_id_or_member_epoch=-1)
    asking.phase = f"again {version}"
    await one.join(version)  # the leader's: a new round
    await one.sync(syncs, {})
    await _views(asking, one)
    asking.phase = f"left {version}"
    await one.leave(leaves)
    await _views(asking, one)
    await one.leave(leaves)
    await one.heartbeat(beats)
    await one.sync(syncs)
    await one.join(version)
    await one.commit(5)
    await one.commit(6, generation_id_or_member_epoch=-1)
    await one.commit(6, generation_id_or_member_epoch=-1, member_id="")
    asking.phase = f"deleted {version}"
    wire = one.wire
    await asking.note(wire, DeleteGroupsRequest(groups_names=[asking.group]), 2)
    await asking.note(wire, DeleteGroupsRequest(groups_names=[asking.group]), 2)
    await _views(asking, one)


async def _views(asking: Asking, one: Member) -> None:
    for version in (0, 5, 6):
        await asking.note(one.wire, DescribeGroupsRequest(groups=[asking.group]), version)
    listed = (await one.wire.ask(ListGroupsRequest(), 5)).groups
    asking.found[asking.label("listed")] = [asking.plain(each) for each in listed if each.group_id == asking.group]


async def protocols(asking: Asking) -> None:
    """Members that do not fit, and what is chosen among those that do."""
    mine = subscribed(asking.topic)
    one = await asking.member("a", protocols=[("range", mine), ("sticky", mine), ("own", b"\0")])
    await (await one.enter())
    await one.lead()
    for version in (3, 9):
        asking.phase = f"strangers v{version}"
        await (await asking.member("b")).join(version, protocol_type="connect")
        await (await asking.member("b")).join(version, protocols=[("cooperative", mine)])
        await (await asking.member("b")).join(version, protocols=[])
        await (await asking.member("b")).join(version, protocols=[("own", b"")], protocol_type="")
        await (await asking.member("b")).join(version, member_id="x")
        await (await asking.member("b", "i")).join(max(version, 5), protocol_type="connect")
    asking.phase = "the member itself"
    await one.join(protocol_type="connect")
    await one.join(protocols=[])
    asking.phase = "a vote"
    two = await asking.member("b", protocols=[("own", b"\1"), ("sticky", mine)])
    joining = await two.enter()
    await asking.until("PreparingRebalance", 2)
    three = await asking.member("c", protocols=[("sticky", mine), ("range", mine)])
    third = await three.enter()
    await asking.until("PreparingRebalance", 3)
    await one.join()
    await joining, await third
    asking.phase = "chosen"
    for member in (one, two, three):
        member.protocols = [("sticky", mine), *member.protocols]
    await one.lead(two, three)
    await asking.note(one.wire, DescribeGroupsRequest(groups=[asking.group]), 5)
    asking.phase = "another type of protocol"
    await asking.another_group()
    own = [("sessioned", b"\1\2"), ("compatible", b"\3")]
    worker = await asking.member("w", protocol_type="connect", protocols=own)
    await (await worker.enter())
    await worker.sync(assignments={worker.id: b"tasks"})
    await worker.commit(1)
    await worker.heartbeat()
    await _views(asking, worker)
    await worker.leave()
    await _views(asking, worker)
    asking.phase = "taken by consumers"
    heir = await asking.member("h")
    await (await heir.enter())
    await heir.lead()
    await _views(asking, heir)


SCRIPTS = {"bounds": bounds, "lives": lives, "protocols": protocols}
