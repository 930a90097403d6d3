"""What each effect of the table does to a group. One small function each; the table says when.

Sources: Kafka's classic group coordinator (KIP-62, KIP-134, KIP-345, KIP-394, KIP-814).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.groups.rebalances import Read
from penstock.protocols.kafka.coordinator.group import Group, InitialDelay, Member
from penstock.protocols.kafka.coordinator.requests import JoinAnswer, SyncAnswer
from penstock.protocols.kafka.coordinator.rounds import Act, Cause, Rounds, Wait
from penstock.protocols.kafka.coordinator.states import Effect, Event
from penstock.protocols.kafka.coordinator.stored import CONSUMER, partitions_of, stored_value, subscribed_topics
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.seams.rebalances import RebalanceCause, RebalanceReason

__all__ = ["ACTS"]


def _subject(cause: Cause) -> Member:
    assert cause.member is not None
    return cause.member


def _park_join(rounds: Rounds, group: Group, cause: Cause) -> None:
    member, join = _subject(cause), cause.join
    assert join is not None
    # A join parked before is of a connection that is gone: the client would not ask twice otherwise.
    member.answer_join(JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    member.park_join(join.reply)
    group.account.joined(member.member_id)


def _park_sync(rounds: Rounds, group: Group, cause: Cause) -> None:
    member, sync = _subject(cause), cause.sync
    assert sync is not None
    member.answer_sync(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync = sync.reply
    _has_synced(rounds, group, member)


def _has_synced(rounds: Rounds, group: Group, member: Member) -> None:
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        rounds.cancel(group, Wait.SYNC)


def _answer_join(rounds: Rounds, group: Group, cause: Cause) -> None:
    assert cause.join is not None
    cause.join.reply(group.join_answer(_subject(cause)))


def _answer_assignment(rounds: Rounds, group: Group, cause: Cause) -> None:
    assert cause.sync is not None
    member = _subject(cause)
    _has_synced(rounds, group, member)
    cause.sync.reply(group.sync_answer(member))


def _answer(code: ErrorCode) -> Act:
    def act(rounds: Rounds, group: Group, cause: Cause) -> None:
        cause.answer = code
        if cause.sync is not None:
            cause.sync.reply(SyncAnswer(code))

    return act


def _touch(rounds: Rounds, group: Group, cause: Cause) -> None:
    rounds.touch(group, _subject(cause), cause.now)


def _start_delay(rounds: Rounds, group: Group, cause: Cause) -> None:
    delay = rounds.settings.initial_rebalance_delay_ms / 1_000
    group.initial = InitialDelay(delay, max(group.rebalance_timeout_s - delay, 0.0))
    _begin(rounds, group, cause)
    rounds.set(group, Wait.JOIN, cause.now.monotonic + delay)


def _note_newcomer(rounds: Rounds, group: Group, cause: Cause) -> None:
    if group.initial is not None:
        group.initial.newcomer = True


def _start_join_phase(rounds: Rounds, group: Group, cause: Cause) -> None:
    rounds.cancel(group, Wait.SYNC)
    group.pending_sync.clear()
    group.storing = None
    _begin(rounds, group, cause)
    rounds.set(group, Wait.JOIN, cause.now.monotonic + group.rebalance_timeout_s)
    _complete_if_joined(rounds, group, cause)


def _begin(rounds: Rounds, group: Group, cause: Cause) -> None:
    rounds.tell(group, group.account.begin(cause.now.monotonic, cause.now.wall_ms))


def _fail_syncs(code: ErrorCode) -> Act:
    def act(rounds: Rounds, group: Group, cause: Cause) -> None:
        for member in group.members.values():
            member.assignment = b""
            if member.sync is not None:
                member.answer_sync(SyncAnswer(code))
                rounds.touch(group, member, cause.now)

    return act


def _complete_if_joined(rounds: Rounds, group: Group, cause: Cause) -> None:
    # The first round never ends early: more members are probably starting right now (KIP-134).
    if group.initial is None and group.all_joined:
        _end_join_phase(rounds, group, cause)


def _end_wait(rounds: Rounds, group: Group, cause: Cause) -> None:
    initial = group.initial
    if initial is not None and initial.newcomer and initial.remaining_s > 0:
        delay = min(rounds.settings.initial_rebalance_delay_ms / 1_000, initial.remaining_s)
        group.initial = InitialDelay(delay, max(initial.remaining_s - delay, 0.0))
        rounds.set(group, Wait.JOIN, cause.now.monotonic + delay)
        return
    _end_join_phase(rounds, group, cause)


def _end_join_phase(rounds: Rounds, group: Group, cause: Cause) -> None:
    rounds.cancel(group, Wait.JOIN)
    group.initial = None
    absent = [member for member in group.members.values() if member.join is None]
    for member in absent:
        if member.instance_id is None:
            rounds.forget_member(group, member.member_id)
            after_ms = round(group.rebalance_timeout_s * 1_000)
            group.account.note(RebalanceReason(RebalanceCause.NOT_JOINED, member.member_id, member.client_id, after_ms))
    if not group.members:
        rounds.step(group, Event.DESERTED, cause)
        return
    present = next((member for member in group.members.values() if member.join is not None), None)
    if present is None:
        # Only static members are left, and none of them is here: they may be restarting.
        rounds.set(group, Wait.JOIN, cause.now.monotonic + group.rebalance_timeout_s)
        return
    if group.leader is None or group.members[group.leader].join is None:
        group.leader = present.member_id
    rounds.step(group, Event.JOINED, cause)


def _begin_generation(rounds: Rounds, group: Group, cause: Cause) -> None:
    group.generation += 1
    group.protocol_name = group.select_protocol()
    group.subscribed = subscribed_topics(group)
    group.brought = {}
    protocol = group.protocol_name or ""
    group.account.formed(cause.now.monotonic, group.generation, len(group.members), group.leader or "", protocol)
    for member in group.members.values():
        member.is_new = False
        member.answer_join(group.join_answer(member))
        rounds.touch(group, member, cause.now)
        group.pending_sync.add(member.member_id)
    rounds.set(group, Wait.SYNC, cause.now.monotonic + group.rebalance_timeout_s)


def _forget_protocol(rounds: Rounds, group: Group, cause: Cause) -> None:
    group.generation += 1
    group.kept = True
    group.protocol_name = None
    group.leader = None
    group.subscribed = frozenset()
    rounds.tell(group, group.account.deserted(cause.now.monotonic, group.generation))
    rounds.storage.store(group.group_id, stored_value(group, {}), None)


def _store_assignment(rounds: Rounds, group: Group, cause: Cause) -> None:
    assert cause.sync is not None
    given = cause.sync.assignments
    group.brought = {member_id: given.get(member_id, b"") for member_id in group.members}
    group.kept = True
    group.account.brought(cause.now.monotonic)
    group.storing = rounds.ticket()
    rounds.storage.store(group.group_id, stored_value(group, group.brought), group.storing)


def _store_takeover(rounds: Rounds, group: Group, cause: Cause) -> None:
    assert cause.takeover is not None
    ticket = rounds.ticket()
    group.takeovers[ticket] = cause.takeover
    assignments = {each.member_id: each.assignment for each in group.members.values()}
    rounds.storage.store(group.group_id, stored_value(group, assignments), ticket)


def _hand_out(rounds: Rounds, group: Group, cause: Cause) -> None:
    group.storing = None
    rounds.tell(group, group.account.assigned(cause.now.monotonic, group.brought, _reader(group)))
    for member in group.members.values():
        member.assignment = group.brought.get(member.member_id, b"")
        group.weigh(member)
        if member.sync is not None:
            member.answer_sync(group.sync_answer(member))
            rounds.touch(group, member, cause.now)
    group.brought = {}


def _reader(group: Group) -> Read | None:
    """How its assignments are understood: consumers' only. Workers of Kafka Connect, say, share no partitions."""
    return partitions_of if group.protocol_type == CONSUMER else None


