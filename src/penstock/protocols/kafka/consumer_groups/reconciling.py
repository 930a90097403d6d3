"""Moves a member one step towards its target: what its heartbeat says and what others own become an event, then a row.

Source: KIP-848, "Member Epoch - Reconciliation".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from penstock.protocols.kafka.consumer_groups.group import ConsumerGroup, ConsumerMember
from penstock.protocols.kafka.consumer_groups.requests import Place
from penstock.protocols.kafka.consumer_groups.states import TABLE, Effect, Event, MemberState

__all__ = ["reconcile", "waits_for_others"]


def reconcile(group: ConsumerGroup, member: ConsumerMember, says: Collection[Place] | None) -> bool:
    """Whether anything about the member has changed. ``says``: what it owns, in its own words, if it says so."""
    before = (member.state, member.epoch, member.previous_epoch, member.assigned, member.pending)
    row = TABLE[member.state, _event(group, member, says)]
    for effect in row.effects:
        _ACTS[effect](group, member)
    member.state = row.next
    group.note_whether_lagging(member)
    return before != (member.state, member.epoch, member.previous_epoch, member.assigned, member.pending)


def _event(group: ConsumerGroup, member: ConsumerMember, says: Collection[Place] | None) -> Event:
    if member.state is MemberState.UNREVOKED and _still_owns(member.pending, says):
        return Event.STILL_OWNS
    if member.state is MemberState.STABLE and member.epoch == group.target_epoch:
        return Event.ARRIVED
    leaving = member.assigned.keys() - member.target
    if leaving and _still_owns(leaving, says):
        return Event.MUST_REVOKE
    return Event.SOME_HELD if any(_held(group, member, each) for each in member.target) else Event.ALL_FREE


def waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Others own all that it is still to have."""
    return all(_held(group, member, each) for each in member.target if each not in member.assigned)


def _still_owns(places: Collection[Place], says: Collection[Place] | None) -> bool:
    return says is None or any(each in places for each in says)


def _held(group: ConsumerGroup, member: ConsumerMember, place: Place) -> bool:
    return group.owners.get(place, member.member_id) != member.member_id


def _revoke(group: ConsumerGroup, member: ConsumerMember) -> None:
    kept = {place: since for place, since in member.assigned.items() if place in member.target}
    leaving = {place: since for place, since in member.assigned.items() if place not in member.target}
    group.own(member, kept, leaving)
    member.previous_epoch = member.epoch


def _take(group: ConsumerGroup, member: ConsumerMember) -> None:
    free = [place for place in sorted(member.target) if not _held(group, member, place)]
    group.own(member, {place: member.assigned.get(place, group.target_epoch) for place in free}, {})


def _enter(group: ConsumerGroup, member: ConsumerMember) -> None:
    # Also where it is the same: from here on nobody may come with the one before.
    member.previous_epoch, member.epoch = member.epoch, group.target_epoch


_ACTS: Final[Mapping[Effect, Callable[[ConsumerGroup, ConsumerMember], None]]] = {
    Effect.REVOKE: _revoke,
    Effect.TAKE: _take,
    Effect.ENTER: _enter,
}
