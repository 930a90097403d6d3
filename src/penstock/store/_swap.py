"""Replacing old segments with compacted ones, so that after a crash either all of them are replaced or none.

A plan, ``compaction.json``, lists the base offsets of old and new segments; it is durable before the first file is
touched. Then files are renamed and removed, and the plan is deleted; a start that finds the plan repeats these steps.
What must not live here: what is in the segments.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Final

from penstock.errors import WriteFailed
from penstock.store._checksummed import with_checksum, without_checksum
from penstock.store._directory import Directory
from penstock.store._folder import PartitionFolder
from penstock.store._log_state import LogState
from penstock.store._segment import SUFFIXES, segment_name
from penstock.store.errors import StoreDamaged

__all__ = ["PREFIX", "finish_swap", "is_planned", "put_aside", "rewriting", "swap"]

PREFIX: Final = "cleaned-"
"""Starts the names of segments that are not in place yet."""

_PLAN: Final = "compaction.json"


@contextlib.contextmanager
def rewriting(folder: PartitionFolder, state: LogState, cannot: str) -> Iterator[None]:
    """Raise WriteFailed, which says what one cannot do, for an OSError; nothing where the topic has been deleted."""
    try:
        yield
    except OSError as error:
        if not state.retired:
            raise WriteFailed(f"{cannot}: {error}", topic=folder.topic, partition=folder.partition) from error


def swap(directory: Directory, old: Sequence[int], new: Sequence[int]) -> None:
    """Replace the segments at base offsets ``old`` with those at ``new``, whose names begin with `PREFIX`.

    Raises OSError. If the plan is there then (`is_planned`), only the next start can do the rest.
    """
    directory.replace(_PLAN, with_checksum(json.dumps({"old": list(old), "new": list(new)}).encode()), durable=True)
    finish_swap(directory)


def is_planned(directory: Directory) -> bool:
    """Whether there is a plan that `finish_swap` has not carried out to its end. Raises OSError."""
    return _PLAN in directory.files()


def finish_swap(directory: Directory) -> None:
    """Carry out the plan, if there is one; it is safe to repeat from any point on.

    Raises OSError, StoreDamaged.
    """
    data = directory.load(_PLAN)
    if data is None:
        return
    text = without_checksum(data)
    if text is None:
        raise StoreDamaged(
            "not the plan of a compaction",
            file=f"{directory.path}/{_PLAN}",
            position=0,
            hint="Restore it, or start with repair (`penstock snode --repair`) to ignore it",
        )
    plan: dict[str, list[int]] = json.loads(text)
    old, new = plan["old"], plan["new"]
    there = directory.files()
    for name in (segment_name(base) + suffix for base in new for suffix in SUFFIXES):
        if PREFIX + name in there:
            directory.rename(PREFIX + name, name)
    for base in set(old).difference(new):
        for suffix in SUFFIXES:
            directory.remove(segment_name(base) + suffix)
    directory.sync()
    directory.remove(_PLAN)
    # Or a power loss might bring the plan back while the next compaction is half written under the same names.
    directory.sync()


def put_aside(directory: Directory) -> None:
    """Rename a plan that cannot be read, so that it is ignored but can be examined. Raises OSError."""
    directory.rename(_PLAN, _PLAN + ".damaged")
    directory.sync()
