"""Who is in which group at other Snodes: what they say of themselves and of each other, put together. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Final, NamedTuple

from penstock._dataclasses import dataclass
from penstock.protocols.rocketmq.wire import messages as m

__all__ = ["CONSUMER", "PRODUCER", "Key", "Told", "Union"]

# What is known of one Snode: its groups, by version, so that whoever knows less is told the difference.
#
# A group that is gone stays as a version without members, until there are many of these; who knows less than the
# ``floor`` is then told everything anew.
CONSUMER: Final = "consumer"
PRODUCER: Final = "producer"
_MOST_GONE: Final = 1_000


class Key(NamedTuple):
    """A group."""

    kind: str
    name: str


@dataclass(slots=True)
class Told:
    """One Snode; ``heard``: when it was last known to live, in seconds; ``silent``: it may live no more.

    ``members`` counts places in groups."""

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
        """Whether all of it is told, and what there is to tell to whoever knows this version; -1: nothing."""
        if version < self.floor:
            return True, tuple(each for each in self.groups.values() if not _is_gone(each))
        return False, tuple(each for each in self.groups.values() if each.version > version)

    def put(self, group: m.PeerGroup) -> None:
        """Take a group's newer version."""
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
        """Take everything anew."""
        self.groups, self.members, self._gone = {}, 0, 0
        self.version = self.floor = version
        for each in groups:
            self.put(each)

    def tidy(self) -> None:
        """Forget groups that are gone, where there are many."""
        if self._gone > _MOST_GONE:
            self.groups = {key: each for key, each in self.groups.items() if not _is_gone(each)}
            self._gone, self.floor = 0, self.version


def _is_gone(group: m.PeerGroup) -> bool:
    return not group.members and not group.left


_MOST_SNODES: Final = 256
_LONGEST: Final = 255
_NEARLY_S: Final = 10.0
"""What is forgotten so soon is not told any more: else two would remind each other of it."""
_LEFT_FOR_S: Final = 30.0
"""Longer than a silent Snode is kept, by this: it is not heard of everywhere at once."""


