"""The classic group coordinator of one node.

Functions check requests and timers and turn them into events of the state table. `Coordinator` has all groups. Time is
passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from penstock.interfaces.admin import Rebalance, RebalanceCause, RebalanceReason
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import (
    GROUP_BYTES,
    MEMBER_BYTES,
    CommitIdentity,
    Event,
    Group,
    GroupSettings,
    HeldByMembers,
    Join,
    JoinAnswer,
    KeptGroups,
    Leaver,
    Member,
    State,
    Sync,
    SyncAnswer,
    Takeover,
    held_by_members,
    kept_groups,
    plain_host,
)
from penstock.protocols.kafka.groups.classic_transitions import (
    ACTS,
    CONSUMER,
    Cause,
    Due,
    Moment,
    Rounds,
    Storage,
    Wait,
    restored,
    topics_of,
)

__all__ = ["Coordinator", "drop_pending", "expired", "heartbeat", "join", "leave", "stored", "sync"]

# JoinGroup: all checks before an event reaches the table, in Kafka's order.
#
# Sources: Kafka's classic group coordinator; KIP-345 (static members), KIP-389 (maximum size), KIP-394 (member ids).

NewId = Callable[[], str]


def join(rounds: Rounds, group: Group, request: Join, now: Moment, new_id: NewId) -> None:
    """Decide a JoinGroup whose group exists; ``new_id`` makes the unique part of a member id (a UUID)."""
    if not _has_room(rounds, group, request):
        _refuse_oversized(rounds, group, request, now)
    elif not group.supports(request.protocol_type, request.protocols):
        request.reply(JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
    elif request.member_id:
        _known(rounds, group, request, now)
    elif request.instance_id is None:
        _new_dynamic(rounds, group, request, now, f"{request.client_id}-{new_id()}")
    elif request.instance_id in group.static_ids:
        _take_over(rounds, group, request, now, f"{request.instance_id}-{new_id()}")
    else:
        _add(rounds, group, request, now, f"{request.instance_id}-{new_id()}")


def drop_pending(rounds: Rounds, group: Group, member_id: str) -> bool:
    """Withdraw a member id that has not joined yet; False if there is none. The caller makes the event."""
    if member_id not in group.pending_join:
        return False
    group.remove_pending(member_id)
    rounds.cancel(group, Wait.PENDING, member_id)
    return True


def _has_room(rounds: Rounds, group: Group, request: Join) -> bool:
    limit = rounds.settings.max_size
    member = group.members.get(request.member_id)
    if not request.member_id and len(group.pending_join) >= limit:
        return False
    if group.state is State.EMPTY:
        return True
    if group.state is State.PREPARING:
        return (member is not None and member.join is not None) or group.awaiting_join < limit
    return member is not None or len(group.members) < limit


def _refuse_oversized(rounds: Rounds, group: Group, request: Join, now: Moment) -> None:
    request.reply(JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
    if request.member_id in group.members:
        group.account.note(RebalanceReason(RebalanceCause.REFUSED, request.member_id, request.client_id))
        rounds.forget_member(group, request.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED)
        rounds.step(group, Event.REMOVED, Cause(now))
    elif drop_pending(rounds, group, request.member_id):
        rounds.step(group, Event.PENDING_GONE, Cause(now))


def _new_dynamic(rounds: Rounds, group: Group, request: Join, now: Moment, member_id: str) -> None:
    if not request.needs_member_id:
        _add(rounds, group, request, now, member_id)
        return
    # Without this, clients that give up between two joins would leave members behind that all others wait for
    # (KIP-394).
    group.add_pending(member_id, request.client_host)
    rounds.set(group, Wait.PENDING, now.monotonic + request.session_timeout_ms / 1_000, member_id)
    request.reply(JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id))


def _add(rounds: Rounds, group: Group, request: Join, now: Moment, member_id: str) -> None:
    member = Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.protocols,
    )
    group.add(member, request.protocol_type)
    group.account.note(_reason(RebalanceCause.JOINED, request, member_id))
    rounds.set(group, Wait.SESSION, now.monotonic + rounds.settings.new_member_timeout_ms / 1_000, member_id)
    rounds.step(group, Event.ADDED, Cause(now, member, request))


def _known(rounds: Rounds, group: Group, request: Join, now: Moment) -> None:
    member_id = request.member_id
    if request.instance_id is None and drop_pending(rounds, group, member_id):
        _add(rounds, group, request, now, member_id)
        return
    fault = group.identity_fault(member_id, request.instance_id)
    if fault:
        request.reply(JoinAnswer(fault, member_id))
        return
    member = group.members[member_id]
    if member.protocols != request.protocols:
        event = Event.CHANGED
    else:
        event = Event.LEADER_REJOINED if group.leader == member_id else Event.REJOINED
    _explain(group, member, request, event)
    _update(group, member, request)
    rounds.step(group, event, Cause(now, member, request))


def _explain(group: Group, member: Member, request: Join, event: Event) -> None:
    """Note the cause if a member's rejoin begins a rebalance."""
    if event is Event.CHANGED and group.state is not State.PREPARING:
        group.account.note(_reason(_new_in(group, member, request), request, member.member_id))
    elif event is Event.LEADER_REJOINED and group.state is State.STABLE:
        group.account.note(_reason(RebalanceCause.LEADER_ASKED, request, member.member_id))


