"""JoinGroup: everything that is decided before an event reaches the table, in Kafka's order.

Sources: Kafka's classic group coordinator; KIP-345 (static members), KIP-389 (maximum size), KIP-394 (member ids).
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.protocols.kafka.coordinator.group import Group, Member, Takeover
from penstock.protocols.kafka.coordinator.requests import Join, JoinAnswer, SyncAnswer
from penstock.protocols.kafka.coordinator.rounds import Cause, Moment, Rounds, Wait
from penstock.protocols.kafka.coordinator.states import Event, State
from penstock.protocols.kafka.coordinator.stored import CONSUMER, topics_of
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.seams.rebalances import RebalanceCause, RebalanceReason

__all__ = ["drop_pending", "join"]

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
    """Take back a member id that was handed out and has not joined; False if it is none. The event is the caller's."""
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
    # Clients that give up between two joins would otherwise leave members behind that everybody waits for (KIP-394).
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
    """Note why a member that was there joins again, where a round begins with it."""
    if event is Event.CHANGED and group.state is not State.PREPARING:
        group.account.note(_reason(_new_in(group, member, request), request, member.member_id))
    elif event is Event.LEADER_REJOINED and group.state is State.STABLE:
        group.account.note(_reason(RebalanceCause.LEADER_ASKED, request, member.member_id))


def _new_in(group: Group, member: Member, request: Join) -> RebalanceCause:
    """What a member says now that it did not say before."""
    if group.protocol_type != CONSUMER:
        return RebalanceCause.TOLD_OTHERS
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
    """A process with a known instance id starts anew: it inherits the member under a new id, the old id is fenced."""
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
    # The assignment holds as long as the members would still agree on the same protocol; a changed subscription alone
    # does not rebalance: the client compares, and joins again if it must.
    same = group.protocol_name is not None and group.select_protocol() == group.protocol_name
    event = Event.TAKEN_OVER if same else Event.TAKEN_OVER_CHANGED
    if group.state is State.COMPLETING or (group.state is State.STABLE and not same):
        group.account.note(_reason(RebalanceCause.CAME_BACK, request, member_id))
    rounds.step(group, event, Cause(now, member, request, takeover=takeover))
