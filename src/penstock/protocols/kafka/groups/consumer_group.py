"""A group of the newer protocol (KIP-848): members, epochs, targets and owners, as data and as journal entries."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from penstock._dataclasses import dataclass
from penstock.errors import PenstockError, ProtocolViolation
from penstock.groups.assignors import Assignor, RangeAssignor, Subscriber
from penstock.groups.rebalance_history import Account
from penstock.groups.state_machine import Key, Table
from penstock.groups.sticky_assignors import StickyAssignor
from penstock.model import Partition
from penstock.protocols.kafka.config import MigrationPolicy
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import Protocols
from penstock.protocols.kafka.wire.consumer_protocol import (
    HIGHEST,
    MemberAssignment,
    Subscription,
    TopicPartitions,
    read_subscription,
    write_assignment,
)
from penstock.protocols.kafka.wire.stored_records import (
    GroupLogKey,
    GroupLogValue,
    LoggedPartitions,
    LoggedProtocol,
    LoggedTopic,
    MemberLogValue,
    read_log_entry,
    write_log_entry,
)
from penstock.records.scalar_codec import Entry

__all__ = [
    "ASSIGNING",
    "ASSIGNORS",
    "AWAY",
    "CONSUMER",
    "EMPTY",
    "JOIN",
    "LEAVE",
    "RECONCILING",
    "STABLE",
    "TABLE",
    "UNIFORM",
    "Beat",
    "BeatAnswer",
    "BeatRefused",
    "ConsumerGroup",
    "ConsumerGroupSettings",
    "ConsumerMember",
    "Effect",
    "Event",
    "MemberState",
    "Older",
    "Place",
    "Row",
    "Stored",
    "Topic",
    "Wanted",
    "assignor_of",
    "entry_of",
    "owned_by",
    "restored",
    "retarget",
    "share",
    "spoken",
]


# The states of a member of a newer group (KIP-848), and what each of its heartbeats does: prose, table.
#
# The coordinator shares out a group's partitions as soon as somebody comes, goes or wants something else; what a member
# is to have in the end is its **target**, and targets have a number, the **target epoch**. Members get there one by one
# and in two steps, because no partition may have two owners. A **STABLE** member has what it was told and nothing more
# to wait for. Whoever has partitions that its target gives to others is told to give them up, and is **UNREVOKED**
# until a heartbeat of its no longer names them; meanwhile it stays in the epoch it is in. Then it enters the target's
# epoch and takes what is free of its target. If some of it still belongs to somebody who has not given it up, it is
# **UNRELEASED**, and takes the rest with a later heartbeat. Partitions that are yet to be given up belong to their
# member as much as those it keeps.
#
# Two rules of this file. First, an event is what a heartbeat finds when it compares what the member has and says with
# its target (`reconcile`); who may beat at all is asked before (`check_beat`). Second, a row says the next state and,
# in order, the effects; a member that leaves, or is not heard of, leaves the group, which needs no state.
#
# Source: KIP-848, "Member Epoch - Reconciliation", and what brokers of 4.3.1 answer.
class MemberState(Key):
    """Values are those of Kafka's records."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


class Event(Key):
    """What a heartbeat finds."""

    ARRIVED = "the member is in the target's epoch"
    STILL_OWNS = "it has not given up what it was told to"
    MUST_REVOKE = "it owns partitions that its target gives to others"
    SOME_HELD = "others own some of what its target gives it"
    ALL_FREE = "all that its target gives it is free or its own"


class Effect(Key):
    """What a row does, in `consumer_transitions`."""

    REVOKE = "keep what the target leaves it; the rest is to be given up, in time"
    TAKE = "own what is free of the target"
    ENTER = "enter the target's epoch"


class Row(NamedTuple):
    """One cell of the table."""

    next: MemberState
    effects: tuple[Effect, ...] = ()


_S: Final = MemberState
_E: Final = Event
_REVOKE: Final = Row(_S.UNREVOKED, (Effect.REVOKE,))
_FORWARD: Final[Mapping[Event, Row]] = {
    _E.MUST_REVOKE: _REVOKE,
    _E.SOME_HELD: Row(_S.UNRELEASED, (Effect.TAKE, Effect.ENTER)),
    _E.ALL_FREE: Row(_S.STABLE, (Effect.TAKE, Effect.ENTER)),
}

