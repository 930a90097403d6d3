"""Which closed segments are past a topic's retention limits. What must not live here: deleting them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock._dataclasses import dataclass
from penstock.store._segment import Segment
from penstock.store.config import LogConfig

__all__ = ["Trimmed", "expired"]


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What retention deleted from the start of a log, which now starts at ``start_offset``."""

    topic: str
    partition: int
    segments: int
    bytes: int
    start_offset: int


def expired(
    segments: Sequence[Segment],
    config: LogConfig,
    now_ms: int,
    modified_ms: Callable[[Segment], int],
    heads_checked: Callable[[Segment], bool],
) -> int:
    """How many of the oldest segments may go; never the last one, which is written to.

    By age (``retention.ms``) a segment goes when its newest record is too old, or, if its records have no timestamps,
    when it was last written too long ago; never before its newest time is known to be that of a record. By size
    (``retention.bytes``) it goes when the rest of the log still reaches the limit.
    """
    if not config.delete:
        return 0
    closed = segments[:-1]
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    for count, segment in enumerate(closed):
        excess -= segment.size
        too_large = config.retention_bytes >= 0 and excess >= 0
        if too_large:
            continue
        newest = segment.newest.timestamp_ms if segment.newest.timestamp_ms >= 0 else modified_ms(segment)
        if config.retention_ms < 0 or now_ms - newest <= config.retention_ms or not heads_checked(segment):
            return count
    return len(closed)
