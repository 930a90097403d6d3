"""Members of classic groups, as raw as they come: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit.

The leader deals partitions out like cards. Members do not beat every three seconds but when they are told to, so that
the server's work is measured and nobody's patience.
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
    """One member; ``owned`` are the partitions that it has, None before it has any word of that."""

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
        """Join, and have an assignment at the end. Raises Refused."""
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
        """Heartbeat; whether all is as it was, and not another rebalance. Raises Refused."""
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        answer = await self.line.ask(request, HeartbeatResponse)
        if answer.error_code not in (NONE, REBALANCE):
            raise Refused("Heartbeat", answer.error_code)
        return answer.error_code == NONE

    async def commit(self) -> None:
        """An offset of one partition. Raises Refused."""
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
        """Raises Refused."""
        request = LeaveGroupRequest(
            group_id=self.group, members=[LeaveGroupRequestMember(member_id=self.member_id, group_instance_id=None)]
        )
        answer = await self.line.ask(request, LeaveGroupResponse)
        code = answer.error_code or answer.members[0].error_code
        if code != NONE:
            raise Refused("LeaveGroup", code)


async def settle(members: Sequence[ClassicMember], newcomers: Sequence[ClassicMember] = ()) -> None:
    """Until all are in one generation and have their assignments: who is idle beats, who is told to joins.

    Raises Refused, TimeoutError.
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
        # Who has an id is waiting for the others, which will be told so.
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
    """Every partition has one owner. Raises RuntimeError."""
    owned = sorted(number for member in members for number in member.owned or ())
    if owned != list(range(partitions)):
        raise RuntimeError(f"{len(owned)} partitions are owned, {len(set(owned))} different ones, of {partitions}")
