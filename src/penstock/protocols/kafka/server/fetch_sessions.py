"""Fetch sessions: the node remembers a consumer's partitions, so that requests and responses name only changes.

Source: KIP-227. A session has a random id and numbers its requests (epochs).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from penstock.concurrency.limits import ADDRESS_PERCENT, UNLIMITED, Memory

if TYPE_CHECKING:
    from penstock.protocols.kafka.wire.fetch import FetchRequestPartition

__all__ = ["FetchSession", "FetchSessions", "Key", "Watched"]

Key = tuple[str | bytes, int]
"""Topic (its name, or its id from Fetch v13 on) and partition."""

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_LAST_EPOCH = (1 << 31) - 1
_IDLE_S = 120.0
_MOST_PARTITIONS = 10_000
_SLOTS_OF_A_CONNECTION = 16
"""The most sessions per connection; clients have one on each."""
_SHARE_OF_MEMORY = 8
WATCHED_BYTES: Final = 1_000
"""Memory of a session's partition: measured from 300 (many at the session's start) to 960 (added later)."""


class Watched(Struct):
    """One partition of a session: its request, and the offsets in the last response (-1: send them again)."""

    part: FetchRequestPartition
    high_watermark: int = -1
    log_start: int = -1


class FetchSession(Struct):
    """One session.

    ``watched`` is in the order of serving: a partition that got records moves to the end. ``size``: how many of its
    partitions count against the limit. ``is_old``: the session may be evicted for another one.
    """

    id: int
    by_id: bool
    used: float
    epoch: int = 1
    watched: dict[Key, Watched] = field(default_factory=dict)
    host: str = ""
    owner: weakref.ref[Any] | None = None
    begun: float = 0.0
    size: int = 0
    is_old: bool = False

    def update(self, changed: Iterable[tuple[Key, FetchRequestPartition]], forgotten: Iterable[Key]) -> None:
        """Take over the changes of an incremental request."""
        for key, part in changed:
            known = self.watched.get(key)
            if known is None:
                self.watched[key] = Watched(part)
            else:
                known.part = part
        for key in forgotten:
            self.watched.pop(key, None)

    def to_end(self, key: Key) -> None:
        """Serve this partition last next time."""
        self.watched[key] = self.watched.pop(key)

    def advance(self, now: float) -> None:
        """Note a served request."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1
        self.used = now


class FetchSessions:
    """At most ``slots`` sessions, with as many partitions together as fit into an eighth of the memory.

    A new session takes a free slot. If there is none, it evicts another session:

    - the least recently used one, if that was idle for two minutes;
    - else the one with the fewest partitions, if that has fewer than the new one and is older than two minutes.

    If neither can be evicted, the client fetches without a session. An address may have its share of the slots and of
    the partitions, a connection a few slots. Beyond that, a new session evicts one of the same address or connection.

    Source: Kafka's FetchSessionCache (KIP-227), which has no shares and counts no memory. It prefers sessions of
    followers; a node has no followers.
    """

    def __init__(
        self,
        slots: int,
        random_bytes: Callable[[int], bytes],
        memory: Memory = UNLIMITED,
        address_percent: int = ADDRESS_PERCENT,
    ) -> None:
        self._slots = slots
        self._slots_of_address = max(1, slots * address_percent // 100)
        self._random_bytes = random_bytes
        self._memory = memory
        self._most_watched = memory.limit // _SHARE_OF_MEMORY // WATCHED_BYTES
        self._watched_of_address = self._most_watched * address_percent // 100
        self._sessions: dict[int, FetchSession] = {}
        self._watched = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def watched(self) -> int:
        """The partitions of all sessions."""
        return self._watched

    def get(self, session_id: int) -> FetchSession | None:
        """A session by its id."""
        return self._sessions.get(session_id)

    def remove(self, session_id: int) -> None:
        """Remove a session, if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._count(-session.size)
            session.size = 0

    def begin(
        self, partitions: int, by_id: bool, now: float, host: str = "", connection: object = None
    ) -> FetchSession | None:
        """A new, empty session; None if there is no room, or if it would have too many partitions.

        The session belongs to ``connection``, at ``host``.
        """
        if not 0 < partitions <= _MOST_PARTITIONS or not self._makes_room(partitions, now, host, connection):
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = int.from_bytes(self._random_bytes(4), "big") >> 1
        owner = None if connection is None else weakref.ref(connection)
        session = self._sessions[session_id] = FetchSession(session_id, by_id, now, host=host, owner=owner, begun=now)
        return session

    def resized(self, session: FetchSession, now: float) -> bool:
        """Count a session's present partitions. Returns False if they are too many: the session is then removed."""
        grown = len(session.watched) - session.size
        session.size += grown
        self._count(grown)
        if grown > 0 and (
            session.size > _MOST_PARTITIONS
            or self._watched > self._most_watched
            or self._watched_from(session.host) > self._watched_of_address
        ):
            self.remove(session.id)
            return False
        # A session's age is determined when it is used, as in Kafka.
        session.is_old = now - session.begun > _IDLE_S
        return True

    def _count(self, change: int) -> None:
        self._watched += change
        self._memory.keep(change * WATCHED_BYTES)

    def _watched_from(self, host: str) -> int:
        return sum(each.size for each in self._sessions.values() if each.host == host)

    def _makes_room(self, partitions: int, now: float, host: str, connection: object) -> bool:
        mine = [each for each in self._sessions.values() if each.owner is not None and each.owner() is connection]
        if len(mine) >= _SLOTS_OF_A_CONNECTION:
            self.remove(min(mine, key=_last_used).id)
        here = [each for each in self._sessions.values() if each.host == host]
        if len(here) >= self._slots_of_address and not self._evict(here, partitions, now):
            return False
        if len(self._sessions) >= self._slots and not self._evict(self._sessions.values(), partitions, now):
            return False
        while self._watched + partitions > self._most_watched or (
            self._watched_from(host) + partitions > self._watched_of_address
        ):
            if not self._evict_idle(self._sessions.values(), now):
                return False
        return True

    def _evict_idle(self, among: Collection[FetchSession], now: float) -> bool:
        idle = min(among, key=_last_used, default=None)
        if idle is None or now - idle.used <= _IDLE_S:
            return False
        self.remove(idle.id)
        return True

    def _evict(self, among: Collection[FetchSession], partitions: int, now: float) -> bool:
        """Evict one of these for a session with so many partitions."""
        if self._evict_idle(among, now):
            return True
        smallest = min((each for each in among if each.is_old), key=_size, default=None)
        if smallest is None or (partitions, 0) < (smallest.size, smallest.id):
            return False
        self.remove(smallest.id)
        return True


def _last_used(session: FetchSession) -> float:
    return session.used


def _size(session: FetchSession) -> tuple[int, int]:
    return session.size, session.id
