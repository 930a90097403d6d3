"""A KIP-848 group as data.

The module has a member's state table, heartbeats and their answers, settings, the group with its members, epochs,
targets and owners, the computation of targets, and the group's journal entries.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field

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


# The states of a KIP-848 member, and the effect of its heartbeats.
#
# The coordinator assigns a group's partitions as soon as a member joins, leaves or changes its subscription. A member's
# assignment is its **target**, and targets have a number, the **target epoch**. Members reach their targets one by one
# and in two steps, because no partition may have two owners. A **STABLE** member owns all that it may have at present.
# A member whose target gives some of its partitions to others is asked to revoke them, and is **UNREVOKED** until a
# heartbeat no longer lists them; meanwhile it stays in its epoch. Then it enters the target's epoch and takes the free
# partitions of its target. If others have not revoked some of these yet, it is **UNRELEASED**, and takes the rest with
# a later heartbeat. Partitions to be revoked belong to their member as much as those it keeps.
#
# Two rules of this file. First, an event is the result of comparing a heartbeat and the member with its target
# (`reconcile`); `check_beat` has decided before whether the heartbeat is valid. Second, a row has the next state and
# the effects, in order; a member that leaves or expires is removed from the group, which needs no state.
#
# Source: KIP-848, "Member Epoch - Reconciliation", and the answers of 4.3.1 brokers.
class MemberState(Key):
    """A member's state. The values are those of Kafka's records."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


class Event(Key):
    """The result of a heartbeat's comparison with the target."""

    ARRIVED = "the member is in the target's epoch"
    STILL_OWNS = "it has not given up what it must"
    MUST_REVOKE = "it owns partitions that its target gives to others"
    SOME_HELD = "others own some of what its target gives it"
    ALL_FREE = "all that its target gives it is free or its own"


class Effect(Key):
    """The actions of a row, in `consumer_transitions`."""

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
        # Being in the target's epoch is not enough: the missing partitions may be free now.
        _S.UNRELEASED: _FORWARD,
    },
)

# Requests and answers of the KIP-848 coordinator as plain data; the front translates messages.
JOIN: Final = 0
LEAVE: Final = -1
AWAY: Final = -2
"""Member epochs with a meaning of their own: a member joins, leaves, or leaves for a while (static members only)."""

Place: TypeAlias = tuple[bytes, int]
"""A partition: its topic's id and its number."""


class Topic(NamedTuple):
    """A topic as groups see it: its id and its number of partitions."""

    id: bytes
    partitions: int


class Wanted(NamedTuple):
    """The topics that the coordinator needs: those with these names, or all."""

    names: frozenset[str]
    every: bool

    def covers(self, other: Wanted) -> bool:
        """Whether these topics include the others."""
        return self.every or (not other.every and other.names <= self.names)


class BeatRefused(PenstockError):
    """A refused heartbeat: the error code, and a text for its sender."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Beat(Struct, frozen=True, kw_only=True):
    """ConsumerGroupHeartbeat. None (-1 for ``rebalance_timeout_ms``) means unchanged since the last one.

    ``pattern``: a regular expression for topic names, "" for none. ``needs_member_id``: the sender chose its id (v1).
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
        """Whether it has a subscription."""
        return self.names is not None or self.pattern is not None

    @property
    def full(self) -> bool:
        """Whether all fields are present, as after a lost answer: the response then always has the assignment."""
        return self.epoch == JOIN or (self.rebalance_timeout_ms != -1 and self.subscribes and self.owned is not None)


class BeatAnswer(Struct, frozen=True):
    """The answer to a heartbeat. ``assigned`` is None if it is unchanged."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assigned: Collection[Place] | None = None


# The operator's settings for KIP-848 groups, named as Kafka's options ``group.consumer.*``.
class ConsumerGroupSettings(Struct, frozen=True, kw_only=True):
    """Defaults are Kafka's, except ``max_size`` (see `GroupSettings`).

    ``assignment_interval_ms``: how long a group of ``large_from`` members and more waits between two assignments, as
    all groups of a real broker do: each assignment costs tens of milliseconds there, and a thousand joins would cause a
    thousand of them. Smaller groups do not wait, so that a second member gets its partitions at once. ``refresh_ms``:
    how often a group checks whether its topics have changed; a real broker is notified. ``min_…`` and ``max_…`` bound
    the settings of single groups.
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


# Members of the classic protocol in a KIP-848 group: the metadata in their JoinGroup, and their assignments.
#
# Members of both protocols meet in a KIP-848 group while it is converted (KIP-848, "Upgrading to the new protocol").

CONSUMER = "consumer"
"""The protocol type whose members can be in a KIP-848 group."""
_VERSION = struct.Struct(">h")


class Older(Struct, frozen=True):
    """A member of the classic protocol: its assignors, preferred first, and its session timeout."""

    session_timeout_ms: int
    protocols: Protocols

    @property
    def protocol(self) -> str:
        """The assignor whose format its assignments have."""
        return self.protocols[0][0]

    @property
    def metadata(self) -> bytes:
        """Its subscription, which is the same for each of its assignors."""
        return self.protocols[0][1]


def spoken(protocols: Protocols) -> Subscription:
    """A member's subscription. Raises ProtocolViolation if it cannot be read."""
    return read_subscription(protocols[0][1] if protocols else b"")


def owned_by(subscription: Subscription, topics: Mapping[str, Topic]) -> frozenset[Place]:
    """The partitions it reports as owned, of topics that exist."""
    return frozenset(
        (topics[each.topic].id, number)
        for each in subscription.owned_partitions
        if each.topic in topics
        for number in each.partitions
    )


