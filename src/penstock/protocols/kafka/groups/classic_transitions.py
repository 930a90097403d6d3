"""Walks a classic group's table (`Rounds`), with a function for each effect; a group as a stored record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Final, NamedTuple, Protocol

from msgspec import Struct, field

from penstock.concurrency.runtime import Deadlines
from penstock.errors import ProtocolViolation
from penstock.groups.rebalance_history import Read
from penstock.groups.state_machine import Key
from penstock.interfaces.admin import Rebalance, RebalanceCause, RebalanceReason
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import (
    TABLE,
    Effect,
    Event,
    Group,
    GroupSettings,
    InitialDelay,
    Join,
    JoinAnswer,
    Member,
    State,
    Sync,
    SyncAnswer,
    Takeover,
)
from penstock.protocols.kafka.wire.consumer_protocol import read_assignment, read_subscription
from penstock.protocols.kafka.wire.stored_records import (
    GroupValue,
    GroupValueMember,
    read_group_value,
    write_group_value,
)

__all__ = [
    "ACTS",
    "CONSUMER",
    "Cause",
    "Due",
    "Moment",
    "Rounds",
    "Storage",
    "Wait",
    "partitions_of",
    "restored",
    "stored_value",
    "subscribed_topics",
    "topics_of",
]


# The walker of the table. For an event of a group, it looks up the row, sets the next state and runs the effects in
# order. It also has the deadlines and the way to the log. `classic_coordinator` makes the decisions.
class Moment(NamedTuple):
    """The time on both clocks: ``monotonic`` seconds for deadlines, ``wall_ms`` (since 1970 UTC) for stored values."""

    monotonic: float
    wall_ms: int


class Wait(Key):
    """Kinds of deadlines."""

    SESSION = "a member's session"
    PENDING = "a member id that was handed out"
    JOIN = "a group's join phase"
    SYNC = "a group's sync phase"


class Due(NamedTuple):
    """The owner of a deadline; ``member_id`` is "" for a group's own."""

    group_id: str
    wait: Wait
    member_id: str = ""


class Storage(Protocol):
    """The way to the log."""

    def store(self, group_id: str, record: bytes, ticket: int | None) -> None:
        """Begin to write a group's record; with a ticket, call ``Coordinator.stored`` when it is durable or refused."""
        ...


class Cause(Struct):
    """An event's data for its effects, and the code with which they answer a heartbeat, commit or delete."""

    now: Moment
    member: Member | None = None
    join: Join | None = None
    sync: Sync | None = None
    takeover: Takeover | None = None
    answer: ErrorCode = ErrorCode.NONE


class Act(Protocol):
    """An effect as a function."""

    def __call__(self, rounds: Rounds, group: Group, cause: Cause) -> None: ...


class Rounds(Struct):
    """Everything besides its group that an effect may use."""

    settings: GroupSettings
    storage: Storage
    acts: dict[Effect, Act]
    on_rebalance: Callable[[str, Rebalance], None]
    deadlines: Deadlines[Due] = field(default_factory=Deadlines[Due])
    last_ticket: int = 0

    def step(self, group: Group, event: Event, cause: Cause) -> ErrorCode:
        """Let ``event`` happen. Raises UndefinedTransition."""
        row = TABLE[group.state, event]
        if row.next is not group.state:
            group.state = row.next
            group.state_since_ms = cause.now.wall_ms
        for effect in row.effects:
            self.acts[effect](self, group, cause)
        return cause.answer

    def tell(self, group: Group, over: Rebalance | None) -> None:
        """Report a finished rebalance, if there is one."""
        if over is not None:
            self.on_rebalance(group.group_id, over)

    def ticket(self) -> int:
        """A new number for a record that is being written."""
        self.last_ticket += 1
        return self.last_ticket

    def set(self, group: Group, wait: Wait, when: float, member_id: str = "") -> None:
        """Set a deadline of a group or a member."""
        self.deadlines.set(Due(group.group_id, wait, member_id), when)

    def cancel(self, group: Group, wait: Wait, member_id: str = "") -> None:
        """Cancel a deadline."""
        self.deadlines.cancel(Due(group.group_id, wait, member_id))

    def touch(self, group: Group, member: Member, now: Moment) -> None:
        """Restart the member's session."""
        self.set(group, Wait.SESSION, now.monotonic + member.session_timeout_ms / 1_000, member.member_id)

    def forget_member(self, group: Group, member_id: str, code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """Remove a member from the group, cancel its timer, and answer its parked requests."""
        member = group.remove(member_id)
        self.cancel(group, Wait.SESSION, member_id)
        member.answer_join(JoinAnswer(code))
        member.answer_sync(SyncAnswer(code))
        if not group.pending_sync:
            self.cancel(group, Wait.SYNC)


# A group as a record of ``__consumer_offsets``: the value of key v2, written as value v3, read as v0 to v4.
#
# The record has the result of the last sync. Of a member's metadata only that for the chosen assignor is stored, so a
# member that returns after a restart with the same metadata counts as unchanged. Source: Kafka, GroupMetadataValue.

CONSUMER = "consumer"
"""The protocol type of consumer groups, whose members' metadata is a subscription."""


def stored_value(group: Group, assignments: dict[str, bytes]) -> bytes:
    """The record of ``group`` with ``assignments`` by member id."""
    members = [
        GroupValueMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name),
            assignment=assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms,
        members=members,
    )
    return write_group_value(value)


