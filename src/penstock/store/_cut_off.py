"""Keeping a copy of what recovery cuts off a segment, because it may have been acknowledged.

``<offset>.cut-POSITION`` beside the segment holds its bytes from that position on, unchanged: Kafka's dump tool reads
the whole batches in it, and they can be extracted and produced again. Retention ignores it; it is deleted with its
topic. What must not live here: what is cut, and where.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

from penstock.store._directory import Directory, File

__all__ = ["keep_aside"]

_PIECE = 1 << 20


def keep_aside(directory: Directory, name: str, position: int, size: int) -> str | None:
    """Copy ``name[position:size]`` durably into its own file and return the path; None if all bytes are zero.

    Repeated after a crash midway, it still leaves only one copy. Raises OSError.
    """
    with contextlib.closing(directory.open(name, create=False)) as file:
        if not any(any(piece) for _, piece in _pieces(file, position, size)):
            return None  # the file system wrote the new size, but not the data
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
    """Whether the file ``aside``, of ``there`` bytes, is a prefix of what would be copied."""
    with contextlib.closing(directory.open(aside, create=False)) as copy:
        return there <= size - position and all(
            copy.read(at - position, len(piece)) == piece for at, piece in _pieces(file, position, position + there)
        )
