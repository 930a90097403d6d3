"""How a store keeps its logs: `StoreConfig` for the whole store, `LogConfig` for one topic, and the store's URL.

Options of a topic are text, named as Kafka names them (Kafka documentation, "Topic-Level Configs"); `log_config`
reads the few that the store obeys and leaves all others to the fronts.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.errors import ConfigError, InvalidTopicConfig

__all__ = ["FlushPolicy", "LogConfig", "StoreConfig", "log_config", "parse_url"]

MAX_SEGMENT_BYTES: Final = 2**31 - 1
"""Positions in an offset index are signed 32-bit."""

DAY_MS: Final = 86_400_000
_NEVER: Final = 2**63 - 1


class FlushPolicy(enum.StrEnum):
    """When written bytes are synced to disk, which decides what an acknowledged record survives.

    ``OS``: never explicitly. After ``append`` the bytes are in the page cache: they survive ``kill -9`` of the process,
    but not a power loss. ``INTERVAL``: as ``OS``, and the owner syncs every ``flush_interval_ms``, so a power loss
    costs at most that much. ``ALWAYS``: the owner flushes the log before it acknowledges, so a power loss costs nothing
    acknowledged.
    """

    OS = "os"
    INTERVAL = "interval"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """One store. Sizes are bytes, times milliseconds; -1 means no limit, where that is allowed.

    - ``flush``, ``flush_interval_ms``: see `FlushPolicy`; a power loss costs at most a second of records.
    - ``segment_bytes``: 1 GiB as Kafka, so that a log of a terabyte is a thousand files.
    - ``segment_ms``: a segment of that age is closed at the next append, because retention deletes only closed
      segments; 7 days as Kafka.
    - ``index_interval_bytes``: one index entry per 4 KiB as Kafka: after a lookup, about a page is scanned.
    - ``retention_ms``, ``retention_bytes``: for topics that do not set their own; 7 days and no limit, as Kafka.
    - ``max_open_segments``: file handles held at once; 256 leaves room for connections under the usual limit of 1024.
    - ``producer_expiration_ms``: how long an idempotent producer that writes nothing is remembered; a day, as Kafka.
    - ``node_id``: the node number of a new store; an existing store keeps the number it has.
    """

    flush: FlushPolicy = FlushPolicy.OS
    flush_interval_ms: int = 1_000
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    index_interval_bytes: int = 4_096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    max_open_segments: int = 256
    producer_expiration_ms: int = DAY_MS
    node_id: int = 1

    def __post_init__(self) -> None:
        for name, low, high in (
            ("flush_interval_ms", 1, None),
            ("segment_bytes", 1, MAX_SEGMENT_BYTES),
            ("segment_ms", 1, None),
            ("index_interval_bytes", 0, MAX_SEGMENT_BYTES),
            ("retention_ms", -1, None),
            ("retention_bytes", -1, None),
            ("max_open_segments", 1, None),
            ("producer_expiration_ms", 1, None),
            ("node_id", 0, MAX_SEGMENT_BYTES),
        ):
            value = getattr(self, name)
            if value < low or (high is not None and value > high):
                bounds = f"at least {low}" if high is None else f"{low} to {high}"
                raise ConfigError(f"{name} is {value}, must be {bounds}")


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The options that one topic's logs obey: the topic's own over the store's defaults. Units as in `StoreConfig`.

    ``delete`` and ``compact`` are the two halves of ``cleanup.policy``; ``append_time`` is
    ``message.timestamp.type=LogAppendTime``; ``tombstone_ms`` is ``delete.retention.ms``. ``dirty_ratio`` is
    ``min.cleanable.dirty.ratio``; ``min_lag_ms`` and ``max_lag_ms`` bound when a record is compacted;
    ``flush_records`` and ``flush_ms`` are ``flush.messages`` and ``flush.ms``.
    """

    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int
    retention_ms: int
    retention_bytes: int
    delete: bool = True
    compact: bool = False
    append_time: bool = False
    tombstone_ms: int = DAY_MS
    dirty_ratio: float = 0.5
    min_lag_ms: int = 0
    max_lag_ms: int = _NEVER
    flush_records: int = _NEVER
    flush_ms: int = _NEVER


def log_config(options: Mapping[str, str], defaults: StoreConfig) -> LogConfig:
    """The options that the store obeys, read and checked. Raises InvalidTopicConfig, naming the option."""
    policies = _words(options, "cleanup.policy", "delete", {"delete", "compact"})
    timestamps = _words(options, "message.timestamp.type", "CreateTime", {"CreateTime", "LogAppendTime"})
    segment_ms = _number(options, "segment.ms", defaults.segment_ms, 1)
    max_lag_ms = _number(options, "max.compaction.lag.ms", _NEVER, 1)
    return LogConfig(
        segment_bytes=_number(options, "segment.bytes", defaults.segment_bytes, 1, MAX_SEGMENT_BYTES),
        # Records in the active segment cannot be compacted.
        segment_ms=min(segment_ms, max_lag_ms) if "compact" in policies else segment_ms,
        index_interval_bytes=_number(
            options, "index.interval.bytes", defaults.index_interval_bytes, 0, MAX_SEGMENT_BYTES
        ),
        retention_ms=_number(options, "retention.ms", defaults.retention_ms, -1),
        retention_bytes=_number(options, "retention.bytes", defaults.retention_bytes, -_NEVER - 1),
        delete="delete" in policies,
        compact="compact" in policies,
        append_time="LogAppendTime" in timestamps,
        tombstone_ms=_number(options, "delete.retention.ms", DAY_MS, 0),
        dirty_ratio=_ratio(options, "min.cleanable.dirty.ratio", 0.5),
        min_lag_ms=_number(options, "min.compaction.lag.ms", 0, 0),
        max_lag_ms=max_lag_ms,
        flush_records=_number(options, "flush.messages", _NEVER, 1),
        flush_ms=_number(options, "flush.ms", _NEVER, 0),
    )


def _ratio(options: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(options.get(name, default))
    except ValueError:
        raise InvalidTopicConfig(f"{name} is {options[name]!r}, expected a number from 0 to 1") from None


def _number(options: Mapping[str, str], name: str, default: int, low: int, high: int = _NEVER) -> int:
    text = options.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        raise InvalidTopicConfig(f"{name} is {text!r}, expected a whole number") from None
    if not low <= value <= high:
        raise InvalidTopicConfig(f"{name} is {value}, must be {low} to {high}")
    return value


def _words(options: Mapping[str, str], name: str, default: str, known: set[str]) -> set[str]:
    words = {word.strip() for word in options.get(name, default).split(",") if word.strip()}
    if not words <= known:
        raise InvalidTopicConfig(f"{name} is {options[name]!r}, expected {' or '.join(sorted(known))}")
    return words


def parse_url(url: str) -> tuple[str, str]:
    """``memory:`` or ``file:DIR`` as (scheme, directory). Raises ConfigError."""
    scheme, colon, rest = url.partition(":")
    if colon and scheme == "memory" and not rest:
        return scheme, ""
    if colon and scheme == "file" and rest:
        path = rest[2:] if rest.startswith("//") else rest
        if path:
            return scheme, path
    raise ConfigError(f"cannot open a store at {url!r}", hint="Use memory: or file:DIRECTORY")