TABLE: Final = Table(
    "a member of a newer group",
    {
        _S.STABLE: {_E.ARRIVED: Row(_S.STABLE), **_FORWARD},
        _S.UNREVOKED: {_E.STILL_OWNS: Row(_S.UNREVOKED), **_FORWARD},
        # Being in the target's epoch is not enough: what it waits for may be free now.
        _S.UNRELEASED: _FORWARD,
    },
)

# What the coordinator of newer groups is asked and what it answers, as plain data; the front translates messages.
JOIN: Final = 0
LEAVE: Final = -1
AWAY: Final = -2
"""Member epochs that say what a heartbeat is for: a member comes, goes, or goes for a while (static members only)."""

Place: TypeAlias = tuple[bytes, int]
"""A partition: its topic's id, its number."""


class Topic(NamedTuple):
    """A topic as groups see it: its id, its number of partitions."""

    id: bytes
    partitions: int


class Wanted(NamedTuple):
    """Topics that the coordinator has to be told of: those of these names, or every one."""

    names: frozenset[str]
    every: bool

    def covers(self, other: Wanted) -> bool:
        """Whoever was told of these was told of the others, too."""
        return self.every or (not other.every and other.names <= self.names)


class BeatRefused(PenstockError):
    """A heartbeat that cannot be served: the code, and what its sender should know."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """ConsumerGroupHeartbeat. None (-1 for ``rebalance_timeout_ms``) says that nothing has changed since the last one.

    ``pattern``: a regular expression of topic names, "" for none. ``needs_member_id``: its sender chose its id (v1).
    """

    group: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int = -1
    names: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: frozenset[Place] | None = None
    client_id: str = ""
    client_host: str = ""
    needs_member_id: bool = True

    @property
    def subscribes(self) -> bool:
        """It says what it wants to read."""
        return self.names is not None or self.pattern is not None

    @property
    def full(self) -> bool:
        """It says everything, as members do that do not know what was heard of them: it is answered with everything."""
        return self.epoch == JOIN or (self.rebalance_timeout_ms != -1 and self.subscribes and self.owned is not None)


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    """``assigned`` is None where it is as the member knows it."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assigned: Collection[Place] | None = None


