"""What requests of both protocols do to a group: follow what is wanted, time members, take them out, note what changed.

Here is what the coordinator's groups have in common, and nothing that decides who may ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.columnar.entries import Entry
from penstock.groups.deadlines import Deadlines
from penstock.groups.tables import Key
from penstock.protocols.kafka.consumer_groups import accounts
from penstock.protocols.kafka.consumer_groups.converting import at_rest, older_group
from penstock.protocols.kafka.consumer_groups.group import ConsumerGroup, ConsumerMember
from penstock.protocols.kafka.consumer_groups.patterns import matching
from penstock.protocols.kafka.consumer_groups.reconciling import reconcile
from penstock.protocols.kafka.consumer_groups.requests import Place, Topic
from penstock.protocols.kafka.consumer_groups.settings import ConsumerGroupSettings
from penstock.protocols.kafka.consumer_groups.states import MemberState
from penstock.protocols.kafka.consumer_groups.stored import entry_of
from penstock.protocols.kafka.consumer_groups.targets import retarget
from penstock.protocols.kafka.coordinator import Group, Moment
from penstock.seams.rebalances import Rebalance, RebalanceCause

__all__ = ["Adopt", "Due", "Steps", "Wait"]

Adopt = Callable[[Group, Moment, bool], bool]
"""Take over a group of the older protocol, whether it may go on as it is or has to share out anew; False if not."""


class Wait(Key):
    """Kinds of deadlines."""

    SESSION = "a member's session"
    REVOCATION = "partitions that a member is to give up"
    REJOIN = "a member of the older protocol that was told to join again"
    SYNC = "a member of the older protocol that joined, and is to ask for its share"


_CAUSES = {
    Wait.SESSION: RebalanceCause.EXPIRED,
    Wait.REVOCATION: RebalanceCause.NOT_REVOKED,
    Wait.REJOIN: RebalanceCause.NOT_JOINED,
    Wait.SYNC: RebalanceCause.NOT_SYNCED,
}


class Due(NamedTuple):
    """Whose deadline it is."""

    group_id: str
    member_id: str
    wait: Wait


def _nobody(group: Group, now: Moment, rests: bool) -> bool:
    return False


class Steps:
    """``groups`` by name; ``adopt`` takes over those that go back to the older protocol; ``own``: of groups that have
    settings of their own.
    """

    def __init__(self, settings: ConsumerGroupSettings, told: Callable[[str, Rebalance], None]) -> None:
        self.settings = settings
        self.told = told
        self.groups: dict[str, ConsumerGroup] = {}
        self.deadlines: Deadlines[Due] = Deadlines()
        self.adopt: Adopt = _nobody
        self.own: dict[str, ConsumerGroupSettings] = {}
        self._changed: dict[str, set[str | None]] = {}

    def settings_of(self, group_id: str) -> ConsumerGroupSettings:
        """What holds for that group."""
        return self.own.get(group_id, self.settings)

    # One step of a member.

    def enter(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """A member that is new in the group."""
        group.add(member)
        self.note(group, member.member_id)
        accounts.note(group, RebalanceCause.JOINED, member)

    def come_back(self, group: ConsumerGroup, owner: str, member_id: str) -> ConsumerMember:
        """A static member goes on under another id, and has to join."""
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
        """Bring epoch and target up to what members want and what topics there are."""
        others = topics is not None and _look(group, topics)
        if topics is not None:
            group.refresh_at = now.monotonic + self.settings.refresh_ms / 1_000
        if changed:
            self.note(group, member.member_id)
        if changed or others:
            accounts.changed(group, member, topics=others and not changed)
            self.bump(group, now)
        if group.epoch > group.target_epoch and self._may_share_out(group, now):
            group.assign_at = now.monotonic + self.settings.assignment_interval_ms / 1_000
            for each in retarget(group):
                self.note(group, each.member_id)
            self.note(group, None)

    def _may_share_out(self, group: ConsumerGroup, now: Moment) -> bool:
        """Not yet, where a large group was just shared out: the first heartbeat after that does it for all who came.

        Until then who joins is in the epoch of the last time, with nothing. Members of the older protocol have to be
        answered with a share.
        """
        large = len(group.members) >= self.settings.large_from and not group.older
        return not large or now.monotonic >= group.assign_at

    def move(self, group: ConsumerGroup, member: ConsumerMember, owned: Iterable[Place] | None, now: Moment) -> None:
        """One step towards its target. ``owned``: what it owns, in its own words, if it says so."""
        if reconcile(group, member, None if owned is None else frozenset(owned)):
            self.note(group, member.member_id)
            self.time_revocation(member, group, now)
        accounts.moved(group, member, now, self.told)

    def bump(self, group: ConsumerGroup, now: Moment) -> None:
        """A new epoch."""
        group.epoch += 1
        accounts.begun(group, now)
        self.note(group, None)

    # Groups and members that go.

    def remove(self, members: Sequence[ConsumerMember], group: ConsumerGroup, now: Moment) -> None:
        """Take members out; the group may go back to the older protocol with those that are left."""
        for member in members:
            group.remove(member.member_id)
            self.forget_deadlines(group, member.member_id)
            self.note(group, member.member_id)
        if members and not self.give_back(group, now, rests=False):
            self.bump(group, now)
            accounts.deserted(group, now, self.told)

    def give_back(self, group: ConsumerGroup, now: Moment, *, rests: bool) -> bool:
        """Let the group go on as one of the older protocol, if all its members speak that; whether it does.

        ``rests``: nobody has left, so that nothing needs to be shared out anew if all have what they are to have.
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
        """The group is gone."""
        del self.groups[group.group_id]
        self.note(group, None)

    # Time.

    def touch(self, group: ConsumerGroup, member: ConsumerMember, now: Moment) -> None:
        """The member's session starts again."""
        self.time(group, member, Wait.SESSION, self.session_timeout_ms(group, member), now)

    def session_timeout_ms(self, group: ConsumerGroup, member: ConsumerMember) -> int:
        """How long it may be silent."""
        if member.older is not None:
            return member.older.session_timeout_ms
        return self.settings_of(group.group_id).session_timeout_ms

    def time(self, group: ConsumerGroup, member: ConsumerMember, wait: Wait, after_ms: int, now: Moment) -> None:
        """Give a member a deadline."""
        due = Due(group.group_id, member.member_id, wait)
        self.deadlines.set(due, now.monotonic + max(0, after_ms) / 1_000)

    def time_revocation(self, member: ConsumerMember, group: ConsumerGroup, now: Moment) -> None:
        """Members of the older protocol have other deadlines for the same: they are told to join again."""
        if member.state is MemberState.UNREVOKED and member.older is None:
            self.time(group, member, Wait.REVOCATION, member.rebalance_timeout_ms, now)
        else:
            self.cancel(group, member.member_id, Wait.REVOCATION)

    def is_timed(self, group: ConsumerGroup, member: ConsumerMember, wait: Wait) -> bool:
        """Whether a member has such a deadline."""
        return Due(group.group_id, member.member_id, wait) in self.deadlines

    def cancel(self, group: ConsumerGroup, member_id: str, wait: Wait) -> None:
        """Take a deadline away."""
        self.deadlines.cancel(Due(group.group_id, member_id, wait))

    def forget_deadlines(self, group: ConsumerGroup, member_id: str) -> None:
        """Take all of a member's away."""
        for wait in Wait:
            self.cancel(group, member_id, wait)

    def expire(self, due: Due, now: Moment) -> None:
        """A deadline has passed; it is no longer set."""
        group = self.groups[due.group_id]
        member = group.members[due.member_id]
        session = due.wait is Wait.SESSION
        after_ms = self.session_timeout_ms(group, member) if session else member.rebalance_timeout_ms
        accounts.note(group, _CAUSES[due.wait], member, after_ms)
        self.remove([member], group, now)

    # What is to be written.

    def note(self, group: ConsumerGroup, member_id: str | None) -> None:
        """Something about a member has changed, or with None about the group itself."""
        self._changed.setdefault(group.group_id, set()).add(member_id)

    def has_changes(self, group_id: str) -> bool:
        """Whether something of the group is not in the log, nor on its way there."""
        return group_id in self._changed

    def take_changes(self, group_id: str) -> list[Entry]:
        """What is to be written of a group, as it is now; `untake` it if the log refuses."""
        group = self.groups.get(group_id)
        whose = self._changed.pop(group_id, ())
        return [entry_of(group_id, member_id, group) for member_id in whose]

    def untake(self, group_id: str, whose: Iterable[str | None]) -> None:
        """What `take_changes` said did not get into the log."""
        self._changed.setdefault(group_id, set()).update(whose)

    def changes(self, group_id: str) -> frozenset[str | None]:
        """Whose entries `take_changes` would give: members by id, None for the group itself."""
        return frozenset(self._changed.get(group_id, ()))


def _look(group: ConsumerGroup, topics: Mapping[str, Topic]) -> bool:
    """Take over what topics there are; whether that is anything else than before for the group."""
    patterns = {each.pattern for each in group.members.values() if each.pattern}
    group.matched = {each: matching(each, topics.keys()) for each in patterns}
    wanted = group.wanted()
    found = {name: topic for name, topic in sorted(topics.items()) if name in wanted}
    differs = found != group.topics
    group.topics = found
    return differs
