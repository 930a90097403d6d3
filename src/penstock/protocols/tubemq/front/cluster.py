"""The node as a TubeMQ cluster of one broker: its id and address, and its topics in TubeMQ's terms.

A partition is a store of its own, our n being TubeMQ's n * 10000, unless its topic was made with several partitions a
store (`shapes`). Each has offsets of its own all the same, and they are dense: our offset o is TubeMQ's 28 * o. Topics
of the node itself (``__...``) are not shown.
"""

from __future__ import annotations

from penstock.interfaces.enode import TopicState
from penstock.interfaces.node import Services
from penstock.model import Node, Partition
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.front.settings import Settings
from penstock.protocols.tubemq.front.shapes import Shape, shape_of
from penstock.protocols.tubemq.partition_ids import INDEX_BYTES, STORE_BASE
from penstock.protocols.tubemq.strings import Placement, Subscribable, format_broker

__all__ = ["Cluster", "to_record", "to_wire"]

_OWN = "__"


def to_wire(offset: int) -> int:
    """A record's offset as TubeMQ counts."""
    return offset * INDEX_BYTES


def to_record(offset: int) -> int:
    """The offset of the record that begins at or before a TubeMQ offset."""
    return offset // INDEX_BYTES


class Cluster:
    """``config_id``: names the list of brokers, which does not change while the node runs."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services = services
        self._settings = settings
        self.broker_id = services.identity.node_id
        self.config_id = services.runtime.now_ms()

    @property
    def node(self) -> Node:
        """The one broker, where clients reach it."""
        return Node(str(self.broker_id), self._services.identity.advertised["tubemq"])

    @property
    def brokers(self) -> list[str]:
        """The list of brokers as clients are told it."""
        return [format_broker(self.node)]

    # Topics.

    async def topics(self) -> list[TopicState]:
        """All that clients may see."""
        return [topic for topic in await self._services.enode.topics() if not topic.name.startswith(_OWN)]

    async def topic(self, name: str) -> TopicState | None:
        """A topic that clients may see."""
        return None if name.startswith(_OWN) else await self._services.enode.topic(name)

    async def known(self, name: str) -> TopicState:
        """A topic that is there. Raises Refused (FORBIDDEN), as brokers do."""
        topic = await self.topic(name)
        if topic is None:
            raise Refused(Code.FORBIDDEN, f"topicName {name} not existed, please check your configure")
        return topic

    def shape(self, topic: TopicState) -> Shape:
        """Its stores, and TubeMQ's ids of its partitions."""
        return shape_of(self._settings.topic(topic.name).shapes, topic.partitions)

    def placement(self, topic: TopicState) -> Placement:
        """Where a topic is: all of it here."""
        shape = self.shape(topic)
        return Placement(self.broker_id, shape.stores, shape.partitions)

    def subscribable(self, topic: TopicState) -> Subscribable:
        """The same for client-balanced consumers."""
        return Subscribable(topic.name, (self.placement(topic),))

    # Partitions.

    async def partitions(self, topic: str) -> list[Partition]:
        """A topic's partitions under TubeMQ's ids, with the broker's id as node; none where there is no such topic."""
        found = await self.topic(topic)
        name = str(self.broker_id)
        return [Partition(topic, each, name) for each in sorted(self.shape(found).ids)] if found else []

    def shown(self, topic: TopicState) -> list[tuple[Partition, int]]:
        """Our partitions that clients may see, and TubeMQ's ids of them."""
        return [(Partition(topic.name, number), each) for number, each in enumerate(self.shape(topic).ids)]

    def own(self, topic: TopicState, partition_id: int) -> Partition:
        """Our partition of a TubeMQ id. Raises Refused (FORBIDDEN)."""
        number = self.shape(topic).numbers.get(partition_id)
        if number is None:
            raise Refused(
                Code.FORBIDDEN, f"partitionId {topic.name}-{partition_id} not existed, please check your configure"
            )
        return Partition(topic.name, number)

    async def id_of(self, partition: Partition) -> int:
        """TubeMQ's id of one of our partitions; that of a store of its own for one that is not shown."""
        topic = await self.topic(partition.topic)
        ids = self.shape(topic).ids if topic is not None else ()
        return ids[partition.id] if partition.id < len(ids) else partition.id * STORE_BASE
