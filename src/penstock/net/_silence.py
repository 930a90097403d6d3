"""Silence: how long a peer that owes an answer on an open connection has said nothing.

A frozen process, or one that a network lost, keeps its connections: only the clock tells. A request may be meant to
take long (a long poll, a member that waits for its group); silence counts from then on only.
What must not live here: timers, and giving a request up.
"""

from __future__ import annotations

from typing import Final

from penstock.model import Endpoint
from penstock.net._away import FIRST_S, Away

__all__ = ["Silence"]

_LOOK_EVERY_S: Final = 5.0


class Silence:
    """Of one connection. Times are a monotonic clock's seconds."""

    __slots__ = ("_away", "_endpoint", "_since", "_told")

    def __init__(self, endpoint: Endpoint, away: Away) -> None:
        self._endpoint = endpoint
        self._away = away
        self._since = 0.0
        self._told = False

    def asked(self, now: float, held_s: float, *, owed: bool) -> None:
        """A request was written; the peer may keep it for ``held_s``. ``owed``: an answer was, already."""
        if not owed:
            self._since = now + held_s
        elif held_s:
            self._since = max(self._since, now + held_s)

    def heard(self, now: float) -> None:
        """Bytes came: it is there, and may be at work on the next answer."""
        self._since = max(self._since, now)
        if self._told:
            self._told = False
            self._away.spoke(self._endpoint, now)

    def look(self, now: float) -> float:
        """Tell it if it has lasted, while an answer is owed; seconds until the next look."""
        left = self._since + FIRST_S - now
        if left > 0:
            return left
        self._told = True
        self._away.silent(self._endpoint, self._since, now)
        return _LOOK_EVERY_S
