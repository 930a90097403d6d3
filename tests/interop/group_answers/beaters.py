"""Members of newer groups (KIP-848) that send heartbeat by heartbeat, and what is asked of their groups besides."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.protocols.kafka.wire.coordinator_admin import DescribeGroupsRequest, ListGroupsRequest
from penstock.protocols.kafka.wire.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartition,
)
from penstock.protocols.kafka.wire.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from tests.interop.group_answers.asking import Asking
from tests.interop.wire import Wire, told

LEFT, AWAY = -1, -2
PATIENCE = 10
NOT_YET = 14
"""What `told` takes for "not yet"."""


@dataclass
class Beater:
    """One member, by its own connection; what it sends is noted under its name, its epoch is remembered."""

    asking: Asking
    wire: Wire
    name: str
    instance: str | None = None
    epoch: int = 0

    async def beat(self, owned: Sequence[int] | None = None, *, version: int = 1, **given: Any) -> Any:
        """A heartbeat that says only what is given."""
        if owned is not None:
            given["topic_partitions"] = self.owning(owned)
        wanted = {
            "group_id": self.asking.group,
            "member_id": self.name,
            "instance_id": self.instance,
            "member_epoch": self.epoch,
            **given,
        }
        shown = " ".join(f"{name}={self.asking.plain(value)}" for name, value in given.items())
        answer = await self.asking.note(
            self.wire, ConsumerGroupHeartbeatRequest(**wanted), version, f"{self.name} beats v{version} {shown}"
        )
        if not answer.error_code:
            self.epoch = answer.member_epoch
        return answer

    def owning(self, owned: Sequence[int]) -> list[ConsumerGroupHeartbeatRequestTopicPartition]:
        if not owned:
            return []
        return [ConsumerGroupHeartbeatRequestTopicPartition(topic_id=self.asking.topic_id, partitions=owned)]

    async def join(self, *, version: int = 1, **given: Any) -> Any:
        wanted = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [self.asking.topic], **given}
        return await self.beat([], version=version, member_epoch=0, **wanted)

    async def leave(self, epoch: int = LEFT) -> Any:
        before, answer = self.epoch, await self.beat(member_epoch=epoch)
        self.epoch = before
        return answer

    async def commit(self, offset: int, version: int = 9, **given: Any) -> Any:
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
        topic = OffsetCommitRequestTopic(name=self.asking.topic, topic_id=self.asking.topic_id, partitions=[part])
        wanted = {
            "group_id": self.asking.group,
            "generation_id_or_member_epoch": self.epoch,
            "member_id": self.name,
            "group_instance_id": self.instance,
            "topics": [topic if version >= 10 else OffsetCommitRequestTopic(name=topic.name, partitions=[part])],
            **given,
        }
        shown = " ".join(f"{name}={value}" for name, value in given.items())
        return await self.asking.note(
            self.wire, OffsetCommitRequest(**wanted), version, f"{self.name} commits v{version} {shown}"
        )

    async def fetch(self, version: int = 9, **given: Any) -> Any:
        topic = OffsetFetchRequestGroupTopic(name=self.asking.topic, partition_indexes=[0])
        wanted = {"group_id": self.asking.group, "member_id": self.name, "member_epoch": self.epoch, **given}
        message = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(**wanted, topics=[topic])])
        shown = " ".join(f"{name}={self.asking.plain(value)}" for name, value in given.items())
        return await self.asking.note(self.wire, message, version, f"{self.name} fetches offsets v{version} {shown}")


async def settled(asking: Asking) -> None:
    """Return once the coordinator knows the topic: a real one learns of it a moment after it was made."""
    wire = await asking.wire()

    async def known() -> int:
        message = ConsumerGroupHeartbeatRequest(
            group_id=f"{asking.group}-{uuid.uuid4()}",
            member_id="m",
            rebalance_timeout_ms=1,
            subscribed_topic_names=[asking.topic],
            topic_partitions=[],
        )
        answer = await wire.ask(message, 1)
        return 0 if answer.assignment is not None and answer.assignment.topic_partitions else NOT_YET

    await told(known)


async def beater(asking: Asking, name: str, instance: str | None = None) -> Beater:
    return Beater(asking, await asking.wire(), name, instance)


async def described(asking: Asking, wire: Wire) -> None:
    """As operators see it, in both ways."""
    for version in (0, 1):
        await asking.note(wire, ConsumerGroupDescribeRequest(group_ids=[asking.group]), version)
    await asking.note(wire, DescribeGroupsRequest(groups=[asking.group]), 5)
    await asking.note(wire, DescribeGroupsRequest(groups=[asking.group]), 6)
    for types in ((), ("Consumer",), ("classic",), ("share",)):
        found = await wire.ask(ListGroupsRequest(types_filter=types), 5)
        mine = [each for each in found.groups if each.group_id == asking.group]
        asking.found[asking.label(f"listed {types}")] = asking.plain(mine)
