"""A group's account of its rebalances: written while they happen, bounded, and one of them in a sentence.

A round begins when members are asked to join again, and ends with the assignment; what is noted in between, or was
noted just before, is why. Pure: times are passed in (monotonic seconds, and wall milliseconds for what people read).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from penstock._dataclasses import dataclass
from penstock.interfaces.admin import Rebalance, RebalanceCause, RebalanceEnding, RebalanceMove, RebalanceReason
from penstock.model import Partition

__all__ = ["Account", "sentence"]

ROUNDS: Final = 20
"""Rebalances that a group remembers."""
NAMED: Final = 10
"""Reasons, members that lost or gained, and partitions of each, that are kept by name; the others are counted."""
LONGEST: Final = 200
"""Characters of a name that are kept."""
UNREAD: Final = -1
"""How many members lost or gained something where nobody can read what was shared out."""

Owned = Mapping[str, bytes]
"""An assignment, undecoded, by member."""
Read = Callable[[bytes], Collection[Partition] | None]
"""What an assignment says; None where nobody can tell."""


@dataclass(slots=True)
class _Round:
    """What will be a `Rebalance`; ``since`` is when its present phase began."""

    began_ms: int
    since: float
    joining: bool = True
    generation: int = -1
    members: int = 0
    leader: str = ""
    protocol: str = ""
    reasons: tuple[RebalanceReason, ...] = ()
    reasons_total: int = 0
    join_ms: int = 0
    last_joined: str = ""
    assign_ms: int = 0
    store_ms: int = 0
    moved: tuple[RebalanceMove, ...] = ()
    moved_total: int = 0

    def passed_ms(self, now: float) -> int:
        """Of the present phase."""
        return round((now - self.since) * 1_000)

    def told(self, ending: RebalanceEnding) -> Rebalance:
        """As it is to be read."""
        return Rebalance(
            began_ms=self.began_ms,
            ending=ending,
            generation=self.generation,
            members=self.members,
            leader=self.leader,
            protocol=self.protocol,
            reasons=self.reasons,
            reasons_total=self.reasons_total,
            join_ms=self.join_ms,
            last_joined=self.last_joined,
            assign_ms=self.assign_ms,
            store_ms=self.store_ms,
            moved=self.moved,
            moved_total=self.moved_total,
        )


@dataclass(slots=True)
class Account:
    """One group's. The order of calls is that of a round: `begin`, `formed`, `brought`, `assigned`."""

    _done: deque[Rebalance] = field(default_factory=lambda: deque(maxlen=ROUNDS))
    _round: _Round | None = None
    _noted: list[RebalanceReason] = field(default_factory=list)
    _noted_total: int = 0
    _last_joined: str = ""
    _owned: dict[str, bytes] = field(default_factory=dict)

    def rebalances(self) -> Sequence[Rebalance]:
        """The last ones, oldest first; the one that is under way, if any, at the end."""
        if self._round is None:
            return [*self._done]
        under_way = self._round
        if under_way.joining:
            under_way = replace(under_way, reasons=tuple(self._noted), reasons_total=self._noted_total)
        return [*self._done, under_way.told(RebalanceEnding.UNDER_WAY)]

    def note(self, reason: RebalanceReason) -> None:
        """RebalanceCause a round is about to begin, or goes on longer."""
        self._noted_total += 1
        if len(self._noted) < NAMED:
            self._noted.append(_shortened(reason))

    def joined(self, member: str) -> None:
        """A member has joined."""
        self._last_joined = _short(member)

    def begin(self, now: float, wall_ms: int) -> Rebalance | None:
        """Members are asked to join; the round before, if it was given up for that."""
        given_up = None
        if self._round is not None and not self._round.joining:
            given_up = self._end(RebalanceEnding.GIVEN_UP)
        self._round = _Round(wall_ms, now)
        return given_up

    def formed(self, now: float, generation: int, members: int, leader: str, protocol: str) -> None:
        """All have joined, or nobody waits for the others any more."""
        begun = self._round
        if begun is None:
            return
        if begun.generation < 0:
            begun.reasons, begun.reasons_total = tuple(self._noted), self._noted_total
        begun.generation, begun.members = generation, members
        begun.leader, begun.protocol = _short(leader), protocol
        begun.join_ms, begun.last_joined = begun.passed_ms(now), self._last_joined
        begun.since, begun.joining = now, False
        self._noted, self._noted_total = [], 0

    def deserted(self, now: float, generation: int) -> Rebalance | None:
        """Nobody is left to join."""
        self.formed(now, generation, 0, "", "")
        self._owned = {}
        return self._end(RebalanceEnding.DESERTED)

    def brought(self, now: float) -> None:
        """The leader has brought the assignment."""
        if self._round is not None:
            self._round.assign_ms = self._round.passed_ms(now)
            self._round.since = now

    def assigned(self, now: float, owned: Owned, read: Read | None) -> Rebalance | None:
        """The assignment is in the log, and members get it; what has come to its end. Without ``read`` nobody can tell
        what it says.
        """
        before, self._owned = self._owned, dict(owned)
        if self._round is None:
            return None
        moves = list(_moves(before, self._owned, read)) if read is not None else []
        moves.sort(key=lambda each: -each.lost_total - each.gained_total)
        self._round.store_ms = self._round.passed_ms(now)
        self._round.moved = tuple(moves[:NAMED])
        self._round.moved_total = len(moves) if read is not None else UNREAD
        return self._end(RebalanceEnding.ASSIGNED)

    def renamed(self, old: str, new: str) -> None:
        """A member goes on under another id."""
        if old in self._owned:
            self._owned[new] = self._owned.pop(old)

    def restored(self, owned: Owned) -> None:
        """Go on from an assignment of before."""
        self._owned = dict(owned)

    def _end(self, ending: RebalanceEnding) -> Rebalance | None:
        if self._round is None:
            return None
        told = self._round.told(ending)
        self._round = None
        self._done.append(told)
        return told


