"""Groups' members at other Snodes, merged from their reports about themselves and about each other. No I/O.

`SnodeState` is the state of one Snode, `Union` that of all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.protocols.rocketmq.wire import messages as m

__all__ = ["CONSUMER", "PRODUCER", "Key", "SnodeState", "Union"]

# The state of one Snode: its groups by version, so that a Snode that knows an older version gets only the difference.
#
# A group that is gone stays as a version without members until there are many of these. They are then dropped, and a
# Snode that knows a version below ``floor`` gets everything.
CONSUMER: Final = "consumer"
PRODUCER: Final = "producer"
_MOST_GONE: Final = 1_000


class Key(NamedTuple):
    """A group's kind (consumer or producer) and name."""

    kind: str
    name: str


class SnodeState(Struct):
    """One Snode's state. ``heard``: the last sign of life, in seconds; ``silent``: it may be down.

    ``members`` counts memberships over all groups."""

    id: str
    name: str
    beat: int
    heard: float
    version: int = 0
    floor: int = 0
    members: int = 0
    silent: bool = False
    groups: dict[Key, m.PeerGroup] = field(default_factory=dict)
    _gone: int = 0

    def since(self, version: int) -> tuple[bool, tuple[m.PeerGroup, ...]]:
        """Whether the report is complete, and the groups newer than ``version``; -1 stands for knowing nothing."""
        if version < self.floor:
            return True, tuple(each for each in self.groups.values() if not _is_gone(each))
        return False, tuple(each for each in self.groups.values() if each.version > version)

    def put(self, group: m.PeerGroup) -> None:
        """Take over a group if its version is newer."""
        key = Key(group.kind, group.name)
        known = self.groups.get(key)
        if known is not None:
            if known.version >= group.version:
                return
            self.members -= len(known.members)
            self._gone -= _is_gone(known)
        self.groups[key] = group
        self.members += len(group.members)
        self._gone += _is_gone(group)
        self.version = max(self.version, group.version)

    def put_whole(self, version: int, groups: Iterable[m.PeerGroup]) -> None:
        """Replace all groups."""
        self.groups, self.members, self._gone = {}, 0, 0
        self.version = self.floor = version
        for each in groups:
            self.put(each)

    def tidy(self) -> None:
        """Drop gone groups once there are many."""
        if self._gone > _MOST_GONE:
            self.groups = {key: each for key, each in self.groups.items() if not _is_gone(each)}
            self._gone, self.floor = 0, self.version


def _is_gone(group: m.PeerGroup) -> bool:
    return not group.members and not group.left


_MOST_SNODES: Final = 256
_LONGEST: Final = 255
_NEARLY_S: Final = 10.0
"""A Snode that expires within this time is not reported any more: two Snodes could keep it alive between them."""
_LEFT_FOR_S: Final = 30.0
"""A leave outlives a silent Snode by this, because the Snode does not expire everywhere at the same time."""