def _new_in(group: Group, member: Member, request: Join) -> RebalanceCause:
    """The part of the member's metadata that has changed."""
    if group.protocol_type != CONSUMER:
        return RebalanceCause.CHANGED_METADATA
    wants = topics_of(dict(request.protocols).get(group.protocol_name or "", b""))
    same = wants == topics_of(member.metadata(group.protocol_name))
    return RebalanceCause.OWNS_OTHERS if same else RebalanceCause.CHANGED


def _reason(why: RebalanceCause, request: Join, member_id: str) -> RebalanceReason:
    return RebalanceReason(why, member_id, request.client_id, said=request.reason)


def _update(group: Group, member: Member, request: Join) -> None:
    group.set_protocols(member, request.protocols)
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = request.rebalance_timeout_ms


def _take_over(rounds: Rounds, group: Group, request: Join, now: Moment, member_id: str) -> None:
    """A restarted process with a known instance id inherits the member under a new id; the old id is fenced."""
    assert request.instance_id is not None
    old_id = group.static_ids[request.instance_id]
    old_leader = group.leader or ""
    member = group.rename(old_id, member_id)
    rounds.cancel(group, Wait.SESSION, old_id)
    member.answer_join(JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, old_id))
    member.answer_sync(SyncAnswer(ErrorCode.FENCED_INSTANCE_ID))
    takeover = Takeover(member_id, old_id, old_leader, member.protocols, request.may_skip_assignment)
    member.client_id, member.client_host = request.client_id, request.client_host
    _update(group, member, request)
    rounds.touch(group, member, now)
    # The assignment holds as long as the members would still choose the same assignor; a changed subscription alone
    # does not rebalance: the client compares, and rejoins if it must.
    same = group.protocol_name is not None and group.select_protocol() == group.protocol_name
    event = Event.TAKEN_OVER if same else Event.TAKEN_OVER_CHANGED
    if group.state is State.COMPLETING or (group.state is State.STABLE and not same):
        group.account.note(_reason(RebalanceCause.CAME_BACK, request, member_id))
    rounds.step(group, event, Cause(now, member, request, takeover=takeover))


# SyncGroup, Heartbeat, LeaveGroup, expired deadlines and results of log writes: from request or timer to event.
#
# Sources: Kafka's classic group coordinator; KIP-345 (LeaveGroup v3), KIP-559 (protocol names in SyncGroup v5).
def sync(rounds: Rounds, group: Group, request: Sync, now: Moment) -> None:
    """Decide a SyncGroup whose group exists."""
    fault = group.identity_fault(request.member_id, request.instance_id)
    if not fault and request.generation != group.generation:
        fault = ErrorCode.ILLEGAL_GENERATION
    if not fault and not _names_fit(group, request):
        fault = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if fault:
        request.reply(SyncAnswer(fault))
        return
    event = Event.LEADER_SYNCED if request.member_id == group.leader else Event.SYNCED
    rounds.step(group, event, Cause(now, group.members[request.member_id], sync=request))


def _names_fit(group: Group, request: Sync) -> bool:
    type_fits = None in (request.protocol_type, group.protocol_type) or request.protocol_type == group.protocol_type
    name_fits = None in (request.protocol_name, group.protocol_name) or request.protocol_name == group.protocol_name
    return type_fits and name_fits


def heartbeat(
    rounds: Rounds, group: Group, member_id: str, instance_id: str | None, generation: int, now: Moment
) -> ErrorCode:
    """Decide a Heartbeat whose group exists."""
    fault = group.identity_fault(member_id, instance_id)
    if not fault and generation != group.generation:
        fault = ErrorCode.ILLEGAL_GENERATION
    return fault or rounds.step(group, Event.HEARTBEAT, Cause(now, group.members[member_id]))


