"""The toy's master: hands partitions to members by events, and never to two at once. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

Key = tuple[str, int]
Tell = Callable[[str, list[Key]], None]


@dataclass(slots=True)
class Member:
    tell: Tell
    instance: str | None = None
    owns: set[Key] = field(default_factory=set)
    leaving: set[Key] = field(default_factory=set)


@dataclass(slots=True)
class Master:
    """One group."""

    members: dict[str, Member] = field(default_factory=dict)
    partitions: list[Key] = field(default_factory=list)

    def join(self, name: str, tell: Tell, partitions: Collection[Key], instance: str | None = None) -> Member:
        member = self.members[name] = Member(tell, instance)
        self.partitions = sorted(set(self.partitions) | set(partitions))
        self.balance()
        return member

    def leave(self, name: str) -> None:
        if self.members.pop(name, None) is not None:
            self.balance()

    def released(self, name: str, keys: Collection[Key]) -> None:
        member = self.members.get(name)
        if member is not None:
            member.leaving -= set(keys)
            self.balance()

    def balance(self) -> None:
        names = sorted(self.members)
        if not names:
            return
        target = {key: names[index % len(names)] for index, key in enumerate(self.partitions)}
        for name in names:
            member = self.members[name]
            wrong = {key for key in member.owns if target[key] != name}
            if wrong:
                member.owns -= wrong
                member.leaving |= wrong
                member.tell("disconnect", sorted(wrong))
        held = {key for member in self.members.values() for key in member.owns | member.leaving}
        for name in names:
            free = {key for key in self.partitions if target[key] == name and key not in held}
            if free:
                self.members[name].owns |= free
                self.members[name].tell("connect", sorted(free))
