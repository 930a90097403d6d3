"""Finding the batches to read, and reading their bytes when they are needed (`Stretch`).

What must not live here: errors for offsets that a log does not have.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.errors import StoreError
from penstock.store._directory import Reader
from penstock.store._memory import MemoryFile
from penstock.store._segment import Segment
from penstock.store.errors import StoreDamaged

__all__ = ["ReadRequest", "Stretch", "locate"]


class Stretch:
    """``size`` bytes of a file from ``position`` on; ``path`` is for messages.

    Bytes in a log never change once written, so they can be read at any time: also after more was appended, and after
    the segment was closed, compacted or deleted.
    """

    __slots__ = ("_path", "_position", "_reader", "_size")

    def __init__(self, reader: Reader, position: int, size: int, path: str) -> None:
        self._reader = reader
        self._position = position
        self._size = size
        self._path = path

    def __len__(self) -> int:
        return self._size

    def read(self) -> bytes:
        """Read all bytes. Raises StoreDamaged, StoreError."""
        try:
            data = self._reader.read(self._position, self._size)
        except OSError as error:
            raise self._unreadable(error) from error
        self._check(0, len(data), self._size)
        return data

    def read_into(self, start: int, space: memoryview) -> None:
        """Fill ``space`` from byte ``start`` of the stretch on. Raises StoreDamaged, StoreError."""
        try:
            count = self._reader.read_into(self._position + start, space)
        except OSError as error:
            raise self._unreadable(error) from error
        self._check(start, count, len(space))

    def _check(self, start: int, count: int, wanted: int) -> None:
        if count < wanted:
            position = self._position + start + count
            raise StoreDamaged("the file is shorter than it was", file=self._path, position=position)

    def _unreadable(self, error: OSError) -> StoreError:
        return StoreError(f"cannot read {self._path}: {error}")


_NO_BYTES: Final = Stretch(MemoryFile(), 0, 0, "")


class ReadRequest(NamedTuple):
    """At most ``max_bytes`` from ``offset`` up to offset ``before``; with ``at_least_one``, one batch of any size."""

    offset: int
    max_bytes: int
    at_least_one: bool
    before: int | None


def locate(segments: Sequence[Segment], request: ReadRequest, end: int) -> tuple[Stretch, int]:
    """Whole batches, from the one that holds the offset (in a gap, the next one) on, and the offset after them.

    All are of one segment; ``end`` is the log's end offset. Raises StoreDamaged, OSError.
    """
    if request.offset == end or (request.before is not None and request.before <= request.offset):
        return _NO_BYTES, request.offset
    first = max(bisect_right(segments, request.offset, key=lambda segment: segment.base) - 1, 0)
    for row in range(first, len(segments)):
        found = _in_segment(segments[row], request)
        if found is not None:
            return found
    return _NO_BYTES, end  # a gap up to the end, left by repair


def _in_segment(segment: Segment, request: ReadRequest) -> tuple[Stretch, int] | None:
    offset, max_bytes, at_least_one, before = request
    first = segment.find(offset)
    if first is None:
        return None
    limit = first.position + max_bytes
    if limit >= segment.size:
        end, next_offset = segment.size, segment.next_offset
    elif limit < first.end and not at_least_one:
        return _NO_BYTES, offset
    elif limit <= first.end:
        end, next_offset = first.end, first.last_offset + 1
    else:
        end, next_offset = segment.boundary(first, limit)
    if before is not None and next_offset > before:
        behind = segment.find(before)
        end, next_offset = behind.position if behind else end, before
    return Stretch(segment.reader(), first.position, end - first.position, segment.path), next_offset
