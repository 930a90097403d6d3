"""Away: says on the log that a server is not there, once that has lasted, again now and then, and when it is back.

It cannot be connected to, or it owes an answer on an open connection and says nothing.

What must not live here: trying again, and for how long.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock._dataclasses import dataclass
from penstock.model import Endpoint

__all__ = ["FIRST_S", "Away"]

_log = logging.getLogger("penstock.connection")
FIRST_S: Final = 5.0
_EVERY_S: Final = 30.0
_A_TICK_S: Final = 0.001
_FORGOTTEN_S: Final = 60.0
"""Whom nobody has tried for so long may have been there meanwhile."""


@dataclass(slots=True)
class _Absence:
    since: float
    seen: float
    told: float | None = None


class Away:
    """``until`` says for how long it is tried, in the words of an option; ``whose`` begins each line, if given.

    Times are a monotonic clock's seconds.
    """

    def __init__(self, until: str = "", whose: str = "") -> None:
        self._whose = whose
        self._until = f"; {until}" if until else ""
        self._absences: dict[Endpoint, _Absence] = {}

    def failed(self, endpoint: Endpoint, begun: float, now: float, cause: object) -> None:
        """An attempt that began at ``begun`` came to nothing."""
        if (lasted := self._to_tell(endpoint, begun, now)) is not None:
            _log.warning("%snode %s is away for %.0f s: %s%s", self._whose, endpoint, lasted, cause, self._until)

    def silent(self, endpoint: Endpoint, since: float, now: float) -> None:
        """It has owed an answer since then, and sent nothing."""
        if self._to_tell(endpoint, since, now) is not None:
            _log.warning("%snode %s has not answered for %.0f s%s", self._whose, endpoint, now - since, self._until)

    def spoke(self, endpoint: Endpoint, now: float) -> None:
        """It answers again on a connection on which it was silent."""
        if (lasted := self._over(endpoint, now)) is not None:
            _log.warning("%snode %s answers again after %.0f s", self._whose, endpoint, lasted)

    def answered(self, endpoint: Endpoint, now: float) -> None:
        """It was connected to, and greeted."""
        if (lasted := self._over(endpoint, now)) is not None:
            _log.warning("%snode %s is back after %.0f s", self._whose, endpoint, lasted)

    def _to_tell(self, endpoint: Endpoint, begun: float, now: float) -> float | None:
        """How long it is away, if that is to be said now."""
        absence = self._absences.get(endpoint)
        if absence is None or begun - absence.seen > _FORGOTTEN_S:
            absence = self._absences[endpoint] = _Absence(begun, now)
        absence.seen = now
        lasted = now - absence.since
        if lasted < FIRST_S or (absence.told is not None and now - absence.told < _EVERY_S - _A_TICK_S):
            return None
        absence.told = now
        return lasted

    def _over(self, endpoint: Endpoint, now: float) -> float | None:
        """How long it was away, if that was said."""
        absence = self._absences.pop(endpoint, None)
        return now - absence.since if absence is not None and absence.told is not None else None
