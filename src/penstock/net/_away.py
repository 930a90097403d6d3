"""Away: says on the log that a server cannot be reached, once that has lasted, again now and then, and when it is back.

What must not live here: trying again, and for how long.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from penstock.model import Endpoint

__all__ = ["Away"]

_log = logging.getLogger("penstock.net")
_FIRST_S: Final = 5.0
_EVERY_S: Final = 30.0
_FORGOTTEN_S: Final = 60.0
"""Whom nobody has tried for so long may have been there meanwhile."""


@dataclass(slots=True)
class _Absence:
    since: float
    seen: float
    told: float | None = None


class Away:
    """``until`` says for how long it is tried, in the words of an option. Times are a monotonic clock's seconds."""

    def __init__(self, until: str = "") -> None:
        self._until = f"; {until}" if until else ""
        self._absences: dict[Endpoint, _Absence] = {}

    def failed(self, endpoint: Endpoint, begun: float, now: float, cause: object) -> None:
        """An attempt that began at ``begun`` came to nothing."""
        absence = self._absences.get(endpoint)
        if absence is None or begun - absence.seen > _FORGOTTEN_S:
            absence = self._absences[endpoint] = _Absence(begun, now)
        absence.seen = now
        lasted = now - absence.since
        if lasted >= _FIRST_S and (absence.told is None or now - absence.told >= _EVERY_S):
            absence.told = now
            _log.warning("node %s is away for %.0f s: %s%s", endpoint, lasted, cause, self._until)

    def answered(self, endpoint: Endpoint, now: float) -> None:
        """It was connected to, and greeted."""
        absence = self._absences.pop(endpoint, None)
        if absence is not None and absence.told is not None:
            _log.warning("node %s is back after %.0f s", endpoint, now - absence.since)
