"""The coordinator of a node's groups of the newer protocol (KIP-848): heartbeats in, answers out, time passed in.

It answers within the call, never waits and has no clock: the owner calls `expire` at `next_deadline`, and writes what
`take_changes` says before it gives an answer away. What must not live here: who may beat (`checking`), what a
heartbeat does to its member (`states`, `reconciling`), and committed offsets, which all protocols share (services).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.columnar.entries import Entry
from penstock.protocols.kafka.consumer_groups import accounts
from penstock.protocols.kafka.consumer_groups.checking import check_beat, check_epoch, check_room, known_member
from penstock.protocols.kafka.consumer_groups.committing import commit_fault
from penstock.protocols.kafka.consumer_groups.converting import newer_group
from penstock.protocols.kafka.consumer_groups.group import ConsumerGroup, ConsumerMember
from penstock.protocols.kafka.consumer_groups.older_members import OlderMembers
from penstock.protocols.kafka.consumer_groups.requests import (
    AWAY,
    JOIN,
    LEAVE,
    Beat,
    BeatAnswer,
    BeatRefused,
    Topic,
    Wanted,
)
from penstock.protocols.kafka.consumer_groups.settings import ConsumerGroupSettings
from penstock.protocols.kafka.consumer_groups.steps import Adopt, Steps
from penstock.protocols.kafka.consumer_groups.stored import Stored, restored
from penstock.protocols.kafka.coordinator import CommitIdentity, Group, Leaver, Moment
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.seams.rebalances import Rebalance, RebalanceCause

__all__ = ["ConsumerCoordinator"]


class ConsumerCoordinator:
    """``told`` is called with each rebalance that has come to its end, and its group's name.

    ``older_members`` answers those that speak the older protocol in a group of the newer.
    """

    def __init__(
        self, settings: ConsumerGroupSettings, told: Callable[[str, Rebalance], None] = lambda group, over: None
    ) -> None:
        self._settings = settings
        self._steps = Steps(settings, told)
        self._groups = self._steps.groups
        self.older_members = OlderMembers(self._steps)

    def give_back_to(self, adopt: Adopt) -> None:
        """Who takes over groups that go back to the older protocol; without, none do."""
        self._steps.adopt = adopt

    def set_own(self, group_id: str, settings: ConsumerGroupSettings | None) -> None:
        """What holds for one group from its members' next heartbeats on, whether it is there or not; None: as for all.

        Only times may differ.
        """
        self._steps.own.pop(group_id, None)
        if settings is not None:
            self._steps.own[group_id] = settings

    # Heartbeats.

    def wanted(self, beat: Beat, now: Moment) -> Wanted | None:
        """Which topics `beat` has to be told of; None where what the group knows will do."""
        group = self._groups.get(beat.group)
        if group is not None and not beat.subscribes and now.monotonic < group.refresh_at:
            return None
        patterns = group is not None and group.has_patterns
        names = group.wanted() if group is not None else frozenset()
        return Wanted(names | frozenset(beat.names or ()), patterns or bool(beat.pattern))

    def beat(self, beat: Beat, topics: Mapping[str, Topic] | None, now: Moment) -> BeatAnswer:
        """ConsumerGroupHeartbeat. ``topics``: those that were `wanted` and exist, by name."""
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
            # What it has stays its own until its session ends, which nothing makes longer now.
            member.epoch = AWAY
            group.note_whether_lagging(member)
            self._steps.note(group, member.member_id)
        else:
            accounts.note(group, RebalanceCause.LEFT, member)
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
        """Who beats: one who is there, one who comes back, or a new one that is not in the group yet."""
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
        """Take over a group of the older protocol, for a heartbeat that joins it; it ends where it was.

        ``topics``: those of `topics_of_group` that exist. Raises BeatRefused where it must stay as it is.
        """
        made = newer_group(group, topics, self._settings)
        check_room(made, beat, self._settings.max_size)
        self._groups[made.group_id] = made
        self._steps.note(made, None)
        for member in made.members.values():
            self._steps.note(made, member.member_id)

    def begin_sessions(self, group_id: str, now: Moment) -> None:
        """Of a group that was taken over."""
        group = self._groups[group_id]
        for member in group.members.values():
            self._steps.touch(group, member, now)

    # Members that go.

    def leave(self, group_id: str, leavers: Sequence[Leaver], now: Moment) -> list[ErrorCode] | None:
        """LeaveGroup, as operators send it: one code a leaver; None if there is no such group."""
        group = self._groups.get(group_id)
        if group is None:
            return None
        gone: dict[str, ConsumerMember] = {}
        codes = [_leaving(group, each, gone) for each in leavers]
        for member in gone.values():
            accounts.note(group, RebalanceCause.TAKEN_OUT if member.older is None else RebalanceCause.LEFT, member)
        self._steps.remove(list(gone.values()), group, now)
        return codes

    # Offsets.

    def commit_fault(
        self, identity: CommitIdentity, partitions: Iterable[tuple[str, int]], *, knows_epochs: bool
    ) -> ErrorCode | None:
        """Whether offsets of these may be committed now; None if there is no such group."""
        group = self._groups.get(identity.group)
        return None if group is None else commit_fault(group, identity, partitions, knows_epochs=knows_epochs)

    def fetch_fault(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether such a member may ask for offsets; anybody may where the group is not of this protocol."""
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
        """Whether a member wants the topic."""
        group = self._groups.get(group_id)
        return group is not None and topic in group.wanted()

    # Groups.

    def group(self, group_id: str) -> ConsumerGroup | None:
        """For descriptions; to be read only."""
        return self._groups.get(group_id)

    def groups(self) -> Iterable[ConsumerGroup]:
        """All groups; to be read only."""
        return self._groups.values()

    def delete(self, group_id: str) -> ErrorCode:
        """DeleteGroups for one group. If NONE is answered, its offsets are the caller's to delete."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.members:
            return ErrorCode.NON_EMPTY_GROUP
        self._steps.forget(group)
        return ErrorCode.NONE

    # Time and the log.

    def load(self, stored: Stored, now: Moment) -> None:
        """Start from the log. Sessions, and times to give partitions up, start afresh."""
        for group in restored(stored):
            self._groups[group.group_id] = group
            accounts.restored(group)
            for member in group.members.values():
                self._steps.touch(group, member, now)
                self._steps.time_revocation(member, group, now)

    def has_changes(self, group_id: str) -> bool:
        """Whether something of the group is not in the log, nor on its way there."""
        return self._steps.has_changes(group_id)

    def take_changes(self, group_id: str) -> list[Entry]:
        """What is to be written of a group, as it is now; `give_back` it if the log refuses."""
        return self._steps.take_changes(group_id)

    def give_back(self, group_id: str, whose: Iterable[str | None]) -> None:
        """What `take_changes` said did not get into the log."""
        self._steps.untake(group_id, whose)

    def changes(self, group_id: str) -> frozenset[str | None]:
        """Whose entries `take_changes` would give: members by id, None for the group itself."""
        return self._steps.changes(group_id)

    def next_deadline(self) -> float | None:
        """When `expire` has something to do, in seconds of the monotonic clock."""
        return self._steps.deadlines.next()

    def not_before(self) -> float | None:
        """`expire` has nothing to do before that; cheaper than `next_deadline`, and may be earlier."""
        return self._steps.deadlines.not_before()

    def expire(self, now: Moment) -> set[str]:
        """Let everything happen whose time has come. Returns the groups that have changed."""
        changed = set()
        for due in self._steps.deadlines.due(now.monotonic):
            self._steps.expire(due, now)
            changed.add(due.group_id)
        return changed


def _update(member: ConsumerMember, beat: Beat) -> bool:
    """Take over what a heartbeat says of its member; whether it wants to read something else than before."""
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