def _drop_unsynced(rounds: Rounds, group: Group, cause: Cause) -> None:
    after_ms = round(group.rebalance_timeout_s * 1_000)
    for member_id in [name for name in group.members if name in group.pending_sync]:
        client = group.members[member_id].client_id
        group.account.note(RebalanceReason(RebalanceCause.NOT_SYNCED, member_id, client, after_ms))
        rounds.forget_member(group, member_id)


def _drop_pending(rounds: Rounds, group: Group, cause: Cause) -> None:
    for member_id in list(group.pending_join):
        rounds.cancel(group, Wait.PENDING, member_id)
        group.remove_pending(member_id)


ACTS: Final[Mapping[Effect, Act]] = {
    Effect.PARK_JOIN: _park_join,
    Effect.PARK_SYNC: _park_sync,
    Effect.ANSWER_JOIN: _answer_join,
    Effect.ANSWER_ASSIGNMENT: _answer_assignment,
    Effect.ANSWER_OK: _answer(ErrorCode.NONE),
    Effect.ANSWER_REBALANCING: _answer(ErrorCode.REBALANCE_IN_PROGRESS),
    Effect.ANSWER_STRANGER: _answer(ErrorCode.UNKNOWN_MEMBER_ID),
    Effect.ANSWER_NOT_EMPTY: _answer(ErrorCode.NON_EMPTY_GROUP),
    Effect.TOUCH: _touch,
    Effect.START_DELAY: _start_delay,
    Effect.NOTE_NEWCOMER: _note_newcomer,
    Effect.START_JOIN_PHASE: _start_join_phase,
    Effect.FAIL_SYNCS: _fail_syncs(ErrorCode.REBALANCE_IN_PROGRESS),
    Effect.FAIL_UNSTORED_SYNCS: _fail_syncs(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    Effect.COMPLETE_IF_JOINED: _complete_if_joined,
    Effect.END_WAIT: _end_wait,
    Effect.BEGIN_GENERATION: _begin_generation,
    Effect.FORGET_PROTOCOL: _forget_protocol,
    Effect.STORE_ASSIGNMENT: _store_assignment,
    Effect.STORE_TAKEOVER: _store_takeover,
    Effect.HAND_OUT: _hand_out,
    Effect.DROP_UNSYNCED: _drop_unsynced,
    Effect.DROP_PENDING: _drop_pending,
}
