"""Members of the older protocol in a group of the newer: JoinGroup, SyncGroup and Heartbeat, answered by its epochs.

To such a member its epoch is the generation, and what it has of its target is its share. It is told to join again
where others are told by a heartbeat what to give up: with its join it says what it still owns. Nobody leads.

Source: KIP-848, and what brokers of 4.3.1 answer. What must not live here: groups whose members all speak it
(`coordinator`).
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ProtocolViolation
from penstock.protocols.kafka.consumer_groups.group import ConsumerGroup, ConsumerMember
from penstock.protocols.kafka.consumer_groups.older import CONSUMER, Older, owned_by, share, spoken
from penstock.protocols.kafka.consumer_groups.reconciling import waits_for_others
from penstock.protocols.kafka.consumer_groups.requests import Topic, Wanted
from penstock.protocols.kafka.consumer_groups.states import MemberState
from penstock.protocols.kafka.consumer_groups.steps import Steps, Wait
from penstock.protocols.kafka.coordinator import Join, JoinAnswer, Moment, Sync, SyncAnswer
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.messages.consumer_protocol import Subscription
from penstock.protocols.kafka.migration import MigrationPolicy

__all__ = ["OlderMembers"]


class OlderMembers:
    """Answers None where the group is none of the newer protocol with members."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def _group(self, group_id: str) -> ConsumerGroup | None:
        group = self._steps.groups.get(group_id)
        return group if group is not None and group.members else None

    def wanted(self, request: Join) -> Wanted | None:
        """Which topics a join has to be told of."""
        group = self._group(request.group)
        if group is None:
            return None
        try:
            names = frozenset(spoken(request.protocols).topics)
        except ProtocolViolation:
            names = frozenset()
        return Wanted(names | group.wanted(), group.has_patterns)

    def join(self, request: Join, topics: Mapping[str, Topic], now: Moment, new_id: str) -> JoinAnswer | None:
        """JoinGroup. ``topics``: those that were `wanted` and exist. ``new_id``: for who has none yet."""
        group = self._group(request.group)
        if group is None:
            return None
        fault = self._unfit(group, request)
        if fault:
            return JoinAnswer(fault)
        if not request.member_id and request.instance_id is None and request.needs_member_id:
            return JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, new_id)
        try:
            subscription = spoken(request.protocols)
        except ProtocolViolation:
            return JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        owner = group.static_ids.get(request.instance_id) if request.instance_id is not None else None
        if request.instance_id is not None and request.member_id and owner != request.member_id:
            return JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID if owner is None else ErrorCode.FENCED_INSTANCE_ID)
        member = self._member(group, request, owner, request.member_id or new_id)
        changed = self._update(group, member, request, subscription)
        self._steps.follow(group, member, topics, now, changed=changed)
        self._steps.move(group, member, owned_by(subscription, topics), now)
        self._steps.cancel(group, member.member_id, Wait.REJOIN)
        self._steps.touch(group, member, now)
        self._steps.time(group, member, Wait.SYNC, member.rebalance_timeout_ms, now)
        if owner is not None and not request.member_id:
            self._steps.give_back(group, now, rests=True)
        return JoinAnswer(
            member_id=member.member_id,
            generation=member.epoch,
            protocol_type=CONSUMER,
            protocol_name=request.protocols[0][0],
        )

    def _unfit(self, group: ConsumerGroup, request: Join) -> ErrorCode:
        settings = self._steps.settings
        if settings.migration_policy is MigrationPolicy.DISABLED:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        comes_back = request.instance_id is not None and request.instance_id in group.static_ids
        if len(group.members) >= settings.max_size and request.member_id not in group.members and not comes_back:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        fits = request.protocol_type == CONSUMER and group.supports(request.protocols)
        return ErrorCode.NONE if fits else ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def _member(self, group: ConsumerGroup, request: Join, owner: str | None, member_id: str) -> ConsumerMember:
        if owner is not None and not request.member_id:
            return self._steps.come_back(group, owner, member_id)
        if member_id not in group.members:
            # Whoever knows its id joins with it: the one that it was handed out to, or one that was taken out.
            made = ConsumerMember(member_id, request.instance_id, client_id=request.client_id)
            self._steps.enter(group, made)
        return group.members[member_id]

    def _update(self, group: ConsumerGroup, member: ConsumerMember, request: Join, said: Subscription) -> bool:
        """Take over what a join says of its member; whether it wants to read something else than before."""
        before = (frozenset(member.names), member.pattern)
        older = Older(request.session_timeout_ms, request.protocols)
        known = (member.names, member.rack, member.rebalance_timeout_ms, member.older)
        group.speak(member, older)
        member.rack = said.rack_id or member.rack
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.names, member.pattern, member.assignor = tuple(dict.fromkeys(said.topics)), "", None
        member.client_id, member.client_host = request.client_id, request.client_host
        if known != (member.names, member.rack, member.rebalance_timeout_ms, older):
            self._steps.note(group, member.member_id)
        return before != (frozenset(member.names), "")

    def sync(self, request: Sync, now: Moment) -> SyncAnswer | None:
        """SyncGroup: what the member may have now."""
        group = self._group(request.group)
        if group is None:
            return None
        member, fault = _known(group, request.member_id, request.instance_id, request.generation)
        if member is None or member.older is None or fault:
            return SyncAnswer(fault)
        type_fits = request.protocol_type in (None, CONSUMER)
        if not type_fits or request.protocol_name not in (None, member.older.protocol):
            return SyncAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        # Who has yet to give something up has joined already, and joins again when it has done so.
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED:
            self._told_to_join(group, member, now)
            return SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
        self._steps.cancel(group, member.member_id, Wait.SYNC)
        self._steps.touch(group, member, now)
        names = {topic.id: name for name, topic in group.topics.items()}
        assignment = share(member.assigned, names, member.older.metadata)
        return SyncAnswer(
            protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
        )

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: Moment
    ) -> ErrorCode | None:
        """Heartbeat: REBALANCE_IN_PROGRESS where the member is to join again."""
        group = self._group(group_id)
        if group is None:
            return None
        member, fault = _known(group, member_id, instance_id, generation)
        if member is None or fault:
            return fault
        self._steps.touch(group, member, now)
        unrevoked = member.state is MemberState.UNREVOKED
        may_take = member.state is MemberState.UNRELEASED and not waits_for_others(group, member)
        if member.epoch == group.epoch and not unrevoked and not may_take:
            return ErrorCode.NONE
        self._told_to_join(group, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _told_to_join(self, group: ConsumerGroup, member: ConsumerMember, now: Moment) -> None:
        """It has its rebalance timeout, from when it was told first."""
        if not self._steps.is_timed(group, member, Wait.REJOIN):
            self._steps.time(group, member, Wait.REJOIN, member.rebalance_timeout_ms, now)


def _known(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember | None, ErrorCode]:
    """Who asks, and what is wrong with it: who it says it is, which protocol it speaks, its generation."""
    if instance_id is not None:
        owner = group.static_ids.get(instance_id)
        if owner is not None and owner != member_id:
            return None, ErrorCode.FENCED_INSTANCE_ID
        member_id = owner or ""
    member = group.members.get(member_id)
    if member is None or member.older is None:
        return None, ErrorCode.UNKNOWN_MEMBER_ID
    return member, ErrorCode.NONE if generation == member.epoch else ErrorCode.ILLEGAL_GENERATION
