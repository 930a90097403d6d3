"""Transitions of KIP-848 groups.

The module has a member's steps towards its target (`reconcile`), the history of rebalances, the conversion to and from
classic groups, regular expressions, and `Steps`, which holds deadlines and unwritten changes for both protocols.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.concurrency.runtime import Deadlines
from penstock.errors import ProtocolViolation
from penstock.groups.rebalance_history import Read
from penstock.groups.state_machine import Key
from penstock.interfaces.admin import Rebalance, RebalanceCause, RebalanceReason
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import Group, Member, State
from penstock.protocols.kafka.groups.classic_transitions import Moment, partitions_of, subscribed_topics, topics_of
from penstock.protocols.kafka.groups.consumer_group import (
    CONSUMER,
    EMPTY,
    STABLE,
    TABLE,
    BeatRefused,
    ConsumerGroup,
    ConsumerGroupSettings,
    ConsumerMember,
    Effect,
    Event,
    MemberState,
    Older,
    Place,
    Topic,
    entry_of,
    retarget,
    share,
)
from penstock.protocols.kafka.wire.consumer_protocol import read_assignment, read_subscription
from penstock.records.scalar_codec import Entry

__all__ = [
    "Adopt",
    "Due",
    "Steps",
    "Wait",
    "account_begun",
    "account_cause",
    "account_change",
    "account_deserted",
    "account_moved",
    "account_restored",
    "at_rest",
    "flaw_of",
    "matching",
    "newer_group",
    "older_group",
    "reconcile",
    "topics_of_group",
    "waits_for_others",
]


# One step of a member towards its target: its heartbeat and the other members' partitions become an event, then a row.
#
# Source: KIP-848, "Member Epoch - Reconciliation".
def reconcile(group: ConsumerGroup, member: ConsumerMember, says: Collection[Place] | None) -> bool:
    """Move a member one step towards its target. Returns whether anything has changed.

    ``says``: the partitions that the member reports as owned; None if its request does not report them.
    """
    before = (member.state, member.epoch, member.previous_epoch, member.assigned, member.pending)
    row = TABLE[member.state, _event(group, member, says)]
    for effect in row.effects:
        _ACTS[effect](group, member)
    member.state = row.next
    group.note_whether_lagging(member)
    return before != (member.state, member.epoch, member.previous_epoch, member.assigned, member.pending)


def _event(group: ConsumerGroup, member: ConsumerMember, says: Collection[Place] | None) -> Event:
    if member.state is MemberState.UNREVOKED and _still_owns(member.pending, says):
        return Event.STILL_OWNS
    if member.state is MemberState.STABLE and member.epoch == group.target_epoch:
        return Event.ARRIVED
    leaving = member.assigned.keys() - member.target
    if leaving and _still_owns(leaving, says):
        return Event.MUST_REVOKE
    return Event.SOME_HELD if any(_held(group, member, each) for each in member.target) else Event.ALL_FREE


def waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether all partitions that the member still waits for are owned by others."""
    return all(_held(group, member, each) for each in member.target if each not in member.assigned)


def _still_owns(places: Collection[Place], says: Collection[Place] | None) -> bool:
    return says is None or any(each in places for each in says)


def _held(group: ConsumerGroup, member: ConsumerMember, place: Place) -> bool:
    return group.owners.get(place, member.member_id) != member.member_id


def _revoke(group: ConsumerGroup, member: ConsumerMember) -> None:
    kept = {place: since for place, since in member.assigned.items() if place in member.target}
    leaving = {place: since for place, since in member.assigned.items() if place not in member.target}
    group.own(member, kept, leaving)
    member.previous_epoch = member.epoch


def _take(group: ConsumerGroup, member: ConsumerMember) -> None:
    free = [place for place in sorted(member.target) if not _held(group, member, place)]
    group.own(member, {place: member.assigned.get(place, group.target_epoch) for place in free}, {})


def _enter(group: ConsumerGroup, member: ConsumerMember) -> None:
    # Also if the epoch stays the same: the previous one must not be accepted any more.
    member.previous_epoch, member.epoch = member.epoch, group.target_epoch


_ACTS: Final[Mapping[Effect, Callable[[ConsumerGroup, ConsumerMember], None]]] = {
    Effect.REVOKE: _revoke,
    Effect.TAKE: _take,
    Effect.ENTER: _enter,
}