def leave(rounds: Rounds, group: Group, leavers: Sequence[Leaver], now: Moment) -> list[ErrorCode]:
    """Remove all leavers that are members or pending, in one rebalance; one code each, in order."""
    members, pending = len(group.members), len(group.pending_join)
    codes = [_leave_one(rounds, group, leaver) for leaver in leavers]
    if len(group.members) < members:
        rounds.step(group, Event.REMOVED, Cause(now))
    elif len(group.pending_join) < pending:
        rounds.step(group, Event.PENDING_GONE, Cause(now))
    return codes


def _leave_one(rounds: Rounds, group: Group, leaver: Leaver) -> ErrorCode:
    member_id = leaver.member_id
    if not member_id and leaver.instance_id is not None:
        member_id = group.static_ids.get(leaver.instance_id, "")  # an operator knows only the instance id
    if drop_pending(rounds, group, member_id):
        return ErrorCode.NONE
    fault = group.identity_fault(member_id, leaver.instance_id)
    if not fault:
        why = RebalanceCause.LEFT if leaver.member_id else RebalanceCause.TAKEN_OUT
        group.account.note(RebalanceReason(why, member_id, group.members[member_id].client_id, said=leaver.reason))
        rounds.forget_member(group, member_id)
    return fault


def expired(rounds: Rounds, group: Group, due: Due, now: Moment) -> None:
    """Handle a deadline that has passed and is no longer set."""
    if due.wait is Wait.JOIN:
        rounds.step(group, Event.JOIN_DUE, Cause(now))
    elif due.wait is Wait.SYNC:
        rounds.step(group, Event.SYNC_DUE, Cause(now))
    elif due.wait is Wait.PENDING:
        drop_pending(rounds, group, due.member_id)
        rounds.step(group, Event.PENDING_GONE, Cause(now))
    else:
        member = group.members[due.member_id]
        waits_for_us = member.join is not None or member.sync is not None
        # A member that waits for an answer cannot send heartbeats; its session restarts with the answer. A new member
        # is the exception: its timer is long, and its process may have died before its first answer.
        if member.is_new or not waits_for_us:
            after_ms = rounds.settings.new_member_timeout_ms if member.is_new else member.session_timeout_ms
            group.account.note(RebalanceReason(RebalanceCause.EXPIRED, due.member_id, member.client_id, after_ms))
            rounds.forget_member(group, due.member_id)
            rounds.step(group, Event.REMOVED, Cause(now))


def stored(rounds: Rounds, group: Group, ticket: int, accepted: bool, now: Moment) -> None:
    """The record with ``ticket`` is durable, or was refused. Late results of old tickets have no effect."""
    if ticket == group.storing:
        if not accepted:
            group.account.note(RebalanceReason(RebalanceCause.LOG_REFUSED, group.leader or ""))
        rounds.step(group, Event.STORED if accepted else Event.STORE_FAILED, Cause(now))
        return
    takeover = group.takeovers.pop(ticket, None)
    if takeover is not None and group.state is State.STABLE:
        _finish_takeover(rounds, group, takeover, accepted, now)


