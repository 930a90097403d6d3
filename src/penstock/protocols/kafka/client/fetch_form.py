"""Fetch: how places to read from become a request, and what an answer says of each.

Topic ids are used from Fetch v13 on, where all of them are known; else v12 with names. Only a leader's word counts on
what is in a log: a follower may be behind, so what it misses is asked of the leader again, and it is not asked where
epochs end. Source: Kafka protocol guide, Fetch v4-v18; KIP-227, KIP-320, KIP-392, KIP-516.
What must not live here: connections, and when to ask again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from penstock.errors import PenstockError
from penstock.model import Node, Partition
from penstock.protocols.kafka.client.cluster import Cluster, NamedNode
from penstock.protocols.kafka.client.fetch_sessions import Asked, Key, Place
from penstock.protocols.kafka.client.fetched import KafkaFetched
from penstock.protocols.kafka.client.lineage import UNKNOWN
from penstock.protocols.kafka.client.read_replicas import ReadReplicas
from penstock.protocols.kafka.client.routing import note_error
from penstock.protocols.kafka.client.truncation import EpochEnd, parting
from penstock.protocols.kafka.errors import NONE, OFFSET_OUT_OF_RANGE, error_for
from penstock.protocols.kafka.messages.declare import NO_UUID
from penstock.protocols.kafka.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from penstock.seams.client import ReadFrom, ReadLimits

__all__ = ["WHAT", "FetchForm"]

WHAT = "reading failed"
_HIGHEST_WITH_NAMES = 12
_FIRST_WITH_LAST_EPOCH = 12
_HIGHEST = 18


class FetchForm:
    """Of one request to one node: what is read, and from where on."""

    __slots__ = ("_cluster", "_ids", "_keys", "_node", "_reads", "_replicas")

    def __init__(
        self,
        cluster: Cluster,
        node: Node,
        reads: Sequence[ReadFrom],
        replicas: ReadReplicas,
        keys: Sequence[Key] = (),
    ) -> None:
        """``keys``: what the reads are called, where that has been said already."""
        self._cluster = cluster
        self._node = node
        self._reads = reads
        self._replicas = replicas
        # A position's own topic: another one of that name may be known by now, in which it means nothing.
        self._ids = [each.topic_id or cluster.topic_id(each.partition.topic) for each in reads]
        self._keys = keys

    @property
    def at_most(self) -> int:
        """The highest version in which it can be sent."""
        return _HIGHEST_WITH_NAMES if None in self._ids else _HIGHEST

    def by_ids(self, version: int) -> bool:
        """Whether topics go by their ids in this version."""
        return version > _HIGHEST_WITH_NAMES

    def places(self, version: int) -> Mapping[Key, Place]:
        """What is wanted, in the order given, by what it is called in this version."""
        by_ids, epochs = self.by_ids(version), version >= _FIRST_WITH_LAST_EPOCH
        found: dict[Key, Place] = {}
        for each, topic_id in zip(self._reads, self._ids, strict=True):
            partition = each.partition
            name = topic_id or NO_UUID if by_ids else partition.topic
            found[name, partition.id] = self._place(each, epochs)
        self._keys = tuple(found)
        return found

    def _place(self, read: ReadFrom, epochs: bool) -> Place:
        known = UNKNOWN
        if epochs and leads(self._cluster, self._node, read.partition):
            known = self._cluster.lineage(read.partition).epoch_before(read.offset)
        return Place(read.offset, self._cluster.leader_epoch(read.partition), known, read.max_bytes)

    def request(self, asked: Asked, limits: ReadLimits) -> FetchRequest:
        """The message; ``asked`` names partitions as ``places`` does."""
        options = self._cluster.calls.options
        rack = options.rack
        if rack:
            now = self._cluster.calls.channel.monotonic()
            rack = "" if self._replicas.shunned((each.partition for each in self._reads), now) else rack
        return FetchRequest(
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation_level=int(options.read_committed),
            rack_id=rack,
            session_id=asked.session_id,
            session_epoch=asked.epoch,
            topics=_topics(asked.named),
            forgotten_topics_data=_forgotten(asked.forgotten),
        )

    def told(self, answer: FetchResponse, version: int) -> dict[Key, FetchResponsePartition]:
        """The answer's partitions, as they are called in this version."""
        by_ids = self.by_ids(version)
        return {
            (topic.topic_id if by_ids else topic.topic, each.partition_index): each
            for topic in answer.responses
            for each in topic.partitions
        }

    def fetched(
        self, told: Mapping[Key, FetchResponsePartition], nodes: Sequence[NamedNode] = ()
    ) -> list[KafkaFetched]:
        """What came, for those that were asked for; of those that are left out there is nothing new."""
        if not told:
            return []
        asked = dict(zip(self._keys, self._reads, strict=True))
        answers = [self._fetched(asked[key], part, nodes) for key, part in told.items() if key in asked]
        return [each for each in answers if each is not None]

    def _fetched(
        self, read: ReadFrom, found: FetchResponsePartition, nodes: Sequence[NamedNode]
    ) -> KafkaFetched | None:
        """None where somebody else has to be asked."""
        cluster, partition = self._cluster, read.partition
        diverging = found.diverging_epoch
        if (found.error_code == OFFSET_OUT_OF_RANGE or diverging.end_offset >= 0) and not leads(
            cluster, self._node, partition
        ):
            self._replicas.shun(partition, cluster.calls.channel.monotonic())
            return None
        error: PenstockError | None = None
        if found.error_code != NONE:
            error = error_for(
                found.error_code,
                WHAT,
                topic=partition.topic,
                partition=partition.id,
                offset=read.offset,
                node=str(self._node.endpoint),
            )
            if not cluster.named(partition, self._node, found.current_leader, nodes):
                note_error(cluster, partition, error)
        elif diverging.end_offset >= 0:
            error = parting(cluster, partition, read.offset, EpochEnd(diverging.epoch, diverging.end_offset))
        elif found.preferred_read_replica >= 0:
            self._go_to(found.preferred_read_replica, partition)
        return self._seen(KafkaFetched(read, found, error, cluster.calls.options))

    def _seen(self, fetched: KafkaFetched) -> KafkaFetched:
        if fetched.topic_id is not None and fetched.topic_id != self._cluster.topic_id(fetched.partition.topic):
            return fetched  # of the old topic: it says nothing about the past of the new one
        lineage = self._cluster.lineage(fetched.partition)
        for stretch in fetched.stretches:
            if stretch.epoch >= 0:
                lineage.saw(stretch)
        return fetched

    def _go_to(self, node_id: int, partition: Partition) -> None:
        cluster = self._cluster
        now = cluster.calls.channel.monotonic()
        self._replicas.prefer(partition, node_id, cluster.leader_epoch(partition), now)
        if cluster.node(node_id) is None:  # it was away when brokers were last asked for: ask again
            cluster.distrust(partition)


