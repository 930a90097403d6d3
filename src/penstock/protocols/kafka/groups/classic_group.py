"""A classic group as data: its state table, requests and answers, settings, memory limits, `Member` and `Group`."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from penstock.concurrency.limits import ADDRESS_PERCENT, UNLIMITED, Memory, Shares
from penstock.groups.rebalance_history import Account
from penstock.groups.state_machine import Key, Table
from penstock.protocols.kafka.errors import ErrorCode

__all__ = [
    "GROUP_BYTES",
    "MEMBER_BYTES",
    "TABLE",
    "CommitIdentity",
    "Effect",
    "Event",
    "Group",
    "GroupSettings",
    "HeldByMembers",
    "InitialDelay",
    "Join",
    "JoinAnswer",
    "JoinedMember",
    "KeptGroups",
    "Leaver",
    "Member",
    "Protocols",
    "Row",
    "State",
    "Sync",
    "SyncAnswer",
    "Takeover",
    "held_by_members",
    "kept_groups",
    "plain_host",
]


# The states of a classic group, and the effect of each event on it.
#
# A group goes through rounds. In **EMPTY** it has no members (perhaps offsets). The first member that joins opens the
# join phase, **PREPARING**: the coordinator waits until every known member has (re)joined, or a timer ends the wait;
# joins stay unanswered ("parked"). When the phase ends with members, a new generation begins: all parked joins are
# answered, the leader's with the list of members, and the group is **COMPLETING**: it waits for the leader's SyncGroup,
# which carries the assignment. Once that is stored, every parked sync is answered and the group is **STABLE**. Any
# change of members or their subscriptions leads back to PREPARING. **DEAD** is final; the group is removed from the
# table of groups, so it has no more events.
#
# Two rules of this file. First, a request or timer is checked (member id, generation, …: `classic_coordinator`) before
# it becomes an event; those checks need no state. Second, a row has the next state and the effects, in order; only
# effects of rows change a state. Pairs without a row cannot happen: a member of an EMPTY group cannot leave it, and a
# timer is cancelled when its state ends.
#
# Sources: KIP-62, KIP-134 (initial delay), KIP-345 (static members), KIP-394 (member ids), KIP-800, KIP-814.
class State(enum.StrEnum):
    """States by their names on the wire."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Key):
    """The events of a group."""

    ADDED = "a new member joined"
    REJOINED = "a member joined again with what it had before"
    LEADER_REJOINED = "the leader joined again with what it had before"
    CHANGED = "a member joined again with other metadata"
    TAKEN_OVER = "a static member came back under a new id, the protocol stays"
    TAKEN_OVER_CHANGED = "a static member came back under a new id, the protocol changes"
    REMOVED = "a member left or its session expired"
    PENDING_GONE = "a member id that was handed out and never joined is given up"
    JOIN_DUE = "the join phase's timer fired"
    JOINED = "the join phase is over, members are there"
    DESERTED = "the join phase is over, without a member"
    SYNCED = "a follower asks for its assignment"
    LEADER_SYNCED = "the leader brings the assignment"
    STORED = "the assignment is in the log"
    STORE_FAILED = "the log refused the assignment"
    SYNC_DUE = "some members did not ask for their assignment in time"
    HEARTBEAT = "a member is alive"
    COMMIT = "a member commits offsets"
    COMMIT_ALONE = "a client that is no member commits offsets"
    DELETE = "the group is to be deleted"


