"""The master's balancing: who gets what, the phases of a group, and the events that tell its members. Pure."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from penstock.groups.state_machine import Table
from penstock.model import Partition
from penstock.protocols.tubemq.wire.rpc import EventType

__all__ = [
    "EVENT_STAGES",
    "GROUP_PHASES",
    "PLACING_RUNS",
    "TAKING",
    "Claim",
    "Event",
    "Events",
    "Phase",
    "RandomBelow",
    "Shares",
    "Stage",
    "Step",
    "Turn",
    "events_for",
    "share_out",
]

# Which member of a group gets which partitions: the master's arithmetic, without clock, events or wire.
#
# One run takes what each member says it holds and gives back what each shall hold. Rules:
#
# 1. No member holds anything (a group's first run): per topic, members in order of their ids get contiguous slices of
#    the partitions in order, sizes differing by one at most; who has least so far gets the longer slices.
# 2. Otherwise members keep what they hold. Partitions that no member keeps are dealt, each to the member with the least
#    (at random among equals), and the run ends there.
# 3. Nothing was free: who has more than its share gives up the surplus, which goes to those who have less. Shares
#    differ by one at most, so no partition moves that need not.
#
# Source: TubeMQ master, server-side balance. The real one deals free partitions at random and evens out a round later;
# dealing them to who has least saves that second move.
RandomBelow: TypeAlias = Callable[[int], int]
"""``random_below(n)``: a number from 0 to n - 1."""

Shares: TypeAlias = dict[str, list[Partition]]
"""What each member shall hold; every member is in it."""


class Claim(Struct, frozen=True):
    """What a member holds before the run. ``stripped``: an operator wants it to lose everything this once.

    ``barred``: it gets nothing new in this run either.
    """

    member: str
    holds: frozenset[Partition]
    stripped: bool = False
    barred: bool = False


def share_out(claims: Sequence[Claim], candidates: Collection[Partition], random_below: RandomBelow) -> Shares:
    """One run. Where two members claim the same partition, the first of ``claims`` keeps it."""
    wanted = sorted(candidates)
    if not any(claim.holds or claim.stripped or claim.barred for claim in claims):
        return _slices([claim.member for claim in claims], wanted)
    shares = _kept(claims, frozenset(wanted))
    taken = {partition for share in shares.values() for partition in share}
    free = [partition for partition in wanted if partition not in taken]
    if free:
        _deal(shares, claims, free, random_below)
    elif not any(claim.stripped or claim.barred for claim in claims):
        _even_out(shares)
    return shares


def _slices(members: Sequence[str], candidates: Sequence[Partition]) -> Shares:
    shares: Shares = {member: [] for member in members}
    if not members:
        return shares
    for topic in sorted({partition.topic for partition in candidates}):
        mine = [partition for partition in candidates if partition.topic == topic]
        least, longer = divmod(len(mine), len(members))
        favoured = set(sorted(members, key=lambda member: (len(shares[member]), member))[:longer])
        at = 0
        for member in sorted(members):
            size = least + (member in favoured)
            shares[member] += mine[at : at + size]
            at += size
    return shares


def _kept(claims: Sequence[Claim], candidates: frozenset[Partition]) -> Shares:
    shares: Shares = {}
    taken: set[Partition] = set()
    for claim in claims:
        kept = set() if claim.stripped else (claim.holds & candidates) - taken
        taken |= kept
        shares[claim.member] = sorted(kept)
    return shares


def _deal(shares: Shares, claims: Sequence[Claim], free: Sequence[Partition], random_below: RandomBelow) -> None:
    """A partition that no member may have now stays free until the next run."""
    takers = [claim for claim in claims if not claim.barred]
    for partition in free:
        able = [claim.member for claim in takers if not (claim.stripped and partition in claim.holds)]
        if not able:
            continue
        least = min(len(shares[member]) for member in able)
        equals = [member for member in able if len(shares[member]) == least]
        shares[equals[random_below(len(equals))]].append(partition)


def _even_out(shares: Shares) -> None:
    total, members = sum(map(len, shares.values())), len(shares)
    if not members:
        return
    least, longer = divmod(total, members)
    # Who has most keeps the longer shares: they give up least that way.
    by_load = sorted(shares, key=lambda member: (-len(shares[member]), member))
    size = {member: least + (rank < longer) for rank, member in enumerate(by_load)}
    pool: list[Partition] = []
    for member in by_load:
        share = shares[member]
        surplus = max(0, len(share) - size[member])
        pool += share[:surplus]
        del share[:surplus]
    for member in by_load:
        missing = size[member] - len(shares[member])
        shares[member] += pool[:missing]
        del pool[:missing]


# What the master wants of a member, one thing at a time: events that travel in answers to its heartbeats.
#
# A balance run gives a member at most two events: give partitions up, then take others. The rules of the file:
#
# - A member has one event in hand at a time; it gets the next one after it acknowledged.
# - No member gets a partition while another one still has one to give up: a partition is free before it is given
#   away.
#
# An event's life is the table: waiting (made, not sent), sent (in an answer), done (acknowledged) or dropped (the
# member left, or its group's events were given up after a time). An acknowledgement of what was not sent says nothing.
# Source: TubeMQ master, consumer events (``EventProto``: rebalanceId, opType, subscribeInfo).
TAKING: Final = frozenset({EventType.CONNECT, EventType.ONLY_CONNECT})
"""The other two are for giving up; the ONLY_ ones say that the run asks nothing else of the member."""


class Stage(enum.Enum):
    """How far an event is."""

    WAITING = "waiting"
    SENT = "sent"
    DONE = "done"
    DROPPED = "dropped"


class Step(enum.Enum):
    """What happens to an event."""

    OFFER = "offer"
    ACKNOWLEDGE = "acknowledge"
    DROP = "drop"


EVENT_STAGES: Final = Table(
    "an event",
    {
        Stage.WAITING: {
            Step.OFFER: Stage.SENT,
            Step.ACKNOWLEDGE: Stage.WAITING,  # of an event of before; this one was never sent
            Step.DROP: Stage.DROPPED,
        },
        Stage.SENT: {
            Step.OFFER: Stage.SENT,  # not sent twice: the member is at it
            Step.ACKNOWLEDGE: Stage.DONE,
            Step.DROP: Stage.DROPPED,
        },
        Stage.DONE: {
            Step.OFFER: Stage.DONE,
            Step.ACKNOWLEDGE: Stage.DONE,
            Step.DROP: Stage.DONE,
        },
        Stage.DROPPED: {
            Step.OFFER: Stage.DROPPED,
            Step.ACKNOWLEDGE: Stage.DROPPED,
            Step.DROP: Stage.DROPPED,
        },
    },
)


class Event(Struct):
    """One event; ``round_id`` is the run's, the same for every member."""

    round_id: int
    kind: EventType
    partitions: tuple[Partition, ...]
    stage: Stage = Stage.WAITING

    def take(self, step: Step) -> None:
        self.stage = EVENT_STAGES[self.stage, step]


