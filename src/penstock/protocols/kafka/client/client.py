"""KafkaClient: Kafka's implementation of LogClient, which delegates to one module per family of requests.

Each module is imported on first use. A Spark planner starts a new process for every query; importing all modules would
delay it by a tenth of a second for messages that it never sends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.concurrency.locks import TryLock
from penstock.errors import LogTruncated, PenstockError, UsageError
from penstock.interfaces.channel import Channel, Dialect
from penstock.interfaces.client import (
    FetchHeard,
    FoundOffset,
    GroupOptions,
    LogClient,
    Membership,
    ReadFrom,
    ReadLimits,
)
from penstock.model import Committed, Endpoint, LogRange, Node, OffsetSpec, Partition, PreparedTransaction, TopicInfo
from penstock.protocols.kafka.client.cluster import Cluster, find_offsets
from penstock.protocols.kafka.client.connection import Calls, KafkaDialect, KafkaOptions, Versions

if TYPE_CHECKING:
    from penstock.protocols.kafka.client.admin import KafkaAdmin
    from penstock.protocols.kafka.client.coordinator import Coordinator
    from penstock.protocols.kafka.client.fetch import KafkaFetched
    from penstock.protocols.kafka.client.reader import KafkaLentRead, KafkaRange, KafkaReader
    from penstock.protocols.kafka.client.sender import KafkaSender
    from penstock.protocols.kafka.client.transactions import KafkaTransactionalSender

__all__ = ["KafkaClient", "check_topic", "open_client"]

# Allowed topic names. Source: Apache Kafka 4.x, ``org.apache.kafka.common.internals.Topic``.
_MAX_TOPIC: Final = 249
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
_HINT: Final = "Letters, digits, '.', '_' and '-', at most 249, and neither '.' nor '..'"


def check_topic(name: str) -> None:
    """Raise UsageError for a name that no topic can have."""
    if len(name) > _MAX_TOPIC:
        raise UsageError(f"no topic can be called {name[:40] + '...'!r}, with {len(name)} characters", hint=_HINT)
    if not _TOPIC.fullmatch(name) or name in {".", ".."}:
        raise UsageError(f"no topic can be called {name!r}", hint=_HINT)


class KafkaClient(LogClient):
    """``penstock.interfaces.client.LogClient`` and ``TransactionalClient``, for all brokers with Kafka's protocol.

    The channel must have been made with a ``KafkaDialect`` of the same options; `open_client` does so.
    """

    def __init__(
        self, channel: Channel[Versions], bootstrap: Sequence[Endpoint], options: KafkaOptions | None = None
    ) -> None:
        self._channel = channel
        self._cluster = Cluster(Calls(channel, options or KafkaOptions()), bootstrap)
        self._coordinators: dict[str, Coordinator] = {}
        self._its_reader: KafkaReader | None = None

    def check_topic(self, name: str) -> None:
        """Raise UsageError for a name that no topic can have."""
        check_topic(name)

    async def topics(self, names: Collection[str] | None, *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name; see ``LogClient``. Raises ConnectionLost, RequestTimeout, ServerError."""
        return await self._cluster.topics(names, fresh=fresh)

    def leader(self, partition: Partition) -> Node | None:
        """The leader in the metadata. None also while its node is unreachable: it may have lost the partition."""
        node = self._cluster.leader(partition)
        return None if node is None or self._channel.rests(node.endpoint) else node

    def trouble(self, partition: Partition) -> PenstockError | None:
        """Why the leader cannot be reached; None if it can, or if no leader is known."""
        node = self._cluster.known_leader(partition)
        return None if node is None else self._channel.trouble(node.endpoint)

    def reads_at(self, partition: Partition) -> Node | None:
        """The node to read the partition from: its leader, or a follower that the leader has named (KIP-392)."""
        return self._reader.reads_at(partition)

    def distrust(self, partition: Partition) -> None:
        """Forget the partition's leader and the follower to read from."""
        self._cluster.distrust(partition)
        if self._its_reader is not None:
            self._its_reader.distrust(partition)

    def moved(self, partition: Partition) -> bool:
        """Whether the last refusal named the new leader (KIP-951). True once per refusal."""
        return self._cluster.moved(partition)

    async def offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, FoundOffset]:
        """Offsets by name or time, from the leaders."""
        return await find_offsets(self._cluster, wanted)

    def topic_id(self, topic: str) -> bytes | None:
        """The id of a topic; None if it has none or is unknown."""
        return self._cluster.topic_id(topic)

    async def truncated(self, positions: Mapping[Partition, tuple[int, int]]) -> Mapping[Partition, LogTruncated]:
        """The positions (offset, leader epoch) that the leaders' logs no longer have, because they were truncated."""
        from penstock.protocols.kafka.client.fetch import truncated

        return await truncated(self._cluster, positions)

    async def read(
        self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str = ""
    ) -> Sequence[KafkaFetched]:
        """Send one Fetch. ``lane`` "" is the client's fetch connection."""
        return await self._reader.read(node, reads, limits, lane)

    def read_at_once(self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, heard: FetchHeard) -> bool:
        """Send one Fetch without a task; see ``LogClient.read_at_once``."""
        return self._reader.read_at_once(node, reads, limits, heard)

    def read_again(self, node: Node, moved: Sequence[ReadFrom], heard: FetchHeard) -> bool:
        """Repeat the last Fetch of this node; see ``LogClient.read_again``."""
        return self._its_reader is not None and self._its_reader.read_again(node, moved, heard)

    def lend_read(self, node: Node, hold: TryLock) -> KafkaLentRead | None:
        """Hand the Fetch in flight over to the thread that waits for records; see ``LogClient.lend_read``."""
        return None if self._its_reader is None else self._its_reader.lend(node, hold)

    def ranges(self, wanted: LogRange, *, fetch_bytes: int = 0) -> KafkaRange:
        """Read exactly ``[start, end)`` of one partition, with prefetching. ``fetch_bytes`` 0 uses the default size."""
        from penstock.protocols.kafka.client.reader import KafkaRange

        return KafkaRange(self._cluster, self._reader, wanted, fetch_bytes=fetch_bytes)

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        """Committed offsets of a group; partitions without one are absent."""
        from penstock.protocols.kafka.client.coordinator import committed

        return await committed(self._coordinator(group), partitions)

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        """Commit without being a member."""
        from penstock.protocols.kafka.client.coordinator import commit

        await commit(self._coordinator(group), offsets)

    def membership(self, options: GroupOptions) -> Membership:
        """A member of a group, which has not joined yet. Raises ConfigError for an unknown assignor."""
        if options.protocol == "consumer":
            from penstock.protocols.kafka.client.consumer_member import KafkaEpochMembership, new_member_id

            member_id = new_member_id(self._channel.random)
            return KafkaEpochMembership(self._coordinator(options.group), options, member_id)
        from penstock.protocols.kafka.client.classic_member import KafkaMembership

        return KafkaMembership(self._coordinator(options.group), options)

    def sender(self, *, idempotent: bool) -> KafkaSender:
        """A new producer."""
        from penstock.protocols.kafka.client.sender import KafkaSender

        return KafkaSender(self._cluster, idempotent=idempotent)

    def transactional_sender(self, transactional_id: str, timeout_ms: int) -> KafkaTransactionalSender:
        """A producer under a transactional id."""
        from penstock.protocols.kafka.client.transactions import KafkaTransactionalSender, Transactions

        transactions = Transactions(self._cluster, self._coordinator, transactional_id, timeout_ms)
        return KafkaTransactionalSender(self._cluster, transactions)

    async def complete(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """End a transaction that another producer has prepared."""
        from penstock.protocols.kafka.client.sender import ProducerIdentity
        from penstock.protocols.kafka.client.transactions import Transactions

        if prepared.producer_id < 0:
            return
        transactions = Transactions(self._cluster, self._coordinator, prepared.transactional_id)
        identity = ProducerIdentity(prepared.producer_id, prepared.epoch)
        await transactions.learn()
        await transactions.end(identity, commit=commit, second=transactions.second_version)

    def admin(self) -> KafkaAdmin:
        """Administration of topics and groups."""
        from penstock.protocols.kafka.client.admin import KafkaAdmin

        return KafkaAdmin(self._cluster, self._coordinator)

    async def close(self) -> None:
        """End the fetch sessions and close all connections."""
        if self._its_reader is not None:
            await self._its_reader.close()
        await self._channel.close()

    @property
    def _reader(self) -> KafkaReader:
        if self._its_reader is None:
            from penstock.protocols.kafka.client.reader import KafkaReader

            self._its_reader = KafkaReader(self._cluster)
        return self._its_reader

    def _coordinator(self, group: str) -> Coordinator:
        from penstock.protocols.kafka.client.coordinator import Coordinator

        return self._coordinators.setdefault(group, Coordinator(self._cluster, group))


def open_client(
    channel_of: Callable[[Dialect[Versions]], Channel[Versions]],
    bootstrap: Sequence[Endpoint],
    options: KafkaOptions | None = None,
) -> KafkaClient:
    """A client over the transport that ``channel_of`` makes for Kafka's dialect. It connects on first use."""
    options = options or KafkaOptions()
    return KafkaClient(channel_of(KafkaDialect(options)), bootstrap, options)