class Effect(Key):
    """The actions of a row, in `classic_transitions`; the ANSWER_ effects answer the request that brought the event."""

    PARK_JOIN = "keep the join unanswered until the phase ends"
    PARK_SYNC = "keep the sync unanswered until the assignment is stored"
    ANSWER_JOIN = "answer the join with the current generation"
    ANSWER_ASSIGNMENT = "answer the sync with the stored assignment"
    ANSWER_OK = "no error"
    ANSWER_REBALANCING = "REBALANCE_IN_PROGRESS"
    ANSWER_STRANGER = "UNKNOWN_MEMBER_ID"
    ANSWER_NOT_EMPTY = "NON_EMPTY_GROUP"
    TOUCH = "the member's session starts again"
    START_DELAY = "wait for more first members before the first generation"
    NOTE_NEWCOMER = "the initial delay is extended once more"
    START_JOIN_PHASE = "give all members the rebalance timeout to join"
    FAIL_SYNCS = "answer parked syncs with REBALANCE_IN_PROGRESS, forget assignments"
    FAIL_UNSTORED_SYNCS = "answer parked syncs with COORDINATOR_NOT_AVAILABLE, forget assignments"
    COMPLETE_IF_JOINED = "end the join phase if all members are there"
    END_WAIT = "the timer fired: extend the initial delay, or end the join phase with who is there"
    BEGIN_GENERATION = "choose a protocol, answer all parked joins, wait for syncs"
    FORGET_PROTOCOL = "a new generation without members; store it"
    STORE_ASSIGNMENT = "write the group to the log"
    STORE_TAKEOVER = "write the group to the log, then answer the join"
    HAND_OUT = "members get their assignments, parked syncs are answered"
    DROP_UNSYNCED = "remove the members that did not sync"
    DROP_PENDING = "ids that were handed out are worth nothing any more"


class Row(NamedTuple):
    """One cell of the table."""

    next: State
    effects: tuple[Effect, ...] = ()


_E: Final = Event
_PARK_AND_CHECK: Final = Row(State.PREPARING, (Effect.PARK_JOIN, Effect.COMPLETE_IF_JOINED))
_PARK_AND_START: Final = Row(State.PREPARING, (Effect.PARK_JOIN, Effect.START_JOIN_PHASE))
_GIVE_UP: Final = (Effect.FAIL_SYNCS, Effect.START_JOIN_PHASE)
_PARK_AND_GIVE_UP: Final = Row(State.PREPARING, (Effect.PARK_JOIN, *_GIVE_UP))

_EMPTY: Final[Mapping[Event, Row]] = {
    _E.ADDED: Row(State.PREPARING, (Effect.PARK_JOIN, Effect.START_DELAY)),
    _E.PENDING_GONE: Row(State.EMPTY),
    _E.COMMIT_ALONE: Row(State.EMPTY, (Effect.ANSWER_OK,)),
    _E.DELETE: Row(State.DEAD, (Effect.DROP_PENDING, Effect.ANSWER_OK)),
}

_PREPARING: Final[Mapping[Event, Row]] = {
    _E.ADDED: Row(State.PREPARING, (Effect.PARK_JOIN, Effect.NOTE_NEWCOMER, Effect.COMPLETE_IF_JOINED)),
    _E.REJOINED: _PARK_AND_CHECK,
    _E.LEADER_REJOINED: _PARK_AND_CHECK,
    _E.CHANGED: _PARK_AND_CHECK,
    _E.TAKEN_OVER: _PARK_AND_CHECK,
    _E.TAKEN_OVER_CHANGED: _PARK_AND_CHECK,
    _E.REMOVED: Row(State.PREPARING, (Effect.COMPLETE_IF_JOINED,)),
    _E.PENDING_GONE: Row(State.PREPARING, (Effect.COMPLETE_IF_JOINED,)),
    _E.JOIN_DUE: Row(State.PREPARING, (Effect.END_WAIT,)),
    _E.JOINED: Row(State.COMPLETING, (Effect.BEGIN_GENERATION,)),
    _E.DESERTED: Row(State.EMPTY, (Effect.FORGET_PROTOCOL,)),
    _E.SYNCED: Row(State.PREPARING, (Effect.ANSWER_REBALANCING,)),
    _E.LEADER_SYNCED: Row(State.PREPARING, (Effect.ANSWER_REBALANCING,)),
    _E.HEARTBEAT: Row(State.PREPARING, (Effect.TOUCH, Effect.ANSWER_REBALANCING)),
    _E.COMMIT: Row(State.PREPARING, (Effect.TOUCH, Effect.ANSWER_OK)),
    _E.COMMIT_ALONE: Row(State.PREPARING, (Effect.ANSWER_STRANGER,)),
    _E.DELETE: Row(State.PREPARING, (Effect.ANSWER_NOT_EMPTY,)),
}

