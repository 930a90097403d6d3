"""What the master wants of a member, one thing at a time: events that travel in answers to its heartbeats.

A balance run gives a member at most two events: give partitions up, then take others. The rules of the file:

- A member has one event in hand at a time; it gets the next one after it acknowledged.
- Nobody in the group is told to take anything while somebody still has something to give up: a partition is free before
  it is given away.

An event's life is the table: waiting (made, not sent), sent (in an answer), done (acknowledged) or dropped (the member
left, or its group's events were given up after a time). An acknowledgement of what was not sent says nothing.
Source: TubeMQ master, consumer events (``EventProto``: rebalanceId, opType, subscribeInfo).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from penstock._dataclasses import dataclass
from penstock.groups.state_machine import Table
from penstock.model import Partition
from penstock.protocols.tubemq.methods import EventType

__all__ = ["TABLE", "TAKING", "Event", "Events", "Stage", "Step", "events_for"]


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


TABLE: Final = Table(
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


@dataclass(slots=True)
class Event:
    """One event; ``round_id`` is the run's, the same for every member."""

    round_id: int
    kind: EventType
    partitions: tuple[Partition, ...]
    stage: Stage = Stage.WAITING

    def take(self, step: Step) -> None:
        self.stage = TABLE[self.stage, step]


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
        """Nobody need answer any more."""
        for member in list(self._by_member):
            self.drop(member)

    def _remove_first(self, member: str) -> None:
        mine = self._by_member[member]
        del mine[0]
        if not mine:
            del self._by_member[member]
