"""Members of groups of the newer protocol (KIP-848) with raw requests: only ConsumerGroupHeartbeat.

A member takes and releases assigned partitions at once, and reports it with its next heartbeat.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence

from bench.clients.group_line import Line, Refused, at_once
from penstock.protocols.kafka.wire.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartition,
    ConsumerGroupHeartbeatResponse,
)

__all__ = ["NewerMember", "converge"]

JOIN, LEAVE = 0, -1
NONE, NOT_READY = 0, (14, 15, 16)
REBALANCE_MS = 120_000
_AGAIN_S = 0.2
LAP_S = 0.1
"""Minimum time between two rounds of heartbeats, since a broker may need time for an assignment."""
_WITHIN_S = 60.0


class NewerMember:
    """One member; ``owned`` by topic id. ``said``: the member has reported all of it to the broker."""

    def __init__(self, line: Line, group: str, topic: str) -> None:
        self.line = line
        self.group = group
        self.topic = topic
        self.member_id = str(uuid.uuid4())
        self.epoch = JOIN
        self.owned: dict[bytes, list[int]] = {}
        self.said = False

    async def beat(self) -> None:
        """Send one heartbeat. Raises Refused."""
        joins = self.epoch == JOIN
        owned = [
            ConsumerGroupHeartbeatRequestTopicPartition(topic_id=topic, partitions=numbers)
            for topic, numbers in self.owned.items()
        ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            subscribed_topic_names=[self.topic] if joins else None,
            server_assignor="uniform" if joins else None,
            topic_partitions=None if self.said else owned,
        )
        answer = await self.line.ask(request, ConsumerGroupHeartbeatResponse)
        if answer.error_code in NOT_READY:
            await asyncio.sleep(_AGAIN_S)
            return
        if answer.error_code != NONE:
            raise Refused("ConsumerGroupHeartbeat", answer.error_code)
        self.said = True
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            now = {each.topic_id: sorted(each.partitions) for each in answer.assignment.topic_partitions}
            self.said, self.owned = now == self.owned, now

    async def leave(self) -> None:
        """Leave the group. Raises Refused."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=LEAVE, topic_partitions=None
        )
        answer = await self.line.ask(request, ConsumerGroupHeartbeatResponse)
        if answer.error_code != NONE:
            raise Refused("leaving", answer.error_code)

    @property
    def count(self) -> int:
        """The number of its partitions."""
        return sum(map(len, self.owned.values()))


async def converge(members: Sequence[NewerMember], partitions: int) -> int:
    """Send heartbeats until every member has its final share and the broker knows it; returns their number.

    Raises Refused, TimeoutError.
    """
    deadline = time.perf_counter() + _WITHIN_S
    beats = 0
    while not _converged(members, partitions):
        if time.perf_counter() > deadline:
            raise TimeoutError(f"{len(members)} members did not converge within {_WITHIN_S:.0f} s")
        next_lap = time.perf_counter() + LAP_S
        await at_once(member.beat() for member in members)
        beats += len(members)
        if not _converged(members, partitions):
            await asyncio.sleep(max(0.0, next_lap - time.perf_counter()))
    return beats


def _converged(members: Sequence[NewerMember], partitions: int) -> bool:
    """Whether all members have the same epoch, every partition has one owner, shares differ by at most one, and all of
    it is reported."""
    least = partitions // len(members)
    most = least + (partitions % len(members) > 0)
    if not all(member.said and least <= member.count <= most for member in members):
        return False
    owned = [(topic, number) for member in members for topic, numbers in member.owned.items() for number in numbers]
    return len(owned) == len(set(owned)) == partitions and len({member.epoch for member in members}) == 1