def leads(cluster: Cluster, node: Node, partition: Partition) -> bool:
    """Whether this node leads it, as far as is known; also where nothing is."""
    known = cluster.told_leader(partition)
    return known is None or known.name == node.name


def _topics(named: Mapping[Key, Place]) -> list[FetchRequestTopic]:
    found: dict[str | bytes, list[FetchRequestPartition]] = {}
    for (topic, number), place in named.items():
        part = FetchRequestPartition(
            partition=number,
            current_leader_epoch=place.leader_epoch,
            fetch_offset=place.offset,
            last_fetched_epoch=place.last_epoch,
            partition_max_bytes=place.max_bytes,
        )
        found.setdefault(topic, []).append(part)
    return [
        FetchRequestTopic(topic=topic, partitions=parts)
        if isinstance(topic, str)
        else FetchRequestTopic(topic_id=topic, partitions=parts)
        for topic, parts in found.items()
    ]


def _forgotten(keys: Collection[Key]) -> list[FetchRequestForgottenTopic]:
    found: dict[str | bytes, list[int]] = {}
    for topic, number in keys:
        found.setdefault(topic, []).append(number)
    return [
        FetchRequestForgottenTopic(topic=topic, partitions=numbers)
        if isinstance(topic, str)
        else FetchRequestForgottenTopic(topic_id=topic, partitions=numbers)
        for topic, numbers in found.items()
    ]