# What an operator may choose about groups of the newer protocol, named as Kafka's options ``group.consumer.*``.
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """Defaults are Kafka's, but for ``max_size`` (see `GroupSettings`).

    ``assignment_interval_ms``: how long a group of ``large_from`` members and more waits from one sharing out to the
    next, as all groups of a real broker do: each costs tens of milliseconds there, and a thousand members who join
    would cause a thousand of them. Smaller groups do not wait, so that a second member has its share at once.
    ``refresh_ms``: how long a group may go on without looking whether its topics have changed; a real broker is told.
    ``min_…`` and ``max_…`` bound what may be said for single groups.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 10_000
    assignment_interval_ms: int = 1_000
    large_from: int = 30
    refresh_ms: int = 1_000
    min_session_timeout_ms: int = 45_000
    max_session_timeout_ms: int = 60_000
    min_heartbeat_interval_ms: int = 5_000
    max_heartbeat_interval_ms: int = 15_000
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL


# What members of the older protocol say of themselves, inside JoinGroup: wants, and what they own; and their shares.
#
# Members of both protocols meet in a group of the newer one while it is converted (KIP-848, "Upgrading to the new
# protocol").
CONSUMER = "consumer"
"""The protocol type whose members can be in a group of the newer protocol."""
_VERSION = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class Older:
    """A member that speaks the older protocol: what it can follow, preferred first, and how long it may be silent."""

    session_timeout_ms: int
    protocols: Protocols

    @property
    def protocol(self) -> str:
        """The one whose form its shares have."""
        return self.protocols[0][0]

    @property
    def metadata(self) -> bytes:
        """What it says of itself; the same in each of its protocols."""
        return self.protocols[0][1]


def spoken(protocols: Protocols) -> Subscription:
    """What a member wants and owns. Raises ProtocolViolation where nobody can tell."""
    return read_subscription(protocols[0][1] if protocols else b"")


def owned_by(subscription: Subscription, topics: Mapping[str, Topic]) -> frozenset[Place]:
    """What it says that it owns, as far as there are such topics."""
    return frozenset(
        (topics[each.topic].id, number)
        for each in subscription.owned_partitions
        if each.topic in topics
        for number in each.partitions
    )


def share(places: Iterable[Place], names: Mapping[bytes, str], metadata: bytes) -> bytes:
    """Partitions as the member with that ``metadata`` reads them: in the version that it writes itself.

    Those of topics without a name here are left out.
    """
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        if topic in names:
            found.setdefault(names[topic], []).append(number)
    parts = [TopicPartitions(topic=name, partitions=numbers) for name, numbers in sorted(found.items())]
    version = min(_VERSION.unpack_from(metadata)[0], HIGHEST)
    return write_assignment(MemberAssignment(assigned_partitions=parts), version)


# A group of the newer protocol: its members, epochs, targets and owners, and questions about them.
EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"
"""What the states of a group are called on the wire."""


@dataclass(slots=True)
class ConsumerMember:
    """``assigned`` and ``pending`` (yet to be given up) are by the epoch in which the member got them; both are its.

    ``epoch`` is -2 while a static member is away. ``target``: what it is to have in the group's target epoch.
    ``older``: it speaks the older protocol, whose generation its epoch is; to be changed by `ConsumerGroup.speak`.
    """

    member_id: str
    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    names: tuple[str, ...] = ()
    pattern: str = ""
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: dict[Place, int] = field(default_factory=dict)
    pending: dict[Place, int] = field(default_factory=dict)
    target: frozenset[Place] = frozenset()
    older: Older | None = None

    @property
    def owned(self) -> Iterable[Place]:
        """All that nobody else may have."""
        return chain(self.assigned, self.pending)


@dataclass(slots=True)
class ConsumerGroup:
    """``topics``: those that members want, as far as they exist; ``matched``: those that a pattern means, by name.

    ``owners``: who has a partition, or has yet to give it up. ``lagging``: members that are not yet where the target
    wants them. ``older``: how many members speak the older protocol; ``supported``: how many of them know each of its
    protocols; counted, as in groups of that. ``refresh_at``: when topics are to be looked at again, ``assign_at``: when
    a large group may be shared out again, in seconds of the monotonic clock.
    """

    group_id: str
    epoch: int = 1
    target_epoch: int = 0
    assignor: str = ""
    topics: Mapping[str, Topic] = field(default_factory=dict)
    matched: dict[str, frozenset[str]] = field(default_factory=dict)
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_ids: dict[str, str] = field(default_factory=dict)
    owners: dict[Place, str] = field(default_factory=dict)
    lagging: set[str] = field(default_factory=set)
    older: int = 0
    supported: Counter[str] = field(default_factory=Counter)
    refresh_at: float = 0.0
    assign_at: float = 0.0
    rebalancing: bool = False
    account: Account = field(default_factory=Account)

    @property
    def state(self) -> str:
        """As the wire calls it."""
        if not self.members:
            return EMPTY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        return RECONCILING if self.lagging else STABLE

    @property
    def has_patterns(self) -> bool:
        """Some members want all topics of a pattern."""
        return any(each.pattern for each in self.members.values())

    def wanted_by(self, member: ConsumerMember) -> frozenset[str]:
        """Names of the topics that a member wants, whether they exist or not."""
        names = frozenset(member.names)
        return names | self.matched.get(member.pattern, frozenset()) if member.pattern else names

    def wanted(self) -> frozenset[str]:
        """Names of the topics that somebody wants; most members want the same, which is looked at once."""
        names = chain.from_iterable({each.names for each in self.members.values()})
        patterns = {each.pattern for each in self.members.values() if each.pattern}
        return frozenset(names).union(*(self.matched.get(each, frozenset()) for each in patterns))

    def add(self, member: ConsumerMember) -> None:
        """Take in a member, with all that it owns."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.owners.update(dict.fromkeys(member.owned, member.member_id))
        self._count(member.older, 1)
        self.note_whether_lagging(member)

    def remove(self, member_id: str) -> ConsumerMember:
        """Take a member out; what it owned is free."""
        member = self.members.pop(member_id)
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]
        for place in member.owned:
            del self.owners[place]
        self._count(member.older, -1)
        self.lagging.discard(member_id)
        return member

    def replace(self, old_id: str, new_id: str) -> ConsumerMember:
        """A static member goes on under another id, in the same place of the order, and has to join."""
        order = [new_id if name == old_id else name for name in self.members]
        member = self.remove(old_id)
        member.member_id, member.epoch, member.previous_epoch = new_id, 0, 0
        member.state = MemberState.STABLE
        self.add(member)
        self.members = {name: self.members[name] for name in order}
        self.account.renamed(old_id, new_id)
        return member

    def speak(self, member: ConsumerMember, older: Older | None) -> None:
        """The member speaks that protocol from now on, None for the newer one."""
        self._count(member.older, -1)
        member.older = older
        self._count(older, 1)

    def _count(self, older: Older | None, by: int) -> None:
        if older is None:
            return
        self.older += by
        for name in {name for name, _ in older.protocols}:
            self.supported[name] += by
            if not self.supported[name]:
                del self.supported[name]  # members choose the names: those of none are not kept

    def supports(self, protocols: Protocols) -> bool:
        """Whether one of these is known to all members of the older protocol."""
        return any(self.supported[name] == self.older for name, _ in protocols)

    def own(self, member: ConsumerMember, assigned: dict[Place, int], pending: dict[Place, int]) -> None:
        """The member owns this now, and nothing else."""
        for place in member.owned:
            del self.owners[place]
        member.assigned, member.pending = assigned, pending
        self.owners.update(dict.fromkeys(member.owned, member.member_id))

    def note_whether_lagging(self, member: ConsumerMember) -> None:
        """After the member moved, or the target did."""
        if member.state is MemberState.STABLE and member.epoch == self.target_epoch:
            self.lagging.discard(member.member_id)
        else:
            self.lagging.add(member.member_id)


