"""Allocation: how members of a group share out a topic's queues, each by itself, all with the same result. Pure.

Everybody sorts queues by (topic, broker, number) and members by their ids, and takes what one of the rules below gives
to its own place. A rule must therefore be Java's to the letter: a group with members of both reads every queue once
only if both compute the same. Members that see other lists, for a moment, overlap or leave queues alone for as long.
Source: Apache RocketMQ 4.9 and 5.4, ``AllocateMessageQueue…``; `tests/unit/rocketmq_client/test_allocation.py` has what
Java's classes printed.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from penstock.model import Partition
from penstock.protocols.rocketmq.config.options import Allocation

__all__ = ["Rule", "averagely", "by_consistent_hash", "by_machine_room", "by_rooms_nearby", "circle", "rule_of"]

Rule = Callable[[str, Sequence[str], Sequence[Partition]], Sequence[Partition]]
"""From a member, all members and a topic's queues, both sorted, to what is that member's; nothing if it is no member.
"""

_VIRTUAL_NODES: Final = 10
_ROOM_SEPARATOR: Final = "@"


def averagely(member: str, members: Sequence[str], queues: Sequence[Partition]) -> Sequence[Partition]:
    """A run of neighbours each; the first members get one more where it does not come out even."""
    if member not in members:
        return ()
    place, (each, over) = members.index(member), divmod(len(queues), len(members))
    first = place * each + min(place, over)
    return queues[first : first + each + (place < over)]


def circle(member: str, members: Sequence[str], queues: Sequence[Partition]) -> Sequence[Partition]:
    """Dealt out like cards."""
    return queues[members.index(member) :: len(members)] if member in members else ()


def by_consistent_hash(member: str, members: Sequence[str], queues: Sequence[Partition]) -> Sequence[Partition]:
    """Members lie on a ring, each at ten places; a queue is the next one's. Few queues move when a member does."""
    if member not in members:
        return ()
    ring = sorted({_hash(f"{each}-{number}"): each for each in members for number in range(_VIRTUAL_NODES)}.items())
    places = [place for place, _ in ring]

    def owner(queue: Partition) -> str:
        text = f"MessageQueue [topic={queue.topic}, brokerName={queue.node}, queueId={queue.id}]"
        return ring[bisect.bisect_left(places, _hash(text)) % len(ring)][1]

    return [queue for queue in queues if owner(queue) == member]


def by_machine_room(rooms: Sequence[str]) -> Rule:
    """Only queues of brokers called ``room@…`` with one of these rooms; runs of neighbours, the rest dealt out."""

    def rule(member: str, members: Sequence[str], queues: Sequence[Partition]) -> Sequence[Partition]:
        if member not in members:
            return ()
        there = [queue for queue in queues if _is_in(queue, rooms)]
        place, (each, over) = members.index(member), divmod(len(there), len(members))
        mine = there[place * each : (place + 1) * each]
        return [*mine, there[each * len(members) + place]] if place < over else mine

    return rule


def by_rooms_nearby(
    inner: Rule, room_of_queue: Callable[[Partition], str], room_of_member: Callable[[str], str]
) -> Rule:
    """``inner`` within each room; queues of rooms without a member are shared by everybody."""

    def rule(member: str, members: Sequence[str], queues: Sequence[Partition]) -> Sequence[Partition]:
        if member not in members:
            return ()
        queues_in: dict[str, list[Partition]] = {}
        for queue in queues:
            queues_in.setdefault(room_of_queue(queue), []).append(queue)
        members_in: dict[str, list[str]] = {}
        for each in members:
            members_in.setdefault(room_of_member(each), []).append(each)
        own = room_of_member(member)
        mine = list(inner(member, members_in[own], queues_in.pop(own, [])))
        for room, there in queues_in.items():
            if room not in members_in:
                mine += inner(member, members, there)
        return mine

    return rule


def rule_of(allocation: Allocation, rooms: Sequence[str]) -> Rule:
    """The rule of an option's value. ``rooms`` are for those by rooms; with "nearby" the part of a member's id before
    the ``@`` is its room, as of a broker's name."""
    plain: Mapping[Allocation, Rule] = {
        Allocation.AVERAGELY: averagely,
        Allocation.CIRCLE: circle,
        Allocation.CONSISTENT_HASH: by_consistent_hash,
        Allocation.MACHINE_ROOM: by_machine_room(rooms),
        Allocation.MACHINE_ROOM_NEARBY: by_rooms_nearby(averagely, lambda queue: _room(queue.node), _room),
    }
    return plain[allocation]


def _is_in(queue: Partition, rooms: Sequence[str]) -> bool:
    room, separator, name = queue.node.partition(_ROOM_SEPARATOR)
    return bool(separator) and _ROOM_SEPARATOR not in name and room in rooms


def _room(name: str) -> str:
    return name.partition(_ROOM_SEPARATOR)[0]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")
