"""The classic group coordinator of one node: all its groups, requests in, answers out, time passed in.

It answers within the call or through the request's ``reply``; it hands records to ``Storage``. It never waits and has
no clock: the owner calls `expire` at `next_deadline`. What must not live here: decisions (`joining`, `membership`,
`states`) and committed offsets, which all protocols share (services).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from penstock.protocols.kafka.coordinator import joining, membership
from penstock.protocols.kafka.coordinator.effects import ACTS
from penstock.protocols.kafka.coordinator.group import Group
from penstock.protocols.kafka.coordinator.held import (
    GROUP_BYTES,
    MEMBER_BYTES,
    HeldByMembers,
    KeptGroups,
    held_by_members,
    kept_groups,
    plain_host,
)
from penstock.protocols.kafka.coordinator.requests import CommitIdentity, Join, JoinAnswer, Leaver, Sync, SyncAnswer
from penstock.protocols.kafka.coordinator.rounds import Cause, Moment, Rounds, Storage, Wait
from penstock.protocols.kafka.coordinator.settings import GroupSettings
from penstock.protocols.kafka.coordinator.states import Event, State
from penstock.protocols.kafka.coordinator.stored import CONSUMER, restored
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.seams.rebalances import Rebalance

__all__ = ["Coordinator"]

_BAD_SESSION: Final = ErrorCode.INVALID_SESSION_TIMEOUT
_NO_ROOM: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""For what a real broker has no limit of: clients back off and try again, and by then others may have gone."""


