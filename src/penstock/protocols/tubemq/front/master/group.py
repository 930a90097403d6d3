"""One consumer group: its members, what they hold, what they are told to do, and one balance run over them.

Pure: no clock, no dice of its own, no wire. Deadlines and the table of groups are `groups`'.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.model import Partition
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.front.master.balance import Claim, Dice, share_out
from penstock.protocols.tubemq.front.master.events import TAKING, Event, Events, events_for
from penstock.protocols.tubemq.front.master.members import Member, Subscription
from penstock.protocols.tubemq.front.master.phases import PLACING_RUNS, TABLE, Phase, Turn
from penstock.protocols.tubemq.front.master.terms import Terms, Way, check_agreement

__all__ = ["ConsumerGroup"]


class ConsumerGroup:
    """``touched``: when its events last went on, by the clock of whoever calls; for giving them up.

    ``meta`` and ``meta_id``: what client-balanced members were told of its topics, and that telling's number.
    """

    def __init__(self, name: str, terms: Terms) -> None:
        self.name = name
        self.terms = terms
        self.members: dict[str, Member] = {}
        self.events = Events()
        self.phase = Phase.OPEN
        self.allocated = False
        self.touched = 0.0
        self.meta: list[str] = []
        self.meta_id = -2
        self._placed = 0

    def join(self, subscription: Subscription, terms: Terms) -> None:
        """Add a member, or begin anew with one that is there. Raises Refused for one that does not fit."""
        member = subscription.member
        others = [other for other in self.members.values() if other.id != member.id]
        if others:
            check_agreement(member.id, terms, self.terms)
            if member.node_id >= 0 and any(other.node_id == member.node_id for other in others):
                raise Refused(
                    Code.CLIENT_DUPLICATE_INDEXID, f"{member.id}: another consumer has nodeId {member.node_id} already"
                )
        else:
            self.terms = terms
        # Who begins anew may still hold what it was told to give up: then nobody may be told to take that. As long as
        # anything is to be given up nothing to be taken was sent, so forgetting all of it does no harm.
        if any(event.kind not in TAKING for event in self.events.of(member.id)):
            self.events.drop_all()
        self.events.drop(member.id)
        self.members[member.id] = member
        member.heard = member.heard or bool(member.holds)
        self.allocated = self.allocated or subscription.allocated or bool(member.holds)
        if terms.way is Way.BOUND and not self.allocated:
            self._turn(Turn.ASKED if member.asks else None)
            self._turn(Turn.COMPLETE if len(self.members) >= terms.sources else None)

    def leave(self, member: str) -> None:
        """The member closed, or was not heard of for too long."""
        if self.members.pop(member, None) is not None:
            self.events.drop(member)
            if len(self.members) < self.terms.sources:
                self._turn(Turn.SHORT)

    def beat(self, member: str, holds: frozenset[Partition] | None, acknowledged: int | None) -> Event | None:
        """A heartbeat: what it reports (None: nothing), the run it acknowledges; returns the event to send."""
        known = self.members[member]
        known.heard = True
        if holds is not None:
            known.holds = holds
        if acknowledged is not None and self.events.acknowledge(member, acknowledged):
            self.allocated = True
            self._turn(Turn.ACKNOWLEDGED)
        return self.events.offer(member)

    def strip(self, members: Collection[str], runs: int) -> None:
        """Take everything from these members in the next run, and give them nothing for ``runs`` runs."""
        for name in members:
            self.members[name].strip = True
            self.members[name].bench = runs

    def run(self, round_id: int, candidates: Collection[Partition], dice: Dice) -> bool:
        """Decide who shall hold what and make the events; True if there are any."""
        heard = [member for member in self.members.values() if member.heard]
        if self.phase is Phase.GATHERING or not heard:
            return False
        if self.phase is Phase.PLACING:
            return self._place(round_id, candidates)
        claims = [Claim(member.id, member.holds, member.strip, member.bench > 0) for member in heard]
        shares = share_out(claims, candidates, dice)
        for member in heard:
            self.events.add(member.id, events_for(round_id, member.holds, shares[member.id]))
            member.bench = max(0, member.bench - 1)
            member.strip = False
        return len(self.events) > 0

    def _place(self, round_id: int, candidates: Collection[Partition]) -> bool:
        """Give each partition that was asked for to who asked, and nothing else."""
        allowed = frozenset(candidates)
        owners = {partition: owner for partition, owner in self.asked_for().items() if partition in allowed}
        for member in self.members.values():
            mine = {partition for partition, owner in owners.items() if owner == member.id}
            kept = {partition for partition in member.holds if partition in allowed and partition not in owners}
            self.events.add(member.id, events_for(round_id, member.holds, mine | kept))
        self._placed += 1
        if self._placed >= PLACING_RUNS or not len(self.events):
            self._turn(Turn.SPENT)
        return len(self.events) > 0

    def tell(self, meta: list[str], now_ms: int) -> int:
        """What is to be told of the group's topics now; returns its number, a new one if it changed."""
        if meta != self.meta or self.meta_id < 0:
            self.meta, self.meta_id = meta, max(now_ms, self.meta_id + 1)
        return self.meta_id

    def asked_for(self) -> dict[Partition, str]:
        """Who gets a partition that members of a bound group ask for: the largest offset wins, the later of equals.

        Without ``select_big``, the smallest one.
        """
        booked: dict[Partition, tuple[int, str]] = {}
        for member in self.members.values():
            for partition, offset in member.asks.items():
                held = booked.get(partition)
                if held is None or (offset >= held[0] if self.terms.select_big else offset <= held[0]):
                    booked[partition] = (offset, member.id)
        return {partition: owner for partition, (_, owner) in booked.items()}

    def _turn(self, turn: Turn | None) -> None:
        if turn is not None:
            self.phase = TABLE[self.phase, turn]
