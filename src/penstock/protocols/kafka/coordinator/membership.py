"""SyncGroup, Heartbeat, LeaveGroup, expired deadlines, and the log's answers: from request or timer to event.

Sources: Kafka's classic group coordinator; KIP-345 (LeaveGroup v3), KIP-559 (protocol names in SyncGroup v5).
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.protocols.kafka.coordinator.group import Group, Takeover
from penstock.protocols.kafka.coordinator.joining import drop_pending
from penstock.protocols.kafka.coordinator.requests import JoinAnswer, Leaver, Sync, SyncAnswer
from penstock.protocols.kafka.coordinator.rounds import Cause, Due, Moment, Rounds, Wait
from penstock.protocols.kafka.coordinator.states import Event, State
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.seams.rebalances import RebalanceCause, RebalanceReason

__all__ = ["expired", "heartbeat", "leave", "stored", "sync"]


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
    """Take out all leavers that are members or pending, in one rebalance; one code each, in order."""
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
        member_id = group.static_ids.get(leaver.instance_id, "")  # an operator knows the instance, not the id
    if drop_pending(rounds, group, member_id):
        return ErrorCode.NONE
    fault = group.identity_fault(member_id, leaver.instance_id)
    if not fault:
        why = RebalanceCause.LEFT if leaver.member_id else RebalanceCause.TAKEN_OUT
        group.account.note(RebalanceReason(why, member_id, group.members[member_id].client_id, said=leaver.reason))
        rounds.forget_member(group, member_id)
    return fault


def expired(rounds: Rounds, group: Group, due: Due, now: Moment) -> None:
    """A deadline has passed; it is no longer set."""
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
        # Who waits for an answer cannot send heartbeats, and is timed anew when it is given. A new member is the
        # exception: its timer is long, and its process may have died before anybody saw it.
        if member.is_new or not waits_for_us:
            after_ms = rounds.settings.new_member_timeout_ms if member.is_new else member.session_timeout_ms
            group.account.note(RebalanceReason(RebalanceCause.EXPIRED, due.member_id, member.client_id, after_ms))
            rounds.forget_member(group, due.member_id)
            rounds.step(group, Event.REMOVED, Cause(now))


def stored(rounds: Rounds, group: Group, ticket: int, accepted: bool, now: Moment) -> None:
    """What was given to the log under ``ticket`` is durable, or was refused. Late answers to old tickets do nothing."""
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
        return  # a rebalance came between and answered
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
        # Told who led before, the returned leader does not take itself for one, and does not assign (KIP-345).
        member.answer_join(answer._replace(leader=takeover.old_leader, members=()))