_COMPLETING: Final[Mapping[Event, Row]] = {
    _E.ADDED: _PARK_AND_GIVE_UP,
    # The answer to its first join was probably lost, or it would sync now.
    _E.REJOINED: Row(State.COMPLETING, (Effect.TOUCH, Effect.ANSWER_JOIN)),
    _E.LEADER_REJOINED: Row(State.COMPLETING, (Effect.TOUCH, Effect.ANSWER_JOIN)),
    _E.CHANGED: _PARK_AND_GIVE_UP,
    _E.TAKEN_OVER: _PARK_AND_GIVE_UP,
    _E.TAKEN_OVER_CHANGED: _PARK_AND_GIVE_UP,
    _E.REMOVED: Row(State.PREPARING, _GIVE_UP),
    _E.PENDING_GONE: Row(State.COMPLETING),
    _E.SYNCED: Row(State.COMPLETING, (Effect.PARK_SYNC,)),
    _E.LEADER_SYNCED: Row(State.COMPLETING, (Effect.PARK_SYNC, Effect.STORE_ASSIGNMENT)),
    _E.STORED: Row(State.STABLE, (Effect.HAND_OUT,)),
    _E.STORE_FAILED: Row(State.PREPARING, (Effect.FAIL_UNSTORED_SYNCS, Effect.START_JOIN_PHASE)),
    _E.SYNC_DUE: Row(State.PREPARING, (Effect.DROP_UNSYNCED, *_GIVE_UP)),
    _E.HEARTBEAT: Row(State.COMPLETING, (Effect.TOUCH, Effect.ANSWER_OK)),
    # Not ILLEGAL_GENERATION: the member should commit again after its sync instead of starting over.
    _E.COMMIT: Row(State.COMPLETING, (Effect.ANSWER_REBALANCING,)),
    _E.COMMIT_ALONE: Row(State.COMPLETING, (Effect.ANSWER_STRANGER,)),
    _E.DELETE: Row(State.COMPLETING, (Effect.ANSWER_NOT_EMPTY,)),
}

_STABLE: Final[Mapping[Event, Row]] = {
    _E.ADDED: _PARK_AND_START,
    _E.REJOINED: Row(State.STABLE, (Effect.TOUCH, Effect.ANSWER_JOIN)),
    # A leader rejoins only to compute a new assignment (its topics have more partitions now).
    _E.LEADER_REJOINED: _PARK_AND_START,
    _E.CHANGED: _PARK_AND_START,
    _E.TAKEN_OVER: Row(State.STABLE, (Effect.PARK_JOIN, Effect.STORE_TAKEOVER)),
    _E.TAKEN_OVER_CHANGED: _PARK_AND_START,
    _E.REMOVED: Row(State.PREPARING, (Effect.START_JOIN_PHASE,)),
    _E.PENDING_GONE: Row(State.STABLE),
    # Late or repeated: the answer was lost, or this member is slower than the leader.
    _E.SYNCED: Row(State.STABLE, (Effect.TOUCH, Effect.ANSWER_ASSIGNMENT)),
    _E.LEADER_SYNCED: Row(State.STABLE, (Effect.TOUCH, Effect.ANSWER_ASSIGNMENT)),
    _E.SYNC_DUE: Row(State.PREPARING, (Effect.DROP_UNSYNCED, Effect.START_JOIN_PHASE)),
    _E.HEARTBEAT: Row(State.STABLE, (Effect.TOUCH, Effect.ANSWER_OK)),
    _E.COMMIT: Row(State.STABLE, (Effect.TOUCH, Effect.ANSWER_OK)),
    _E.COMMIT_ALONE: Row(State.STABLE, (Effect.ANSWER_STRANGER,)),
    _E.DELETE: Row(State.STABLE, (Effect.ANSWER_NOT_EMPTY,)),
}

