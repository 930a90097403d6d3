"""KafkaClient: the LogClient of Kafka. It only puts the parts together; each family of requests has its own file.

Each family is imported when it is first used: a Spark planner starts anew for every query, and would wait a tenth of a
second for messages that it never sends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.errors import LogTruncated, PenstockError
from penstock.model import Committed, Endpoint, LogRange, Node, OffsetSpec, Partition, PreparedTransaction, TopicInfo
from penstock.protocols.kafka.client.calls import Calls
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.dialect import KafkaDialect
from penstock.protocols.kafka.client.offsets import find_offsets
from penstock.protocols.kafka.client.options import KafkaOptions
from penstock.protocols.kafka.client.versions import Versions
from penstock.protocols.kafka.names import check_topic
from penstock.seams.channel import Channel, Dialect
from penstock.seams.client import FetchHeard, FoundOffset, Membership, ReadFrom, ReadLimits
from penstock.seams.hold import Hold
from penstock.seams.membership import GroupOptions

if TYPE_CHECKING:
    from penstock.protocols.kafka.client.admin import KafkaAdmin
    from penstock.protocols.kafka.client.coordinator import Coordinator
    from penstock.protocols.kafka.client.fetched import KafkaFetched
    from penstock.protocols.kafka.client.lent_reads import KafkaLentRead
    from penstock.protocols.kafka.client.ranges import KafkaRange
    from penstock.protocols.kafka.client.reading import KafkaReader
    from penstock.protocols.kafka.client.sender import KafkaSender
    from penstock.protocols.kafka.client.transactional_sender import KafkaTransactionalSender

__all__ = ["KafkaClient", "open_client"]


class KafkaClient:
    """``penstock.seams.client.LogClient`` and ``TransactionalClient`` for Kafka brokers, and whatever speaks so.

    The channel must have been made with a ``KafkaDialect`` of the same options; `open_client` sees to that.
    """

    def __init__(
        self, channel: Channel[Versions], bootstrap: Sequence[Endpoint], options: KafkaOptions | None = None
    ) -> None:
        self._channel = channel
        self._cluster = Cluster(Calls(channel, options or KafkaOptions()), bootstrap)
        self._coordinators: dict[str, Coordinator] = {}
        self._its_reader: KafkaReader | None = None

    def check_topic(self, name: str) -> None:
        """``penstock.seams.client.NamesTopics``."""
        check_topic(name)

    async def topics(self, names: Collection[str] | None, *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name; see ``LogClient``. Raises ConnectionLost, RequestTimeout, ServerError."""
        return await self._cluster.topics(names, fresh=fresh)

    def leader(self, partition: Partition) -> Node | None:
        """From what is known. None also while its node cannot be connected to: it may have lost the partition."""
        node = self._cluster.leader(partition)
        return None if node is None or self._channel.rests(node.endpoint) else node

    def trouble(self, partition: Partition) -> PenstockError | None:
        """``penstock.seams.client.TellsOfTrouble``."""
        node = self._cluster.told_leader(partition)
        return None if node is None else self._channel.trouble(node.endpoint)

    def reads_at(self, partition: Partition) -> Node | None:
        """``penstock.seams.client.HasReplicas``."""
        return self._reader.reads_at(partition)

    def distrust(self, partition: Partition) -> None:
        """Forget who leads it, and where its leader has sent its readers."""
        self._cluster.distrust(partition)
        if self._its_reader is not None:
            self._its_reader.distrust(partition)

    def moved(self, partition: Partition) -> bool:
        """``penstock.seams.client.HearsOfMoves``."""
        return self._cluster.moved(partition)

    async def offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, FoundOffset]:
        """Offsets by name or time, from the leaders."""
        return await find_offsets(self._cluster, wanted)

    def topic_id(self, topic: str) -> bytes | None:
        """``penstock.seams.client.KnowsTopicIds``."""
        return self._cluster.topic_id(topic)

    async def truncated(self, positions: Mapping[Partition, tuple[int, int]]) -> Mapping[Partition, LogTruncated]:
        """``penstock.seams.client.TellsTruncation``."""
        from penstock.protocols.kafka.client.truncation import truncated

        return await truncated(self._cluster, positions)

    async def read(
        self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str = ""
    ) -> Sequence[KafkaFetched]:
        """One Fetch; ``lane`` "" is the client's fetch lane."""
        return await self._reader.read(node, reads, limits, lane)

    def read_at_once(self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, heard: FetchHeard) -> bool:
        """``penstock.seams.client.ReadsAtOnce``."""
        return self._reader.read_at_once(node, reads, limits, heard)

    def read_again(self, node: Node, moved: Sequence[ReadFrom], heard: FetchHeard) -> bool:
        """``penstock.seams.client.ReadsAgain``."""
        return self._its_reader is not None and self._its_reader.read_again(node, moved, heard)

    def lend_read(self, node: Node, hold: Hold) -> KafkaLentRead | None:
        """``penstock.seams.lending.LendsReads``."""
        return None if self._its_reader is None else self._its_reader.lend(node, hold)

    def ranges(self, wanted: LogRange, *, fetch_bytes: int = 0) -> KafkaRange:
        """Read exactly ``[start, end)`` of one partition, fetching ahead; ``fetch_bytes`` 0 leaves the size to us."""
        from penstock.protocols.kafka.client.ranges import KafkaRange

        return KafkaRange(self._cluster, self._reader, wanted, fetch_bytes=fetch_bytes)

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        """Committed offsets of a group; partitions without one are absent."""
        from penstock.protocols.kafka.client.committing import committed

        return await committed(self._coordinator(group), partitions)

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        """Commit without being a member."""
        from penstock.protocols.kafka.client.committing import commit

        await commit(self._coordinator(group), offsets)

    def membership(self, options: GroupOptions) -> Membership:
        """A member-to-be of a group. Raises ConfigError for an assignor that is not there."""
        if options.protocol == "consumer":
            from penstock.protocols.kafka.client.epoch_heartbeats import new_member_id
            from penstock.protocols.kafka.client.epoch_membership import KafkaEpochMembership

            member_id = new_member_id(self._channel.random)
            return KafkaEpochMembership(self._coordinator(options.group), options, member_id)
        from penstock.protocols.kafka.client.membership import KafkaMembership

        return KafkaMembership(self._coordinator(options.group), options)

    def sender(self, *, idempotent: bool) -> KafkaSender:
        """A new producer."""
        from penstock.protocols.kafka.client.sender import KafkaSender

        return KafkaSender(self._cluster, idempotent=idempotent)

    def transactional_sender(self, transactional_id: str, timeout_ms: int) -> KafkaTransactionalSender:
        """A producer under a transactional id."""
        from penstock.protocols.kafka.client.transactional_sender import KafkaTransactionalSender
        from penstock.protocols.kafka.client.transactions import Transactions

        transactions = Transactions(self._cluster, self._coordinator, transactional_id, timeout_ms)
        return KafkaTransactionalSender(self._cluster, transactions)

    async def complete(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """End a transaction that another producer has prepared."""
        from penstock.protocols.kafka.client.sequences import ProducerIdentity
        from penstock.protocols.kafka.client.transactions import Transactions

        if prepared.producer_id < 0:
            return
        transactions = Transactions(self._cluster, self._coordinator, prepared.transactional_id)
        identity = ProducerIdentity(prepared.producer_id, prepared.epoch)
        await transactions.learn()
        await transactions.end(identity, commit=commit, second=transactions.second_version)

    def admin(self) -> KafkaAdmin:
        """Topics and groups as operators see them."""
        from penstock.protocols.kafka.client.admin import KafkaAdmin

        return KafkaAdmin(self._cluster, self._coordinator)

    async def close(self) -> None:
        """Say goodbye where that is expected, and close all connections."""
        if self._its_reader is not None:
            await self._its_reader.close()
        await self._channel.close()

    @property
    def _reader(self) -> KafkaReader:
        if self._its_reader is None:
            from penstock.protocols.kafka.client.reading import KafkaReader

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
    """A client over the transport that ``channel_of`` makes for Kafka's dialect. Nothing is connected yet."""
    options = options or KafkaOptions()
    return KafkaClient(channel_of(KafkaDialect(options)), bootstrap, options)
