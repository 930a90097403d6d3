"""The node as a TubeMQ cluster of one broker: its id and address, and its topics in TubeMQ's terms.

Each of our partitions is a store of its own with one partition in it, so that its offsets are dense: our partition n is
TubeMQ's n * 10000, and our offset o is TubeMQ's 28 * o. Topics of the node itself (``__...``) are not shown.
"""

from __future__ import annotations

from penstock.model import Node, Partition
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.partition_ids import INDEX_BYTES, STORE_BASE, store_of, within_store
from penstock.protocols.tubemq.strings import Placement, Subscribable, format_broker
from penstock.seams.node import Services, TopicState

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

    def __init__(self, services: Services) -> None:
        self._services = services
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

    def topics(self) -> list[TopicState]:
        """All that clients may see."""
        return [topic for topic in self._services.enode.topics() if not topic.name.startswith(_OWN)]

    def topic(self, name: str) -> TopicState | None:
        """A topic that clients may see."""
        return None if name.startswith(_OWN) else self._services.enode.topic(name)

    def known(self, name: str) -> TopicState:
        """A topic that is there. Raises Refused (FORBIDDEN), as brokers do."""
        topic = self.topic(name)
        if topic is None:
            raise Refused(Code.FORBIDDEN, f"topicName {name} not existed, please check your configure")
        return topic

    def placement(self, topic: TopicState) -> Placement:
        """Where a topic is: all of it here."""
        return Placement(self.broker_id, topic.partitions, 1)

    def subscribable(self, topic: TopicState) -> Subscribable:
        """The same for client-balanced consumers."""
        return Subscribable(topic.name, (self.placement(topic),))

    # Partitions.

    def partitions(self, topic: str) -> list[Partition]:
        """A topic's partitions under TubeMQ's ids, with the broker's id as node; none where there is no such topic."""
        found = self.topic(topic)
        name = str(self.broker_id)
        return [Partition(topic, number * STORE_BASE, name) for number in range(found.partitions if found else 0)]

    def own(self, topic: TopicState, partition_id: int) -> Partition:
        """Our partition of a TubeMQ id. Raises Refused (FORBIDDEN)."""
        number = store_of(partition_id)
        if partition_id < 0 or within_store(partition_id) or number >= topic.partitions:
            raise Refused(
                Code.FORBIDDEN, f"partitionId {topic.name}-{partition_id} not existed, please check your configure"
            )
        return Partition(topic.name, number)
