"""The master's consumer groups, their members and terms; and the producers it knows. Pure machines."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from penstock.concurrency.limits import Owner, Shares
from penstock.concurrency.runtime import Deadlines
from penstock.model import Partition
from penstock.protocols.tubemq.errors import Code, Refused
from penstock.protocols.tubemq.server.balancing import (
    GROUP_PHASES,
    PLACING_RUNS,
    TAKING,
    Claim,
    Event,
    Events,
    Phase,
    RandomBelow,
    Turn,
    events_for,
    share_out,
)

__all__ = [
    "ConsumerGroup",
    "Groups",
    "Member",
    "MemberTimeouts",
    "Producers",
    "Subscription",
    "Terms",
    "Way",
    "bytes_of",
    "check_agreement",
]

# A member of a consumer group as the master knows it. Data only.
_TEXT_BYTES: Final = 60
"""A short text in Python, and its place in a table."""
_PARTITION_BYTES: Final = 200


def bytes_of(texts: Iterable[str]) -> int:
    """What texts take that are kept, about."""
    return sum(_TEXT_BYTES + len(each) for each in texts)


class Member(Struct):
    """``holds``: the partitions it says it has. ``heard``: it has sent a heartbeat, or said what it has when it joined.

    ``asks``: the offsets from which a bound member wants partitions read, by partition. ``node_id``: its number among a
    client-balanced group's sources, -1 for none. ``seen``: ids of flow control and metadata it holds.
    ``strip`` and ``bench``: an operator wants it to lose its partitions in the next run, and to get none for so many.
    """

    id: str
    host: str = ""
    holds: frozenset[Partition] = frozenset()
    heard: bool = False
    asks: Mapping[Partition, int] = field(default_factory=dict)
    node_id: int = -1
    strip: bool = False
    bench: int = 0

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return _PARTITION_BYTES * (4 + len(self.holds) + len(self.asks)) + 2 * len(self.id) + len(self.host)


class Subscription(Struct, frozen=True):
    """Who wants to join which group, with what of its own; see `Member` and `Terms`."""

    group: str
    member: Member
    allocated: bool = False


# What the members of a group must agree on, and how a newcomer is refused that does not.
#
# Rows: what is compared, in the order in which the real master compares, with the code it answers. Source: TubeMQ
# master, consumer register; codes 424-430.
class Way(enum.Enum):
    """How a group consumes: the master assigns; the master assigns from given offsets; the clients choose."""

    NORMAL = "unbound"
    BOUND = "bound"
    CLIENT_BALANCE = "client-balance"


class Terms(Struct, frozen=True):
    """``conditions``: filter items by topic, only topics that have some. ``sources``: members of a bound group, or the
    source count of a client-balanced one, 0 where it says nothing.
    """

    way: Way
    topics: frozenset[str]
    conditions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    session_key: str = ""
    select_big: bool = True
    sources: int = 0


class _Row(NamedTuple):
    what: str
    code: int
    of: Callable[[Terms], object]
    ways: frozenset[Way]


_ALL: Final = frozenset(Way)
_BOUND: Final = frozenset({Way.BOUND})
_ROWS: Final = (
    _Row("way of consuming", Code.CLIENT_INCONSISTENT_CONSUMETYPE, lambda terms: terms.way.value, _ALL),
    _Row("topics", Code.CLIENT_INCONSISTENT_TOPICSET, lambda terms: sorted(terms.topics), _ALL),
    _Row(
        "filter conditions",
        Code.CLIENT_INCONSISTENT_FILTERSET,
        lambda terms: {topic: sorted(items) for topic, items in sorted(terms.conditions.items())},
        _ALL,
    ),
    _Row("session key", Code.CLIENT_INCONSISTENT_SESSIONKEY, lambda terms: terms.session_key, _BOUND),
    _Row("choice of the larger offset", Code.CLIENT_INCONSISTENT_SELECTBIG, lambda terms: terms.select_big, _BOUND),
    _Row(
        "source count",
        Code.CLIENT_INCONSISTENT_SOURCECOUNT,
        lambda terms: terms.sources,
        frozenset({Way.BOUND, Way.CLIENT_BALANCE}),
    ),
)


def check_agreement(member: str, wanted: Terms, existing: Terms) -> None:
    """Raise Refused with the code of the first thing in which ``member`` differs from its group."""
    for row in _ROWS:
        if existing.way in row.ways and row.of(wanted) != row.of(existing):
            raise Refused(
                row.code,
                f"[Inconsistency subscribe] {member}: {row.what} {row.of(wanted)} "
                f"is inconsistency with the other consumers' in the group: {row.of(existing)}",
            )


# One consumer group: its members, what they hold, their events, and one balance run over them.
#
# Pure: no clock, no random source of its own, no wire. Deadlines and the table of groups are `groups`'.
class ConsumerGroup:
    """``touched``: when its events last went on, by the caller's clock; for giving them up.

    ``meta`` and ``meta_id``: what client-balanced members last got about its topics, and that version's number.
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
        # A member that begins anew may still hold what it was to give up: then no other member may take that. As long
        # as something is to be given up, no event to take anything was sent, so all events can be dropped.
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

    def run(self, round_id: int, candidates: Collection[Partition], random_below: RandomBelow) -> bool:
        """Decide who shall hold what and make the events; True if there are any."""
        heard = [member for member in self.members.values() if member.heard]
        if self.phase is Phase.GATHERING or not heard:
            return False
        if self.phase is Phase.PLACING:
            return self._place(round_id, candidates)
        claims = [Claim(member.id, member.holds, member.strip, member.bench > 0) for member in heard]
        shares = share_out(claims, candidates, random_below)
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
        """Set what members get about the group's topics; returns its number, a new one if it changed."""
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
            self.phase = GROUP_PHASES[self.phase, turn]


