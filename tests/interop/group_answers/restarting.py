"""The script of a coordinator that is killed: what groups of every kind are when it comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.protocols.kafka.wire.coordinator_admin import DescribeGroupsRequest
from penstock.protocols.kafka.wire.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.interop.group_answers.asking import Asking, Member, asking

Groups = dict[str, tuple[str, list[Member]]]


async def restarted(bootstrap: str, topic: str, topic_id: bytes, restart: Callable[[], None]) -> dict[str, object]:
    """Make groups, kill and start the coordinator, look at what there is now; the answers of both."""
    async with asking(bootstrap, topic, topic_id) as before:
        groups = await _made(before)
        asyncio.get_running_loop()
        await asyncio.to_thread(restart)
        async with asking(bootstrap, topic, topic_id) as after:
            after.carry_on(before)
            for name, (group, members) in groups.items():
                after.group, after.phase = group, name
                await _looked_at(after, [await after.again(each) for each in members])
            return before.found | after.found


async def _made(asking: Asking) -> Groups:
    made: Groups = {}
    for name, make in _KINDS.items():
        asking.phase = f"made {name}"
        made[name] = (asking.group, await make(asking))
        await asking.another_group()
    return made


async def _simple(asking: Asking) -> list[Member]:
    one = await asking.member("n")
    await one.commit(11)
    return [one]


async def _handed_out(asking: Asking) -> list[Member]:
    one = await asking.member("a")
    await one.join()
    return [one]


async def _completing(asking: Asking) -> list[Member]:
    one = await asking.member("a")
    await (await one.enter())
    return [one]


async def _stable(asking: Asking) -> list[Member]:
    one, two, three = await asking.member("a"), await asking.member("b"), await asking.member("c", "i")
    await (await one.enter())
    await one.lead()
    second, third = await two.enter(), three.begin_join()
    await asking.until("PreparingRebalance", 3)
    await one.join()
    await asyncio.gather(second, third)
    await one.lead(two, three)
    await one.commit(21)
    await two.commit(22, partition=1)
    return [one, two, three]


async def _preparing(asking: Asking) -> list[Member]:
    members = await _stable(asking)
    four = await asking.member("d")
    waiting = await four.enter()
    await asking.until("PreparingRebalance", 4)
    await members[0].commit(31)
    waiting.cancel()
    return members


async def _left(asking: Asking) -> list[Member]:
    members = await _stable(asking)
    await members[0].leave(5, *((each.id, each.instance) for each in members))
    await asking.until("Empty", 0)
    return members


async def _connect(asking: Asking) -> list[Member]:
    one = await asking.member("w", protocol_type="connect", protocols=[("sessioned", b"\1"), ("compatible", b"\2")])
    await (await one.enter())
    await one.lead()
    return [one]


_KINDS = {
    "simple": _simple,
    "handed out": _handed_out,
    "completing": _completing,
    "stable": _stable,
    "preparing": _preparing,
    "left": _left,
    "connect": _connect,
}


async def _looked_at(asking: Asking, members: list[Member]) -> None:
    wire = members[0].wire
    await asking.note(wire, DescribeGroupsRequest(groups=[asking.group]), 6)
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=asking.group, topics=None)])
    await asking.note(wire, fetch, 8)
    for each in members:
        await each.heartbeat()
        await each.commit(41, partition=2)
    for each in members:
        await each.sync()
    for each in members[1:]:
        await each.join()  # a follower's, as it was
        await each.heartbeat()
    if len(members) > 1 and members[2].generation == members[0].generation:
        static = await asking.member("new c", "i")
        await static.join()
        await members[2].heartbeat()
    await asking.note(wire, DescribeGroupsRequest(groups=[asking.group]), 6)
    await asking.note(wire, fetch, 8)
