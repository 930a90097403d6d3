"""What members tell each other through the coordinator, in our nouns: subscriptions in, assignments out.

Source: Kafka clients, consumer protocol v0-v3; the bytes are ``messages.consumer_protocol``'s business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.groups.assignor import Subscriber
from penstock.model import Partition, TopicInfo
from penstock.protocols.kafka.client.routing import by_topic
from penstock.protocols.kafka.messages.consumer_protocol import (
    MemberAssignment,
    Subscription,
    TopicPartitions,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from penstock.seams.framing import Buffer

if TYPE_CHECKING:
    from penstock.protocols.kafka.messages.groups import JoinGroupResponseMember

__all__ = [
    "assignment_bytes",
    "partitions_assigned",
    "partitions_by_topic",
    "racks_of",
    "subscriber_of",
    "subscription_bytes",
]


def subscription_bytes(
    topics: Collection[str],
    owned: Collection[Partition],
    generation: int,
    rack: str,
    user_data: bytes | None = None,
) -> bytes:
    """A member's metadata in JoinGroup."""
    return write_subscription(
        Subscription(
            topics=sorted(topics),
            user_data=user_data,
            owned_partitions=_topic_partitions(owned),
            generation_id=generation,
            rack_id=rack or None,
        )
    )


def subscriber_of(member: JoinGroupResponseMember) -> Subscriber:
    """A member as the leader got it from the coordinator. Raises ProtocolViolation."""
    told = read_subscription(member.metadata)
    return Subscriber(
        member.member_id,
        frozenset(told.topics),
        member.group_instance_id,
        frozenset(_partitions(told.owned_partitions)),
        told.generation_id,
        told.rack_id,
        None if told.user_data is None else bytes(told.user_data),
    )


def assignment_bytes(partitions: Sequence[Partition]) -> bytes:
    """What the leader sends for one member."""
    return write_assignment(MemberAssignment(assigned_partitions=_topic_partitions(partitions)))


def partitions_assigned(data: Buffer) -> frozenset[Partition]:
    """What this member got; nothing where the coordinator filled in empty bytes. Raises ProtocolViolation."""
    return frozenset(_partitions(read_assignment(data).assigned_partitions)) if len(data) else frozenset()


def partitions_by_topic(topics: Mapping[str, TopicInfo]) -> dict[str, list[Partition]]:
    """The partitions to share out."""
    return {name: [info.partition for info in topic.partitions] for name, topic in topics.items()}


def racks_of(topics: Mapping[str, TopicInfo]) -> dict[Partition, frozenset[str]]:
    """Where copies of the partitions are, as far as brokers say."""
    return {info.partition: info.racks for topic in topics.values() for info in topic.partitions if info.racks}


def _topic_partitions(partitions: Collection[Partition]) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic=topic, partitions=[partition.id for partition in of_topic])
        for topic, of_topic in by_topic(partitions).items()
    ]


def _partitions(told: Iterable[TopicPartitions]) -> Iterable[Partition]:
    return (Partition(each.topic, number) for each in told for number in each.partitions)