class Union:
    """The view of the Snode ``me``. A Snode is silent ``silent_s`` after its last sign of life; it is forgotten after
    ``timeout_s``.

    Of each other Snode, up to ``most`` memberships are accepted. Times are seconds of a monotonic clock.
    """

    def __init__(self, me: str, *, timeout_s: float, silent_s: float, most: int, now: float) -> None:
        self.own = SnodeState(me, "", 0, now)
        self.others: dict[str, SnodeState] = {}
        self.refused: set[str] = set()
        self._born = now
        self._timeout_s = timeout_s
        self._silent_s = silent_s
        self._most = most
        self._left: dict[Key, dict[str, float]] = {}

    # This Snode's own groups.

    def say(self, group: m.PeerGroup, now: float) -> None:
        """Set a group's state on this Snode; its version and the clients that left it are filled in here."""
        key = Key(group.kind, group.name)
        here = {each.client_id for each in group.members}
        left = {who: until for who, until in self._left.get(key, {}).items() if until > now and who not in here}
        if left:
            self._left[key] = left
        else:
            self._left.pop(key, None)
        known = self.own.groups.get(key)
        said = replace(group, version=0, left=tuple(left))
        if (known is None and not group.members and not left) or (known and replace(known, version=0) == said):
            return
        self.own.put(replace(said, version=self.own.version + 1))
        self.own.tidy()

    def leave(self, key: Key, client_id: str, now: float) -> bool:
        """A client left for good. Returns whether another Snode may still list it; then `say` has to follow."""
        if not any(_has(snode.groups.get(key), client_id) for snode in self.others.values()):
            return False
        self._left.setdefault(key, {})[client_id] = now + self._timeout_s + _LEFT_FOR_S
        return True

    def outdated(self, now: float) -> list[Key]:
        """Groups with leaves that are too old to be reported any more: call `say` for them."""
        return [key for key, left in self._left.items() if min(left.values()) <= now]

    # Reports of other Snodes.

    def hear(self, teller: str, words: Iterable[m.PeerWords], now: float) -> set[Key]:
        """Merge the reports of a Snode about itself and others; returns the groups with changed members or topics."""
        changed: set[Key] = set()
        for each in words:
            if each.id != self.own.id and 0 < len(each.id) <= _LONGEST and len(each.name) <= _LONGEST:
                changed |= self._hear(each, now, direct=each.id == teller)
        return changed

    def _hear(self, words: m.PeerWords, now: float, *, direct: bool) -> set[Key]:
        silent_s = 0.0 if direct else min(max(words.silent_ms, 0) / 1_000, self._timeout_s)
        known = self.others.get(words.id)
        if known is None:
            if not words.whole or silent_s > self._timeout_s - _NEARLY_S or len(self.others) >= _MOST_SNODES:
                return set()
            known = SnodeState(words.id, words.name, words.beat, now - silent_s, version=-1)
            known.silent = silent_s > self._silent_s
            return self._take(known, words)
        later = words.beat > known.beat
        if direct and later and words.version < known.version:  # a version never shrinks: a third Snode was wrong
            return self.forget(words.id)
        changed = self._take(known, words)
        if direct or words.beat >= known.beat:
            known.heard, known.beat = max(known.heard, now - silent_s), words.beat
        if direct or (later and silent_s <= self._silent_s):
            changed |= self._turn(known, silent=False)
        return changed

    def _take(self, known: SnodeState, words: m.PeerWords) -> set[Key]:
        if words.whole and words.version <= known.version:
            return set()
        if not self._fits(known, words):
            self.refused.add(words.id)
            return set()
        touched = {Key(each.kind, each.name) for each in words.groups}
        if words.whole:
            touched |= known.groups.keys()
        with_it = self._shapes(touched)
        self.others[words.id] = known
        if words.whole:
            known.put_whole(words.version, words.groups)
        else:
            for each in words.groups:
                known.put(each)
            known.version = max(known.version, words.version)
            known.tidy()
        self.refused.discard(words.id)
        return self._changed(with_it)

    def _fits(self, known: SnodeState, words: m.PeerWords) -> bool:
        """Whether the report is within the limits of one Snode, in entries and in lengths of names."""
        names = (each.name for each in words.groups)
        size = sum(len(each.members) + len(each.left) + len(each.subscriptions) + 1 for each in words.groups)
        kept = 0 if words.whole else known.members + len(known.groups)
        return size + kept <= 4 * self._most and all(0 < len(name) <= _LONGEST for name in names)

    def expire(self, now: float) -> set[Key]:
        """Mark silent Snodes, and forget those that were silent for too long; returns the changed groups."""
        changed: set[Key] = set()
        for snode in list(self.others.values()):
            if now - snode.heard >= self._timeout_s:
                changed |= self.forget(snode.id)
            elif now - snode.heard > self._silent_s:
                changed |= self._turn(snode, silent=True)
        return changed

    def was_away(self, seconds: float) -> None:
        """This process did not run for this long (SIGSTOP, a sleeping machine), so it could not hear from others."""
        for snode in self.others.values():
            snode.heard += seconds

    def lose(self, other: str) -> set[Key]:
        """A Snode cannot be reached, or another one has its address: mark it silent. Returns the changed groups."""
        snode = self.others.get(other)
        return set() if snode is None else self._turn(snode, silent=True)

    def forget(self, other: str) -> set[Key]:
        """Forget a Snode. Returns the changed groups."""
        with_it = self._shapes(self.others[other].groups.keys())
        del self.others[other]
        return self._changed(with_it)

    def _turn(self, snode: SnodeState, *, silent: bool) -> set[Key]:
        if snode.silent == silent or snode.id not in self.others:
            return set()
        with_it = self._shapes(snode.groups.keys())
        snode.silent = silent
        return self._changed(with_it)

    # Reports to other Snodes.

    def known(self) -> dict[str, int]:
        """The known version of each Snode, with which to ask for newer ones."""
        return {each.id: each.version for each in self.others.values()}

    def tell(self, asked: m.AskPeer, now: float) -> list[m.PeerWords]:
        """The report for a Snode that knows ``asked``: of this Snode first, then of those that it does not hear."""
        self.own.beat = int((now - self._born) * 1_000)
        self.own.heard = now
        found: list[m.PeerWords] = []
        size = 0
        for each in self._for(asked, now):
            if size <= self._most:  # the rest comes with the next report
                found.append(self._words(each, asked.known.get(each.id, -1), now))
                size += sum(len(group.members) for group in found[-1].groups)
        return found

    def has_news(self, asked: m.AskPeer, now: float) -> bool:
        """Whether there is anything newer than ``asked``."""
        return any(snode.version > asked.known.get(snode.id, -1) for snode in self._for(asked, now))

    def _for(self, asked: m.AskPeer, now: float) -> Iterator[SnodeState]:
        yield self.own
        heard = {asked.id, *asked.heard}
        nearly = now - self._timeout_s + _NEARLY_S
        yield from (each for each in self.others.values() if each.id not in heard and each.heard > nearly)

    def _words(self, snode: SnodeState, version: int, now: float) -> m.PeerWords:
        whole, groups = snode.since(version)
        return m.PeerWords(
            id=snode.id,
            name=snode.name,
            beat=snode.beat,
            version=snode.version,
            silent_ms=int(max(now - snode.heard, self._silent_s + 1 if snode.silent else 0) * 1_000),
            whole=whole,
            groups=groups,
        )

    # The merged result.

    def members(self, key: Key) -> dict[str, tuple[SnodeState, m.PeerMember]]:
        """A group's members at other Snodes: by client id, each once, with its Snode."""
        found: dict[str, tuple[SnodeState, m.PeerMember]] = {}
        left = set(self._left.get(key, ()))
        having = [(snode, group) for snode in self.others.values() if (group := snode.groups.get(key)) is not None]
        for snode, group in having:
            if not snode.silent:
                left.update(group.left)
                found.update((each.client_id, (snode, each)) for each in group.members)
        for snode, group in having:
            if snode.silent:
                for each in group.members:
                    if each.client_id not in left:
                        found.setdefault(each.client_id, (snode, each))
        return found

    def groups(self, key: Key) -> list[m.PeerGroup]:
        """The reports of all other Snodes that have members of a group."""
        found = (snode.groups.get(key) for snode in self.others.values())
        return [each for each in found if each is not None and each.members]

    def readers(self, topic: str) -> set[str]:
        """Groups with members at other Snodes that subscribe to a topic."""
        return {
            key.name
            for snode in self.others.values()
            for key, group in snode.groups.items()
            if key.kind == CONSUMER and group.members and any(each.topic == topic for each in group.subscriptions)
        }

    def subscription(self, group: str, topic: str) -> m.SubscriptionData | None:
        """The newest subscription of a group's members at other Snodes to a topic; None if there is none."""
        wanted = [
            each
            for each_group in self.groups(Key(CONSUMER, group))
            for each in each_group.subscriptions
            if each.topic == topic
        ]  # fmt: skip
        return max(wanted, key=lambda each: each.sub_version, default=None)

    def _shape(self, key: Key) -> tuple[Collection[str], Collection[str]]:
        topics = {each.topic for group in self.groups(key) for each in group.subscriptions}
        return set(self.members(key)), topics

    def _shapes(self, keys: Iterable[Key]) -> Mapping[Key, object]:
        return {key: self._shape(key) for key in keys}

    def _changed(self, before: Mapping[Key, object]) -> set[Key]:
        return {key for key, shape in before.items() if self._shape(key) != shape}


def _has(group: m.PeerGroup | None, client_id: str) -> bool:
    return group is not None and any(each.client_id == client_id for each in group.members)
