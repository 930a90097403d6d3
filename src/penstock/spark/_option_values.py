"""Parses the values of single options: flags, counts, sizes, durations, times, and those of clients.

Each error states the expected form.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import Struct

from penstock.config import ClientConfig, OptionValue, ProtocolConfig
from penstock.config.options import both, canonical_options
from penstock.errors import ConfigError
from penstock.protocols import protocol

__all__ = [
    "HOW",
    "MOVED_FROM",
    "Moment",
    "choice",
    "client_options",
    "count",
    "duration_ms",
    "flag",
    "milliseconds",
    "moment",
    "size_bytes",
    "words_of",
]

# Times as users write them: ``-2h``, ``now``, ISO 8601, milliseconds since 1970. Pure: "now" is an argument.
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
"""The year 10,000. A larger number is in micro- or nanoseconds, not milliseconds."""


class Moment(Struct, frozen=True):
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


_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_FACTOR = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
Options = Mapping[str, str]


def flag(options: Options, name: str, *, default: bool) -> bool:
    """``true`` or ``false``."""
    return choice(options, name, {"true": True, "false": False}, default=default)


def choice(options: Options, name: str, words: Mapping[str, bool], *, default: bool) -> bool:
    """One of ``words``, in any case."""
    if name not in options:
        return default
    found = words.get(options[name].strip().lower())
    if found is None:
        listed = " or ".join([", ".join([*words][:-1]), [*words][-1]])
        raise ConfigError(f"{name} is '{options[name]}', expected {listed}")
    return found


def count(options: Options, name: str, *, least: int = 1) -> int | None:
    """A whole number of at least ``least``; None if not given."""
    if name not in options:
        return None
    text = options[name].strip()
    if not (text.isascii() and text.isdigit() and least <= int(text) < 2**63):
        raise ConfigError(f"{name} is '{options[name]}', expected a whole number of at least {least}")
    return int(text)


def size_bytes(options: Options, name: str) -> int | None:
    """A number of bytes, as a number or like ``64m``; units are powers of 1,024 as in Spark's own settings."""
    if name not in options:
        return None
    found = _SIZE.fullmatch(options[name].strip())
    size = int(found[1]) * _FACTOR[found[2].lower()] if found else 0
    if not 0 < size < 2**63:
        raise ConfigError(f"{name} is '{options[name]}', expected a number of bytes", hint="Write 1048576, 64m or 2g")
    return size


def milliseconds(options: Options, name: str, *, default: int) -> int:
    """A duration, in ms as the option's name says; a unit is allowed too, as in Spark."""
    if name not in options:
        return default
    text = options[name].strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else duration_ms(name, text)


# Translates a job's client options, without the prefix ``kafka.`` or the address's scheme, to those of our client.
#
# Jobs come from Spark's Kafka source and sink, so the names of Kafka's client options are understood whatever the
# address's protocol is.
MOVED_FROM = "kafka"
"""The protocol of Spark's own connector, whose option names jobs use."""


@functools.cache
def words_of(scheme: str) -> ProtocolConfig:
    """The protocol configuration whose option names a job may use."""
    return both(protocol(scheme).config, protocol(MOVED_FROM).config)


def client_options(
    role: type[ClientConfig], given: Mapping[str, str], scheme: str
) -> tuple[dict[str, OptionValue], tuple[str, ...]]:
    """(options in our client's spelling, names of those left out). Raises ConfigError for unsupported options."""
    words = words_of(scheme)
    sort_out = protocol(MOVED_FROM).config.jobs
    kept, left_out = sort_out(role, given, words.options) if sort_out else (given, set[str]())
    return canonical_options(role, kept, words), tuple(sorted(left_out))
