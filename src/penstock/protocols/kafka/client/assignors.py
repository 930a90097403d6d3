"""The assignors of a classic group's member.

The module has Kafka's sticky assignors with their user data. It creates assignors, checks their assignments (a user's
own assignor may return anything), and converts subscriptions and assignments between bytes and penstock's types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from msgspec.structs import replace

from penstock.errors import ConfigError, ProtocolViolation, UsageError
from penstock.groups.assignors import (
    NO_GENERATION,
    Assignor,
    Racks,
    RangeAssignor,
    RoundRobinAssignor,
    Shares,
    Subscriber,
)
from penstock.groups.sticky_assignors import CooperativeStickyAssignor, StickyAssignor
from penstock.interfaces.framing import Buffer
from penstock.interfaces.wire import Reader, Writer
from penstock.model import Partition, TopicInfo
from penstock.protocols.kafka.client.cluster import by_topic
from penstock.protocols.kafka.wire import codec
from penstock.protocols.kafka.wire.consumer_protocol import (
    MemberAssignment,
    Subscription,
    TopicPartitions,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from penstock.protocols.kafka.wire.declarations import I32, Api, Message, array

if TYPE_CHECKING:
    from penstock.protocols.kafka.wire.groups import JoinGroupResponseMember

__all__ = [
    "ASSIGNORS",
    "KafkaCooperativeSticky",
    "KafkaSticky",
    "assignment_bytes",
    "check_cooperation",
    "check_shares",
    "made_assignors",
    "partitions_assigned",
    "partitions_by_topic",
    "racks_of",
    "subscriber_of",
    "subscription_bytes",
]


# Kafka's sticky assignors, which send a member's last assignment or generation as user data.
#
# Members of ``sticky`` have no owned partitions when they join, so each sends its last assignment as user data (v1; v0
# has no generation). ``cooperative-sticky`` reads owned partitions and generation from the subscription (v2 and up),
# and from older subscriptions the generation in the user data. Source: Kafka clients 4.x, StickyAssignor,
# CooperativeStickyAssignor; KIP-341, KIP-429, KIP-792.
class _Remembered(Message):
    """The user data of ``sticky``."""

    API: ClassVar[Api] = Api(-1, 0, 1, flexible=None)
    previous_assignment: Annotated[Sequence[TopicPartitions], array(TopicPartitions)] = ()
    generation: Annotated[int, I32.since(1).ignorable()] = NO_GENERATION


class _Joined(Message):
    """The user data of ``cooperative-sticky``."""

    API: ClassVar[Api] = Api(-1, 0, 0, flexible=None)
    generation: Annotated[int, I32] = NO_GENERATION


class KafkaSticky(StickyAssignor):
    """``sticky`` of one member."""

    def __init__(self) -> None:
        self._remembered: bytes | None = None

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """The member's last assignment; None before the first."""
        del topics
        return self._remembered

    def assigned(self, partitions: frozenset[Partition], generation: int) -> None:
        """Remember the assignment for the next join."""
        had = [
            TopicPartitions(topic=topic, partitions=[p.id for p in of]) for topic, of in by_topic(partitions).items()
        ]
        self._remembered = _bytes(_Remembered(previous_assignment=had, generation=generation), 1)

    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]], racks: Racks
    ) -> dict[str, list[Partition]]:
        """Assign by the members' remembered assignments."""
        return super().assign([_with_memory(member) for member in members], partitions, racks)


class KafkaCooperativeSticky(CooperativeStickyAssignor):
    """``cooperative-sticky`` of one member."""

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """The last generation, for leaders that cannot read newer subscriptions."""
        del topics
        return _bytes(_Joined(generation=self._generation), 0)

    def assigned(self, partitions: frozenset[Partition], generation: int) -> None:
        """Remember the generation."""
        del partitions
        self._generation = generation

    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]], racks: Racks
    ) -> dict[str, list[Partition]]:
        """Assign by the members' owned partitions."""
        return super().assign([_with_generation(member) for member in members], partitions, racks)


def _with_memory(member: Subscriber) -> Subscriber:
    """The member with the assignment in its user data; with none if the data is missing or unreadable."""
    if member.user_data is not None:
        for version in (1, 0):
            try:
                result = codec.decode(_Remembered, version, Reader(member.user_data))
            except ProtocolViolation:
                continue
            had = frozenset(Partition(each.topic, n) for each in result.previous_assignment for n in each.partitions)
            return replace(member, owned=had, generation=result.generation)
    return replace(member, owned=frozenset(), generation=NO_GENERATION)


def _with_generation(member: Subscriber) -> Subscriber:
    if member.generation == NO_GENERATION and member.user_data is not None:
        try:
            result = codec.decode_prefix(_Joined, 0, Reader(member.user_data))
        except ProtocolViolation:
            return member
        return replace(member, generation=result.generation)
    return member


def _bytes(message: _Remembered | _Joined, version: int) -> bytes:
    writer = Writer()
    codec.write(message, version, writer)
    return b"".join(writer.parts())


# The assignors by the names that Kafka's clients use, and users' own classes.
ASSIGNORS: Final[Mapping[str, type[Assignor]]] = {
    each.name: each for each in (RangeAssignor, RoundRobinAssignor, KafkaSticky, KafkaCooperativeSticky)
}