TABLE: Final = Table(
    "a group",
    {
        State.EMPTY: _EMPTY,
        State.PREPARING: _PREPARING,
        State.COMPLETING: _COMPLETING,
        State.STABLE: _STABLE,
    },
)

# Requests and answers of the coordinator, as plain data; the front translates messages.
#
# A request that may have to wait carries ``reply``, which is called exactly once, at once or later, unless the client's
# connection closes first (then the call has no effect). They are tuples, not frozen dataclasses: there are several per
# request, and a frozen dataclass takes five times as long to create.

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) of each assignor that a member supports, preferred first."""


class JoinedMember(NamedTuple):
    """A member in the leader's JoinGroup answer."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """The answer to a join.

    ``members`` is filled for the leader only; ``protocol_name`` is None if no generation was entered.
    """

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncAnswer(NamedTuple):
    """The answer to a sync. ``assignment`` is the leader's for this member, empty if it sent none."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Join(NamedTuple):
    """JoinGroup. ``needs_member_id``: a new dynamic member gets an id first and joins with it (v4, KIP-394).

    ``may_skip_assignment``: a returning leader understands SkipAssignment (v9, KIP-814). ``reason``: the client's text
    (v8, KIP-800).
    """

    group: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reply: Callable[[JoinAnswer], None]
    needs_member_id: bool = True
    may_skip_assignment: bool = True
    reason: str = ""


class Sync(NamedTuple):
    """SyncGroup. ``assignments`` by member id, from the leader only; names are None in versions without them."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]
    reply: Callable[[SyncAnswer], None]


class Leaver(NamedTuple):
    """A member that leaves, or is removed by an operator: by member id, or by instance id alone.

    ``reason``: the client's text (v5, KIP-800).
    """

    member_id: str
    instance_id: str | None = None
    reason: str = ""


class CommitIdentity(NamedTuple):
    """The sender of a commit: a member in a generation, or no member (generation -1, no ids). ``host``: its address."""

    group: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None
    host: str | None = None

    @property
    def anonymous(self) -> bool:
        """Whether there is no identity at all: an operator, or a consumer that assigns partitions to itself."""
        return self.generation < 0 and not self.member_id and self.instance_id is None


# The operator's settings for the coordinator, named as Kafka's broker options ``group.*``.
class GroupSettings(Struct, frozen=True, kw_only=True):
    """Defaults are Kafka's, with two exceptions.

    ``initial_rebalance_delay_ms`` is 0 (Kafka: 3000): on a single node, consumers mostly start one by one and their
    users wait for the first record. ``max_size`` is 10 000 members (Kafka: no limit), so that one group's memory is
    bounded. ``new_member_timeout_ms``: a joining member cannot send heartbeats, so its first round has five minutes.
    """

    initial_rebalance_delay_ms: int = 0
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 10_000
    new_member_timeout_ms: int = 300_000


# Limits on groups, and on the memory of their members, which stays occupied after clients have disconnected.
#
# Source: Kafka limits the members of a group (``group.max.size``), but their data by the heap alone.

MEMBER_BYTES = 4_000
"""Memory of a member without data, or of an id that was handed out to a member that has not joined yet. It includes the
member's place in the group, and one waiting JoinGroup or SyncGroup."""
GROUP_BYTES = 2_000
"""Memory of a group without members and offsets."""
_PART_OF_MEMORY = 4
_MAX_GROUPS = 16_000
_NUMBER = 1 << 40
"""No limit on their number: only their bytes are limited here, and members of one group by ``group_max_size``."""

HeldByMembers: TypeAlias = Shares[tuple[str, ...]]
"""By group and member; by "newer", group and member for KIP-848 groups. The owner is the member's host."""


def held_by_members(memory: Memory = UNLIMITED, address_percent: int = ADDRESS_PERCENT) -> HeldByMembers:
    """Counts the members of all groups: a quarter of the memory, of which one address may have its share."""
    return Shares("members of groups", "memory_bytes", _NUMBER, memory, address_percent, _PART_OF_MEMORY)