def restored(group_id: str, data: bytes) -> Group:
    """The group of a record: STABLE with its members, EMPTY without. Raises ProtocolViolation."""
    value = read_group_value(data)
    if value.members and (value.protocol is None or value.leader is None):
        raise ProtocolViolation(f"stored group {group_id!r} has members but no protocol or no leader")
    group = Group(
        group_id,
        state=State.STABLE if value.members else State.EMPTY,
        state_since_ms=value.current_state_timestamp,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        generation=value.generation,
    )
    for each in value.members:
        group.add(_member(each, value.protocol or ""), value.protocol_type)
    if value.members:
        group.leader = value.leader if value.leader in group.members else next(iter(group.members))
    group.subscribed = subscribed_topics(group)
    group.account.restored({each.member_id: each.assignment for each in group.members.values()})
    return group


def _member(value: GroupValueMember, protocol: str) -> Member:
    return Member(
        member_id=value.member_id,
        instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        session_timeout_ms=value.session_timeout,
        rebalance_timeout_ms=value.rebalance_timeout or value.session_timeout,
        protocols=((protocol, bytes(value.subscription)),),
        assignment=bytes(value.assignment),
        is_new=False,
    )


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics that all members together subscribe to; None for other protocol types and unreadable metadata."""
    if not group.members:
        return frozenset()
    if group.protocol_type != CONSUMER or not group.protocol_name:
        return None
    found = [topics_of(member.metadata(group.protocol_name)) for member in group.members.values()]
    return None if None in found else frozenset(chain.from_iterable(each for each in found if each))


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """A consumer's subscribed topics; None if its metadata cannot be read."""
    try:
        return frozenset(read_subscription(metadata).topics)
    except ProtocolViolation:
        return None


def partitions_of(assignment: bytes) -> frozenset[Partition] | None:
    """A consumer's assigned partitions; None if the assignment cannot be read."""
    if not assignment:
        return frozenset()
    try:
        assigned = read_assignment(assignment).assigned_partitions
    except ProtocolViolation:
        return None
    return frozenset(Partition(each.topic, number) for each in assigned for number in each.partitions)


# The effects of the table, one function each. Sources: Kafka's classic group coordinator (KIP-62, KIP-134, KIP-345,
# KIP-394, KIP-814).
def _subject(cause: Cause) -> Member:
    assert cause.member is not None
    return cause.member


def _park_join(rounds: Rounds, group: Group, cause: Cause) -> None:
    member, join = _subject(cause), cause.join
    assert join is not None
    # The parked join came over a lost connection: the client would not send a second one otherwise.
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
        # Only static members are left, and none of them has joined: they may be restarting.
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
    """Reads the group's assignments; only consumers' have partitions (those of Kafka Connect's workers do not)."""
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