def made_assignors(wanted: Sequence[str | type[object]]) -> dict[str, Assignor]:
    """A new instance of each wanted assignor by its name, in the order of preference.

    Raises ConfigError for an unknown name, for a class that is no assignor, for two with one name, and for an empty
    list.
    """
    if not wanted:
        raise ConfigError("a group member needs an assignor", hint=f"Use one of {', '.join(ASSIGNORS)}.")
    made = [_made(each) for each in wanted]
    found = {each.name: each for each in made}
    if len(found) < len(made):
        names = ", ".join(each.name for each in made)
        raise ConfigError(f"two assignors have one name: {names}", hint="Members agree on names: each needs its own.")
    return found


def _made(wanted: str | type[object]) -> Assignor:
    if isinstance(wanted, str):
        if wanted not in ASSIGNORS:
            raise ConfigError(f"there is no assignor {wanted!r}", hint=f"Use one of {', '.join(ASSIGNORS)}.")
        return ASSIGNORS[wanted]()
    made = wanted() if issubclass(wanted, Assignor) else None
    if made is None or not isinstance(getattr(made, "name", None), str) or not made.name:
        raise ConfigError(
            f"{wanted.__qualname__} is no assignor with a name", hint="Derive it from penstock.Assignor and set name."
        )
    return made


def check_shares(assignor: Assignor, shares: Shares, members: Sequence[Subscriber], known: Sequence[Partition]) -> None:
    """Raises UsageError for an assignment that would break the group: a user's own assignor may return anything."""
    if ASSIGNORS.get(assignor.name) is type(assignor):
        return
    what = f"the assignor {assignor.name!r} ({type(assignor).__qualname__}) gave"
    strangers = shares.keys() - {member.member_id for member in members}
    if strangers:
        raise UsageError(f"{what} partitions to {min(strangers)!r}, which is no member")
    given = Counter(partition for share in shares.values() for partition in share)
    if invented := given.keys() - set(known):
        raise UsageError(f"{what} out {min(invented)}, which there is not")
    if doubled := [partition for partition, times in given.items() if times > 1]:
        raise UsageError(f"{what} {min(doubled)} to two members: records would be read twice")
    for member in members:
        unwanted = [each for each in shares.get(member.member_id, ()) if each.topic not in member.topics]
        if unwanted:
            raise UsageError(f"{what} {min(unwanted)} to {member.member_id!r}, which has not subscribed to it")


def check_cooperation(assignor: Assignor, shares: Shares, members: Sequence[Subscriber]) -> None:
    """Raises UsageError if a partition would have two owners for a while (KIP-429)."""
    if ASSIGNORS.get(assignor.name) is type(assignor):
        return
    keeps = {member.member_id: member.owned & frozenset(shares.get(member.member_id, ())) for member in members}
    given_up = {each: member.member_id for member in members for each in member.owned - keeps[member.member_id]}
    for member_id, share in shares.items():
        for partition in share:
            if partition not in keeps[member_id] and partition in given_up:
                raise UsageError(
                    f"the assignor {assignor.name!r} gave {partition} to {member_id!r} while {given_up[partition]!r}"
                    " still owns it",
                    hint="A cooperative assignor leaves it out until its owner has given it up",
                )


# The consumer protocol: subscriptions and assignments, which members exchange through the coordinator.
#
# Source: Kafka clients, consumer protocol v0-v3; ``wire.consumer_protocol`` declares the bytes.
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
    """A member as the coordinator describes it to the leader. Raises ProtocolViolation."""
    result = read_subscription(member.metadata)
    return Subscriber(
        member.member_id,
        frozenset(result.topics),
        member.group_instance_id,
        frozenset(_partitions(result.owned_partitions)),
        result.generation_id,
        result.rack_id,
        None if result.user_data is None else bytes(result.user_data),
    )


def assignment_bytes(partitions: Sequence[Partition]) -> bytes:
    """The assignment bytes of one member, from its leader."""
    return write_assignment(MemberAssignment(assigned_partitions=_topic_partitions(partitions)))


def partitions_assigned(data: Buffer) -> frozenset[Partition]:
    """This member's assignment; empty if the coordinator sent empty bytes. Raises ProtocolViolation."""
    return frozenset(_partitions(read_assignment(data).assigned_partitions)) if len(data) else frozenset()


def partitions_by_topic(topics: Mapping[str, TopicInfo]) -> dict[str, list[Partition]]:
    """The partitions to assign."""
    return {name: [info.partition for info in topic.partitions] for name, topic in topics.items()}


def racks_of(topics: Mapping[str, TopicInfo]) -> dict[Partition, frozenset[str]]:
    """The racks of the partitions' replicas, as far as brokers report them."""
    return {info.partition: info.racks for topic in topics.values() for info in topic.partitions if info.racks}


def _topic_partitions(partitions: Collection[Partition]) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic=topic, partitions=[partition.id for partition in of_topic])
        for topic, of_topic in by_topic(partitions).items()
    ]


def _partitions(result: Iterable[TopicPartitions]) -> Iterable[Partition]:
    return (Partition(each.topic, number) for each in result for number in each.partitions)
