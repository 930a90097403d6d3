"""The coordinator of a node's KIP-848 groups.

Functions check heartbeats and commits; `OlderMembers` answers members of the classic protocol; `ConsumerCoordinator`
answers heartbeats. Time is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.errors import ProtocolViolation
from penstock.interfaces.admin import Rebalance, RebalanceCause
from penstock.protocols.kafka.config import MigrationPolicy
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups import consumer_transitions
from penstock.protocols.kafka.groups.classic_group import (
    CommitIdentity,
    Group,
    Join,
    JoinAnswer,
    Leaver,
    Sync,
    SyncAnswer,
)
from penstock.protocols.kafka.groups.classic_transitions import Moment
from penstock.protocols.kafka.groups.consumer_group import (
    ASSIGNORS,
    AWAY,
    CONSUMER,
    JOIN,
    LEAVE,
    Beat,
    BeatAnswer,
    BeatRefused,
    ConsumerGroup,
    ConsumerGroupSettings,
    ConsumerMember,
    MemberState,
    Older,
    Stored,
    Topic,
    Wanted,
    owned_by,
    restored,
    share,
    spoken,
)
from penstock.protocols.kafka.groups.consumer_transitions import (
    Adopt,
    Steps,
    Wait,
    flaw_of,
    newer_group,
    waits_for_others,
)
from penstock.protocols.kafka.wire.consumer_protocol import Subscription
from penstock.records.scalar_codec import Entry

__all__ = [
    "ConsumerCoordinator",
    "OlderMembers",
    "check_beat",
    "check_epoch",
    "check_room",
    "commit_fault",
    "known_member",
]


# Checks of a heartbeat before anything changes, in Kafka's order.
#
# Each refusal has the text of a real broker's. Source: KIP-848, ConsumerGroupHeartbeat v0-v1; brokers of 4.3.1.
def check_beat(beat: Beat) -> None:
    """Check the heartbeat without its group. Raises BeatRefused."""
    if beat.needs_member_id or beat.epoch != JOIN:
        _not_empty(beat.member_id, "MemberId")
    _not_empty(beat.group, "GroupId")
    _not_empty(beat.instance_id, "InstanceId")
    _not_empty(beat.rack, "RackId")
    if beat.epoch == JOIN:
        _check_join(beat)
    elif beat.epoch == AWAY and beat.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif beat.epoch < AWAY:
        raise _invalid("MemberEpoch is invalid.")
    if beat.assignor is not None and beat.assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        text = f"ServerAssignor {beat.assignor} is not supported. Supported assignors: {known}."
        raise BeatRefused(ErrorCode.UNSUPPORTED_ASSIGNOR, text)
    if beat.pattern and (flaw := flaw_of(beat.pattern)) is not None:
        text = f"SubscribedTopicRegex `{beat.pattern}` is not a valid regular expression: {flaw}"
        raise BeatRefused(ErrorCode.INVALID_REGULAR_EXPRESSION, text)


def _check_join(beat: Beat) -> None:
    if beat.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if beat.owned is None or beat.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if not beat.subscribes:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _not_empty(value: str | None, what: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{what} can't be empty.")


def _invalid(message: str) -> BeatRefused:
    return BeatRefused(ErrorCode.INVALID_REQUEST, message)


def check_room(group: ConsumerGroup | None, beat: Beat, max_size: int) -> None:
    """Raises BeatRefused if the group is full."""
    if group is None or beat.member_id in group.members or len(group.members) < max_size:
        return
    # A member that returns under its instance id takes its own place.
    if beat.instance_id is None or beat.instance_id not in group.static_ids:
        text = f"The consumer group has reached its maximum capacity of {max_size} members."
        raise BeatRefused(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def known_member(group: ConsumerGroup | None, beat: Beat) -> ConsumerMember:
    """The sender, which must be a member. Raises BeatRefused."""
    if group is None:
        what = "Consumer group" if beat.epoch > JOIN else "Group"
        raise BeatRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {beat.group} not found.")
    if beat.instance_id is not None:
        owner = group.static_ids.get(beat.instance_id)
        if owner is None:
            raise _unknown(f"Instance id {beat.instance_id} is unknown.")
        if owner != beat.member_id:
            text = f"Static member {beat.member_id} with instance id {beat.instance_id} was fenced by member {owner}."
            raise BeatRefused(ErrorCode.FENCED_INSTANCE_ID, text)
    member = group.members.get(beat.member_id)
    if member is None:
        raise _unknown(f"Member {beat.member_id} is not a member of group {beat.group}.")
    return member


def _unknown(message: str) -> BeatRefused:
    return BeatRefused(ErrorCode.UNKNOWN_MEMBER_ID, message)


def check_epoch(member: ConsumerMember, beat: Beat) -> None:
    """Accept the member's epoch, or the previous one after a lost answer, if it owns nothing that it has lost since.

    Raises BeatRefused.
    """
    if beat.epoch == member.epoch or beat.epoch in (JOIN, LEAVE, AWAY):
        return
    lost = beat.epoch == member.previous_epoch and beat.owned is not None and beat.owned <= member.assigned.keys()
    if beat.epoch < member.epoch and lost:
        return
    how = "greater" if beat.epoch > member.epoch else "smaller"
    raise BeatRefused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({beat.epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


# Checks of a commit to a KIP-848 group by its member epoch: as KIP-848 says, and as brokers of 4.3.1 do.
def commit_fault(
    group: ConsumerGroup, identity: CommitIdentity, partitions: Iterable[tuple[str, int]], *, knows_epochs: bool
) -> ErrorCode:
    """The error code of a commit. ``knows_epochs``: the request's version has member epochs.

    Without membership a commit is accepted while the group is empty. A member may commit in its epoch; and in an
    earlier epoch for partitions that it had then and still has, because its commit was in flight while the epoch
    advanced. For a member of the classic protocol, epochs are generations.
    """
    if identity.generation < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(identity.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not knows_epochs and member.older is None:
        return ErrorCode.UNSUPPORTED_VERSION
    if identity.generation == member.epoch:
        return ErrorCode.NONE
    if identity.generation < member.epoch and all(
        _had(group, member, each, identity.generation) for each in partitions
    ):
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.older is None else ErrorCode.ILLEGAL_GENERATION


def _had(group: ConsumerGroup, member: ConsumerMember, partition: tuple[str, int], epoch: int) -> bool:
    topic = group.topics.get(partition[0])
    since = None if topic is None else member.assigned.get((topic.id, partition[1]))
    return since is not None and since <= epoch


# Members of the classic protocol in a KIP-848 group: JoinGroup, SyncGroup and Heartbeat.
#
# For such a member its epoch is the generation, and its assigned partitions are its assignment. Other members learn
# from a heartbeat which partitions to revoke; this one must rejoin, and its join reports the partitions that it still
# owns. There is no leader.
#
# Source: KIP-848, and the answers of 4.3.1 brokers.
class OlderMembers:
    """Serves the members of the classic protocol. Methods return None if the group is no KIP-848 group with members."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def _group(self, group_id: str) -> ConsumerGroup | None:
        group = self._steps.groups.get(group_id)
        return group if group is not None and group.members else None

    def wanted(self, request: Join) -> Wanted | None:
        """The topics that a join needs."""
        group = self._group(request.group)
        if group is None:
            return None
        try:
            names = frozenset(spoken(request.protocols).topics)
        except ProtocolViolation:
            names = frozenset()
        return Wanted(names | group.wanted(), group.has_patterns)

    def join(self, request: Join, topics: Mapping[str, Topic], now: Moment, new_id: str) -> JoinAnswer | None:
        """JoinGroup. ``topics``: the `wanted` ones that exist. ``new_id``: for a member without an id."""
        group = self._group(request.group)
        if group is None:
            return None
        fault = self._unfit(group, request)
        if fault:
            return JoinAnswer(fault)
        if not request.member_id and request.instance_id is None and request.needs_member_id:
            return JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, new_id)
        try:
            subscription = spoken(request.protocols)
        except ProtocolViolation:
            return JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        owner = group.static_ids.get(request.instance_id) if request.instance_id is not None else None
        if request.instance_id is not None and request.member_id and owner != request.member_id:
            return JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID if owner is None else ErrorCode.FENCED_INSTANCE_ID)
        member = self._member(group, request, owner, request.member_id or new_id)
        changed = self._update(group, member, request, subscription)
        self._steps.follow(group, member, topics, now, changed=changed)
        self._steps.move(group, member, owned_by(subscription, topics), now)
        self._steps.cancel(group, member.member_id, Wait.REJOIN)
        self._steps.touch(group, member, now)
        self._steps.time(group, member, Wait.SYNC, member.rebalance_timeout_ms, now)
        if owner is not None and not request.member_id:
            self._steps.give_back(group, now, rests=True)
        return JoinAnswer(
            member_id=member.member_id,
            generation=member.epoch,
            protocol_type=CONSUMER,
            protocol_name=request.protocols[0][0],
        )

    def _unfit(self, group: ConsumerGroup, request: Join) -> ErrorCode:
        settings = self._steps.settings
        if settings.migration_policy is MigrationPolicy.DISABLED:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        comes_back = request.instance_id is not None and request.instance_id in group.static_ids
        if len(group.members) >= settings.max_size and request.member_id not in group.members and not comes_back:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        fits = request.protocol_type == CONSUMER and group.supports(request.protocols)
        return ErrorCode.NONE if fits else ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def _member(self, group: ConsumerGroup, request: Join, owner: str | None, member_id: str) -> ConsumerMember:
        if owner is not None and not request.member_id:
            return self._steps.come_back(group, owner, member_id)
        if member_id not in group.members:
            # A member that sends an id may be new: the id was handed out to it, or it was removed from the group.
            made = ConsumerMember(member_id, request.instance_id, client_id=request.client_id)
            self._steps.enter(group, made)
        return group.members[member_id]

    def _update(self, group: ConsumerGroup, member: ConsumerMember, request: Join, said: Subscription) -> bool:
        """Take over the member's metadata; returns whether its subscription has changed."""
        before = (frozenset(member.names), member.pattern)
        older = Older(request.session_timeout_ms, request.protocols)
        known = (member.names, member.rack, member.rebalance_timeout_ms, member.older)
        group.speak(member, older)
        member.rack = said.rack_id or member.rack
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.names, member.pattern, member.assignor = tuple(dict.fromkeys(said.topics)), "", None
        member.client_id, member.client_host = request.client_id, request.client_host
        if known != (member.names, member.rack, member.rebalance_timeout_ms, older):
            self._steps.note(group, member.member_id)
        return before != (frozenset(member.names), "")

    def sync(self, request: Sync, now: Moment) -> SyncAnswer | None:
        """SyncGroup: the partitions that the member may have now."""
        group = self._group(request.group)
        if group is None:
            return None
        member, fault = _known(group, request.member_id, request.instance_id, request.generation)
        if member is None or member.older is None or fault:
            return SyncAnswer(fault)
        type_fits = request.protocol_type in (None, CONSUMER)
        if not type_fits or request.protocol_name not in (None, member.older.protocol):
            return SyncAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        # A member that still has to revoke partitions has joined already, and joins again when it has done so.
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED:
            self._told_to_join(group, member, now)
            return SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
        self._steps.cancel(group, member.member_id, Wait.SYNC)
        self._steps.touch(group, member, now)
        names = {topic.id: name for name, topic in group.topics.items()}
        assignment = share(member.assigned, names, member.older.metadata)
        return SyncAnswer(
            protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
        )

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: Moment
    ) -> ErrorCode | None:
        """Heartbeat: REBALANCE_IN_PROGRESS if the member must rejoin."""
        group = self._group(group_id)
        if group is None:
            return None
        member, fault = _known(group, member_id, instance_id, generation)
        if member is None or fault:
            return fault
        self._steps.touch(group, member, now)
        unrevoked = member.state is MemberState.UNREVOKED
        may_take = member.state is MemberState.UNRELEASED and not waits_for_others(group, member)
        if member.epoch == group.epoch and not unrevoked and not may_take:
            return ErrorCode.NONE
        self._told_to_join(group, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _told_to_join(self, group: ConsumerGroup, member: ConsumerMember, now: Moment) -> None:
        """Start the member's rebalance timeout, unless it is running."""
        if not self._steps.is_timed(group, member, Wait.REJOIN):
            self._steps.time(group, member, Wait.REJOIN, member.rebalance_timeout_ms, now)


def _known(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember | None, ErrorCode]:
    """The member, and the error in its id, instance id, protocol or generation."""
    if instance_id is not None:
        owner = group.static_ids.get(instance_id)
        if owner is not None and owner != member_id:
            return None, ErrorCode.FENCED_INSTANCE_ID
        member_id = owner or ""
    member = group.members.get(member_id)
    if member is None or member.older is None:
        return None, ErrorCode.UNKNOWN_MEMBER_ID
    return member, ErrorCode.NONE if generation == member.epoch else ErrorCode.ILLEGAL_GENERATION


# The coordinator of a node's KIP-848 groups.
#
# It answers within the call, never waits and has no clock: the owner calls `expire` at `next_deadline`, and writes the
# entries of `take_changes` before it sends an answer.
class ConsumerCoordinator:
    """The coordinator of all KIP-848 groups.

    ``on_rebalance`` is called with each finished rebalance and its group's name. `OlderMembers` answers members of the
    classic protocol.
    """

    def __init__(
        self, settings: ConsumerGroupSettings, on_rebalance: Callable[[str, Rebalance], None] = lambda group, over: None
    ) -> None:
        self._settings = settings
        self._steps = Steps(settings, on_rebalance)
        self._groups = self._steps.groups
        self.older_members = OlderMembers(self._steps)

    def give_back_to(self, adopt: Adopt) -> None:
        """Set the function that takes over groups converted back to classic groups. Without it, none are converted."""
        self._steps.adopt = adopt

    def set_own(self, group_id: str, settings: ConsumerGroupSettings | None) -> None:
        """Set a group's own settings for its next heartbeats, even if it does not exist yet; None removes them.

        Only times may differ.
        """
        self._steps.own.pop(group_id, None)
        if settings is not None:
            self._steps.own[group_id] = settings

    # Heartbeats.

    def wanted(self, beat: Beat, now: Moment) -> Wanted | None:
        """The topics that `beat` needs; None if the group's knowledge is recent enough."""
        group = self._groups.get(beat.group)
        if group is not None and not beat.subscribes and now.monotonic < group.refresh_at:
            return None
        patterns = group is not None and group.has_patterns
        names = group.wanted() if group is not None else frozenset()
        return Wanted(names | frozenset(beat.names or ()), patterns or bool(beat.pattern))

    def beat(self, beat: Beat, topics: Mapping[str, Topic] | None, now: Moment) -> BeatAnswer:
        """ConsumerGroupHeartbeat. ``topics``: the `wanted` ones that exist, by name."""
        try:
            check_beat(beat)
            if beat.epoch in (LEAVE, AWAY):
                return self._left(beat, now)
            return self._served(beat, topics, now)
        except BeatRefused as refused:
            return BeatAnswer(refused.code, str(refused))

    def _left(self, beat: Beat, now: Moment) -> BeatAnswer:
        member = known_member(self._groups.get(beat.group), beat)
        group = self._groups[beat.group]
        if beat.epoch == AWAY:
            # It keeps its partitions until its session ends, which is not extended any more.
            member.epoch = AWAY
            group.note_whether_lagging(member)
            self._steps.note(group, member.member_id)
        else:
            consumer_transitions.account_cause(group, RebalanceCause.LEFT, member)
            self._steps.remove([member], group, now)
        return BeatAnswer(member_id=member.member_id, epoch=beat.epoch)

    def _served(self, beat: Beat, topics: Mapping[str, Topic] | None, now: Moment) -> BeatAnswer:
        group = self._groups.get(beat.group)
        check_room(group, beat, self._settings.max_size)
        member = self._member(group, beat)
        if group is None:
            group = self._groups[beat.group] = ConsumerGroup(beat.group)
        if member.member_id not in group.members:
            self._steps.enter(group, member)
        changed = _update(member, beat)
        if member.older is not None:
            group.speak(member, None)
            self._steps.forget_deadlines(group, member.member_id)
            self._steps.note(group, member.member_id)
        self._steps.follow(group, member, topics, now, changed=changed)
        had = set(member.assigned)
        self._steps.move(group, member, beat.owned, now)
        self._steps.touch(group, member, now)
        news = beat.full or had != member.assigned.keys()
        return BeatAnswer(
            member_id=member.member_id,
            epoch=member.epoch,
            interval_ms=self._steps.settings_of(group.group_id).heartbeat_interval_ms,
            assigned=sorted(member.assigned) if news else None,
        )

    def _member(self, group: ConsumerGroup | None, beat: Beat) -> ConsumerMember:
        """The sender: a member, a returning static member, or a new one that is not in the group yet."""
        if beat.epoch != JOIN:
            member = known_member(group, beat)
            check_epoch(member, beat)
            return member
        owner = None if group is None or beat.instance_id is None else group.static_ids.get(beat.instance_id)
        if group is None or (owner is None and beat.member_id not in group.members):
            return ConsumerMember(beat.member_id, beat.instance_id, client_id=beat.client_id)
        if owner is None:
            return group.members[beat.member_id]
        if group.members[owner].epoch != AWAY and group.members[owner].older is None:
            text = (
                f"Static member {beat.member_id} with instance id {beat.instance_id} cannot join the group because the"
                " instance id is owned by a member."
            )
            raise BeatRefused(ErrorCode.UNRELEASED_INSTANCE_ID, text)
        return self._steps.come_back(group, owner, beat.member_id)

    def convert(self, group: Group, beat: Beat, topics: Mapping[str, Topic]) -> None:
        """Take over a classic group, for a heartbeat that joins it; the caller removes it there.

        ``topics``: those of `topics_of_group` that exist. Raises BeatRefused if the group must stay as it is.
        """
        made = newer_group(group, topics, self._settings)
        check_room(made, beat, self._settings.max_size)
        self._groups[made.group_id] = made
        self._steps.note(made, None)
        for member in made.members.values():
            self._steps.note(made, member.member_id)

    def begin_sessions(self, group_id: str, now: Moment) -> None:
        """Start the sessions of a group that was taken over."""
        group = self._groups[group_id]
        for member in group.members.values():
            self._steps.touch(group, member, now)

    # Removal of members.

    def leave(self, group_id: str, leavers: Sequence[Leaver], now: Moment) -> list[ErrorCode] | None:
        """LeaveGroup, as operators send it: one code per leaver; None if there is no such group."""
        group = self._groups.get(group_id)
        if group is None:
            return None
        gone: dict[str, ConsumerMember] = {}
        codes = [_leaving(group, each, gone) for each in leavers]
        for member in gone.values():
            consumer_transitions.account_cause(
                group, RebalanceCause.TAKEN_OUT if member.older is None else RebalanceCause.LEFT, member
            )
        self._steps.remove(list(gone.values()), group, now)
        return codes

    # Offsets.

    def commit_fault(
        self, identity: CommitIdentity, partitions: Iterable[tuple[str, int]], *, knows_epochs: bool
    ) -> ErrorCode | None:
        """Whether offsets of these partitions may be committed now; None if there is no such group."""
        group = self._groups.get(identity.group)
        return None if group is None else commit_fault(group, identity, partitions, knows_epochs=knows_epochs)

    def fetch_fault(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether this member may fetch offsets; always allowed if the group is no KIP-848 group."""
        group = self._groups.get(group_id)
        if group is None or (member_id is None and epoch < 0):
            return ErrorCode.NONE
        member = group.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.epoch == epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.older is None else ErrorCode.ILLEGAL_GENERATION

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        group = self._groups.get(group_id)
        return group is not None and topic in group.wanted()

    # Groups.

    def group(self, group_id: str) -> ConsumerGroup | None:
        """The group, for descriptions; not to be changed."""
        return self._groups.get(group_id)

    def groups(self) -> Iterable[ConsumerGroup]:
        """All groups; not to be changed."""
        return self._groups.values()

    def delete(self, group_id: str) -> ErrorCode:
        """DeleteGroups for one group. After NONE, the caller deletes its offsets."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.members:
            return ErrorCode.NON_EMPTY_GROUP
        self._steps.forget(group)
        return ErrorCode.NONE

    # Deadlines and the log.

    def load(self, stored: Stored, now: Moment) -> None:
        """Load the groups. Sessions and revocation deadlines start afresh."""
        for group in restored(stored):
            self._groups[group.group_id] = group
            consumer_transitions.account_restored(group)
            for member in group.members.values():
                self._steps.touch(group, member, now)
                self._steps.time_revocation(member, group, now)

    def has_changes(self, group_id: str) -> bool:
        """Whether the group has changes that are neither in the log nor being written."""
        return self._steps.has_changes(group_id)

    def take_changes(self, group_id: str) -> list[Entry]:
        """The group's changed entries in their present form; `give_back` them if the log refuses."""
        return self._steps.take_changes(group_id)

    def give_back(self, group_id: str, whose: Iterable[str | None]) -> None:
        """Note changes again that did not get into the log."""
        self._steps.untake(group_id, whose)

    def changes(self, group_id: str) -> frozenset[str | None]:
        """The changed entries of `take_changes`: members by id, None for the group itself."""
        return self._steps.changes(group_id)

    def next_deadline(self) -> float | None:
        """The time of the next deadline, in seconds of the monotonic clock."""
        return self._steps.deadlines.next()

    def not_before(self) -> float | None:
        """A lower bound of `next_deadline` that is cheaper to compute."""
        return self._steps.deadlines.not_before()

    def expire(self, now: Moment) -> set[str]:
        """Handle all deadlines that have passed. Returns the groups that have changed."""
        changed = set()
        for due in self._steps.deadlines.due(now.monotonic):
            self._steps.expire(due, now)
            changed.add(due.group_id)
        return changed


def _update(member: ConsumerMember, beat: Beat) -> bool:
    """Take over the fields of a heartbeat; returns whether the subscription has changed."""
    before = (frozenset(member.names), member.pattern)
    member.instance_id = member.instance_id if beat.instance_id is None else beat.instance_id
    member.rack = member.rack if beat.rack is None else beat.rack
    if beat.rebalance_timeout_ms != -1:
        member.rebalance_timeout_ms = beat.rebalance_timeout_ms
    member.names = member.names if beat.names is None else tuple(dict.fromkeys(beat.names))
    member.pattern = member.pattern if beat.pattern is None else beat.pattern
    member.assignor = member.assignor if beat.assignor is None else beat.assignor
    member.client_id, member.client_host = beat.client_id, beat.client_host
    return before != (frozenset(member.names), member.pattern)


def _leaving(group: ConsumerGroup, leaver: Leaver, gone: dict[str, ConsumerMember]) -> ErrorCode:
    member_id = leaver.member_id
    if leaver.instance_id is not None:
        known = group.static_ids.get(leaver.instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member_id and member_id != known:
            return ErrorCode.FENCED_INSTANCE_ID
        member_id = known
    if member_id not in group.members or member_id in gone:
        return ErrorCode.UNKNOWN_MEMBER_ID
    gone[member_id] = group.members[member_id]
    return ErrorCode.NONE