class Union:
    """Of the Snode ``me``. ``timeout_s``: how long silent ones are kept; ``silent_s``: from when on one is silent.

    ``most`` places in groups of each other Snode are known. Times are seconds of a clock that never goes back.
    """

    def __init__(self, me: str, *, timeout_s: float, silent_s: float, most: int, now: float) -> None:
        self.own = Told(me, "", 0, now)
        self.others: dict[str, Told] = {}
        self.refused: set[str] = set()
        self._born = now
        self._timeout_s = timeout_s
        self._silent_s = silent_s
        self._most = most
        self._left: dict[Key, dict[str, float]] = {}

    # What this Snode says.

    def say(self, group: m.PeerGroup, now: float) -> None:
        """A group as it is here now; its version and who left it is filled in here."""
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
        """A client takes leave; whether anybody might still take it for a member, so that `say` has to follow."""
        if not any(_has(told.groups.get(key), client_id) for told in self.others.values()):
            return False
        self._left.setdefault(key, {})[client_id] = now + self._timeout_s + _LEFT_FOR_S
        return True

    def outdated(self, now: float) -> list[Key]:
        """Groups whose leaves are so long ago that nobody needs to hear of them: `say` them anew."""
        return [key for key, left in self._left.items() if min(left.values()) <= now]

    # What is heard.

    def hear(self, teller: str, words: Iterable[m.PeerWords], now: float) -> set[Key]:
        """Take what a Snode said of itself and of others; the groups whose members or topics are others now."""
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
            known = Told(words.id, words.name, words.beat, now - silent_s, version=-1)
            known.silent = silent_s > self._silent_s
            return self._take(known, words)
        later = words.beat > known.beat
        if direct and later and words.version < known.version:  # somebody lied of it
            return self.forget(words.id)
        changed = self._take(known, words)
        if direct or words.beat >= known.beat:
            known.heard, known.beat = max(known.heard, now - silent_s), words.beat
        if direct or (later and silent_s <= self._silent_s):
            changed |= self._turn(known, silent=False)
        return changed

    def _take(self, known: Told, words: m.PeerWords) -> set[Key]:
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

    def _fits(self, known: Told, words: m.PeerWords) -> bool:
        """Whether it is no more than one Snode may have; names are as long as names are."""
        names = (each.name for each in words.groups)
        told = sum(len(each.members) + len(each.left) + len(each.subscriptions) + 1 for each in words.groups)
        kept = 0 if words.whole else known.members + len(known.groups)
        return told + kept <= 4 * self._most and all(0 < len(name) <= _LONGEST for name in names)

    def expire(self, now: float) -> set[Key]:
        """See who is silent, and forget who has been for too long; the groups that are others now."""
        changed: set[Key] = set()
        for told in list(self.others.values()):
            if now - told.heard >= self._timeout_s:
                changed |= self.forget(told.id)
            elif now - told.heard > self._silent_s:
                changed |= self._turn(told, silent=True)
        return changed

    def was_away(self, seconds: float) -> None:
        """This process stood still for so long (SIGSTOP, a machine that sleeps): others had no chance to be heard."""
        for told in self.others.values():
            told.heard += seconds

    def lose(self, other: str) -> set[Key]:
        """A Snode is not to be reached any more, or another one is in its place; the groups that are others now."""
        told = self.others.get(other)
        return set() if told is None else self._turn(told, silent=True)

    def forget(self, other: str) -> set[Key]:
        """Know nothing of a Snode any more."""
        with_it = self._shapes(self.others[other].groups.keys())
        del self.others[other]
        return self._changed(with_it)

    def _turn(self, told: Told, *, silent: bool) -> set[Key]:
        if told.silent == silent or told.id not in self.others:
            return set()
        with_it = self._shapes(told.groups.keys())
        told.silent = silent
        return self._changed(with_it)

    # What is told.

    def known(self) -> dict[str, int]:
        """Versions, to ask for what is newer."""
        return {each.id: each.version for each in self.others.values()}

    def tell(self, asked: m.AskPeer, now: float) -> list[m.PeerWords]:
        """What there is for somebody who knows that: of this Snode first, then of others that it does not hear."""
        self.own.beat = int((now - self._born) * 1_000)
        self.own.heard = now
        found: list[m.PeerWords] = []
        told = 0
        for each in self._for(asked, now):
            if told <= self._most:  # who is left out is told of next time
                found.append(self._words(each, asked.known.get(each.id, -1), now))
                told += sum(len(group.members) for group in found[-1].groups)
        return found

    def has_news(self, asked: m.AskPeer, now: float) -> bool:
        """Whether anything that it does not know has changed."""
        return any(told.version > asked.known.get(told.id, -1) for told in self._for(asked, now))

    def _for(self, asked: m.AskPeer, now: float) -> Iterator[Told]:
        yield self.own
        heard = {asked.id, *asked.heard}
        nearly = now - self._timeout_s + _NEARLY_S
        yield from (each for each in self.others.values() if each.id not in heard and each.heard > nearly)

    def _words(self, told: Told, version: int, now: float) -> m.PeerWords:
        whole, groups = told.since(version)
        return m.PeerWords(
            id=told.id,
            name=told.name,
            beat=told.beat,
            version=told.version,
            silent_ms=int(max(now - told.heard, self._silent_s + 1 if told.silent else 0) * 1_000),
            whole=whole,
            groups=groups,
        )

    # What it comes to.

    def members(self, key: Key) -> dict[str, tuple[Told, m.PeerMember]]:
        """A group's members at other Snodes, by client id, each once, and where."""
        found: dict[str, tuple[Told, m.PeerMember]] = {}
        left = set(self._left.get(key, ()))
        having = [(told, group) for told in self.others.values() if (group := told.groups.get(key)) is not None]
        for told, group in having:
            if not told.silent:
                left.update(group.left)
                found.update((each.client_id, (told, each)) for each in group.members)
        for told, group in having:
            if told.silent:
                for each in group.members:
                    if each.client_id not in left:
                        found.setdefault(each.client_id, (told, each))
        return found

    def groups(self, key: Key) -> list[m.PeerGroup]:
        """What other Snodes that have members of a group say of it."""
        found = (told.groups.get(key) for told in self.others.values())
        return [each for each in found if each is not None and each.members]

    def readers(self, topic: str) -> set[str]:
        """Groups that have members at other Snodes which want a topic."""
        return {
            key.name
            for told in self.others.values()
            for key, group in told.groups.items()
            if key.kind == CONSUMER and group.members and any(each.topic == topic for each in group.subscriptions)
        }

    def subscription(self, group: str, topic: str) -> m.SubscriptionData | None:
        """What members at other Snodes want of a topic, as said last."""
        wanted = [
            each
            for told in self.groups(Key(CONSUMER, group))
            for each in told.subscriptions
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
