"""Putting compacted segments in the place of old ones, so that a crash leaves all of them or none.

A note, ``compaction.json``, says which base offsets give way to which; it is durable before the first file is touched.
Then files are renamed and removed, then the note goes; a start that finds the note does that again. What must not
live here: what is in the segments.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from penstock.store._checked import check, checked
from penstock.store._directory import Directory
from penstock.store._segment import SUFFIXES, segment_name
from penstock.store.errors import StoreDamaged

__all__ = ["PREFIX", "finish_swap", "put_aside", "swap"]

PREFIX: Final = "cleaned-"
"""Of the names of segments that are not in place yet."""

_NOTE: Final = "compaction.json"


def swap(directory: Directory, old: Sequence[int], new: Sequence[int]) -> None:
    """Replace the segments with base offsets ``old`` by those of bases ``new``, whose names begin with `PREFIX`.

    Raises OSError; what is left to do then is done by `finish_swap`.
    """
    directory.replace(_NOTE, checked(json.dumps({"old": list(old), "new": list(new)}).encode()), durable=True)
    finish_swap(directory)


def finish_swap(directory: Directory) -> None:
    """Do what the note says, if there is one; doing it again is right from any point on.

    Raises OSError, StoreDamaged.
    """
    data = directory.load(_NOTE)
    if data is None:
        return
    text = check(data)
    if text is None:
        raise StoreDamaged(
            "not a note of a compaction",
            file=f"{directory.path}/{_NOTE}",
            position=0,
            hint="Restore it, or start with repair (`penstock snode --repair`) to pass over it",
        )
    note: dict[str, list[int]] = json.loads(text)
    old, new = note["old"], note["new"]
    there = directory.files()
    for name in (segment_name(base) + suffix for base in new for suffix in SUFFIXES):
        if PREFIX + name in there:
            directory.rename(PREFIX + name, name)
    for base in set(old).difference(new):
        for suffix in SUFFIXES:
            directory.remove(segment_name(base) + suffix)
    directory.sync()
    directory.remove(_NOTE)


def put_aside(directory: Directory) -> None:
    """Believe a note no more that cannot be read, and keep it for who wants to know. Raises OSError."""
    directory.rename(_NOTE, _NOTE + ".damaged")
    directory.sync()
