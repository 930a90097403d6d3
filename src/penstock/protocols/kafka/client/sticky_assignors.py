"""Kafka's sticky assignors: where members say what they had, and that they are there at all, in the user data.

``sticky`` reads no owned partitions, because its members have none left when they join: each remembers its last
assignment and sends it as user data (v1, v0 without the generation). ``cooperative-sticky`` takes owned partitions and
generation from the subscription (v2 and up), and from older ones the generation in the user data.
Source: Kafka clients 4.x, StickyAssignor, CooperativeStickyAssignor; KIP-341, KIP-429, KIP-792.
What must not live here: who gets what (`penstock.groups`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

from penstock._dataclasses import dataclass
from penstock.errors import ProtocolViolation
from penstock.groups.assignor import NO_GENERATION, Racks, Subscriber
from penstock.groups.sticky_assignors import CooperativeStickyAssignor, StickyAssignor
from penstock.model import Partition
from penstock.protocols.kafka.client.routing import by_topic
from penstock.protocols.kafka.messages import codec
from penstock.protocols.kafka.messages.consumer_protocol import TopicPartitions
from penstock.protocols.kafka.messages.declare import I32, Api, array
from penstock.wire import Reader, Writer

__all__ = ["KafkaCooperativeSticky", "KafkaSticky"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remembered:
    """The user data of ``sticky``."""

    API: ClassVar[Api] = Api(-1, 0, 1, flexible=None)
    previous_assignment: Annotated[Sequence[TopicPartitions], array(TopicPartitions)] = ()
    generation: Annotated[int, I32.since(1).ignorable()] = NO_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joined:
    """The user data of ``cooperative-sticky``."""

    API: ClassVar[Api] = Api(-1, 0, 0, flexible=None)
    generation: Annotated[int, I32] = NO_GENERATION


class KafkaSticky(StickyAssignor):
    """``sticky`` of one member."""

    def __init__(self) -> None:
        self._remembered: bytes | None = None

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """What it got last, None before."""
        del topics
        return self._remembered

    def assigned(self, partitions: frozenset[Partition], generation: int) -> None:
        """To be told at the next join."""
        had = [
            TopicPartitions(topic=topic, partitions=[p.id for p in of]) for topic, of in by_topic(partitions).items()
        ]
        self._remembered = _bytes(_Remembered(previous_assignment=had, generation=generation), 1)

    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]], racks: Racks
    ) -> dict[str, list[Partition]]:
        """By what members remember."""
        return super().assign([_with_memory(member) for member in members], partitions, racks)


class KafkaCooperativeSticky(CooperativeStickyAssignor):
    """``cooperative-sticky`` of one member."""

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Its last generation, for leaders that know no younger subscriptions."""
        del topics
        return _bytes(_Joined(generation=self._generation), 0)

    def assigned(self, partitions: frozenset[Partition], generation: int) -> None:
        """Remember the generation."""
        del partitions
        self._generation = generation

    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]], racks: Racks
    ) -> dict[str, list[Partition]]:
        """By what members own."""
        return super().assign([_with_generation(member) for member in members], partitions, racks)


def _with_memory(member: Subscriber) -> Subscriber:
    """What a member that sent nothing readable had, nobody knows."""
    if member.user_data is not None:
        for version in (1, 0):
            try:
                told = codec.decode(_Remembered, version, Reader(member.user_data))
            except ProtocolViolation:
                continue
            had = frozenset(Partition(each.topic, n) for each in told.previous_assignment for n in each.partitions)
            return replace(member, owned=had, generation=told.generation)
    return replace(member, owned=frozenset(), generation=NO_GENERATION)


def _with_generation(member: Subscriber) -> Subscriber:
    if member.generation == NO_GENERATION and member.user_data is not None:
        try:
            told = codec.decode_prefix(_Joined, 0, Reader(member.user_data))
        except ProtocolViolation:
            return member
        return replace(member, generation=told.generation)
    return member


def _bytes(message: _Remembered | _Joined, version: int) -> bytes:
    writer = Writer()
    codec.write(message, version, writer)
    return b"".join(writer.parts())
