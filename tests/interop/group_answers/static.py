"""Scripts of static members (KIP-345): who comes back, who is fenced, who is taken out by an operator."""

from __future__ import annotations

import asyncio

from penstock.protocols.kafka.wire.coordinator_admin import DescribeGroupsRequest
from tests.interop.group_answers.asking import Asking, Member, subscribed


async def static(asking: Asking) -> None:
    """A leader and a follower that come back, in all versions that have instances."""
    for version in range(5, 10):
        await _return(asking, version)
        await asking.another_group()


async def _pair(asking: Asking, version: int) -> tuple[Member, Member]:
    one, two = await asking.member("a", "i1"), await asking.member("b", "i2")
    asking.phase = f"begun v{version}"
    await one.join(version)
    await one.lead()
    joining = two.begin_join(version)
    await asking.until("PreparingRebalance", 2)
    await one.join(version)
    await joining
    await one.lead(two)
    return one, two


async def _return(asking: Asking, version: int) -> None:
    one, two = await _pair(asking, version)
    for old in (two, one):
        asking.phase = f"{old.name} comes back v{version}"
        new = await asking.member(f"new {old.name}", old.instance)
        await new.join(version)
        await _fenced(asking, old)
        await new.heartbeat()
        await new.heartbeat(group_instance_id=None)
        await new.heartbeat(group_instance_id="i3")
        await new.sync()
        await new.commit(7)
        await asking.note(new.wire, DescribeGroupsRequest(groups=[asking.group]), 5)
        asking.phase = f"{old.name} comes back changed v{version}"
        newer = await asking.member(f"newer {old.name}", old.instance)
        await newer.join(version, protocols=[("range", subscribed(asking.topic, "other"))])
        await _fenced(asking, new)
        await newer.sync()
        await asking.note(newer.wire, DescribeGroupsRequest(groups=[asking.group]), 5)
        old.id, old.generation = newer.id, newer.generation
    asking.phase = f"with another protocol v{version}"
    newest = await asking.member("newest b", "i2")
    await newest.join(version, protocols=[("sticky", b"")])
    joining = newest.begin_join(version, protocols=[("sticky", b"s"), ("range", b"r")])
    answer = await joining
    asking.found[asking.label("generation")] = answer.generation_id
    two.id = newest.id


async def _fenced(asking: Asking, old: Member) -> None:
    await old.heartbeat(3)
    await old.heartbeat(group_instance_id=None)
    await old.sync(3)
    await old.commit(1, 8)
    await old.commit(1, 8, group_instance_id=None)
    known = old.id
    await old.join()
    old.id = known
    await old.leave(3)
    await old.leave(5, (old.id, None))


async def between(asking: Asking) -> None:
    """Static members that come back while a round is under way."""
    one, two = await _pair(asking, 9)
    asking.phase = "preparing"
    three = await asking.member("c")
    third = await three.enter()
    await asking.until("PreparingRebalance", 3)
    old = two.begin_join()
    await _settled(asking)
    new = await asking.member("new b", "i2")
    coming = new.begin_join()
    await old
    await one.join()
    await asyncio.gather(third, coming)
    asking.phase = "completing"
    fenced = new.begin_sync()
    await _settled(asking)
    newer = await asking.member("newer b", "i2")
    coming = newer.begin_join()
    await fenced
    await asking.until("PreparingRebalance", 3)
    await asyncio.gather(one.begin_join(), three.begin_join())
    await coming
    await one.lead(three, newer)
    asking.phase = "a dynamic member becomes static"
    known = three.id
    three.instance = "i3"
    await three.join()
    await three.heartbeat()
    three.id, three.instance = known, None
    asking.phase = "an id of one's own"
    stranger = await asking.member("d", "i4")
    await stranger.join(member_id="mine")
    stranger.instance = ""
    await stranger.heartbeat(member_id=one.id, generation_id=one.generation)


async def _settled(asking: Asking) -> None:
    """Return once what was sent before is likely to be there: nobody says so of what waits."""
    await asyncio.sleep(0)
    for _ in range(10):
        await asking.described()


async def taken_out(asking: Asking) -> None:
    """LeaveGroup of many, by an operator: by instance, by id, by both, wrong ones, in one request."""
    one, two = await _pair(asking, 9)
    three = await asking.member("c")
    third = await three.enter()
    await asking.until("PreparingRebalance", 3)
    await asyncio.gather(one.begin_join(), two.begin_join(), third)
    await one.lead(two, three)
    operator = await asking.member("o")
    asking.phase = "operator"
    await operator.leave(5, ("", "missing"), ("x", None), ("x", "i1"), (one.id, "i2"), (three.id, "i1"), ("", None))
    await asking.note(operator.wire, DescribeGroupsRequest(groups=[asking.group]), 5)
    await operator.leave(4, ("", "i2"), ("", "i2"), (three.id, None))
    await asking.note(operator.wire, DescribeGroupsRequest(groups=[asking.group]), 5)
    await one.heartbeat()
    await two.heartbeat()
    await three.heartbeat()
    await one.join()
    await one.lead()
    asking.phase = "handed out"
    pending = await asking.member("p")
    await pending.join()
    await operator.leave(3, (pending.id, None), (pending.id, None))
    await pending.join()
    await operator.leave(3, (one.id, "i1"))
    await asking.until("Empty", 0)
    await asking.note(operator.wire, DescribeGroupsRequest(groups=[asking.group]), 5)
    asking.phase = "nobody"
    for version in range(6):
        operator.id = "x"
        await operator.leave(version)
    asking.group = ""
    for version in range(6):
        await operator.leave(version)
    asking.group = "missing"
    for version in range(6):
        await operator.leave(version)
    await operator.leave(5, ("", "i1"), ("y", None))


SHORT = {"between": between, "taken_out": taken_out}
SCRIPTS = {"static": static}