# The history of rebalances: one begins with a new group epoch and ends when all members have reached their targets.
#
# A rebalance that is overtaken by another one counts as one rebalance with it.

OnRebalance = Callable[[str, Rebalance], None]
_PLACE: Final = struct.Struct(">16si")


def account_cause(group: ConsumerGroup, why: RebalanceCause, member: ConsumerMember, after_ms: int = 0) -> None:
    """Note the cause of a rebalance that is about to begin, or that takes longer because of it."""
    group.account.note(RebalanceReason(why, member.member_id, member.client_id, after_ms))


def account_change(group: ConsumerGroup, member: ConsumerMember, *, topics: bool) -> None:
    """Note that a member's subscription has changed, or with ``topics`` that its topics have."""
    if topics:
        account_cause(group, RebalanceCause.TOPICS_CHANGED, member)
    elif member.epoch:
        account_cause(group, RebalanceCause.CHANGED, member)


def account_begun(group: ConsumerGroup, now: Moment) -> None:
    """Note that the group has a new epoch: a rebalance begins, unless one is in progress."""
    if not group.rebalancing:
        group.account.begin(now.monotonic, now.wall_ms)
        group.rebalancing = True


def account_moved(group: ConsumerGroup, member: ConsumerMember, now: Moment, on_rebalance: OnRebalance) -> None:
    """Note a member's step. If all members have reached their targets, the rebalance is finished and reported."""
    if not group.rebalancing or member.member_id in group.lagging:
        return
    group.account.joined(member.member_id)
    if group.state == STABLE:
        group.rebalancing = False
        group.account.formed(now.monotonic, group.epoch, len(group.members), "", group.assignor)
        owned = {each.member_id: _written(each.assigned) for each in group.members.values()}
        over = group.account.assigned(now.monotonic, owned, _reader(group))
        if over is not None:
            on_rebalance(group.group_id, over)


def account_deserted(group: ConsumerGroup, now: Moment, on_rebalance: OnRebalance) -> None:
    """Note that a member has left. If it was the last one, the rebalance ends."""
    if group.state == EMPTY and group.rebalancing:
        group.rebalancing = False
        over = group.account.deserted(now.monotonic, group.epoch)
        if over is not None:
            on_rebalance(group.group_id, over)


def account_restored(group: ConsumerGroup) -> None:
    """Continue from the members' present partitions."""
    group.account.restored({each.member_id: _written(each.assigned) for each in group.members.values()})


def _written(places: Iterable[Place]) -> bytes:
    return b"".join(_PLACE.pack(*place) for place in sorted(places))


def _reader(group: ConsumerGroup) -> Read:
    names = {topic.id: name for name, topic in group.topics.items()}

    def read(assignment: bytes) -> frozenset[Partition]:
        places = _PLACE.iter_unpack(assignment)
        return frozenset(Partition(names[topic], number) for topic, number in places if topic in names)

    return read


# Conversion of groups with members between the protocols. The result is a new object; the group itself is unchanged.
#
# Source: KIP-848, "Group Upgrade/Downgrade", and the answers of 4.3.1 brokers.
def topics_of_group(group: Group) -> frozenset[str]:
    """The names of topics that `newer_group` needs: those that members subscribe to or are assigned."""
    found: set[str] = set()
    for member in group.members.values():
        found |= topics_of(_metadata(group, member)) or frozenset()
        found |= {each.topic for each in partitions_of(member.assignment) or ()}
    return frozenset(found)