def share(places: Iterable[Place], names: Mapping[bytes, str], metadata: bytes) -> bytes:
    """Encode an assignment for the member with that ``metadata``, in the version that the metadata has.

    Topics that are missing in ``names`` are left out.
    """
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        if topic in names:
            found.setdefault(names[topic], []).append(number)
    parts = [TopicPartitions(topic=name, partitions=numbers) for name, numbers in sorted(found.items())]
    version = min(_VERSION.unpack_from(metadata)[0], HIGHEST)
    return write_assignment(MemberAssignment(assigned_partitions=parts), version)


# A KIP-848 group: its members, epochs, targets and owners.
EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"
"""A group's states by their names on the wire."""


class ConsumerMember(Struct):
    """A member of a KIP-848 group.

    ``assigned`` and ``pending`` (still to be revoked) map partitions to the epoch in which the member got them. The
    member owns both. ``epoch`` is -2 while a static member is away. ``target``: its assignment in the group's
    target epoch. ``older``: set for a member of the classic protocol, whose generation is its epoch; change it with
    `ConsumerGroup.speak`.
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
        """All partitions that no other member may have."""
        return chain(self.assigned, self.pending)


class ConsumerGroup(Struct):
    """A KIP-848 group.

    ``topics``: the subscribed topics that exist; ``matched``: the matching topics by pattern. ``owners``: by partition,
    including those still to be revoked. ``lagging``: members that have not reached their target. ``older``: the number
    of members of the classic protocol; ``supported``: how many of them support each assignor, counted as in classic
    groups. ``refresh_at``: when topics are checked again, ``assign_at``: when a large group may get new targets, in
    seconds of the monotonic clock.
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
        """The state by its name on the wire."""
        if not self.members:
            return EMPTY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        return RECONCILING if self.lagging else STABLE

    @property
    def has_patterns(self) -> bool:
        """Whether some member has a pattern."""
        return any(each.pattern for each in self.members.values())

    def wanted_by(self, member: ConsumerMember) -> frozenset[str]:
        """Names of the topics that a member subscribes to, whether they exist or not."""
        names = frozenset(member.names)
        return names | self.matched.get(member.pattern, frozenset()) if member.pattern else names

    def wanted(self) -> frozenset[str]:
        """Names of all subscribed topics; equal subscriptions, which most members have, are looked at once."""
        names = chain.from_iterable({each.names for each in self.members.values()})
        patterns = {each.pattern for each in self.members.values() if each.pattern}
        return frozenset(names).union(*(self.matched.get(each, frozenset()) for each in patterns))

    def add(self, member: ConsumerMember) -> None:
        """Add a member, with all that it owns."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.owners.update(dict.fromkeys(member.owned, member.member_id))
        self._count(member.older, 1)
        self.note_whether_lagging(member)

    def remove(self, member_id: str) -> ConsumerMember:
        """Remove a member; its partitions become free."""
        member = self.members.pop(member_id)
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]
        for place in member.owned:
            del self.owners[place]
        self._count(member.older, -1)
        self.lagging.discard(member_id)
        return member

    def replace(self, old_id: str, new_id: str) -> ConsumerMember:
        """Continue a static member under another id, at the same place in the order; it has to join."""
        order = [new_id if name == old_id else name for name in self.members]
        member = self.remove(old_id)
        member.member_id, member.epoch, member.previous_epoch = new_id, 0, 0
        member.state = MemberState.STABLE
        self.add(member)
        self.members = {name: self.members[name] for name in order}
        self.account.renamed(old_id, new_id)
        return member

    def speak(self, member: ConsumerMember, older: Older | None) -> None:
        """Set the member's protocol: None for the newer one."""
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
                del self.supported[name]  # members choose the names: unused ones are not kept

    def supports(self, protocols: Protocols) -> bool:
        """Whether all members of the classic protocol support one of these."""
        return any(self.supported[name] == self.older for name, _ in protocols)

    def own(self, member: ConsumerMember, assigned: dict[Place, int], pending: dict[Place, int]) -> None:
        """Set the partitions that the member owns."""
        for place in member.owned:
            del self.owners[place]
        member.assigned, member.pending = assigned, pending
        self.owners.update(dict.fromkeys(member.owned, member.member_id))

    def note_whether_lagging(self, member: ConsumerMember) -> None:
        """Call this after the member or the target has changed."""
        if member.state is MemberState.STABLE and member.epoch == self.target_epoch:
            self.lagging.discard(member.member_id)
        else:
            self.lagging.add(member.member_id)


# Targets: each member's assignment, by the assignor that most members ask for.
#
# ``uniform`` gives all members equally many partitions, and moves as few as possible; ``range`` gives each topic's
# partitions in runs. They are the assignors of `penstock.groups`, as in classic groups.

UNIFORM: Final = "uniform"
ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: StickyAssignor(), "range": RangeAssignor()}
"""By the names that members ask for; the first one is the default."""


def assignor_of(group: ConsumerGroup) -> str:
    """The assignor with the most votes; on a tie the first in the table."""
    votes = Counter(member.assignor for member in group.members.values() if member.assignor is not None)
    return max(ASSIGNORS, key=lambda name: votes[name])


def retarget(group: ConsumerGroup) -> list[ConsumerMember]:
    """Compute targets for the group's present epoch; returns the members whose target has changed."""
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


# Journal entries of KIP-848 groups: one for the group and one for each member.
#
# After a restart epochs, owners and targets are as before: members continue with their next heartbeat, without
# noticing.
class Stored:
    """The entries of the log, read one by one; the last one of each key wins."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupLogValue] = {}
        self.members: dict[tuple[str, str], MemberLogValue] = {}

    def take(self, key: bytes, value: bytes | None) -> None:
        """Add an entry. Raises ProtocolViolation for a damaged one."""
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
    """The entry of a group (``member_id`` None) or of a member; without a value if it is gone."""
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
