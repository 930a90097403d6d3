"""The groups as one node knows them: who is there, and what each says it reads. It hands out nothing. Pure.

A member is known by its own heartbeats, to every node; when one comes or goes, the others are sent a notice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import UsageError

Notice = Callable[[str], None]


@dataclass(slots=True)
class Member:
    """``notice`` tells it that the members of a group have changed; ``owns`` is what it said it reads."""

    notice: Notice
    topics: list[str]
    owns: list[list[Any]]


@dataclass(slots=True)
class Groups:
    members: dict[str, dict[str, Member]] = field(default_factory=dict)

    def beat(self, group: str, name: str, member: Member) -> None:
        known = self.members.setdefault(group, {})
        before = known.get(name)
        known[name] = member
        if before is None or before.topics != member.topics:
            self.tell(group)

    def leave(self, group: str, name: str, member: Notice | None = None) -> None:
        """``member``: only if it is still this one's, whose connection has ended."""
        known = self.members.get(group, {})
        if name in known and (member is None or known[name].notice is member):
            del known[name]
            self.tell(group)

    def said(self, group: str) -> dict[str, Any]:
        known = self.members.get(group, {})
        return {name: {"topics": member.topics, "owns": member.owns} for name, member in sorted(known.items())}

    def forget(self, group: str) -> None:
        self.members.pop(group, None)

    def check_empty(self, group: str) -> None:
        """Raises UsageError where somebody is there."""
        if self.said(group):
            raise UsageError(f"group {group} has members")

    def tell(self, group: str) -> None:
        """Send everybody who is there a notice."""
        for member in list(self.members.get(group, {}).values()):
            member.notice(group)
