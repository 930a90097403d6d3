"""A Kafka cluster as an enode: it only puts the parts together. See README.md for what is where, and why.

A node over it keeps nothing of its own: topics, records and the node's journals are topics of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.errors import PenstockError, StoreError, Unsupported, UpstreamLost
from penstock.model import Endpoint, Partition
from penstock.protocols.kafka.client.calls import Calls
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.dialect import KafkaDialect
from penstock.protocols.kafka.client.options import KafkaOptions
from penstock.protocols.kafka.client.versions import Versions
from penstock.protocols.kafka.enode.arrivals import Arrivals
from penstock.protocols.kafka.enode.asking import Asking
from penstock.protocols.kafka.enode.ends import Ends
from penstock.protocols.kafka.enode.reading import Reading, out_of_range
from penstock.protocols.kafka.enode.relay import KafkaRelay
from penstock.protocols.kafka.enode.sizes import Sizes
from penstock.protocols.kafka.enode.topics import Topics
from penstock.protocols.kafka.enode.writing import Writing
from penstock.protocols.kafka.errors import OFFSET_OUT_OF_RANGE
from penstock.seams.abilities import Abilities
from penstock.seams.channel import Channel
from penstock.seams.enode import (
    Appended,
    Batch,
    Budget,
    Extent,
    Fetched,
    FetchPart,
    Place,
    Room,
    TopicState,
    Writer,
    extent,
)
from penstock.seams.opening import EnodeIdentity, Surroundings
from penstock.seams.relay import Relay
from penstock.seams.runtime import Promise

__all__ = ["KafkaEnode"]

_UNNAMED: Final = "a-cluster-without-id"


class KafkaEnode:
    """``penstock.seams.opening.OpenedEnode``."""

    abilities = Abilities(transactions=False)
    near = False

    def __init__(self, url: str, bootstrap: Sequence[Endpoint], around: Surroundings, options: KafkaOptions) -> None:
        self.url = url
        runtime = around.runtime
        self._channel: Channel[Versions] = around.channel_of(KafkaDialect(options))
        self._cluster = Cluster(Calls(self._channel, options), bootstrap)
        asking = Asking(self._cluster, runtime.promise)
        self._topics = Topics(asking)
        self._ends = Ends(asking)
        self._reading = Reading(asking, self._ends)
        self._writing = Writing(asking, runtime)
        self._sizes = Sizes(asking, runtime.promise)
        self._arrivals = Arrivals(asking, runtime)
        self._relay = KafkaRelay(self._cluster)
        # Nothing is remembered from one start to the next, so the clock has to say which one this is.
        self._started = runtime.now_ms() // 1_000
        self._node_id = around.config.node_id

    @property
    def identity(self) -> EnodeIdentity:
        return EnodeIdentity(self._node_id, self._cluster.cluster_id or _UNNAMED, self._started)

    def abilities_of(self, topic: str) -> Abilities:
        return self.abilities

    def relay(self, scheme: str) -> Relay | None:
        """For producers' ids only: everything else goes by batches."""
        return self._relay if scheme == self._relay.scheme else None

    # Its life.

    async def start(self) -> list[str]:
        try:
            await self._cluster.nodes()
        except PenstockError as error:
            raise UpstreamLost(
                f"cannot ask {self.url} for its brokers: {error.message}",
                hint="Give the addresses of Kafka brokers (kafka://HOST:9092), without TLS and passwords, and start"
                " them first",
            ) from error
        return []

    async def unreachable(self) -> str | None:
        """Some broker has to answer. Raises ConnectionLost, RequestTimeout."""
        return None if await self._cluster.nodes() else "no Kafka broker is known to any other"

    def keep_up(self) -> None:
        return

    async def close(self, within_s: float) -> None:
        del within_s  # fronts have answered, or given up; what is under way is at the brokers
        await self._channel.close()

    def abandon(self) -> None:
        return

    # Topics.

    async def topics(self) -> Sequence[TopicState]:
        return await self._topics.all()

    async def topic(self, name: str) -> TopicState | None:
        return await self._topics.find(name)

    async def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        return await self._topics.by_id(topic_id)

    async def places(self, topic: str) -> Sequence[Place]:
        return await self._topics.places(topic)

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        return await self._topics.create(name, partitions, config)

    async def delete_topic(self, name: str) -> None:
        await self._topics.delete(name)

    async def add_partitions(self, name: str, total: int) -> None:
        await self._topics.grow(name, total)

    async def set_config(self, name: str, config: Mapping[str, str]) -> None:
        await self._topics.configure(name, config)

    async def defaults(self) -> Mapping[str, str]:
        return {}

    async def node_options(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    async def set_defaults(self, defaults: Mapping[str, str], said: Mapping[str, Mapping[str, str]]) -> None:
        raise Unsupported(
            "what a Kafka cluster does with topics that do not say is set at the cluster",
            hint="Set it there, for example with kafka-configs --entity-type brokers",
        )

    # Writing.

    async def append(self, partition: Partition, batch: Batch) -> Appended:
        (found,) = await self._writing.append_all(((partition, batch),))
        if isinstance(found, PenstockError):
            raise found
        return found

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        return await self._writing.append_all(batches)

    async def delete_records(self, partition: Partition, before: int) -> int:
        try:
            return await self._ends.cut(partition, before)
        except StoreError as error:
            if getattr(error.__cause__, "code", None) != OFFSET_OUT_OF_RANGE:
                raise
        here = await extent(self, partition)
        raise out_of_range(partition, before, here.start, here.end)

    # Reading.

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        return await self._reading.fetch(parts, budget)

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        return await self._ends.extents(partitions)

    async def epoch_end(self, partition: Partition, epoch: int, *, leader_epoch: int = -1) -> tuple[int, int]:
        return await self._ends.epoch_end(partition, epoch, leader_epoch)

    async def offset_for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        return await self._ends.for_time(partition, timestamp_ms)

    async def max_timestamp(self, partition: Partition) -> tuple[int, int] | None:
        return await self._ends.newest(partition)

    async def writers(self, partition: Partition) -> Sequence[Writer]:
        return await self._ends.writers(partition)

    async def size(self, partition: Partition) -> int:
        return await self._sizes.of(partition)

    async def room(self) -> Room:
        return await self._sizes.room(self.url)

    # Waiting.

    def arrival(self, known: Mapping[Partition, int]) -> Promise[None]:
        return self._arrivals.wait(known)

    def forget_arrival(self, promise: Promise[None]) -> None:
        self._arrivals.forget(promise)
