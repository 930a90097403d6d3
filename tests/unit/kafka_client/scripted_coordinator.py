"""A group coordinator on the scripted broker: answers with given codes, else lets every member lead itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import ProtocolViolation
from penstock.interfaces import GroupOptions
from penstock.model import Partition
from penstock.protocols.kafka.client.classic_member import KafkaMembership
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.wire.groups import (
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
    SyncGroupResponse,
)
from penstock.protocols.kafka.wire.offsets import (
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.unit.kafka_client.scripted import Stage, metadata

EVENTS = [Partition("events", n) for n in range(3)]
QUICK = KafkaOptions(retry_backoff_ms=1, retry_backoff_max_ms=2, unknown_topic_patience_ms=20)


class Coordinator:
    """Answers with scripted codes, 0 when a script is over; otherwise every member joins as leader of itself."""

    def __init__(self, it: Stage, **codes: Sequence[int]) -> None:
        self.codes = {name: iter(each) for name, each in codes.items()}
        self.generation = 0
        self.assigned = b""
        self.follower_of: str | None = None
        self.name = ""
        it.broker.answers |= {
            "Metadata": metadata({1: it.endpoint}, {"events": dict.fromkeys(range(3), (1, 0))}),
            "FindCoordinator": lambda request, version: FindCoordinatorResponse(
                coordinators=[
                    FindCoordinatorResponseCoordinator(
                        key="group",
                        node_id=1,
                        host=it.endpoint.host,
                        port=it.endpoint.port,
                        error_code=self._code("find"),
                    )
                ]
            ),
            "JoinGroup": self.join,
            "SyncGroup": self.sync,
            "Heartbeat": lambda request, version: HeartbeatResponse(error_code=self._code("beat")),
            "LeaveGroup": lambda request, version: LeaveGroupResponse(
                members=[LeaveGroupResponseMember(member_id="member", error_code=self._code("leave"))]
            ),
            "OffsetCommit": self.commit,
        }

    def _code(self, name: str) -> int:
        return next(self.codes.get(name, iter(())), 0)

    def join(self, request: Any, version: int) -> object:
        code = self._code("join")
        if code == -1:
            raise ProtocolViolation("as the test wants")
        if code:
            return JoinGroupResponse(error_code=code, member_id="given" if code == 79 else request.member_id)
        self.generation += 1
        member_id = request.member_id or "member"
        member = JoinGroupResponseMember(member_id=member_id, metadata=request.protocols[0].metadata)
        leading = self.follower_of is None
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=self.name or request.protocols[0].name,
            leader=member_id if leading else self.follower_of or "",
            member_id=member_id,
            members=[member] if leading else [],
        )

    def sync(self, request: Any, version: int) -> object:
        code = self._code("sync")
        given = request.assignments[0].assignment if request.assignments else self.assigned
        return SyncGroupResponse(error_code=code, assignment=b"" if code else given)

    def commit(self, request: Any, version: int) -> object:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=self._code("commit")
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


def member_of(it: Stage, **options: Any) -> KafkaMembership:
    return it.client.membership(GroupOptions("group", **options))


def sent(it: Stage) -> list[tuple[str, str, int]]:
    """(API, member id, generation) of the group requests sent."""
    found = []
    for name, request, _ in it.broker.seen:
        if name in {"JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"}:
            generation = getattr(request, "generation_id", getattr(request, "generation_id_or_member_epoch", -1))
            found.append((name, request.member_id, generation))
    return found