# All consumer groups of the master: who is in, until when, and what is due. A clock and a random source are passed in.
#
# A group lives as long as it has a member. Times are seconds of a monotonic clock. Source: TubeMQ master, consumer
# register, heartbeat, close and the balancer.
_log = logging.getLogger("penstock.node")


class MemberTimeouts(Struct, frozen=True):
    """``member_s``: without a heartbeat for so long a member is out. ``event_s``: events that are not acknowledged, or
    fetched, for so long are given up.
    """

    member_s: float = 30.0
    event_s: float = 60.0


class Groups:
    """Call `expire` and `balance` now and then; everything else is a request's doing.

    ``shares``: whose the members are, by group and id, and how many may be.
    """

    def __init__(self, patience: MemberTimeouts, random_below: RandomBelow, shares: Shares[tuple[str, str]]) -> None:
        self._patience = patience
        self._shares = shares
        self._random_below = random_below
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
            moved = group.run(number, candidates, self._random_below)
            if moved:
                group.touched = now
            yield group.name if moved else ""

    def _is_quiet(self, group: ConsumerGroup, now: float) -> bool:
        """Whether nothing is under way in the group; events that do not go on are given up here."""
        if len(group.events) and now - group.touched >= self._patience.event_s:
            group.events.drop_all()
        return not len(group.events)


# The producers a master knows: their topics, and until when. A clock is passed in.
#
# Source: TubeMQ master, producer register, heartbeat and close.
_PRODUCER_BYTES: Final = 500


class Producers:
    """``patience_s`` without a heartbeat ends a producer; ``shares``: whose they are, and how many may be."""

    def __init__(self, patience_s: float, shares: Shares[str]) -> None:
        self._patience_s = patience_s
        self._shares = shares
        self._deadlines: Deadlines[str] = Deadlines()
        self._topics: dict[str, Sequence[str]] = {}

    def topics(self) -> Mapping[str, Sequence[str]]:
        """What each producer that is in writes to."""
        return self._topics

    def register(self, client: str, topics: Sequence[str], now: float, owner: Owner | None = None) -> None:
        """Book a producer, or begin anew with it; ``owner``: its connection. Raises Refused."""
        self.expire(now)
        self._note(client, topics, now, owner)

    def beat(self, client: str, topics: Sequence[str], now: float, owner: Owner | None = None) -> None:
        """A heartbeat. Raises Refused (HB_NO_NODE) for one that is not in, or not any more."""
        self.expire(now)
        if client not in self._topics:
            raise Refused(Code.HB_NO_NODE, f"Invalid node id:{client}, you have to append node first!")
        self._note(client, topics, now, owner)

    def close(self, client: str) -> None:
        """A producer leaves; nothing happens if it is not in."""
        self._deadlines.cancel(client)
        self._topics.pop(client, None)
        self._shares.drop(client)

    def expire(self, now: float) -> None:
        """Put out who was not heard of in time."""
        for client in self._deadlines.due(now):
            del self._topics[client]
            self._shares.drop(client)

    def _note(self, client: str, topics: Sequence[str], now: float, owner: Owner | None) -> None:
        full = self._shares.put(client, owner, _PRODUCER_BYTES + 2 * len(client) + bytes_of(topics))
        if full is not None:
            raise Refused(Code.SERVICE_UNAVAILABLE, full)
        self._topics[client] = topics
        self._deadlines.set(client, now + self._patience_s)