class Coordinator:
    """``new_id`` makes the unique part of a member id: 36 characters of a random UUID.

    ``told`` is called with each rebalance that has come to its end, and its group's name. ``held`` counts what members
    take, ``kept`` the groups.
    """

    def __init__(
        self,
        settings: GroupSettings,
        storage: Storage,
        new_id: Callable[[], str],
        told: Callable[[str, Rebalance], None] = lambda group, over: None,
        held: HeldByMembers | None = None,
        kept: KeptGroups | None = None,
    ) -> None:
        self.held = held_by_members() if held is None else held
        self._kept = kept_groups() if kept is None else kept
        self._settings = settings
        self._new_id = new_id
        self.no_room: Callable[[ErrorCode, str], None] = lambda code, reason: None
        self._groups: dict[str, Group] = {}
        self._rounds = Rounds(settings, storage, dict(ACTS), told)

    # Members.

    def join(self, request: Join, now: Moment) -> None:
        """JoinGroup; the answer comes through ``request.reply``."""
        fault = self._join_fault(request)
        if fault:
            request.reply(JoinAnswer(fault, request.member_id))
            return
        brought = sum(len(name) + len(metadata) for name, metadata in request.protocols)
        member = (request.group, request.member_id)
        if self.refused(member, request.client_host, MEMBER_BYTES + brought):
            request.reply(JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED, request.member_id))
            return
        group = self._group(request.group, request.client_host, now, ErrorCode.GROUP_MAX_SIZE_REACHED)
        if group is None:
            request.reply(JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED, request.member_id))
            return
        joining.join(self._rounds, group, request, now, self._new_id)
        self._forget_if_blank(group)

    def refused(self, member: tuple[str, str], host: str, size: int) -> bool:
        """Whether there is no room for what a member would hold; ``no_room`` is called with the reason then."""
        reason = self.held.refusal(member, host, size)
        if reason is not None:
            self.no_room(ErrorCode.GROUP_MAX_SIZE_REACHED, reason)
        return reason is not None

    def _group(self, group_id: str, host: str | None, now: Moment, refusal: ErrorCode) -> Group | None:
        """The group, a new one where there is none; None where no more groups are kept for that host."""
        group = self._groups.get(group_id)
        if group is None:
            reason = self._kept.put((group_id,), plain_host(host), GROUP_BYTES)
            if reason is not None:
                self.no_room(refusal, reason)
                return None
            group = self._groups[group_id] = Group(group_id, state_since_ms=now.wall_ms, held=self.held)
        return group

    def _forget(self, group_id: str) -> Group:
        self._kept.drop((group_id,))
        return self._groups.pop(group_id)

    def bounds_fault(self, request: Join) -> ErrorCode:
        """What is wrong with a join whatever its group is."""
        if not request.group:
            return ErrorCode.INVALID_GROUP_ID
        shortest, longest = self._settings.min_session_timeout_ms, self._settings.max_session_timeout_ms
        return ErrorCode.NONE if shortest <= request.session_timeout_ms <= longest else _BAD_SESSION

    def _join_fault(self, request: Join) -> ErrorCode:
        fault = self.bounds_fault(request)
        if fault:
            return fault
        if request.group not in self._groups and request.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def sync(self, request: Sync, now: Moment) -> None:
        """SyncGroup; the answer comes through ``request.reply``."""
        group = self._groups.get(request.group)
        if not request.group:
            request.reply(SyncAnswer(ErrorCode.INVALID_GROUP_ID))
        elif group is None:
            request.reply(SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        elif self._brings_too_much(group, request):
            request.reply(SyncAnswer(ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            membership.sync(self._rounds, group, request, now)

    def _brings_too_much(self, group: Group, request: Sync) -> bool:
        """A real broker cannot write such a group's record, and answers the same."""
        leader = group.members.get(request.member_id)
        if leader is None or not request.assignments or group.leader != request.member_id:
            return False
        brought = sum(map(len, request.assignments.values()))
        kept = sum(len(each.assignment) for each in group.members.values())
        if brought <= kept:
            return False
        size = leader.holds - len(leader.assignment) + brought - kept
        return self.refused((group.group_id, leader.member_id), leader.client_host, size)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: Moment
    ) -> ErrorCode:
        """Heartbeat."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return membership.heartbeat(self._rounds, group, member_id, instance_id, generation, now)

    def leave(self, group_id: str, leavers: Sequence[Leaver], now: Moment) -> list[ErrorCode]:
        """LeaveGroup: one code a leaver. The caller refuses an empty group id."""
        group = self._groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
        codes = membership.leave(self._rounds, group, leavers, now)
        self._forget_if_blank(group)
        return codes

    # Offsets.

    def may_commit(self, identity: CommitIdentity, now: Moment) -> ErrorCode:
        """Whether offsets may be committed now; GROUP_ID_NOT_FOUND where the group vanished under a member.

        A member that may is alive. Whoever commits to a group that does not exist makes one, without members.
        """
        group = self._groups.get(identity.group)
        if group is None:
            if identity.generation >= 0:
                return ErrorCode.GROUP_ID_NOT_FOUND
            group = self._group(identity.group, identity.host, now, _NO_ROOM)
            if group is None:
                return _NO_ROOM
        answer = self._commit_answer(group, identity, now)
        group.kept = group.kept or not answer
        return answer

    def _commit_answer(self, group: Group, identity: CommitIdentity, now: Moment) -> ErrorCode:
        if identity.anonymous or (identity.generation < 0 and group.state is State.EMPTY):
            return self._rounds.step(group, Event.COMMIT_ALONE, Cause(now))
        fault = group.identity_fault(identity.member_id, identity.instance_id)
        if not fault and identity.generation != group.generation:
            fault = ErrorCode.ILLEGAL_GENERATION
        return fault or self._rounds.step(group, Event.COMMIT, Cause(now, group.members[identity.member_id]))

    def may_commit_within(self, identity: CommitIdentity, now: Moment) -> ErrorCode:
        """Whether offsets may be committed within a transaction: the state of the group does not matter (KIP-447).

        Nobody in particular may, always: producers before the KIP say no more.
        """
        group = self._groups.get(identity.group)
        if group is None:
            if identity.generation >= 0:
                return ErrorCode.GROUP_ID_NOT_FOUND
            group = self._group(identity.group, identity.host, now, _NO_ROOM)
            if group is None:
                return _NO_ROOM
        answer = ErrorCode.NONE
        if not identity.anonymous and not (identity.generation < 0 and group.state is State.EMPTY):
            answer = group.identity_fault(identity.member_id, identity.instance_id)
            if not answer and identity.generation != group.generation:
                answer = ErrorCode.ILLEGAL_GENERATION
        group.kept = group.kept or not answer
        return answer

    def may_delete_offsets(self, group_id: str) -> ErrorCode:
        """Whether OffsetDelete makes sense for the group at all."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not State.EMPTY and group.protocol_type != CONSUMER:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        """Whether members read the topic, as far as is known: where their metadata is not understood, they may."""
        group = self._groups.get(group_id)
        if group is None or group.state is State.EMPTY:
            return False
        return group.protocol_type == CONSUMER and (group.subscribed is None or topic in group.subscribed)

    def delete(self, group_id: str, now: Moment) -> ErrorCode:
        """DeleteGroups for one group. If NONE is answered, its record and its offsets are the caller's to delete."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        answer = self._rounds.step(group, Event.DELETE, Cause(now))
        if group.state is State.DEAD:
            self._forget(group_id)
        return answer

    # Groups that go over to the newer protocol with their members, and come back.

    def release(self, group_id: str) -> None:
        """The group goes on elsewhere: whoever waits in it is told to join again."""
        group = self._forget(group_id)
        group.hold_in(held_by_members())
        for member in group.members.values():
            self._rounds.cancel(group, Wait.SESSION, member.member_id)
            member.answer_join(JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            member.answer_sync(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
        for member_id in group.pending_join:
            self._rounds.cancel(group, Wait.PENDING, member_id)
        for wait in (Wait.JOIN, Wait.SYNC):
            self._rounds.cancel(group, wait)

    def adopt(self, group: Group, now: Moment, *, rests: bool) -> bool:
        """Go on with a STABLE group of elsewhere, unless it is too large; ``rests``: its members need no other shares.

        Its record is the caller's to write.
        """
        if len(group.members) > self._settings.max_size:
            return False
        self._groups[group.group_id] = group
        host = next((each.client_host for each in group.members.values()), None)
        self._kept.take((group.group_id,), plain_host(host), GROUP_BYTES)
        group.hold_in(self.held)
        for member in group.members.values():
            self._rounds.touch(group, member, now)
        if not rests:
            self._rounds.step(group, Event.REMOVED, Cause(now))
        return True

    # Views.

    def group(self, group_id: str) -> Group | None:
        """For descriptions; to be read only."""
        return self._groups.get(group_id)

    def groups(self) -> Iterable[Group]:
        """All groups; to be read only."""
        return self._groups.values()

    # Time and the log.

    def load(self, saved: Mapping[str, bytes], with_offsets: Iterable[str], now: Moment) -> None:
        """Start from the log: ``saved`` records, and groups that have nothing but offsets. Sessions start afresh.

        Raises ProtocolViolation for a record that is damaged.
        """
        for group_id, record in saved.items():
            group = self._groups[group_id] = restored(group_id, record)
            group.kept = True
            group.hold_in(self.held)
            for member in group.members.values():
                self._rounds.touch(group, member, now)
        for group_id in with_offsets:
            self._groups.setdefault(group_id, Group(group_id, kept=True, held=self.held))
        for group_id in self._groups:
            self._kept.take((group_id,), None, 0)

    def stored(self, group_id: str, ticket: int, accepted: bool, now: Moment) -> None:
        """The outcome of ``Storage.store`` with that ticket."""
        group = self._groups.get(group_id)
        if group is not None:
            membership.stored(self._rounds, group, ticket, accepted, now)

    def next_deadline(self) -> float | None:
        """When `expire` has something to do, in seconds of the monotonic clock."""
        return self._rounds.deadlines.next()

    def not_before(self) -> float | None:
        """`expire` has nothing to do before that; cheaper than `next_deadline`, and may be earlier."""
        return self._rounds.deadlines.not_before()

    def expire(self, now: Moment) -> None:
        """Let everything happen whose time has come."""
        for due in self._rounds.deadlines.due(now.monotonic):
            group = self._groups[due.group_id]
            membership.expired(self._rounds, group, due, now)
            self._forget_if_blank(group)

    def stop(self) -> None:
        """Answer everything that is parked with COORDINATOR_NOT_AVAILABLE; the groups stay for the next start."""
        for group in self._groups.values():
            for member in group.members.values():
                member.answer_join(JoinAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, member.member_id))
                member.answer_sync(SyncAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _forget_if_blank(self, group: Group) -> None:
        if group.blank:
            self._forget(group.group_id)
