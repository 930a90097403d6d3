"""Members of classic groups with raw requests: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit.

The leader assigns partitions round-robin. Members send heartbeats when the bench calls them instead of every three
seconds, so that the server's work is measured and not its timers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.clients.group_line import Line, Refused, at_once
from penstock.protocols.kafka.wire.consumer_protocol import (
    MemberAssignment,
    Subscription,
    TopicPartitions,
    read_assignment,
    write_assignment,
    write_subscription,
)
from penstock.protocols.kafka.wire.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from penstock.protocols.kafka.wire.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

__all__ = ["ClassicMember", "check_dealt", "settle"]

NONE, NOT_READY, REBALANCE, ID_REQUIRED = 0, (14, 15, 16), 27, 79
TYPE, PROTOCOL = "consumer", "range"
SESSION_MS, REBALANCE_MS = 45_000, 120_000
_LAST_WITH_NAMES = 9
_AGAIN_S = 0.2
_WITHIN_S = 60.0


class ClassicMember:
    """One member; ``owned`` are its partitions, None before its first assignment."""

    def __init__(self, line: Line, group: str, topic: str, partitions: int) -> None:
        self.line = line
        self.group = group
        self.topic = topic
        self.partitions = partitions
        self.member_id = ""
        self.named = asyncio.Event()
        self.generation = -1
        self.owned: Sequence[int] | None = None
        metadata = write_subscription(Subscription(topics=[topic]))
        self._protocols = [JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata)]

    async def enter(self) -> None:
        """Join, and return with an assignment. Raises Refused."""
        self.owned = None
        while self.owned is None:
            joined = await self._join()
            dealt = self._dealt(joined) if joined.leader == self.member_id else []
            answer = await self.line.ask(
                SyncGroupRequest(
                    group_id=self.group,
                    generation_id=self.generation,
                    member_id=self.member_id,
                    protocol_type=TYPE,
                    protocol_name=PROTOCOL,
                    assignments=dealt,
                ),
                SyncGroupResponse,
            )
            if answer.error_code == NONE:
                assigned = read_assignment(answer.assignment).assigned_partitions if answer.assignment else ()
                self.owned = [number for each in assigned for number in each.partitions]
            elif answer.error_code != REBALANCE:
                raise Refused("SyncGroup", answer.error_code)

    async def _join(self) -> JoinGroupResponse:
        while True:
            request = JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self.member_id,
                protocol_type=TYPE,
                protocols=self._protocols,
            )
            answer = await self.line.ask(request, JoinGroupResponse)
            if answer.error_code == NONE:
                self.member_id, self.generation = answer.member_id, answer.generation_id
                return answer
            if answer.error_code == ID_REQUIRED:
                self.member_id = answer.member_id
                self.named.set()
            elif answer.error_code in NOT_READY:
                await asyncio.sleep(_AGAIN_S)
            elif answer.error_code != REBALANCE:
                raise Refused("JoinGroup", answer.error_code)

    def _dealt(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        count = len(joined.members)
        return [
            SyncGroupRequestAssignment(
                member_id=member.member_id,
                assignment=write_assignment(
                    MemberAssignment(
                        assigned_partitions=[
                            TopicPartitions(topic=self.topic, partitions=range(place, self.partitions, count))
                        ]
                    )
                ),
            )
            for place, member in enumerate(joined.members)
        ]

    async def beat(self) -> bool:
        """Send a heartbeat; returns False if there is another rebalance. Raises Refused."""
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        answer = await self.line.ask(request, HeartbeatResponse)
        if answer.error_code not in (NONE, REBALANCE):
            raise Refused("Heartbeat", answer.error_code)
        return answer.error_code == NONE

    async def commit(self) -> None:
        """Commit an offset of one partition. Raises Refused."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=self.topic, partitions=[partition])],
        )
        answer = await self.line.ask(request, OffsetCommitResponse, at_most=_LAST_WITH_NAMES)
        code = answer.topics[0].partitions[0].error_code
        if code != NONE:
            raise Refused("OffsetCommit", code)

    async def leave(self) -> None:
        """Leave the group. Raises Refused."""
        request = LeaveGroupRequest(
            group_id=self.group, members=[LeaveGroupRequestMember(member_id=self.member_id, group_instance_id=None)]
        )
        answer = await self.line.ask(request, LeaveGroupResponse)
        code = answer.error_code or answer.members[0].error_code
        if code != NONE:
            raise Refused("LeaveGroup", code)


async def settle(members: Sequence[ClassicMember], newcomers: Sequence[ClassicMember] = ()) -> None:
    """Run until all members are in one generation and have their assignments.

    Members send heartbeats, and join again when a response asks for it. Raises Refused, TimeoutError.
    """
    busy = {member: asyncio.ensure_future(member.enter()) for member in newcomers}
    try:
        async with asyncio.timeout(_WITHIN_S):
            await _settled(members, newcomers, busy)
    finally:
        for work in busy.values():
            work.cancel()


async def _settled(
    members: Sequence[ClassicMember],
    newcomers: Sequence[ClassicMember],
    busy: dict[ClassicMember, asyncio.Future[None]],
) -> None:
    if len(newcomers) < len(members):
        # Newcomers with a member id wait in JoinGroup for the others, who learn of the rebalance by heartbeat.
        await at_once(member.named.wait() for member in newcomers)
    while True:
        idle = [member for member in members if member not in busy]
        calm = await at_once(member.beat() for member in idle)
        for member, is_calm in zip(idle, calm, strict=True):
            if not is_calm:
                busy[member] = asyncio.ensure_future(member.enter())
        if busy:
            await asyncio.wait(busy.values(), timeout=_AGAIN_S)
        for member in [member for member, work in busy.items() if work.done()]:
            await busy.pop(member)
        if not busy and len({member.generation for member in members}) == 1:
            return


def check_dealt(members: Sequence[ClassicMember], partitions: int) -> None:
    """Check that every partition has exactly one owner. Raises RuntimeError."""
    owned = sorted(number for member in members for number in member.owned or ())
    if owned != list(range(partitions)):
        raise RuntimeError(f"{len(owned)} partitions are owned, {len(set(owned))} different ones, of {partitions}")
