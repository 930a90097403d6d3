"""Where the batches lie that a reader wants, in which segment and from which byte to which.

What must not live here: reading them (`Stretch`), what a log says of offsets that it does not have.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from penstock.store._segment import Segment
from penstock.store._stretch import NO_BYTES, Stretch

__all__ = ["Wanted", "locate"]


class Wanted(NamedTuple):
    """At most ``max_bytes`` from ``offset`` on, but ``at_least_one`` batch; none from offset ``before`` on."""

    offset: int
    max_bytes: int
    at_least_one: bool
    before: int | None


def locate(segments: Sequence[Segment], wanted: Wanted, end: int) -> tuple[Stretch, int]:
    """Whole batches from the one that holds the offset (or, in a gap, the next) on, and the offset after them.

    They end with their segment; the log ends with offset ``end``. Raises StoreDamaged, OSError.
    """
    if wanted.offset == end or (wanted.before is not None and wanted.before <= wanted.offset):
        return NO_BYTES, wanted.offset
    first = max(bisect_right(segments, wanted.offset, key=lambda segment: segment.base) - 1, 0)
    for row in range(first, len(segments)):
        found = _in_segment(segments[row], wanted)
        if found is not None:
            return found
    return NO_BYTES, end  # a gap up to the end, left by repair


def _in_segment(segment: Segment, wanted: Wanted) -> tuple[Stretch, int] | None:
    offset, max_bytes, at_least_one, before = wanted
    first = segment.find(offset)
    if first is None:
        return None
    limit = first.position + max_bytes
    if limit >= segment.size:
        end, next_offset = segment.size, segment.next_offset
    elif limit < first.end and not at_least_one:
        return NO_BYTES, offset
    elif limit <= first.end:
        end, next_offset = first.end, first.last_offset + 1
    else:
        end, next_offset = segment.boundary(first, limit)
    if before is not None and next_offset > before:
        behind = segment.find(before)
        end, next_offset = behind.position if behind else end, before
    return Stretch(segment.reader(), first.position, end - first.position, segment.path), next_offset
