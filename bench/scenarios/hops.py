"""The number of penstock's files that a request or a record passes through, and that a reader has to open.

It is a count, not a time, so one round is enough.
"""

from __future__ import annotations

from bench.children import CaseFailed, child
from bench.goals import FILES
from bench.hops_case import WAYS
from bench.session import Session

__all__ = ["run"]


def run(session: Session) -> None:
    """Count each path once."""
    for way in WAYS:
        try:
            files = child("bench.hops_case", {"way": way})["files"]
        except CaseFailed as error:
            session.failed("hops", way, "penstock", error)
            continue
        assert isinstance(files, list)
        session.add("hops", way, FILES, "penstock", 0, len(files), files=files)
