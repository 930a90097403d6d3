"""What a data node is asked about groups: heartbeats, who is there, committed offsets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from penstock.interfaces import Buffer, Services
from penstock.model import Committed, Partition
from tests.toy.dialect import Said
from tests.toy.members import Groups, Member, Notice

Reply = tuple[Said, Buffer]


class GroupVerbs:
    """Of one connection; ``notice`` pushes on it."""

    def __init__(self, services: Services, groups: Groups, notice: Notice) -> None:
        self._offsets = services.offsets
        self._groups = groups
        self._notice = notice
        self._mine: set[tuple[str, str]] = set()
        self.verbs: dict[str, Callable[[Said, memoryview], Awaitable[Reply]]] = {
            "beat": self._beat,
            "leave": self._leave,
            "groups": self._all,
            "forget": self._forget,
            "commit": self._commit,
            "committed": self._committed,
        }

    def lost(self) -> None:
        for group, member in self._mine:
            self._groups.leave(group, member, self._notice)

    async def _beat(self, said: Said, raw: memoryview) -> Reply:
        self._mine.add((said["group"], said["member"]))
        self._groups.beat(said["group"], said["member"], Member(self._notice, said["topics"], said["owns"]))
        return {"members": self._groups.said(said["group"])}, b""

    async def _leave(self, said: Said, raw: memoryview) -> Reply:
        self._groups.leave(said["group"], said["member"])
        return {}, b""

    async def _all(self, said: Said, raw: memoryview) -> Reply:
        names = sorted({*await self._offsets.groups(), *self._groups.members})
        return {"groups": {name: self._groups.said(name) for name in names}}, b""

    async def _forget(self, said: Said, raw: memoryview) -> Reply:
        group = said["group"]
        self._groups.check_empty(group)
        await self._offsets.forget(group, lambda *_: True)
        self._groups.forget(group)
        return {}, b""

    async def _commit(self, said: Said, raw: memoryview) -> Reply:
        offsets = {Partition(topic, number): Committed(offset) for topic, number, offset in said["offsets"]}
        await self._offsets.commit(said["group"], offsets)
        return {}, b""

    async def _committed(self, said: Said, raw: memoryview) -> Reply:
        found = await self._offsets.committed(said["group"])
        return {"offsets": [[at.topic, at.id, kept.offset] for at, kept in found.items()]}, b""