KeptGroups: TypeAlias = Shares[tuple[str, ...]]
"""By name; by "newer" and name for KIP-848 groups. The owner is the host that created the group; groups from the log
have none."""


def kept_groups(
    most: int = _MAX_GROUPS, memory: Memory = UNLIMITED, address_percent: int = ADDRESS_PERCENT
) -> KeptGroups:
    """Counts the groups of both protocols, with members or without."""
    return Shares("groups", "max_groups", most, memory, address_percent)


def plain_host(client_host: str | None) -> str | None:
    """An address without the slash that Kafka's tools show before it."""
    return None if client_host is None else client_host.removeprefix("/")


# The group and its members; `classic_coordinator` decides.
class Member(Struct):
    """A member. ``join`` and ``sync`` are parked replies; ``is_new``: it has not been in any generation yet.

    ``parked``: the ids of all members of its group with parked joins; shared, so that they need not be counted.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join: Callable[[JoinAnswer], None] | None = None
    sync: Callable[[SyncAnswer], None] | None = None
    is_new: bool = True
    parked: set[str] = field(default_factory=set)

    @property
    def holds(self) -> int:
        """Memory of this member in bytes."""
        brought = sum(len(name) + len(metadata) for name, metadata in self.protocols)
        return MEMBER_BYTES + brought + len(self.assignment) + len(self.member_id) + len(self.instance_id or "")

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for ``protocol``; empty if it does not support it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def park_join(self, reply: Callable[[JoinAnswer], None]) -> None:
        """Keep its join unanswered."""
        self.join = reply
        self.parked.add(self.member_id)

    def answer_join(self, answer: JoinAnswer) -> None:
        """Answer the parked join, if there is one."""
        reply, self.join = self.join, None
        self.parked.discard(self.member_id)
        if reply is not None:
            reply(answer)

    def answer_sync(self, answer: SyncAnswer) -> None:
        """Answer the parked sync, if there is one."""
        reply, self.sync = self.sync, None
        if reply is not None:
            reply(answer)


class InitialDelay(Struct):
    """The wait for more first members: the last delay, and how much may still be added."""

    delay_s: float
    remaining_s: float
    newcomer: bool = False


class Takeover(Struct, frozen=True):
    """A static member's return that waits for the log, with the values to restore if the log refuses."""

    member_id: str
    old_id: str
    old_leader: str
    old_protocols: Protocols
    may_skip_assignment: bool