def _shortened(reason: RebalanceReason) -> RebalanceReason:
    if len(reason.member) <= LONGEST and len(reason.client) <= LONGEST:
        return reason
    return replace(reason, member=_short(reason.member), client=_short(reason.client))


def _short(name: str) -> str:
    """As much of a name as is remembered: clients choose theirs, and how long it is."""
    return name[:LONGEST]


def _moves(before: Owned, after: Owned, read: Read) -> Iterator[RebalanceMove]:
    for member in {**before, **after}:
        old, new = before.get(member, b""), after.get(member, b"")
        if old == new:
            continue  # most, where assignments stick
        had, has = read(old), read(new)
        if had is None or has is None:
            continue
        lost, gained = sorted(set(had) - set(has)), sorted(set(has) - set(had))
        if lost or gained:
            yield RebalanceMove(_short(member), tuple(lost[:NAMED]), tuple(gained[:NAMED]), len(lost), len(gained))


def sentence(told: Rebalance) -> str:
    """A rebalance as one sentence, without the group's name, and on one line, whatever clients call themselves."""
    parts = [_outcome(told), f"because {_reasons(told)}"]
    if told.join_ms:
        slowest = f" ({told.last_joined} was last)" if told.last_joined and told.members > 1 else ""
        parts.append(f"{_time(told.join_ms)} until all had joined{slowest}")
    if told.assign_ms:
        parts.append(f"{_time(told.assign_ms)} until {told.leader} had assigned")
    if told.store_ms:
        parts.append(f"{_time(told.store_ms)} until it was stored")
    if told.ending is RebalanceEnding.ASSIGNED and told.moved_total != UNREAD:
        parts.append(_moved(told))
    line = "; ".join(parts)
    return line if line.isprintable() else "".join(each if each.isprintable() else "?" for each in line)


def _outcome(told: Rebalance) -> str:
    who = "1 member" if told.members == 1 else f"{told.members} members"
    if told.ending is RebalanceEnding.ASSIGNED:
        return f"generation {told.generation} of {who} after {_time(told.took_ms)}"
    if told.ending is RebalanceEnding.DESERTED:
        return "no members any more"
    if told.ending is RebalanceEnding.GIVEN_UP:
        return f"generation {told.generation} of {who} given up after {_time(told.took_ms)} for another round"
    return "a rebalance is under way"


def _reasons(told: Rebalance) -> str:
    words = [_reason(each) for each in told.reasons[:3]]
    more = told.reasons_total - len(words)
    if more > 0:
        words.append(f"{more} more")
    return ", ".join(words) or "of something that is not known"


def _reason(reason: RebalanceReason) -> str:
    client = f" (client {reason.client})" if reason.client and not reason.member.startswith(reason.client) else ""
    after = (
        f" for {_time(reason.after_ms)}"
        if reason.why is RebalanceCause.EXPIRED
        else f" within {_time(reason.after_ms)}"
    )
    said = f', saying "{reason.said}"' if reason.said else ""
    return f"{reason.member or 'somebody'}{client} {reason.why}{after if reason.after_ms else ''}{said}"


def _moved(told: Rebalance) -> str:
    if not told.moved_total:
        return "nothing moved"
    words = [f"{each.member} lost {each.lost_total} and gained {each.gained_total}" for each in told.moved[:3]]
    more = told.moved_total - len(words)
    return f"{', '.join(words)}{f' and {more} more members' if more > 0 else ''}"


def _time(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:.1f} s"