# Targets: what each member of a group is to have, by the assignor that most of its members ask for.
#
# ``uniform`` gives all members as many partitions as the others, and moves as few as it can; ``range`` gives each
# topic's partitions in runs. They are the same functions that members of older groups use (`groups`).
UNIFORM: Final = "uniform"
ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: StickyAssignor(), "range": RangeAssignor()}
"""By the names that members ask for; the first one where nobody asks."""


def assignor_of(group: ConsumerGroup) -> str:
    """What most of those want who want one; the first in the list of all on a tie."""
    votes = Counter(member.assignor for member in group.members.values() if member.assignor is not None)
    return max(ASSIGNORS, key=lambda name: votes[name])


def retarget(group: ConsumerGroup) -> list[ConsumerMember]:
    """Share out anew, for the group's present epoch; the members whose target has changed."""
    group.assignor = assignor_of(group)
    members = list(group.members.values())
    partitions = {
        name: [Partition(name, number) for number in range(topic.partitions)] for name, topic in group.topics.items()
    }
    shares = ASSIGNORS[group.assignor].assign([_subscriber(group, each) for each in members], partitions, {})
    group.target_epoch = group.epoch
    changed = []
    for member in members:
        target = frozenset((group.topics[each.topic].id, each.id) for each in shares.get(member.member_id, ()))
        if target != member.target:
            member.target = target
            changed.append(member)
        group.note_whether_lagging(member)
    return changed


def _subscriber(group: ConsumerGroup, member: ConsumerMember) -> Subscriber:
    names = {topic.id: name for name, topic in group.topics.items()}
    return Subscriber(
        member.member_id,
        frozenset(name for name in group.wanted_by(member) if name in group.topics),
        member.instance_id,
        frozenset(Partition(names[place[0]], place[1]) for place in member.target if _there(group, names, place)),
        group.target_epoch,
        member.rack,
    )


def _there(group: ConsumerGroup, names: Mapping[bytes, str], place: Place) -> bool:
    return place[0] in names and place[1] < group.topics[names[place[0]]].partitions


