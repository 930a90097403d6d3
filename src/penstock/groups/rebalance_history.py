"""A group's history of rebalances: recorded while they happen, of limited size, and readable as a sentence.

A rebalance begins when members are asked to join again, and ends with the assignment. Its reasons are those noted just
before its start or until all have joined. Pure: times are passed in (monotonic seconds, and wall-clock milliseconds for
people).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.interfaces.admin import Rebalance, RebalanceCause, RebalanceEnding, RebalanceMove, RebalanceReason
from penstock.model import Partition

__all__ = ["Account", "sentence"]

ROUNDS: Final = 20
"""Rebalances that a group remembers."""
NAMED: Final = 10
"""How many reasons, members with changes, and partitions of each are kept by name; the rest is only counted."""
LONGEST: Final = 200
"""Characters of a name that are kept."""
UNREAD: Final = -1
"""The number of members with changes if the assignment cannot be decoded."""

Owned = Mapping[str, bytes]
"""Undecoded assignments by member."""
Read = Callable[[bytes], Collection[Partition] | None]
"""Decodes an assignment; returns None if that is impossible."""


class _Round(Struct):
    """A `Rebalance` in progress; ``since`` is the start of its current phase."""

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
        """The duration of the current phase so far."""
        return round((now - self.since) * 1_000)

    def finished(self, ending: RebalanceEnding) -> Rebalance:
        """Make the finished record of it."""
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


class Account(Struct):
    """The history of one group.

    The calls for one rebalance come in this order: `begin`, `formed`, `brought`, `assigned`.
    """

    _done: deque[Rebalance] = field(default_factory=lambda: deque(maxlen=ROUNDS))
    _round: _Round | None = None
    _noted: list[RebalanceReason] = field(default_factory=list)
    _noted_total: int = 0
    _last_joined: str = ""
    _owned: dict[str, bytes] = field(default_factory=dict)

    def rebalances(self) -> Sequence[Rebalance]:
        """The last ones, oldest first, with the one in progress at the end, if any."""
        if self._round is None:
            return [*self._done]
        under_way = self._round
        if under_way.joining:
            under_way = replace(under_way, reasons=tuple(self._noted), reasons_total=self._noted_total)
        return [*self._done, under_way.finished(RebalanceEnding.UNDER_WAY)]

    def note(self, reason: RebalanceReason) -> None:
        """Note why a rebalance is about to begin, or takes longer."""
        self._noted_total += 1
        if len(self._noted) < NAMED:
            self._noted.append(_shortened(reason))

    def joined(self, member: str) -> None:
        """Note that a member has joined."""
        self._last_joined = _short(member)

    def begin(self, now: float, wall_ms: int) -> Rebalance | None:
        """Members are asked to join. Returns the previous rebalance if this one replaces it."""
        given_up = None
        if self._round is not None and not self._round.joining:
            given_up = self._end(RebalanceEnding.GIVEN_UP)
        self._round = _Round(wall_ms, now)
        return given_up

    def formed(self, now: float, generation: int, members: int, leader: str, protocol: str) -> None:
        """All members have joined, or the others are no longer waited for."""
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
        """No member is left to join."""
        self.formed(now, generation, 0, "", "")
        self._owned = {}
        return self._end(RebalanceEnding.DESERTED)

    def brought(self, now: float) -> None:
        """The leader has sent the assignment."""
        if self._round is not None:
            self._round.assign_ms = self._round.passed_ms(now)
            self._round.since = now

    def assigned(self, now: float, owned: Owned, read: Read | None) -> Rebalance | None:
        """The assignment is in the log, and members get it. Returns the finished rebalance.

        Without ``read``, assignments cannot be decoded.
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
        """A member continues under another id."""
        if old in self._owned:
            self._owned[new] = self._owned.pop(old)

    def restored(self, owned: Owned) -> None:
        """Continue from an earlier assignment."""
        self._owned = dict(owned)

    def _end(self, ending: RebalanceEnding) -> Rebalance | None:
        if self._round is None:
            return None
        rebalance = self._round.finished(ending)
        self._round = None
        self._done.append(rebalance)
        return rebalance


def _shortened(reason: RebalanceReason) -> RebalanceReason:
    if len(reason.member) <= LONGEST and len(reason.client) <= LONGEST:
        return reason
    return replace(reason, member=_short(reason.member), client=_short(reason.client))


def _short(name: str) -> str:
    """Shorten a name for the history, because clients choose their names and their length."""
    return name[:LONGEST]


def _moves(before: Owned, after: Owned, read: Read) -> Iterator[RebalanceMove]:
    for member in {**before, **after}:
        old, new = before.get(member, b""), after.get(member, b"")
        if old == new:
            continue  # the usual case with sticky assignments
        had, has = read(old), read(new)
        if had is None or has is None:
            continue
        lost, gained = sorted(set(had) - set(has)), sorted(set(has) - set(had))
        if lost or gained:
            yield RebalanceMove(_short(member), tuple(lost[:NAMED]), tuple(gained[:NAMED]), len(lost), len(gained))


def sentence(rebalance: Rebalance) -> str:
    """A rebalance as one sentence on one line, without the group's name, whatever characters clients use in names."""
    parts = [_outcome(rebalance), f"because {_reasons(rebalance)}"]
    if rebalance.join_ms:
        slowest = f" ({rebalance.last_joined} was last)" if rebalance.last_joined and rebalance.members > 1 else ""
        parts.append(f"{_time(rebalance.join_ms)} until all had joined{slowest}")
    if rebalance.assign_ms:
        parts.append(f"{_time(rebalance.assign_ms)} until {rebalance.leader} had assigned")
    if rebalance.store_ms:
        parts.append(f"{_time(rebalance.store_ms)} until it was stored")
    if rebalance.ending is RebalanceEnding.ASSIGNED and rebalance.moved_total != UNREAD:
        parts.append(_moved(rebalance))
    line = "; ".join(parts)
    return line if line.isprintable() else "".join(each if each.isprintable() else "?" for each in line)


def _outcome(rebalance: Rebalance) -> str:
    who = "1 member" if rebalance.members == 1 else f"{rebalance.members} members"
    if rebalance.ending is RebalanceEnding.ASSIGNED:
        return f"generation {rebalance.generation} of {who} after {_time(rebalance.took_ms)}"
    if rebalance.ending is RebalanceEnding.DESERTED:
        return "no members any more"
    if rebalance.ending is RebalanceEnding.GIVEN_UP:
        return f"generation {rebalance.generation} of {who} given up after {_time(rebalance.took_ms)} for another round"
    return "a rebalance is under way"


def _reasons(rebalance: Rebalance) -> str:
    words = [_reason(each) for each in rebalance.reasons[:3]]
    more = rebalance.reasons_total - len(words)
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
    return f"{reason.member or 'a member'}{client} {reason.why}{after if reason.after_ms else ''}{said}"


def _moved(rebalance: Rebalance) -> str:
    if not rebalance.moved_total:
        return "nothing moved"
    words = [f"{each.member} lost {each.lost_total} and gained {each.gained_total}" for each in rebalance.moved[:3]]
    more = rebalance.moved_total - len(words)
    return f"{', '.join(words)}{f' and {more} more members' if more > 0 else ''}"


def _time(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:.1f} s"
