"""Scripts in which time passes: sessions, ids handed out, rounds and syncs that take too long, the first delay, bounds.

Nodes that run them are set up for it: `THEIRS` by Kafka's names, `OURS` by ours.
"""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.protocols.kafka.wire.coordinator_admin import DescribeGroupsRequest
from tests.interop.group_answers.asking import Asking, Member

THEIRS = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "300",
    "group.max.size": "3",
}
OURS = {"group_min_session_timeout_ms": 100, "initial_rebalance_delay_ms": 300, "group_max_size": 3}
SHORT_MS = 500


async def sessions(asking: Asking) -> None:
    """A member that is not heard of, and one that only joined half."""
    one, two = await asking.member("a"), await asking.member("b", session_ms=SHORT_MS)
    await _pair(asking, one, two)
    asking.phase = "silent"
    await asking.until("PreparingRebalance", 1)
    await two.heartbeat()
    await two.sync()
    await two.commit(1)
    await one.heartbeat()
    await one.join()
    await one.lead()
    await asking.note(one.wire, DescribeGroupsRequest(groups=[asking.group]), 5)
    asking.phase = "handed out"
    two.id = ""
    await two.join()
    await one.join()  # waits for the other, until its id has expired
    await one.lead()
    await two.join()
    asking.phase = "static"
    three = await asking.member("c", "i", session_ms=SHORT_MS)
    third = three.begin_join()
    await asking.until("PreparingRebalance", 2)
    await one.join()
    await third
    await one.lead(three)
    await asking.until("PreparingRebalance", 1)
    await three.heartbeat()
    await three.join()
    await one.leave()
    await asking.until("Empty", 0)
    await asking.note(one.wire, DescribeGroupsRequest(groups=[asking.group]), 5)


async def _pair(asking: Asking, one: Member, two: Member) -> None:
    asking.phase = "begun"
    first = await one.enter()
    await asking.until("PreparingRebalance", 1)
    second = await two.enter()  # within the first one's delay
    await asyncio.gather(first, second)
    await one.lead(two)


async def rounds_time_out(asking: Asking) -> None:
    """Members that do not join again in time; who waits is no less alive than its session."""
    one = await asking.member("a", rebalance_ms=900)
    two = await asking.member("b", rebalance_ms=600)
    await _pair(asking, one, two)
    asking.phase = "a round too late"
    three = await asking.member("c", session_ms=300, rebalance_ms=100)
    third = await three.enter()
    await asking.until("PreparingRebalance", 3)
    await one.join()
    await third
    await asking.note(one.wire, DescribeGroupsRequest(groups=[asking.group]), 5)
    await two.heartbeat()
    await one.sync(assignments={one.id: b"1"})
    await one.leave(5, (three.id, None), (one.id, None))
    await asking.another_group()
    asking.phase = "static members stay"
    one, two = await asking.member("a", rebalance_ms=700), await asking.member("b", "i", rebalance_ms=700)
    await _pair(asking, one, two)
    await one.join()
    await asking.note(one.wire, DescribeGroupsRequest(groups=[asking.group]), 5)
    await two.heartbeat()
    await one.sync(assignments={one.id: b"1", two.id: b"2"})
    await two.join()
    asking.phase = "nobody joins"
    three = await asking.member("c", rebalance_ms=700)
    third = await three.enter()
    await asking.until("PreparingRebalance", 3)
    await (await asking.member("operator")).leave(5, (three.id, None), (one.id, None))
    await third
    await asking.note(one.wire, DescribeGroupsRequest(groups=[asking.group]), 5)
    new = await asking.member("new b", "i")
    await new.join()


async def syncs_time_out(asking: Asking) -> None:
    """A leader that assigns too late; a follower that never asks."""
    one, two = await asking.member("a", rebalance_ms=700), await asking.member("b", rebalance_ms=700)
    asking.phase = "no assignment"
    first = await one.enter()
    await asking.until("PreparingRebalance", 1)
    second = await two.enter()
    await asyncio.gather(first, second)
    await two.sync()
    await one.heartbeat()
    await one.sync(assignments={one.id: b"1"})
    await two.heartbeat()
    await two.join()
    await two.lead()
    asking.phase = "not asked for"
    one.id = ""
    first = await one.enter()
    await asking.until("PreparingRebalance", 2)
    await two.join()
    await first
    await two.sync(assignments={two.id: b"2", one.id: b"1"})
    await asking.until("PreparingRebalance", 1)
    await one.heartbeat()
    await one.sync()
    await two.heartbeat()


async def first_delay(asking: Asking) -> None:
    """Who comes while the first round is held back is in it; nothing else ends it."""
    one, two, three = [await asking.member(name) for name in "abc"]
    first = await one.enter()
    await asking.until("PreparingRebalance", 1)
    asking.phase = "held back"
    other = await asking.member("a elsewhere", id=one.id)
    await other.heartbeat(generation_id=0)
    await other.sync(generation_id=0)
    await other.commit(1, generation_id_or_member_epoch=0)
    await asking.note(other.wire, DescribeGroupsRequest(groups=[asking.group]), 5)
    second = await two.enter()
    await asking.until("PreparingRebalance", 2)
    third = three.begin_join(3)
    await asyncio.gather(first, second, third)
    await one.lead(two, three)
    asking.phase = "deserted"
    await asking.another_group()
    await _left_alone(asking, await asking.member("a"))


async def _left_alone(asking: Asking, one: Member) -> None:
    first = await one.enter()
    await asking.until("PreparingRebalance", 1)
    other = await asking.member("a elsewhere", id=one.id)
    await other.leave()
    await first
    await asking.until("Empty", 0)
    await asking.note(other.wire, DescribeGroupsRequest(groups=[asking.group]), 5)


async def bounds(asking: Asking) -> None:
    """More members than a group may have, in each state."""
    asking.phase = "held back"
    members = [await asking.member(name) for name in "abcd"]
    joins: list[asyncio.Task[Any]] = []
    for count, each in enumerate(members[:3], start=1):
        joins.append(await each.enter())
        await asking.until("PreparingRebalance", count)
    await members[3].join()
    await members[3].join(3)
    await asyncio.gather(*joins)
    one, two, three, four = members
    asking.phase = "completing"
    await four.join()
    await one.lead(two, three)
    asking.phase = "stable"
    await four.join()
    await four.join(3)
    await four.join(member_id="x")
    static = await asking.member("s", "i")
    await static.join()
    await three.join()
    asking.phase = "preparing"
    await three.leave()
    await four.join()
    third = four.begin_join()
    await asking.until("PreparingRebalance", 3)
    five = await asking.member("e")
    await five.join()
    await five.leave()
    await asyncio.gather(one.begin_join(), two.begin_join())
    await third
    await one.lead(two, four)
    asking.phase = "handed out"
    await asking.another_group()
    for number in range(5):
        await (await asking.member(f"p{number}")).join()
    await asking.note(one.wire, DescribeGroupsRequest(groups=[asking.group]), 5)


SCRIPTS = {
    "sessions": sessions,
    "rounds_time_out": rounds_time_out,
    "syncs_time_out": syncs_time_out,
    "first_delay": first_delay,
    "group_bounds": bounds,
}
