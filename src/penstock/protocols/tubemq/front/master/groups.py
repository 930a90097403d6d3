"""All consumer groups of the master: who is in, until when, and what is due. A clock and dice are passed in.

A group lives as long as it has a member. Times are seconds of a monotonic clock. What must not live here: how
partitions are shared (`balance`), what members must agree on (`terms`), wire messages.
Source: TubeMQ master, consumer register, heartbeat, close and the balancer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator

from penstock._dataclasses import dataclass
from penstock.concurrency.limits import Owner, Shares
from penstock.concurrency.runtime import Deadlines
from penstock.model import Partition
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.front.master.balance import Dice
from penstock.protocols.tubemq.front.master.events import Event
from penstock.protocols.tubemq.front.master.group import ConsumerGroup
from penstock.protocols.tubemq.front.master.members import Member, Subscription, bytes_of
from penstock.protocols.tubemq.front.master.terms import Terms, Way

__all__ = ["Groups", "Patience"]

_log = logging.getLogger("penstock.node")


@dataclass(frozen=True, slots=True)
class Patience:
    """``member_s``: without a heartbeat for so long a member is out. ``event_s``: events that nobody acknowledges, or
    fetches, for so long are given up.
    """

    member_s: float = 30.0
    event_s: float = 60.0


class Groups:
    """Call `expire` and `balance` now and then; everything else is a request's doing.

    ``shares``: whose the members are, by group and id, and how many may be.
    """

    def __init__(self, patience: Patience, dice: Dice, shares: Shares[tuple[str, str]]) -> None:
        self._patience = patience
        self._shares = shares
        self._dice = dice
        self._groups: dict[str, ConsumerGroup] = {}
        self._deadlines: Deadlines[tuple[str, str]] = Deadlines()
        self._round = 0

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(self._groups.values())

    @property
    def members(self) -> int:
        """Of all groups."""
        return len(self._deadlines)

    @property
    def topics(self) -> set[str]:
        """What server-balanced groups read."""
        groups = self._groups.values()
        return {topic for one in groups if one.terms.way is not Way.CLIENT_BALANCE for topic in one.terms.topics}

    def get(self, name: str) -> ConsumerGroup | None:
        """A group that has members."""
        return self._groups.get(name)

    def join(self, subscription: Subscription, terms: Terms, now: float, owner: Owner | None = None) -> ConsumerGroup:
        """Book a member; ``owner``: its connection. Raises Refused; the group is then as it was."""
        self.expire(now)
        name, member = subscription.group, subscription.member.id
        known = (name, member) in self._deadlines
        self._count(name, subscription.member, terms, owner)
        group = self._groups.get(name) or ConsumerGroup(name, terms)
        try:
            group.join(subscription, terms)
        except Refused:
            if not known:
                self._shares.drop((name, member))
            raise
        self._groups[name] = group
        if not known:
            _log.info("TubeMQ group %s: %s has joined, members: %d", name, member, len(group.members))
        self._deadlines.set((name, member), now + self._patience.member_s)
        return group

    def known(self, name: str, member: str, now: float) -> ConsumerGroup:
        """The group of a member that is booked; renews its deadline. Raises Refused (HB_NO_NODE)."""
        self.expire(now)
        group = self._groups.get(name)
        if group is None:
            raise Refused(Code.HB_NO_NODE, f"Not found groupName {name} in holder!")
        if member not in group.members:
            raise Refused(Code.HB_NO_NODE, f"Invalid node id:{member}@{name}, you have to append node first!")
        self._deadlines.set((name, member), now + self._patience.member_s)
        return group

    def beat(
        self,
        name: str,
        member: str,
        holds: frozenset[Partition] | None,
        acknowledged: int | None,
        now: float,
        owner: Owner | None = None,
    ) -> tuple[ConsumerGroup, Event | None]:
        """A heartbeat: the group, and the event to send. Raises Refused (HB_NO_NODE; where it says too much)."""
        group = self.known(name, member, now)
        if holds is not None:
            self.report(group, member, holds, owner)
        before = len(group.events)
        event = group.beat(member, holds, acknowledged)
        if event is not None or len(group.events) != before:
            group.touched = now
        return group, event

    def report(self, group: ConsumerGroup, member: str, holds: frozenset[Partition], owner: Owner | None) -> None:
        """Take over what a member says it holds. Raises Refused where that is too much."""
        known = group.members[member]
        before, known.holds = known.holds, holds
        try:
            self._count(group.name, known, group.terms, owner)
        except Refused:
            known.holds = before
            raise

    def _count(self, name: str, member: Member, terms: Terms, owner: Owner | None) -> None:
        conditions = terms.conditions.values()
        size = member.size + 2 * len(name) + bytes_of(terms.topics) + sum(map(bytes_of, conditions))
        if (full := self._shares.put((name, member.id), owner, size)) is not None:
            raise Refused(Code.SERVICE_UNAVAILABLE, full)

    def close(self, name: str, member: str, why: str = "has left") -> bool:
        """A member leaves; False if it was not in. ``why`` is for the log."""
        self._deadlines.cancel((name, member))
        self._shares.drop((name, member))
        group = self._groups.get(name)
        if group is None or member not in group.members:
            return False
        group.leave(member)
        _log.info("TubeMQ group %s: %s %s, members: %d", name, member, why, len(group.members))
        if not group.members:
            del self._groups[name]
        return True

    def expire(self, now: float) -> list[tuple[str, str]]:
        """Put out who was not heard of in time; returns (group, member) of each."""
        out = list(self._deadlines.due(now))
        for name, member in out:
            self.close(name, member, "is out, it sent no heartbeat in time")
        return out

    def balance(self, now: float, partitions_of: Callable[[str, str], Iterable[Partition]]) -> Collection[str]:
        """One run over all server-balanced groups; the names of those that got events. See `round`."""
        return [name for name in self.round(now, partitions_of) if name]

    def round(self, now: float, partitions_of: Callable[[str, str], Iterable[Partition]]) -> Iterator[str]:
        """The same in steps, one a group: its name if it got events, else no text. Others may be served in between.

        ``partitions_of`` lists the partitions that a group may read of a topic; a topic that is gone has none.
        """
        self.expire(now)
        self._round += 1
        number = self._round
        for group in list(self._groups.values()):
            if self._groups.get(group.name) is not group:
                continue  # its last member has left meanwhile
            if group.terms.way is Way.CLIENT_BALANCE or not self._is_quiet(group, now):
                continue
            topics = sorted(group.terms.topics)
            candidates = [partition for topic in topics for partition in partitions_of(group.name, topic)]
            moved = group.run(number, candidates, self._dice)
            if moved:
                group.touched = now
            yield group.name if moved else ""

    def _is_quiet(self, group: ConsumerGroup, now: float) -> bool:
        """Whether nothing is under way in the group; what nobody goes on with is given up here."""
        if len(group.events) and now - group.touched >= self._patience.event_s:
            group.events.drop_all()
        return not len(group.events)
