"""What a handler is given beside its request: who asks, in which version, and the front's shared parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock._dataclasses import dataclass
from penstock.errors import UpstreamLost
from penstock.model import Endpoint, Partition
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.options import KafkaFrontOptions
from penstock.protocols.kafka.front.unstored import Unstored
from penstock.protocols.kafka.offsets_log import OffsetsLog
from penstock.seams.beside import Beside, Pace, Turns
from penstock.seams.enode import Enode, TopicState
from penstock.seams.journal import OWN_TOPICS
from penstock.seams.memory import Portion
from penstock.seams.meters import Meter
from penstock.seams.node import Offsets, Services
from penstock.seams.parking import Parking
from penstock.seams.patience import patiently

if TYPE_CHECKING:
    from penstock.protocols.kafka.front.fetch_sessions import FetchSessions
    from penstock.protocols.kafka.front.group_keeper import GroupKeeper
    from penstock.protocols.kafka.front.incoming import Rules
    from penstock.protocols.kafka.front.limits import Limits
    from penstock.protocols.kafka.front.producer_ids import ProducerIds
    from penstock.protocols.kafka.front.table import Row
    from penstock.protocols.kafka.front.transaction_keeper import TransactionKeeper

__all__ = ["Call", "Handler", "Line", "Shared", "is_internal"]

_INTERNAL = frozenset({OffsetsLog.topic, "__transaction_state", "__share_group_state"})


def is_internal(topic: str) -> bool:
    """Whether it is a node's own, or the cluster's behind it: clients may read it, not write, create or delete it."""
    return topic in _INTERNAL or topic.startswith(OWN_TOPICS)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all handlers of a front share. ``offered``: the rows of the table that this node serves.

    ``pace`` makes one for a request that begins. ``rules``: what topics ask of batches, by topic, with the topic and
    the defaults that they were made of.
    """

    services: Services
    options: KafkaFrontOptions
    groups: GroupKeeper
    sessions: FetchSessions
    producer_ids: ProducerIds
    transactions: TransactionKeeper
    beside: Beside
    turns: Turns
    offered: Mapping[int, Row]
    meter: Meter
    large: Portion
    limits: Limits
    pace: Callable[[], Pace]
    unstored: Unstored = field(default_factory=Unstored)
    rules: dict[str, tuple[TopicState, Mapping[str, str], Rules]] = field(default_factory=dict)

    @property
    def enode(self) -> Enode:
        return self.services.enode

    @property
    def offsets(self) -> Offsets:
        return self.services.offsets

    @property
    def node_id(self) -> int:
        return self.services.identity.node_id

    @property
    def advertised(self) -> Endpoint:
        """Where Kafka clients reach this node."""
        return self.services.identity.advertised["kafka"]

    async def config_of(self, topic: TopicState) -> Mapping[str, str]:
        """What holds for a topic: what it says itself, and what was set for all that do not."""
        defaults = await self.enode.defaults()
        return {**defaults, **topic.config} if defaults else topic.config

    async def fault_of(self, partition: Partition, lost: ErrorCode) -> ErrorCode:
        """UNKNOWN_TOPIC_OR_PARTITION where there is no such partition; ``lost`` where nobody can tell now."""
        try:
            topic = await self.enode.topic(partition.topic)
        except UpstreamLost:
            return lost
        there = topic is not None and 0 <= partition.id < topic.partitions
        return ErrorCode.NONE if there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def name_of(self, topic_id: bytes, lost: ErrorCode) -> str | ErrorCode:
        """The topic of that id; UNKNOWN_TOPIC_ID where nobody has it; ``lost`` where nobody can tell now."""
        try:
            found = await self.enode.topic_by_id(topic_id)
        except UpstreamLost:
            return lost
        return ErrorCode.UNKNOWN_TOPIC_ID if found is None else found.name

    async def all_topics(self) -> Sequence[TopicState]:
        """All topics; asked for with patience, because answers that list them have no place for an error."""
        return await patiently(self.services.runtime, self.enode.topics)


class Line(Parking):
    """One client's connection as handlers see it: where it comes from, and whether anybody still waits for an answer.

    ``host`` is the address as Kafka's tools show it, with a slash before. ``throttled_s``: for so long its next request
    waits, whether or not the client obeys the throttle time that it was given (KIP-219).
    """

    __slots__ = ("__weakref__", "address", "throttled_s")

    def __init__(self, address: Endpoint) -> None:
        super().__init__()
        self.address = address
        self.throttled_s = 0.0

    @property
    def host(self) -> str:
        return f"/{self.address.host}"


class Call(NamedTuple):
    """One request's circumstances. ``pace``: every handler spends it for each entry that it goes through."""

    shared: Shared
    line: Line
    version: int
    client_id: str
    pace: Pace
    large: bool = False
    """It has so many entries that others like it wait until it is answered."""


Handler = Callable[[Call, Any], Awaitable[object | None]]
"""Returns the response message, or None for no answer (Produce with acks=0)."""