def _finish_takeover(rounds: Rounds, group: Group, takeover: Takeover, accepted: bool, now: Moment) -> None:
    member = group.members.get(takeover.member_id)
    if member is None or member.join is None:
        return  # a rebalance has answered it meanwhile
    rounds.touch(group, member, now)
    if not accepted:
        rounds.cancel(group, Wait.SESSION, takeover.member_id)
        member.answer_join(JoinAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        group.rename(takeover.member_id, takeover.old_id)
        group.set_protocols(member, takeover.old_protocols)
        rounds.touch(group, member, now)
        return
    answer = group.join_answer(member)
    if takeover.may_skip_assignment:
        member.answer_join(answer._replace(skip_assignment=group.leader == member.member_id))
    else:
        # With the previous leader's id in the answer, a returning leader does not assign (KIP-345).
        member.answer_join(answer._replace(leader=takeover.old_leader, members=()))


# The coordinator with all groups of a node.
#
# It answers within the call or through the request's ``reply``; it hands records to ``Storage``. It never waits and has
# no clock: the owner calls `expire` at `next_deadline`.

_BAD_SESSION: Final = ErrorCode.INVALID_SESSION_TIMEOUT
_NO_ROOM: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The code for limits that a real broker does not have: clients back off and retry until there is room."""


class Coordinator:
    """The coordinator of all classic groups.

    ``new_id`` makes the unique part of a member id: 36 characters of a random UUID. ``on_rebalance`` is called with
    each finished rebalance and its group's name. ``held`` counts the members' memory, ``kept`` the groups.
    """

    def __init__(
        self,
        settings: GroupSettings,
        storage: Storage,
        new_id: Callable[[], str],
        on_rebalance: Callable[[str, Rebalance], None] = lambda group, over: None,
        held: HeldByMembers | None = None,
        kept: KeptGroups | None = None,
    ) -> None:
        self.held = held_by_members() if held is None else held
        self._kept = kept_groups() if kept is None else kept
        self._settings = settings
        self._new_id = new_id
        self.no_room: Callable[[ErrorCode, str], None] = lambda code, reason: None
        self._groups: dict[str, Group] = {}
        self._rounds = Rounds(settings, storage, dict(ACTS), on_rebalance)

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
        join(self._rounds, group, request, now, self._new_id)
        self._forget_if_blank(group)

    def refused(self, member: tuple[str, str], host: str, size: int) -> bool:
        """Whether there is no room for a member's data; ``no_room`` is then called with the reason."""
        reason = self.held.refusal(member, host, size)
        if reason is not None:
            self.no_room(ErrorCode.GROUP_MAX_SIZE_REACHED, reason)
        return reason is not None

    def _group(self, group_id: str, host: str | None, now: Moment, refusal: ErrorCode) -> Group | None:
        """The group, created if necessary; None if that host may not have more groups."""
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
        """The error of a join that does not depend on its group."""
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
            sync(self._rounds, group, request, now)

    def _brings_too_much(self, group: Group, request: Sync) -> bool:
        """Whether the assignments take too much memory; a real broker that cannot write the record answers the same."""
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
        return heartbeat(self._rounds, group, member_id, instance_id, generation, now)

    def leave(self, group_id: str, leavers: Sequence[Leaver], now: Moment) -> list[ErrorCode]:
        """LeaveGroup: one code per leaver. The caller refuses an empty group id."""
        group = self._groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
        codes = leave(self._rounds, group, leavers, now)
        self._forget_if_blank(group)
        return codes

    # Offsets.

    def may_commit(self, identity: CommitIdentity, now: Moment) -> ErrorCode:
        """Whether offsets may be committed now; GROUP_ID_NOT_FOUND if a member's group does not exist any more.

        An accepted commit counts as a member's heartbeat. A commit to a group that does not exist creates it, without
        members.
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

        A commit without an identity is always accepted: producers before the KIP send none.
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
        """Whether OffsetDelete is possible for the group at all."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not State.EMPTY and group.protocol_type != CONSUMER:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        """Whether members read the topic; assumed if their metadata cannot be read."""
        group = self._groups.get(group_id)
        if group is None or group.state is State.EMPTY:
            return False
        return group.protocol_type == CONSUMER and (group.subscribed is None or topic in group.subscribed)

    def delete(self, group_id: str, now: Moment) -> ErrorCode:
        """DeleteGroups for one group. After NONE, the caller deletes its record and its offsets."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        answer = self._rounds.step(group, Event.DELETE, Cause(now))
        if group.state is State.DEAD:
            self._forget(group_id)
        return answer

    # Conversion to and from KIP-848 groups.

    def release(self, group_id: str) -> None:
        """The group was converted: answer its waiting members that they must rejoin, and remove it here."""
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
        """Take over a STABLE group that was converted back, unless it is too large; ``rests``: no rebalance is needed.

        The caller writes its record.
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
        """The group, for descriptions; not to be changed."""
        return self._groups.get(group_id)

    def groups(self) -> Iterable[Group]:
        """All groups; not to be changed."""
        return self._groups.values()

    # Deadlines and the log.

    def load(self, saved: Mapping[str, bytes], with_offsets: Iterable[str], now: Moment) -> None:
        """Load the groups: ``saved`` records, and groups with offsets only. Sessions start afresh.

        Raises ProtocolViolation for a damaged record.
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
        """The result of ``Storage.store`` with that ticket."""
        group = self._groups.get(group_id)
        if group is not None:
            stored(self._rounds, group, ticket, accepted, now)

    def next_deadline(self) -> float | None:
        """The time of the next deadline, in seconds of the monotonic clock."""
        return self._rounds.deadlines.next()

    def not_before(self) -> float | None:
        """A lower bound of `next_deadline` that is cheaper to compute."""
        return self._rounds.deadlines.not_before()

    def expire(self, now: Moment) -> None:
        """Handle all deadlines that have passed."""
        for due in self._rounds.deadlines.due(now.monotonic):
            group = self._groups[due.group_id]
            expired(self._rounds, group, due, now)
            self._forget_if_blank(group)

    def stop(self) -> None:
        """Answer all parked requests with COORDINATOR_NOT_AVAILABLE; the groups stay for the next start."""
        for group in self._groups.values():
            for member in group.members.values():
                member.answer_join(JoinAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, member.member_id))
                member.answer_sync(SyncAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _forget_if_blank(self, group: Group) -> None:
        if group.blank:
            self._forget(group.group_id)
