"""Parses the values of single options: flags, counts, sizes, durations. Each error says what was expected.

What must not live here: which options there are (``_option_table``), and what several of them mean together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.spark._times import duration_ms

__all__ = ["choice", "count", "flag", "milliseconds", "size_bytes", "span_ms"]

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
    """A whole number of at least ``least``; None where not given."""
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


def span_ms(options: Options, name: str) -> int | None:
    """A duration like ``15m``, in ms."""
    return duration_ms(name, options[name]) if name in options else None


def milliseconds(options: Options, name: str, *, default: int) -> int:
    """A duration, in ms as the option's name says; a unit is allowed too, as in Spark."""
    if name not in options:
        return default
    text = options[name].strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else duration_ms(name, text)
