"""Times as users write them: ``-2h``, ``now``, ISO 8601, milliseconds since 1970. Pure; "now" comes in as an argument.

What must not live here: what a time means for a log (``_starts``).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from penstock._dataclasses import dataclass
from penstock.errors import ConfigError

__all__ = ["HOW", "Moment", "duration_ms", "moment"]

HOW = "Write milliseconds since 1970 (1700000000000), ISO 8601 (2026-11-21T16:30:00Z), now, or a time before now (-2h)"

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_WORDS = {
    **dict.fromkeys(("millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("sec", "second", "seconds"), "s"),
    **dict.fromkeys(("mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("week", "weeks"), "w"),
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_LAST_MS = 253_402_300_800_000
"""The year 10,000: a larger number is not in milliseconds but in micro- or nanoseconds."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A time: ``ms`` since 1970 UTC, or since now (negative: before now) if ``relative``."""

    ms: int
    relative: bool = False

    def at(self, now_ms: int) -> int:
        """Milliseconds since 1970 UTC, never before 1970."""
        return max(0, now_ms + self.ms if self.relative else self.ms)


def moment(option: str, given: object) -> Moment:
    """Parse a time given for ``option``: text, a number of milliseconds, or a datetime (without zone: UTC).

    Raises ConfigError.
    """
    if isinstance(given, datetime):
        return Moment(_ms_of(given))
    text = str(given).strip()
    if not isinstance(given, bool) and text.isascii() and text.isdigit():
        if int(text) >= _LAST_MS:
            raise ConfigError(
                f"{option} = {text} lies after the year 9999",
                hint="It is read as milliseconds since 1970, not microseconds",
            )
        return Moment(int(text))
    if text.lower() == "now":
        return Moment(0, relative=True)
    if text[:1] in {"-", "+"}:
        span = _span_ms(text[1:])
        if span is not None:
            return Moment(-span if text[0] == "-" else span, relative=True)
    try:
        return Moment(_ms_of(datetime.fromisoformat(text)))
    except (ValueError, OverflowError):
        raise ConfigError(f"{option} = {text[:60]!r} is not a time", hint=HOW) from None


def duration_ms(option: str, text: str) -> int:
    """Parse a duration: ``15m``, ``500ms``, ``1h 30m``, ``10 seconds``. Raises ConfigError."""
    span = _span_ms(text)
    if span is None or span < 1:
        raise ConfigError(f"{option} = {text[:60]!r} is not a duration", hint="Write 500ms, 30s, 15m, 2h or 1d")
    return span


def _span_ms(text: str) -> int | None:
    total, position, lower = 0.0, 0, text.strip().lower()
    while position < len(lower):
        part = _PART.match(lower, position)
        unit = part and _UNIT_MS.get(_WORDS.get(part[2], part[2]))
        if part is None or not unit:
            return None
        total += float(part[1]) * unit
        position = part.end()
    return round(total) if lower else None


def _ms_of(when: datetime) -> int:
    known = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return round(known.timestamp() * 1_000)