# Groups of the newer protocol as entries of a journal, and back: one of the group, one of each member.
#
# After a restart epochs, owners and targets are what they were: members go on with their next heartbeat, and nobody
# notices.
class Stored:
    """Entries as they stand in the log, the last of each key: taken in one by one."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupLogValue] = {}
        self.members: dict[tuple[str, str], MemberLogValue] = {}

    def take(self, key: bytes, value: bytes | None) -> None:
        """An entry. Raises ProtocolViolation for one that is damaged."""
        about = read_log_entry(GroupLogKey, key)
        if about.member is None:
            self.groups.pop(about.group, None)
            if value is not None:
                self.groups[about.group] = read_log_entry(GroupLogValue, value)
        else:
            self.members.pop((about.group, about.member), None)
            if value is not None:
                self.members[about.group, about.member] = read_log_entry(MemberLogValue, value)


def entry_of(group_id: str, member_id: str | None, group: ConsumerGroup | None) -> Entry:
    """What is to be written of a group (``member_id`` None) or of a member: without a value where it is gone."""
    value = None
    if group is not None and member_id is None:
        value = write_log_entry(_group_value(group))
    elif group is not None and member_id is not None and member_id in group.members:
        value = write_log_entry(_member_value(group.members[member_id]))
    return write_log_entry(GroupLogKey(group=group_id, member=member_id)), value


def _group_value(group: ConsumerGroup) -> GroupLogValue:
    topics = [LoggedTopic(name=name, topic_id=it.id, partitions=it.partitions) for name, it in group.topics.items()]
    return GroupLogValue(epoch=group.epoch, target_epoch=group.target_epoch, assignor=group.assignor, topics=topics)


def _member_value(member: ConsumerMember) -> MemberLogValue:
    return MemberLogValue(
        instance_id=member.instance_id,
        rack=member.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        names=member.names,
        pattern=member.pattern,
        assignor=member.assignor,
        epoch=member.epoch,
        previous_epoch=member.previous_epoch,
        state=member.state.value,
        assigned=_logged(member.assigned),
        pending=_logged(member.pending),
        target=_logged(dict.fromkeys(member.target, 0)),
        older_session_timeout_ms=-1 if member.older is None else member.older.session_timeout_ms,
        older_protocols=[] if member.older is None else _protocols(member.older),
    )


def _protocols(older: Older) -> list[LoggedProtocol]:
    return [LoggedProtocol(name=name, metadata=metadata) for name, metadata in older.protocols]


def _logged(places: Mapping[Place, int]) -> list[LoggedPartitions]:
    together: dict[tuple[bytes, int], list[int]] = {}
    for (topic, number), epoch in sorted(places.items()):
        together.setdefault((topic, epoch), []).append(number)
    return [
        LoggedPartitions(topic_id=topic, epoch=epoch, partitions=numbers)
        for (topic, epoch), numbers in together.items()
    ]


def restored(stored: Stored) -> Iterable[ConsumerGroup]:
    """The groups of a log. Raises ProtocolViolation."""
    groups = {name: _group(name, value) for name, value in stored.groups.items()}
    for (name, member_id), value in stored.members.items():
        group = groups.get(name)
        if group is None:
            raise ProtocolViolation(f"stored member {member_id!r} of group {name!r} has no group")
        group.add(_member(member_id, value))
    return groups.values()


def _group(name: str, value: GroupLogValue) -> ConsumerGroup:
    topics = {each.name: Topic(bytes(each.topic_id), each.partitions) for each in value.topics}
    return ConsumerGroup(name, value.epoch, value.target_epoch, value.assignor, topics)


def _member(member_id: str, value: MemberLogValue) -> ConsumerMember:
    return ConsumerMember(
        member_id,
        instance_id=value.instance_id,
        rack=value.rack,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        names=tuple(value.names),
        pattern=value.pattern,
        assignor=value.assignor,
        epoch=value.epoch,
        previous_epoch=value.previous_epoch,
        state=MemberState(value.state),
        assigned=dict(_placed(value.assigned)),
        pending=dict(_placed(value.pending)),
        target=frozenset(place for place, _ in _placed(value.target)),
        older=_older(value),
    )


def _older(value: MemberLogValue) -> Older | None:
    if not value.older_protocols:
        return None
    protocols = tuple((each.name, bytes(each.metadata)) for each in value.older_protocols)
    return Older(value.older_session_timeout_ms, protocols)


def _placed(logged: Iterable[LoggedPartitions]) -> Iterable[tuple[Place, int]]:
    return [((bytes(each.topic_id), number), each.epoch) for each in logged for number in each.partitions]
