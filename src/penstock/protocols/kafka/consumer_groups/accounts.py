"""Newer groups' accounts of their rebalances: one begins with a new group epoch and ends when all members are there.

A rebalance that another one overtakes is one with it: nobody stops for it. What must not live here: decisions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Final

from penstock.groups.rebalances import Read
from penstock.model import Partition
from penstock.protocols.kafka.consumer_groups.group import EMPTY, STABLE, ConsumerGroup, ConsumerMember
from penstock.protocols.kafka.consumer_groups.requests import Place
from penstock.protocols.kafka.coordinator import Moment
from penstock.seams.rebalances import Rebalance, RebalanceCause, RebalanceReason

__all__ = ["begun", "changed", "deserted", "moved", "note", "restored"]

Told = Callable[[str, Rebalance], None]
_PLACE: Final = struct.Struct(">16si")


def note(group: ConsumerGroup, why: RebalanceCause, member: ConsumerMember, after_ms: int = 0) -> None:
    """Why a rebalance is about to begin, or goes on longer."""
    group.account.note(RebalanceReason(why, member.member_id, member.client_id, after_ms))


def changed(group: ConsumerGroup, member: ConsumerMember, *, topics: bool) -> None:
    """A member wants something else, or the ``topics`` that members want are others now."""
    if topics:
        note(group, RebalanceCause.TOPICS_CHANGED, member)
    elif member.epoch:
        note(group, RebalanceCause.CHANGED, member)


def begun(group: ConsumerGroup, now: Moment) -> None:
    """The group has a new epoch."""
    if not group.rebalancing:
        group.account.begin(now.monotonic, now.wall_ms)
        group.rebalancing = True


def moved(group: ConsumerGroup, member: ConsumerMember, now: Moment, told: Told) -> None:
    """A member has gone a step, perhaps the last one of all."""
    if not group.rebalancing or member.member_id in group.lagging:
        return
    group.account.joined(member.member_id)
    if group.state == STABLE:
        group.rebalancing = False
        group.account.formed(now.monotonic, group.epoch, len(group.members), "", group.assignor)
        owned = {each.member_id: _written(each.assigned) for each in group.members.values()}
        over = group.account.assigned(now.monotonic, owned, _reader(group))
        if over is not None:
            told(group.group_id, over)


def deserted(group: ConsumerGroup, now: Moment, told: Told) -> None:
    """A member has gone, perhaps the last one."""
    if group.state == EMPTY and group.rebalancing:
        group.rebalancing = False
        over = group.account.deserted(now.monotonic, group.epoch)
        if over is not None:
            told(group.group_id, over)


def restored(group: ConsumerGroup) -> None:
    """Go on from what members had."""
    group.account.restored({each.member_id: _written(each.assigned) for each in group.members.values()})


def _written(places: Iterable[Place]) -> bytes:
    return b"".join(_PLACE.pack(*place) for place in sorted(places))


def _reader(group: ConsumerGroup) -> Read:
    names = {topic.id: name for name, topic in group.topics.items()}

    def read(assignment: bytes) -> frozenset[Partition]:
        places = _PLACE.iter_unpack(assignment)
        return frozenset(Partition(names[topic], number) for topic, number in places if topic in names)

    return read
