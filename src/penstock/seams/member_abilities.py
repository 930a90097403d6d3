"""What only some memberships can do (`client.Membership`); the engine asks whether theirs is one of these.

What must not live here: what every member can.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, runtime_checkable

from penstock.model import Committed, Partition

__all__ = ["CommitHeard", "CommitRest", "CommitsAtOnce", "HasEpoch", "MatchesPatterns"]

CommitRest = Callable[[], Coroutine[Any, Any, None]]
"""What is left to do for a commit after its first attempt, or to tell of it: raises as ``Membership.commit``."""

CommitHeard = Callable[["CommitRest | None"], None]
"""Hears that a commit is stored (None), or what is left to do for it."""


@runtime_checkable
class CommitsAtOnce(Protocol):
    """A Membership whose commits can often be written without waiting for anything first: no task is needed for
    those."""

    def commit_at_once(self, offsets: Mapping[Partition, Committed], heard: CommitHeard) -> bool:
        """As ``commit``; ``heard`` is called once, after this has returned, and must not raise.

        With None where the first attempt was all; what is left else is awaited in a task, if anybody still wants it.
        False where something has to be waited for: then nothing is done, and ``commit`` does it.
        """
        ...


@runtime_checkable
class HasEpoch(Protocol):
    """A Membership whose generation goes on with heartbeats: none is sent beside a join, nor a join beside one."""

    @property
    def epoch(self) -> int:
        """The generation it is a member in now; -1 while it is none."""
        ...


@runtime_checkable
class MatchesPatterns(Protocol):
    """A Membership of a log whose servers can match patterns of topics for members."""

    def match(self, pattern: str | None) -> None:
        """From the next ``join`` on take part for the topics, too, that servers find by this; None: for no others.

        Raises UsageError where members like this one have to look for topics themselves.
        """
        ...
