"""Group requests, sent one by one to our node or to a real broker, and their answers in words that can be compared.

Names that a coordinator makes up (member ids) become those of the order in which they were first seen; what differs by
its nature (addresses) is left out.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from penstock.protocols.kafka.wire.consumer_protocol import Subscription, write_subscription
from penstock.protocols.kafka.wire.coordinator_admin import DescribeGroupsRequest
from penstock.protocols.kafka.wire.declarations import Message, all_fields
from penstock.protocols.kafka.wire.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from penstock.protocols.kafka.wire.offsets import (
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.interop.wire import Wire, told, wired

Protocols = Sequence[tuple[str, bytes]]
Told = dict[str, object]
"""Answers by their names, in the order in which they were asked for."""
Script = Callable[["Asking"], Awaitable[None]]

_MADE_UP = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_SHORT_ID = re.compile("[A-Za-z0-9_-]{22}")
_LEFT_OUT = ("throttle_time_ms", "node_id", "host", "port")
MEMBER_ID_REQUIRED = 79


def subscribed(*topics: str, version: int = 3) -> bytes:
    return write_subscription(Subscription(topics=topics), version)


class Asking:
    """One script at one node: its own topic (three partitions) and group, and what it was ``found`` to answer.

    ``phase`` stands before what is asked, so that each answer has a name of its own.
    """

    def __init__(self, bootstrap: str, topic: str, topic_id: bytes, connections: AsyncExitStack) -> None:
        self.bootstrap, self.topic, self.topic_id = bootstrap, topic, topic_id
        self.group = f"g-{uuid.uuid4().hex[:8]}"
        self.phase = ""
        self.found: Told = {}
        self._connections = connections
        self._names: dict[str, str] = {}
        self._groups: dict[str, str] = {self.group: "G"}

    async def wire(self) -> Wire:
        return await self._connections.enter_async_context(wired(self.bootstrap))

    async def member(self, name: str, instance: str | None = None, **given: Any) -> Member:
        return Member(self, await self.wire(), name, instance, **given)

    async def another_group(self) -> None:
        """Go on with a group that nobody has heard of."""
        self.group = f"g-{uuid.uuid4().hex[:8]}"
        self._groups[self.group] = "G" if len(self._groups) < 1 else f"G{len(self._groups) + 1}"

    def carry_on(self, before: Asking) -> None:
        """Know groups and members by the names that they had there."""
        self._names, self._groups = before._names, before._groups

    async def again(self, member: Member) -> Member:
        """That member by a connection of now."""
        return replace(member, asking=self, wire=await self.wire())

    def label(self, what: str) -> str:
        """The name of an answer, taken now: what is asked later comes later, whoever is answered first."""
        found = wanted = f"{self.phase}: {what}"
        number = 1
        while found in self.found:
            number += 1
            found = f"{wanted} ({number})"
        self.found[found] = None
        return found

    async def note(self, wire: Wire, message: Any, version: int, what: str = "") -> Any:
        """Ask, keep the answer's plain form, and return the answer."""
        return await self.noted(self.label(what or f"{type(message).__name__} v{version}"), wire, message, version)

    async def noted(self, label: str, wire: Wire, message: Any, version: int) -> Any:
        answer = await asyncio.wait_for(wire.ask(message, version), 30)
        self.found[label] = self.plain(answer)
        return answer

    def plain(self, value: Any) -> Any:
        if isinstance(value, Message):
            names = [each.name for each in all_fields(type(value)) if each.name not in _LEFT_OUT]
            return {each: self.plain(getattr(value, each)) for each in names}
        if isinstance(value, str):
            return self._renamed(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return "topic id" if bytes(value) == self.topic_id else bytes(value).replace(self.topic.encode(), b"T")
        if isinstance(value, list | tuple):
            return sorted((self.plain(each) for each in value), key=repr)  # a real one's order is a hash table's
        return value

    def _renamed(self, text: str) -> str:
        if _SHORT_ID.fullmatch(text):
            return self._names.setdefault(text, f"#{len(self._names) + 1}")
        text = _SHORT_ID.sub(lambda found: self._names.get(found[0], found[0]), text)
        text = _MADE_UP.sub(lambda found: self._names.setdefault(found[0], f"#{len(self._names) + 1}"), text)
        for real, plain in {**self._groups, self.topic: "T"}.items():
            text = text.replace(real, plain)
        return text

    async def described(self) -> Any:
        """The group as it is, not noted."""
        wire = await self.wire()
        return (await wire.ask(DescribeGroupsRequest(groups=[self.group]), 5)).groups[0]

    async def until(self, state: str, members: int | None = None) -> None:
        """Return once the group is in that state, with so many members."""
        wire = await self.wire()

        async def reached() -> Any:
            group = (await wire.ask(DescribeGroupsRequest(groups=[self.group]), 5)).groups[0]
            there = group.group_state == state and members in (None, len(group.members))
            return [] if there else [_AGAIN]

        await told(reached)


_AGAIN = 14
"""What `told` takes for "not yet"."""


@dataclass
class Member:
    """One member, by its own connection; what it sends is noted under its name, what it was told is remembered."""

    asking: Asking
    wire: Wire
    name: str
    instance: str | None = None
    protocols: Protocols = ()
    protocol_type: str = "consumer"
    session_ms: int = 30_000
    rebalance_ms: int = 60_000
    client: str = "test"
    id: str = ""
    generation: int = -1

    def __post_init__(self) -> None:
        self.protocols = self.protocols or [("range", subscribed(self.asking.topic))]

    # Requests.

    def join_request(self, **given: Any) -> JoinGroupRequest:
        protocols = given.pop("protocols", self.protocols)
        wanted = {
            "group_id": self.asking.group,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocols": [JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
            **given,
        }
        return JoinGroupRequest(**wanted)

    def begin_join(self, version: int = 9, **given: Any) -> asyncio.Task[Any]:
        """Send JoinGroup, whose answer may have to wait."""
        message = self.join_request(**given)
        label = self.asking.label(f"{self.name} joins v{version}")
        return asyncio.create_task(self._joined(label, message, version))

    async def _joined(self, label: str, message: JoinGroupRequest, version: int) -> Any:
        answer = await self.asking.noted(label, self.wire, message, version)
        if answer.error_code in (0, MEMBER_ID_REQUIRED):
            self.id = answer.member_id
        if answer.error_code == 0:
            self.generation = answer.generation_id
        return answer

    async def join(self, version: int = 9, **given: Any) -> Any:
        return await self.begin_join(version, **given)

    async def enter(self, version: int = 9) -> asyncio.Task[Any]:
        """As a new member; returns its join that counts, under way."""
        if version >= 4 and self.instance is None and not self.id:
            await self.join(version)
        return self.begin_join(version)

    def begin_sync(
        self, version: int = 5, assignments: Mapping[str, bytes] | None = None, **given: Any
    ) -> asyncio.Task[Any]:
        """Send SyncGroup, whose answer may have to wait."""
        wanted = {
            "group_id": self.asking.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance if version >= 3 else None,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocols[0][0],
            "assignments": [
                SyncGroupRequestAssignment(member_id=name, assignment=data)
                for name, data in (assignments or {}).items()
            ],
            **given,
        }
        label = self.asking.label(f"{self.name} syncs v{version}")
        return asyncio.create_task(self.asking.noted(label, self.wire, SyncGroupRequest(**wanted), version))

    async def sync(self, version: int = 5, assignments: Mapping[str, bytes] | None = None, **given: Any) -> Any:
        return await self.begin_sync(version, assignments, **given)

    async def lead(self, *followers: Member, version: int = 5) -> None:
        """Sync with an assignment for itself and these, and let them sync, too."""
        everybody = {each.id: each.name.encode() for each in (self, *followers)}
        syncs = [self.begin_sync(version, everybody)]
        syncs += [each.begin_sync(version) for each in followers]
        await asyncio.gather(*syncs)

    async def heartbeat(self, version: int = 4, **given: Any) -> Any:
        wanted = {
            "group_id": self.asking.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance if version >= 3 else None,
            **given,
        }
        return await self.asking.note(
            self.wire, HeartbeatRequest(**wanted), version, f"{self.name} beats v{version} {self._shown(given)}"
        )

    async def leave(self, version: int = 5, *others: tuple[str, str | None]) -> Any:
        """Alone; or in version 3 and later, with (member id, instance id) of others, or only those if given any."""
        leavers = others or ((self.id, self.instance),)
        message = LeaveGroupRequest(
            group_id=self.asking.group,
            member_id=self.id if version < 3 else "",
            members=[LeaveGroupRequestMember(member_id=one, group_instance_id=two) for one, two in leavers]
            if version >= 3
            else (),
        )
        return await self.asking.note(self.wire, message, version, f"{self.name} leaves v{version}")

    async def commit(self, offset: int, version: int = 9, *, partition: int = 0, **given: Any) -> Any:
        part = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=given.pop("metadata", "m")
        )
        name, topic_id = (self.asking.topic, bytes(16)) if version < 10 else ("", self.asking.topic_id)
        topic = OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[part])
        wanted = {
            "group_id": self.asking.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance if version >= 7 else None,
            "topics": [topic],
            **given,
        }
        return await self.asking.note(
            self.wire, OffsetCommitRequest(**wanted), version, f"{self.name} commits v{version} {self._shown(given)}"
        )

    def _shown(self, given: Mapping[str, object]) -> str:
        return " ".join(f"{name}={self.asking.plain(value)}" for name, value in given.items() if name != "topics")


@asynccontextmanager
async def asking(bootstrap: str, topic: str, topic_id: bytes) -> AsyncIterator[Asking]:
    """A script's surroundings, once the coordinator is ready."""
    async with AsyncExitStack() as connections:
        made = Asking(bootstrap, topic, topic_id, connections)
        wire = await made.wire()

        async def ready() -> int:
            message = FindCoordinatorRequest(coordinator_keys=[made.group], key_type=0)
            return int((await wire.ask(message, 4)).coordinators[0].error_code)

        async def loaded() -> int:
            return int((await wire.ask(DescribeGroupsRequest(groups=[made.group]), 5)).groups[0].error_code)

        await told(ready)
        await told(loaded)
        yield made