def newer_group(group: Group, topics: Mapping[str, Topic], settings: ConsumerGroupSettings) -> ConsumerGroup:
    """A classic group as a KIP-848 group: the same members, with their last assignments.

    ``topics``: those of `topics_of_group` that exist, and perhaps others. Raises BeatRefused if the group must stay as
    it is.
    """
    if not settings.migration_policy.upgrades:
        raise _refused(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER:
        raise _refused(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > settings.max_size:
        raise _refused(group, "the group size exceeds the consumer group maximum size.")
    made = ConsumerGroup(group.group_id, group.generation, group.generation, account=group.account)
    for member in group.members.values():
        try:
            made.add(_member(group, member, topics, made.owners))
        except ProtocolViolation:
            raise _refused(group, "the embedded consumer protocol is malformed.") from None
    wanted = made.wanted()
    made.topics = {name: topic for name, topic in sorted(topics.items()) if name in wanted}
    account_restored(made)
    return made


def _refused(group: Group, why: str) -> BeatRefused:
    text = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    return BeatRefused(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _metadata(group: Group, member: Member) -> bytes:
    """A member's metadata, also before its first round has chosen a protocol."""
    return member.metadata(group.protocol_name or member.protocols[0][0])


def _member(group: Group, member: Member, topics: Mapping[str, Topic], taken: Mapping[Place, str]) -> ConsumerMember:
    said = read_subscription(_metadata(group, member))
    epoch = group.generation
    # A leader may have assigned a partition twice: here it belongs to the first member.
    given = [place for place in _given(group, member, topics) if place not in taken]
    return ConsumerMember(
        member.member_id,
        instance_id=member.instance_id,
        rack=said.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        names=tuple(dict.fromkeys(said.topics)),
        epoch=epoch,
        previous_epoch=epoch,
        assigned=dict.fromkeys(given, epoch),
        target=frozenset(given),
        older=Older(member.session_timeout_ms, member.protocols),
    )


def _given(group: Group, member: Member, topics: Mapping[str, Topic]) -> list[Place]:
    if not member.assignment:
        return []
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _refused(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default"
            " assignor before re-attempting the upgrade.",
        )
    return [
        (topics[each.topic].id, number)
        for each in assignment.assigned_partitions
        if each.topic in topics
        for number in each.partitions
    ]


def older_group(group: ConsumerGroup, wall_ms: int) -> Group | None:
    """Convert a KIP-848 group to a classic group, if all members use the classic protocol. Each is assigned its target.

    None if it has other members, none at all, or no assignor that all of them support.
    """
    if not group.members or group.older != len(group.members):
        return None
    made = Group(
        group.group_id,
        state=State.STABLE,
        state_since_ms=wall_ms,
        generation=group.epoch,
        kept=True,
        account=group.account,
    )
    for each in group.members.values():
        assert each.older is not None
        made.add(_older_member(each, each.older), CONSUMER)
    made.protocol_name = made.select_protocol()
    if made.protocol_name is None:
        return None
    names = {topic.id: name for name, topic in group.topics.items()}
    for member in made.members.values():
        target = group.members[member.member_id].target
        member.assignment = share(target, names, member.metadata(made.protocol_name))
    made.subscribed = subscribed_topics(made)
    return made


def at_rest(group: ConsumerGroup) -> bool:
    """Whether all members own exactly their targets."""
    return not group.lagging and all(
        each.state is MemberState.STABLE and each.assigned.keys() == each.target for each in group.members.values()
    )


def _older_member(member: ConsumerMember, older: Older) -> Member:
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        older.session_timeout_ms,
        max(0, member.rebalance_timeout_ms),
        older.protocols,
        is_new=False,
    )


# Regular expressions for topics and transactional ids, in RE2's language, as at real brokers.
#
# RE2 runs in linear time for any expression. Some expressions make Python's own engine run practically for ever.
def flaw_of(pattern: str) -> str | None:
    """The reason why this is no regular expression; None if it is one."""
    import pyarrow as pa  # for its RE2; imported here, so that a node without patterns does not load it
    from pyarrow import compute

    try:
        for each in (pattern, _whole(pattern)):  # "a)|(b" is invalid alone, "\\Qa" only inside the other
            compute.match_substring_regex(pa.array([""]), each)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ")
    return None


def matching(pattern: str, names: Collection[str]) -> frozenset[str]:
    """The names that match as a whole."""
    import pyarrow as pa
    from pyarrow import compute

    ordered = list(names)
    if not ordered:
        return frozenset()
    meant = compute.match_substring_regex(pa.array(ordered, pa.string()), _whole(pattern)).to_pylist()
    return frozenset(name for name, means in zip(ordered, meant, strict=True) if means)


def _whole(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"


# Steps that requests of both protocols share: follow subscriptions, set deadlines, remove members, note changes. Checks
# of requests are in `consumer_coordinator`.
Adopt = Callable[[Group, Moment, bool], bool]
"""Takes over a classic group, which can continue as it is or needs a rebalance (the flag); False if refused."""


class Wait(Key):
    """Kinds of deadlines."""

    SESSION = "a member's session"
    REVOCATION = "partitions that a member is to give up"
    REJOIN = "a member of the older protocol that must join again"
    SYNC = "a member of the older protocol that joined, and is to ask for its share"


_CAUSES = {
    Wait.SESSION: RebalanceCause.EXPIRED,
    Wait.REVOCATION: RebalanceCause.NOT_REVOKED,
    Wait.REJOIN: RebalanceCause.NOT_JOINED,
    Wait.SYNC: RebalanceCause.NOT_SYNCED,
}


class Due(NamedTuple):
    """The member of a deadline."""

    group_id: str
    member_id: str
    wait: Wait


def _nobody(group: Group, now: Moment, rests: bool) -> bool:
    return False


class Steps:
    """The steps of groups and members, with the deadlines and the changes to be written.

    ``groups`` by name; ``adopt`` takes over groups that are converted back; ``own``: settings of single groups.
    """

    def __init__(self, settings: ConsumerGroupSettings, on_rebalance: Callable[[str, Rebalance], None]) -> None:
        self.settings = settings
        self.on_rebalance = on_rebalance
        self.groups: dict[str, ConsumerGroup] = {}
        self.deadlines: Deadlines[Due] = Deadlines()
        self.adopt: Adopt = _nobody
        self.own: dict[str, ConsumerGroupSettings] = {}
        self._changed: dict[str, set[str | None]] = {}

    def settings_of(self, group_id: str) -> ConsumerGroupSettings:
        """The settings that apply to the group."""
        return self.own.get(group_id, self.settings)

    # One step of a member.

    def enter(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Add a new member."""
        group.add(member)
        self.note(group, member.member_id)
        account_cause(group, RebalanceCause.JOINED, member)

    def come_back(self, group: ConsumerGroup, owner: str, member_id: str) -> ConsumerMember:
        """Continue a static member under another id; it has to join."""
        self.forget_deadlines(group, owner)
        self.note(group, owner)
        self.note(group, member_id)
        return group.replace(owner, member_id)

    def follow(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        topics: Mapping[str, Topic] | None,
        now: Moment,
        *,
        changed: bool,
    ) -> None:
        """Update epoch and target after changes of subscriptions or topics."""
        others = topics is not None and _look(group, topics)
        if topics is not None:
            group.refresh_at = now.monotonic + self.settings.refresh_ms / 1_000
        if changed:
            self.note(group, member.member_id)
        if changed or others:
            account_change(group, member, topics=others and not changed)
            self.bump(group, now)
        if group.epoch > group.target_epoch and self._may_share_out(group, now):
            group.assign_at = now.monotonic + self.settings.assignment_interval_ms / 1_000
            for each in retarget(group):
                self.note(group, each.member_id)
            self.note(group, None)

    def _may_share_out(self, group: ConsumerGroup, now: Moment) -> bool:
        """Whether new targets may be computed; not if a large group got some within the interval.

        The first heartbeat after the interval computes them for all members that have joined by then. Until then a new
        member is in the previous epoch, without partitions. Members of the classic protocol must be answered with an
        assignment at once.
        """
        large = len(group.members) >= self.settings.large_from and not group.older
        return not large or now.monotonic >= group.assign_at

    def move(self, group: ConsumerGroup, member: ConsumerMember, owned: Iterable[Place] | None, now: Moment) -> None:
        """Move the member one step towards its target. ``owned``: the partitions it reports, or None."""
        if reconcile(group, member, None if owned is None else frozenset(owned)):
            self.note(group, member.member_id)
            self.time_revocation(member, group, now)
        account_moved(group, member, now, self.on_rebalance)

    def bump(self, group: ConsumerGroup, now: Moment) -> None:
        """Begin a new group epoch."""
        group.epoch += 1
        account_begun(group, now)
        self.note(group, None)

    # Removal of groups and members.

    def remove(self, members: Sequence[ConsumerMember], group: ConsumerGroup, now: Moment) -> None:
        """Remove members; the group may be converted back with those that are left."""
        for member in members:
            group.remove(member.member_id)
            self.forget_deadlines(group, member.member_id)
            self.note(group, member.member_id)
        if members and not self.give_back(group, now, rests=False):
            self.bump(group, now)
            account_deserted(group, now, self.on_rebalance)

    def give_back(self, group: ConsumerGroup, now: Moment, *, rests: bool) -> bool:
        """Convert the group back to a classic group, if all members use the classic protocol. Returns whether it was.

        ``rests``: no member has left, so no new assignment is needed if all members own their targets.
        """
        older = older_group(group, now.wall_ms) if self.settings.migration_policy.downgrades else None
        if older is None or not self.adopt(older, now, rests and at_rest(group)):
            return False
        older.account.restored({each.member_id: each.assignment for each in older.members.values()})
        for member_id in group.members:
            self.forget_deadlines(group, member_id)
            self.note(group, member_id)
        self.forget(group)
        return True

    def forget(self, group: ConsumerGroup) -> None:
        """Remove the group."""
        del self.groups[group.group_id]
        self.note(group, None)

    # Deadlines.

    def touch(self, group: ConsumerGroup, member: ConsumerMember, now: Moment) -> None:
        """Restart the member's session."""
        self.time(group, member, Wait.SESSION, self.session_timeout_ms(group, member), now)

    def session_timeout_ms(self, group: ConsumerGroup, member: ConsumerMember) -> int:
        """The member's session timeout."""
        if member.older is not None:
            return member.older.session_timeout_ms
        return self.settings_of(group.group_id).session_timeout_ms

    def time(self, group: ConsumerGroup, member: ConsumerMember, wait: Wait, after_ms: int, now: Moment) -> None:
        """Set a deadline of a member."""
        due = Due(group.group_id, member.member_id, wait)
        self.deadlines.set(due, now.monotonic + max(0, after_ms) / 1_000)

    def time_revocation(self, member: ConsumerMember, group: ConsumerGroup, now: Moment) -> None:
        """Set or cancel the deadline for revocation; members of the classic protocol have REJOIN deadlines instead."""
        if member.state is MemberState.UNREVOKED and member.older is None:
            self.time(group, member, Wait.REVOCATION, member.rebalance_timeout_ms, now)
        else:
            self.cancel(group, member.member_id, Wait.REVOCATION)

    def is_timed(self, group: ConsumerGroup, member: ConsumerMember, wait: Wait) -> bool:
        """Whether a member has such a deadline."""
        return Due(group.group_id, member.member_id, wait) in self.deadlines

    def cancel(self, group: ConsumerGroup, member_id: str, wait: Wait) -> None:
        """Cancel a deadline."""
        self.deadlines.cancel(Due(group.group_id, member_id, wait))

    def forget_deadlines(self, group: ConsumerGroup, member_id: str) -> None:
        """Cancel all deadlines of a member."""
        for wait in Wait:
            self.cancel(group, member_id, wait)

    def expire(self, due: Due, now: Moment) -> None:
        """Handle a deadline that has passed and is no longer set."""
        group = self.groups[due.group_id]
        member = group.members[due.member_id]
        session = due.wait is Wait.SESSION
        after_ms = self.session_timeout_ms(group, member) if session else member.rebalance_timeout_ms
        account_cause(group, _CAUSES[due.wait], member, after_ms)
        self.remove([member], group, now)

    # Changes to be written.

    def note(self, group: ConsumerGroup, member_id: str | None) -> None:
        """Note a change of a member, or with None of the group itself."""
        self._changed.setdefault(group.group_id, set()).add(member_id)

    def has_changes(self, group_id: str) -> bool:
        """Whether the group has changes that are neither in the log nor being written."""
        return group_id in self._changed

    def take_changes(self, group_id: str) -> list[Entry]:
        """The group's changed entries in their present form; `untake` them if the log refuses."""
        group = self.groups.get(group_id)
        whose = self._changed.pop(group_id, ())
        return [entry_of(group_id, member_id, group) for member_id in whose]

    def untake(self, group_id: str, whose: Iterable[str | None]) -> None:
        """Note changes again that did not get into the log."""
        self._changed.setdefault(group_id, set()).update(whose)

    def changes(self, group_id: str) -> frozenset[str | None]:
        """The changed entries of `take_changes`: members by id, None for the group itself."""
        return frozenset(self._changed.get(group_id, ()))


def _look(group: ConsumerGroup, topics: Mapping[str, Topic]) -> bool:
    """Take over the existing topics; returns whether anything has changed for the group."""
    patterns = {each.pattern for each in group.members.values() if each.pattern}
    group.matched = {each: matching(each, topics.keys()) for each in patterns}
    wanted = group.wanted()
    found = {name: topic for name, topic in sorted(topics.items()) if name in wanted}
    differs = found != group.topics
    group.topics = found
    return differs
