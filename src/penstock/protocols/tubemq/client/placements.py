"""Placements: which brokers there are, and where each topic's partitions lie. Data and lookups; who asks is elsewhere.

A partition's node is the name of its broker. A partition whose broker no master knows now, or that the master does not
let anybody read, keeps its place in the topic but has no leader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock.errors import ProtocolViolation
from penstock.interfaces.channel import Channel, Routing
from penstock.model import Node, Partition, PartitionInfo, TopicInfo
from penstock.protocols.tubemq.partition_ids import partition_ids, store_of, within_store
from penstock.protocols.tubemq.strings import (
    BROKER_PORT,
    BROKER_TLS_PORT,
    Placement,
    parse_broker,
    parse_published,
    parse_subscribable,
)

__all__ = ["SYSTEM_TOPIC", "Placements"]

SYSTEM_TOPIC = "__offset_history__"
_SUBSCRIBABLE = 1
_MOST_PARTITIONS = 1_000_000


class Placements:
    """What is known. ``brokers`` by name; ``max_message_bytes`` by topic, "" for all others.

    ``version`` grows when brokers or partitions are others than before. ``routing`` knows whom of them not to believe,
    and what to ask a master for again.
    """

    def __init__(self, channel: Channel[None], max_age_ms: int, *, tls: bool) -> None:
        self._port = BROKER_TLS_PORT if tls else BROKER_PORT
        self._placed: dict[str, dict[str, Placement]] = {}
        self.routing = Routing(channel, max_age_ms, self._told_of)
        self.brokers: Mapping[str, Node] = {}
        self.max_message_bytes: dict[str, int] = {}
        self.version = 0

    def note_brokers(self, texts: Iterable[str]) -> None:
        """Take over a master's list of brokers; an empty one says that nothing changed. Raises ProtocolViolation."""
        nodes = [parse_broker(text, self._port) for text in texts]
        found = {node.name: node for node in nodes}
        if found and found != self.brokers:
            self.version += 1
            self.brokers = found

    def note_published(self, asked: Iterable[str], texts: Iterable[str]) -> None:
        """Take over where the topics ``asked`` for may be written to. Raises ProtocolViolation."""
        told = {published.topic: published for published in map(parse_published, texts)}
        for topic in asked:
            self._note(topic, told[topic].placements if topic in told else None)
            if topic in told and told[topic].max_message_bytes is not None:
                self.max_message_bytes[topic] = told[topic].max_message_bytes or 0
            else:
                self.max_message_bytes.pop(topic, None)

    def note_subscribable(self, texts: Iterable[str]) -> None:
        """Take over where some topics may be read from. Raises ProtocolViolation."""
        for told in map(parse_subscribable, texts):
            self._note(told.topic, told.placements)

    def forget(self, topics: Iterable[str]) -> None:
        """They are not there (any more)."""
        for topic in topics:
            self._note(topic, None)

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Those of ``names`` that are known."""
        return {name: self._info(name) for name in names if name in self._placed}

    def leader(self, partition: Partition) -> Node | None:
        """Its broker, if it may be asked."""
        return self.routing.leader(partition)

    def _told_of(self, partition: Partition) -> Node | None:
        place = self.placement(partition)
        if place is None or place.status != _SUBSCRIBABLE:
            return None
        return self.brokers.get(partition.node)

    def status(self, partition: Partition) -> int | None:
        """1 if the master lets it be read, 0 if not, None where there is no such partition."""
        place = self.placement(partition)
        return None if place is None else place.status

    def placement(self, partition: Partition) -> Placement | None:
        """How many stores and partitions its topic has on its broker; None where there is no such partition."""
        place = self._placed.get(partition.topic, {}).get(partition.node)
        if place is None or store_of(partition.id) >= place.stores or within_store(partition.id) >= place.partitions:
            return None
        return place

    def alone_in_store(self, partition: Partition) -> bool:
        """Whether its store has no other partitions, so that offsets of records in a row differ by one step."""
        place = self._placed.get(partition.topic, {}).get(partition.node)
        return place is not None and place.partitions == 1 and within_store(partition.id) == 0

    def distrust(self, partition: Partition) -> None:
        """The last request about it failed: ask a master before the next one."""
        self.routing.distrust(partition)

    def resolve(self, partition: Partition) -> Partition:
        """The same with its broker's name, where it was left out and only one broker can be meant."""
        if partition.node:
            return partition
        found = [
            placed
            for node in self._placed.get(partition.topic, {})
            if self.placement(placed := Partition(partition.topic, partition.id, node)) is not None
        ]
        return found[0] if len(found) == 1 else partition

    def _note(self, topic: str, placements: Iterable[Placement] | None) -> None:
        self.routing.told_unasked(topic)
        before = self._placed.get(topic)
        if placements is None:
            self._placed.pop(topic, None)
        else:
            placements = list(placements)
            if sum(place.stores * place.partitions for place in placements) > _MOST_PARTITIONS:
                raise ProtocolViolation("a topic with more partitions than any cluster has", topic=topic)
            self._placed[topic] = {str(place.broker_id): place for place in placements}
        self.version += before != self._placed.get(topic)

    def _info(self, name: str) -> TopicInfo:
        partitions = [
            Partition(name, partition_id, node)
            for node, place in sorted(self._placed[name].items(), key=lambda each: int(each[0]))
            for partition_id in partition_ids(place.stores, place.partitions)
        ]
        infos = tuple(PartitionInfo(partition, self.leader(partition)) for partition in partitions)
        return TopicInfo(name, infos, internal=name == SYSTEM_TOPIC)