def events_for(round_id: int, holds: Iterable[Partition], wanted: Iterable[Partition]) -> list[Event]:
    """What a member that holds one set has to do to hold the other, in order."""
    before, after = frozenset(holds), frozenset(wanted)
    lost, gained = sorted(before - after), sorted(after - before)
    events = []
    if lost:
        events.append(Event(round_id, EventType.DISCONNECT if gained else EventType.ONLY_DISCONNECT, tuple(lost)))
    if gained:
        events.append(Event(round_id, EventType.CONNECT if lost else EventType.ONLY_CONNECT, tuple(gained)))
    return events


class Events:
    """The open events of one group's members."""

    def __init__(self) -> None:
        self._by_member: dict[str, list[Event]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_member.values()))

    @property
    def giving_up(self) -> bool:
        """Whether any member still has something to give up."""
        return any(event.kind not in TAKING for events in self._by_member.values() for event in events)

    def of(self, member: str) -> tuple[Event, ...]:
        """A member's open events, the first one first."""
        return tuple(self._by_member.get(member, ()))

    def add(self, member: str, events: Iterable[Event]) -> None:
        """Behind what the member has to do already."""
        added = list(events)
        if added:
            self._by_member.setdefault(member, []).extend(added)

    def offer(self, member: str) -> Event | None:
        """The event to put into an answer now, if any; it counts as sent."""
        mine = self._by_member.get(member)
        if not mine or mine[0].stage is not Stage.WAITING or (mine[0].kind in TAKING and self.giving_up):
            return None
        mine[0].take(Step.OFFER)
        return mine[0]

    def acknowledge(self, member: str, round_id: int) -> bool:
        """The member did what it was sent in that run; False if it was sent no such thing."""
        mine = self._by_member.get(member)
        if not mine or mine[0].round_id != round_id:
            return False
        mine[0].take(Step.ACKNOWLEDGE)
        if mine[0].stage is not Stage.DONE:
            return False
        self._remove_first(member)
        return True

    def drop(self, member: str) -> None:
        """The member is gone, or begins anew."""
        for event in self._by_member.pop(member, ()):
            event.take(Step.DROP)

    def drop_all(self) -> None:
        """No member has to answer any more."""
        for member in list(self._by_member):
            self.drop(member)

    def _remove_first(self, member: str) -> None:
        mine = self._by_member[member]
        del mine[0]
        if not mine:
            del self._by_member[member]


# Which partitions a group may be given now: the table of a bound group's beginning.
#
# Most groups are OPEN for ever: each balance run may move partitions. A bound group whose members ask for start offsets
# begins GATHERING: it gets nothing before as many members are there as they said. Then it is PLACING: only the
# partitions that a member asked for are given out, each to the member that asked, so that the offsets are known where
# reading begins. Once a member acknowledged that, or after two runs of it, the group is OPEN.
#
# Source: TubeMQ master, bound ("band") consumption.
PLACING_RUNS: Final = 2


class Phase(enum.Enum):
    """What may be given out."""

    OPEN = "open"
    GATHERING = "gathering"
    PLACING = "placing"


class Turn(enum.Enum):
    """What changes that: a member asks for offsets, all are there, one left, one acknowledged, two runs are over."""

    ASKED = "asked"
    COMPLETE = "complete"
    SHORT = "short"
    ACKNOWLEDGED = "acknowledged"
    SPENT = "spent"


GROUP_PHASES: Final = Table(
    "a group",
    {
        Phase.OPEN: {
            Turn.ASKED: Phase.GATHERING,  # only of a group that was never allocated anything
            Turn.COMPLETE: Phase.OPEN,
            Turn.SHORT: Phase.OPEN,
            Turn.ACKNOWLEDGED: Phase.OPEN,
            Turn.SPENT: Phase.OPEN,
        },
        Phase.GATHERING: {
            Turn.ASKED: Phase.GATHERING,
            Turn.COMPLETE: Phase.PLACING,
            Turn.SHORT: Phase.GATHERING,
            Turn.ACKNOWLEDGED: Phase.GATHERING,
            Turn.SPENT: Phase.GATHERING,
        },
        Phase.PLACING: {
            Turn.ASKED: Phase.PLACING,
            Turn.COMPLETE: Phase.PLACING,
            Turn.SHORT: Phase.GATHERING,
            Turn.ACKNOWLEDGED: Phase.OPEN,
            Turn.SPENT: Phase.OPEN,
        },
    },
)
