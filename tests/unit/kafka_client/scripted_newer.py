"""A coordinator of a newer group on the scripted broker: it answers as it is told, else takes the member in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.errors import ProtocolViolation
from penstock.interfaces import GroupOptions, Membership
from penstock.model import Partition
from penstock.protocols.kafka.client.consumer_member import KafkaEpochMembership
from penstock.protocols.kafka.wire.groups import (
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartition,
)
from penstock.protocols.kafka.wire.offsets import (
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tests.unit.kafka_client.scripted import Stage, metadata

EVENTS = [Partition("events", n) for n in range(3)]
ID = b"e" * 16
UNANSWERED = -1


def places(numbers: Iterable[int], topic_id: bytes = ID) -> ConsumerGroupHeartbeatResponseAssignment:
    """An assignment of these partitions."""
    topic = ConsumerGroupHeartbeatResponseTopicPartition(topic_id=topic_id, partitions=[*numbers])
    return ConsumerGroupHeartbeatResponseAssignment(topic_partitions=[topic] if topic.partitions else [])


class NewerCoordinator:
    """Answers heartbeats, commits and fetches with scripted codes, 0 when a script is over.

    ``epoch`` and ``target`` are what a good heartbeat is answered; the target only if it is another one than last.
    """

    def __init__(self, it: Stage, target: Iterable[int] = range(3), **codes: Sequence[int]) -> None:
        self.codes = {name: iter(each) for name, each in codes.items()}
        self.epoch, self.target, self._told = 1, frozenset(target), frozenset({-1})
        self.topic_id = ID
        self.it = it
        it.broker.answers |= {
            "Metadata": metadata({1: it.endpoint}, {"events": dict.fromkeys(range(3), (1, 0))}, {"events": ID}),
            "FindCoordinator": self._found,
            "ConsumerGroupHeartbeat": self.beat,
            "OffsetCommit": self.commit,
            "OffsetFetch": self.fetch,
        }

    def _code(self, name: str) -> int:
        return next(self.codes.get(name, iter(())), 0)

    def _found(self, request: Any, version: int) -> object:
        at = self.it.endpoint
        one = FindCoordinatorResponseCoordinator(key="group", node_id=1, host=at.host, port=at.port)
        return FindCoordinatorResponse(coordinators=[one])

    def beat(self, request: Any, version: int) -> object:
        code = self._code("beat" if request.member_epoch > 0 else "join" if request.member_epoch == 0 else "leave")
        if code == UNANSWERED:
            raise ProtocolViolation("as the test wants")
        if code:
            return ConsumerGroupHeartbeatResponse(error_code=code, error_message="as the test wants")
        if request.member_epoch < 0:
            return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        news = request.rebalance_timeout_ms >= 0 or self.target != self._told
        self._told = self.target
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=700,
            assignment=places(sorted(self.target), self.topic_id) if news else None,
        )

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

    def fetch(self, request: Any, version: int) -> object:
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="group", error_code=self._code("fetch"))])


def newer_member(it: Stage, **options: Any) -> KafkaEpochMembership:
    """A member-to-be."""
    member: Membership = it.client.membership(GroupOptions("group", protocol="consumer", **options))
    assert isinstance(member, KafkaEpochMembership)
    return member


def beats(it: Stage) -> list[Any]:
    """Heartbeats that were sent."""
    return it.broker.asked("ConsumerGroupHeartbeat")
