"""What only some memberships can do (`client.Membership`); the engine asks whether theirs is one of these.

What must not live here: what every member can.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["HasEpoch", "MatchesPatterns"]


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
