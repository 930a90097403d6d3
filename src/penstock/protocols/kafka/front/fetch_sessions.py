"""Fetch sessions: the node remembers what a consumer reads, so that requests and answers name only what changed.

Source: KIP-227. A session is named by a random id and counts its requests (epochs). What must not live here: reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import TYPE_CHECKING

from penstock._dataclasses import dataclass

if TYPE_CHECKING:
    from penstock.protocols.kafka.messages.fetch import FetchRequestPartition

__all__ = ["FetchSession", "FetchSessions", "Key", "Watched"]

Key = tuple[str | bytes, int]
"""Topic (its name, or its id from Fetch v13 on) and partition."""

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_LAST_EPOCH = (1 << 31) - 1
_IDLE_S = 120.0
_MOST_PARTITIONS = 10_000


@dataclass(slots=True)
class Watched:
    """One partition of a session: where its consumer is, and what the last answer said (-1: say it again)."""

    part: FetchRequestPartition
    high_watermark: int = -1
    log_start: int = -1


@dataclass(slots=True)
class FetchSession:
    """``watched`` is in the order of serving: who got records goes to the end."""

    id: int
    by_id: bool
    used: float
    epoch: int = 1
    watched: dict[Key, Watched] = field(default_factory=dict)

    def update(self, changed: Iterable[tuple[Key, FetchRequestPartition]], forgotten: Iterable[Key]) -> None:
        """Take over what an incremental request says."""
        for key, part in changed:
            known = self.watched.get(key)
            if known is None:
                self.watched[key] = Watched(part)
            else:
                known.part = part
        for key in forgotten:
            self.watched.pop(key, None)

    def to_end(self, key: Key) -> None:
        """Serve the others first next time."""
        self.watched[key] = self.watched.pop(key)

    def advance(self, now: float) -> None:
        """One more request was served."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1
        self.used = now


class FetchSessions:
    """At most ``slots`` sessions; a new one takes the place of one that was idle for two minutes, or gets none."""

    def __init__(self, slots: int, random_bytes: Callable[[int], bytes]) -> None:
        self._slots = slots
        self._random_bytes = random_bytes
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        """A session by its id."""
        return self._sessions.get(session_id)

    def remove(self, session_id: int) -> None:
        """Forget a session, if it is there."""
        self._sessions.pop(session_id, None)

    def begin(self, partitions: int, by_id: bool, now: float) -> FetchSession | None:
        """A new, empty session; None if there is no room, or if it would watch too many partitions."""
        if not 0 < partitions <= _MOST_PARTITIONS or not self._room(now):
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = int.from_bytes(self._random_bytes(4), "big") >> 1
        session = self._sessions[session_id] = FetchSession(session_id, by_id, now)
        return session

    def _room(self, now: float) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = min(self._sessions.values(), key=lambda session: session.used, default=None)
        if oldest is None or now - oldest.used < _IDLE_S:
            return False
        del self._sessions[oldest.id]
        return True
