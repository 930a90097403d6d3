"""Keeping aside what recovery cuts off a segment: nothing that may have been acknowledged is thrown away.

``<offset>.cut-POSITION`` beside the segment holds its bytes from that position on, as they were: whole batches in it
can be read by Kafka's dump tool, or be cut out and written again. Retention leaves it alone; it goes with its topic.
What must not live here: what is cut, and where.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

from penstock.store._directory import Directory, File

__all__ = ["keep_aside"]

_PIECE = 1 << 20


def keep_aside(directory: Directory, name: str, position: int, size: int) -> str | None:
    """Copy ``name[position:size]`` into a file of its own, durably, and return its path; None if all of it is zero.

    Done again after a crash in the middle, it leaves one copy. Raises OSError.
    """
    with contextlib.closing(directory.open(name, create=False)) as file:
        if not any(any(piece) for _, piece in _pieces(file, position, size)):
            return None  # what file systems leave of a size that was written and of data that was not
        stem = name.partition(".")[0]
        for number in itertools.count():
            aside = f"{stem}.cut-{position}" + (f"-{number}" if number else "")
            there = directory.files().get(aside)
            if there is None or _is_prefix(directory, aside, there, file, position, size):
                break
        with contextlib.closing(directory.open(aside)) as copy:
            for at, piece in _pieces(file, position, size):
                copy.write(at - position, [piece])
            copy.syncer()()
    directory.sync()
    return f"{directory.path}/{aside}"


def _pieces(file: File, position: int, size: int) -> Iterator[tuple[int, bytes]]:
    for at in range(position, size, _PIECE):
        yield at, file.read(at, min(_PIECE, size - at))


def _is_prefix(directory: Directory, aside: str, there: int, file: File, position: int, size: int) -> bool:
    """Whether the copy holds nothing but what would be copied, perhaps not all of it."""
    with contextlib.closing(directory.open(aside, create=False)) as copy:
        return there <= size - position and all(
            copy.read(at - position, len(piece)) == piece for at, piece in _pieces(file, position, position + there)
        )
