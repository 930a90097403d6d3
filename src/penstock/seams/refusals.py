"""Refusals: a line in the node's log for each thing that a client was told no about, so that nobody has to ask twice.

A line says who asked, what for, which code was answered, why, and what to do. A client that asks again and again is
told of once a minute, with how many lines were held back. What is remembered of clients is bounded, and so are the
lines of a minute, whatever clients call themselves and ask for. What must not live here: which codes are refusals.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock._dataclasses import dataclass
from penstock.model import Endpoint
from penstock.seams.runtime import Timer

__all__ = ["EVERY_S", "LINES", "Asker", "Refusal", "Refusals"]

_log = logging.getLogger("penstock.refused")

EVERY_S: Final = 60.0
"""How often one client is told of for one code and topic."""
LINES: Final = 100
"""In so many seconds at most, of all clients together."""
_EARLY_S: Final = 0.01
"""So much too soon a timer may ring."""
_MOST: Final = 1_000
_LONGEST: Final = 200

Later = Callable[[float, Callable[[], None]], Timer]


class Asker(NamedTuple):
    """Who asked: what it calls itself, empty if nothing, and where from."""

    name: str
    address: Endpoint


class Refusal(NamedTuple):
    """``api`` and ``code`` by their names; the code is 0 where the answer has none. ``topic`` and ``group`` are empty,
    ``partition`` is -1, where there is none.

    ``why`` and ``advice`` in words.
    """

    scheme: str
    asker: Asker
    api: str
    code: int
    name: str
    topic: str
    group: str
    why: str
    advice: str
    partition: int = -1

    def __str__(self) -> str:
        who = (
            f"client {_plain(self.asker.name)} at {self.asker.address}" if self.asker.name else str(self.asker.address)
        )
        number = f"-{self.partition}" if self.partition >= 0 else ""
        what = [f"topic {_plain(self.topic)}{number}"] if self.topic else []
        what += [f"group {_plain(self.group)}"] if self.group else []
        about = f" ({', '.join(what)})" if what else ""
        advice = f"; {_plain(self.advice)}" if self.advice else ""
        answer = f"{self.name} ({self.code})" if self.code else "at once"
        return f"{self.scheme}: {_plain(self.api)} of {who}{about} was answered {answer}: {_plain(self.why)}{advice}"


@dataclass(slots=True)
class _Told:
    """What was told last of one key, when its minute is over, and how often it happened since."""

    refusal: Refusal
    until: float
    held: int = 0


class Refusals:
    """A node's. ``now`` in seconds that never go back. Without ``later`` what was held back is told with the next line.

    >>> asker = Asker("billing", Endpoint("10.0.0.4", 51234))
    >>> print(Refusal("kafka", asker, "Fetch", 3, "UNKNOWN_TOPIC", "flights", "", "no such", "make it", 0))
    kafka: Fetch of client billing at 10.0.0.4:51234 (topic flights-0) was answered UNKNOWN_TOPIC (3): no such; make it
    >>> print(Refusal("kafka", asker, "Fetch", 0, "NONE", "", "", "9 fetches are held", "raise max_held"))
    kafka: Fetch of client billing at 10.0.0.4:51234 was answered at once: 9 fetches are held; raise max_held
    """

    def __init__(self, now: Callable[[], float], later: Later | None = None) -> None:
        self._now = now
        self._later = later
        self._told: dict[tuple[str, str, str, int, str], _Told] = {}
        self._begun = now()
        self._lines = self._unsaid = 0
        self._timer: Timer | None = None

    def __len__(self) -> int:
        """Clients, codes and topics that are remembered."""
        return len(self._told)

    def tell(self, refusal: Refusal) -> None:
        """Write the line, or count it."""
        now = self._now()
        self._end_minutes(now)
        asker = refusal.asker
        about = refusal.topic or refusal.group
        key = (refusal.scheme, asker.name[:_LONGEST], asker.address.host, refusal.code, about[:_LONGEST])
        known = self._told.get(key)
        if known is not None:
            known.held += 1
        elif self._lines >= LINES or len(self._told) >= _MOST:
            self._unsaid += 1
        else:
            self._told[key] = _Told(_cut(refusal), now + EVERY_S)
            self._lines += 1
            _log.warning("%s", refusal)
            return
        if self._timer is None and self._later is not None:
            self._timer = self._later(EVERY_S, self._rung)

    def close(self) -> None:
        """Tell what was held back so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end_minutes(float("inf"))

    def _rung(self) -> None:
        self._timer = None
        self._end_minutes(self._now() + _EARLY_S)
        if self._unsaid or any(each.held for each in self._told.values()):
            assert self._later is not None
            self._timer = self._later(EVERY_S, self._rung)

    def _end_minutes(self, now: float) -> None:
        """Say how many were held back of those whose minute is over; they come in the order of their minutes."""
        while self._told:
            key, each = next(iter(self._told.items()))
            if each.until > now:
                break
            del self._told[key]
            if each.held:
                _log.warning("%d more times in %d s: %s", each.held, EVERY_S, each.refusal)
        if now - self._begun >= EVERY_S:
            if self._unsaid:
                _log.warning(
                    "%d more refusals are not told one by one: %d lines a minute are; penstock_errors_total counts all",
                    self._unsaid,
                    LINES,
                )
            self._begun, self._lines, self._unsaid = now, 0, 0


def _cut(refusal: Refusal) -> Refusal:
    """Without what is too long to be remembered."""
    return Refusal(*(each[:_LONGEST] if isinstance(each, str) else each for each in refusal))  # type: ignore[arg-type]


def _plain(text: str) -> str:
    """In one line, and not too long: what clients say is nobody's log."""
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return short if short.isprintable() else short.encode("unicode_escape").decode()
