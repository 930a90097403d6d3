"""RocketMQ's `LogClient`. It assembles the parts; each family of requests has its own module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.errors import UsageError
from penstock.interfaces.channel import Channel, Dialect
from penstock.interfaces.client import FoundOffset, GroupOptions, LogClient, ReadFrom, ReadLimits
from penstock.model import (
    Committed,
    Endpoint,
    LogRange,
    Node,
    Offset,
    OffsetSpec,
    Partition,
    PreparedTransaction,
    Record,
    TopicInfo,
)
from penstock.protocols.rocketmq.client.admin import RocketAdmin
from penstock.protocols.rocketmq.client.cluster import RocketOptions, options_of
from penstock.protocols.rocketmq.client.membership import RocketMembership
from penstock.protocols.rocketmq.client.offsets import commit_for, committed, find_offsets, send_back
from penstock.protocols.rocketmq.client.pulls import RocketFetched
from penstock.protocols.rocketmq.client.queue_reads import Polling, RangePulls, find_by_id, find_by_key
from penstock.protocols.rocketmq.client.sender import RocketSender
from penstock.protocols.rocketmq.client.shared import Heard, path_of, share
from penstock.protocols.rocketmq.client.transactional_sender import RocketTransactionalSender
from penstock.protocols.rocketmq.config import RETRY, MessageModel, check_topic
from penstock.protocols.rocketmq.wire.framing import RocketDialect

if TYPE_CHECKING:
    from penstock.config import ClientConfig, OptionValue
    from penstock.interfaces.client import OffsetsFile

__all__ = ["RocketClient", "open_client"]


class RocketClient(LogClient):
    """A client of RocketMQ clusters and of compatible servers (``penstock.interfaces.client.LogClient``)."""

    def __init__(
        self,
        channel_of: Callable[[Dialect[None]], Channel[None]],
        names: Sequence[Endpoint],
        options: RocketOptions | None = None,
    ) -> None:
        heard = Heard()
        self._channel = channel_of(RocketDialect(heard))
        self.shared = share(self._channel, names, options or RocketOptions(), heard)
        self._polling = Polling(self.shared)

    def check_topic(self, name: str) -> None:
        """Check a topic's name (``penstock.interfaces.client.NamesTopics``)."""
        check_topic(name)

    @property
    def offsets_file(self) -> str | None:
        """The file of a broadcasting member's offsets (``penstock.interfaces.client.KeepsOffsetsHere``)."""
        return path_of(self.shared.options)

    def keep_offsets_in(self, file: OffsetsFile) -> None:
        """Set the file of a broadcasting member's offsets."""
        self.shared.local.file = file

    async def topics(self, names: Collection[str] | None, *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name; see ``LogClient``."""
        group = self.shared.options.group
        if fresh and names is not None and group is not None and self.shared.topics.routes.known(RETRY + group):
            # The group's members read it without naming it.
            found = await self.shared.topics.topics([*names, RETRY + group], fresh=True)
            return {name: info for name, info in found.items() if name in names}
        return await self.shared.topics.topics(names, fresh=fresh)

    def leader(self, partition: Partition) -> Node | None:
        """The broker of a partition, as far as known; for readers it may be a standby."""
        topics = self.shared.topics
        node = topics.routing.leader(partition)
        return node if node is None or self.shared.options.publishing else topics.routes.reader(partition)

    def distrust(self, partition: Partition) -> None:
        """Forget the partition's broker."""
        self.shared.topics.routes.suggested.pop(partition, None)
        self.shared.topics.routing.distrust(partition)

    async def offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, FoundOffset]:
        """Earliest and latest offsets, and offsets by a time of storing."""
        return await find_offsets(self.shared, wanted)

    async def read(
        self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str = ""
    ) -> Sequence[RocketFetched]:
        """One poll of one broker."""
        return await self._polling.read(node, reads, limits, lane)

    def ranges(self, wanted: LogRange, *, fetch_bytes: int = 0) -> RangePulls:
        """Reads of a range of one queue. ``fetch_bytes`` is ignored: brokers limit the size of responses."""
        del fetch_bytes
        return RangePulls(self.shared, wanted)

    async def find_by_key(self, topic: str, key: str, times_ms: tuple[int, int], most: int) -> Sequence[Record]:
        """Messages with a key (``penstock.interfaces.client.FindsRecords``)."""
        return await find_by_key(self.shared, topic, key, times_ms, most)

    async def find_by_id(self, topic: str, record_id: str) -> Sequence[Record]:
        """Messages with an id (``penstock.interfaces.client.FindsRecords``)."""
        return await find_by_id(self.shared, topic, record_id)

    async def send_back(self, group: str, offsets: Mapping[Partition, Sequence[int]], *, delay: int) -> None:
        """Give records back (``penstock.interfaces.client.SendsBack``). ``delay`` is a level; 0 lets the broker
        choose."""
        await send_back(self.shared, group, offsets, delay)

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        """A group's committed offsets, from brokers, or from the file of a broadcasting member. In its retry topic a
        group without an offset begins at the first message, wherever it begins in other topics."""
        options = self.shared.options
        if group == options.group and options.rocket.message_model is MessageModel.BROADCASTING:
            return await self.shared.local.committed(partitions)
        self.shared.heard.resets.begins(group, partitions or ())
        found = await committed(self.shared, group, partitions)
        unread = [each for each in partitions or () if each.topic == RETRY + group and each not in found]
        if unread:
            firsts = await find_offsets(self.shared, dict.fromkeys(unread, OffsetSpec(name=Offset.EARLIEST)))
            found |= {partition: Committed(first.offset) for partition, first in firsts.items()}
        return found

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        """Commit for any group; brokers do not check for membership."""
        await commit_for(self.shared, group, offsets)

    def membership(self, options: GroupOptions) -> RocketMembership:
        """A membership, not joined yet."""
        return RocketMembership(self.shared, options)

    def sender(self, *, idempotent: bool) -> RocketSender:
        """A producer. RocketMQ cannot detect duplicates, so a message that is sent again may be stored twice."""
        del idempotent
        return RocketSender(self.shared)

    def transactional_sender(self, transactional_id: str, timeout_ms: int) -> RocketTransactionalSender:
        """A transactional producer (``penstock.interfaces.client.TransactionalClient``). Brokers ask the group with
        this id; they also decide how long they wait for an end, so ``timeout_ms`` is ignored."""
        del timeout_ms
        return RocketTransactionalSender(self.shared, transactional_id)

    async def complete(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """Raises UsageError: only its own producer can end a transaction."""
        del prepared, commit
        raise UsageError("a transaction of RocketMQ's is ended by its producer only")

    def admin(self) -> RocketAdmin:
        """Administration of topics and groups."""
        return RocketAdmin(self.shared)

    async def close(self) -> None:
        """Close all connections."""
        self.shared.local.close()
        await self._channel.close()


def open_client(
    channel_of: Callable[[Dialect[None]], Channel[None]],
    bootstrap: Sequence[Endpoint],
    config: ClientConfig,
    extra: Mapping[str, OptionValue],
) -> RocketClient:
    """A client on the channels that ``channel_of`` makes; it has no connection yet. Raises ConfigError."""
    return RocketClient(channel_of, bootstrap, options_of(config, extra))