class Group(Struct):
    """One group. ``state_since_ms`` is the wall clock of the last change of state.

    ``storing`` is the ticket of the assignment that is being written, ``takeovers`` has those of static members.
    ``parked``: members with parked joins; ``supported``: how many members support each assignor. Both are kept up to
    date with each join and leave, because a group of thousands needs them at each join. ``subscribed`` is None if
    members' metadata could not be read. ``kept``: the log has the group or its offsets, so it must not be removed while
    it is empty. ``held``: counts the members' memory.
    """

    group_id: str
    state: State = State.EMPTY
    state_since_ms: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    generation: int = 0
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_ids: dict[str, str] = field(default_factory=dict)
    pending_join: set[str] = field(default_factory=set)
    pending_sync: set[str] = field(default_factory=set)
    parked: set[str] = field(default_factory=set)
    supported: Counter[str] = field(default_factory=Counter)
    initial: InitialDelay | None = None
    subscribed: frozenset[str] | None = None
    brought: dict[str, bytes] = field(default_factory=dict)
    storing: int | None = None
    kept: bool = False
    takeovers: dict[int, Takeover] = field(default_factory=dict)
    held: HeldByMembers = field(default_factory=held_by_members)
    account: Account = field(default_factory=Account)

    @property
    def rebalance_timeout_s(self) -> float:
        """The slowest member's timeout."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0) / 1_000

    @property
    def awaiting_join(self) -> int:
        """The number of members with parked joins."""
        return len(self.parked)

    @property
    def all_joined(self) -> bool:
        """Whether no expected member is missing."""
        return not self.pending_join and len(self.parked) == len(self.members)

    @property
    def blank(self) -> bool:
        """Whether the group can be removed without a loss: nothing of it is stored, and no member is about to join."""
        return self.state is State.EMPTY and not self.kept and not self.members and not self.pending_join

    def identity_fault(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether such a member is in the group (KIP-345): NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if instance_id is not None:
            known = self.static_ids.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a joiner with these assignors can be in one group with all present members."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and any(self._is_common(name) for name, _ in protocols)

    def _is_common(self, protocol: str) -> bool:
        return self.supported[protocol] == len(self.members)

    def select_protocol(self) -> str | None:
        """Each member votes for its first assignor that all support; most votes win, on a tie the first."""
        firsts = (
            next((name for name, _ in member.protocols if self._is_common(name)), None)
            for member in self.members.values()
        )
        votes = Counter(name for name in firsts if name is not None)
        return votes.most_common(1)[0][0] if votes else None

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        """Set a member's assignors and their metadata."""
        self._forget_protocols(member)
        member.protocols = protocols
        self.supported.update(_names(protocols))
        self.weigh(member)

    def _forget_protocols(self, member: Member) -> None:
        for name in _names(member.protocols):
            self.supported[name] -= 1
            if not self.supported[name]:
                del self.supported[name]  # members choose the names: unused ones are not kept

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a new member; the first one sets the protocol type and leads."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        member.parked = self.parked
        self.supported.update(_names(member.protocols))
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.weigh(member)

    def weigh(self, member: Member) -> None:
        """Count a member's present memory."""
        self.held.take((self.group_id, member.member_id), member.client_host, member.holds)

    def hold_in(self, held: HeldByMembers) -> None:
        """Count all members' memory in ``held`` from now on."""
        for member_id in (*self.members, *self.pending_join):
            self.held.drop((self.group_id, member_id))
        self.held = held
        for member in self.members.values():
            self.weigh(member)

    def add_pending(self, member_id: str, host: str) -> None:
        """Note an id that was handed out to a member that has not joined yet."""
        self.pending_join.add(member_id)
        self.held.take((self.group_id, member_id), host, MEMBER_BYTES)

    def remove_pending(self, member_id: str) -> None:
        """Remove such an id: its member joins, or does not come."""
        self.pending_join.remove(member_id)
        self.held.drop((self.group_id, member_id))

    def remove(self, member_id: str) -> Member:
        """Remove a member; if it led, the first remaining one leads."""
        member = self.members.pop(member_id)
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]
        self.pending_sync.discard(member_id)
        self.parked.discard(member_id)
        self._forget_protocols(member)
        self.held.drop((self.group_id, member_id))
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, old_id: str, new_id: str) -> Member:
        """Give a static member another id, at the same place in the order."""
        members = self.members
        member = members[old_id]
        self.members = {new_id if name == old_id else name: each for name, each in members.items()}
        member.member_id = new_id
        self.held.drop((self.group_id, old_id))
        self.weigh(member)
        if old_id in self.parked:
            self.parked.remove(old_id)
            self.parked.add(new_id)
        assert member.instance_id is not None
        self.static_ids[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        self.account.renamed(old_id, new_id)
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        return member

    def roster(self) -> tuple[JoinedMember, ...]:
        """All members with their metadata for the chosen assignor, for the leader."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    def join_answer(self, member: Member) -> JoinAnswer:
        """The answer to ``member`` with the current generation."""
        return JoinAnswer(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader or "",
            members=self.roster() if member.member_id == self.leader else (),
        )

    def sync_answer(self, member: Member) -> SyncAnswer:
        """The stored assignment of ``member``."""
        return SyncAnswer(
            protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment
        )


def _names(protocols: Protocols) -> set[str]:
    """The assignors' names, each once, however often a member lists it."""
    return {name for name, _ in protocols}
