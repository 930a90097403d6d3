"""How many files of penstock a request or a record runs through: one way to see how much a reader has to open.

A count, not a time: one round says all.
"""

from __future__ import annotations

from bench.children import CaseFailed, child
from bench.goals import FILES
from bench.hops_case import WAYS
from bench.session import Session

__all__ = ["run"]


def run(session: Session) -> None:
    """Each way once."""
    for way in WAYS:
        try:
            files = child("bench.hops_case", {"way": way})["files"]
        except CaseFailed as error:
            session.failed("hops", way, "penstock", error)
            continue
        assert isinstance(files, list)
        session.add("hops", way, FILES, "penstock", 0, len(files), files=files)
