"""TubeClient: the LogClient of TubeMQ. It only puts the parts together; each family of requests has its own module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.config.client import ClientLog, whose
from penstock.errors import PenstockError, ProtocolViolation, UsageError
from penstock.interfaces.channel import Channel, Connection, Dialect
from penstock.interfaces.client import BatchMembership, FoundOffset, GroupOptions, LogClient, ReadFrom, ReadLimits
from penstock.interfaces.framing import Buffers, Frame
from penstock.model import Committed, Endpoint, LogRange, Node, OffsetSpec, Partition, TopicInfo
from penstock.protocols.tubemq.client.admin import TubeAdmin, commit, committed
from penstock.protocols.tubemq.client.balancing import choosing, client_balanced, server_balanced
from penstock.protocols.tubemq.client.cluster import share
from penstock.protocols.tubemq.client.options import TubeOptions, options_of
from penstock.protocols.tubemq.client.reading import Polling, Readers, TubeFetched, TubeRange, find_offsets
from penstock.protocols.tubemq.client.sender import TubeSender
from penstock.protocols.tubemq.client.web_api import HttpDialect, WebApi
from penstock.protocols.tubemq.wire.rpc import TubeFraming
from penstock.protocols.tubemq.wire.strings import check_topic

if TYPE_CHECKING:
    from penstock.config import ClientConfig, OptionValue

__all__ = ["TubeClient", "TubeDialect", "open_client"]


# A connection to a master or a broker: nothing is said before the first request.
#
# Source: Apache InLong TubeMQ 2.x, RPC protocol. Servers never speak first.
class TubeDialect:
    """``penstock.interfaces.channel.Dialect``: greeting finds nothing out."""

    def framing(self) -> TubeFraming:
        """A fresh receiving side."""
        return TubeFraming(answers=True)

    async def greet(self, connection: Connection) -> None:
        """No first words."""
        del connection

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        """Servers never speak first."""
        del connection, frame
        raise ProtocolViolation("a server sent something that is no answer")


# TubeClient: the LogClient of TubeMQ. It only puts the parts together; each family of requests has its own file.
class TubeClient(LogClient):
    """``penstock.interfaces.client.LogClient`` for TubeMQ clusters, and whatever speaks like one."""

    def __init__(
        self,
        channel_of: Callable[[Dialect[None]], Channel[None]],
        masters: Sequence[Endpoint],
        options: TubeOptions | None = None,
    ) -> None:
        self._channel_of = channel_of
        self._channel = channel = channel_of(TubeDialect())
        self._web: WebApi | None = None
        self.shared = share(channel, masters, options or TubeOptions())
        self._log = ClientLog("penstock.connection", whose(self.shared.options.client_id))
        self._readers = Readers(self.shared)
        self._polling = Polling(self.shared, self._readers)

    def check_topic(self, name: str) -> None:
        """``penstock.interfaces.client.NamesTopics``."""
        if check_topic(name) != name:
            raise UsageError(f"topic {name!r} has blanks around it", topic=name)

    async def topics(self, names: Collection[str] | None, *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name; see ``LogClient``."""
        if names is None:
            return await self.admin().topics(None, fresh=fresh)
        return await self.shared.topics.topics(names, fresh=fresh)

    def leader(self, partition: Partition) -> Node | None:
        """From what is known."""
        return self.shared.placements.leader(partition)

    async def offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, FoundOffset]:
        """Earliest and latest offsets, from the brokers. Raises UsageError for times: TubeMQ has no offsets by time."""
        return await find_offsets(self.shared, self._readers, wanted)

    async def read(
        self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str = ""
    ) -> Sequence[TubeFetched]:
        """One poll of one broker, without a group."""
        return await self._polling.read(node, reads, limits, lane)

    def ranges(self, wanted: LogRange, *, fetch_bytes: int = 0) -> TubeRange:
        """Requests for a range of one partition; brokers decide how large answers are."""
        del fetch_bytes
        return TubeRange(self.shared, self._readers, wanted)

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        """Where a group stands.

        Without ``admin_address``, a group that stands nowhere yet is put where ``consume_position`` says by asking.
        """
        if partitions is None or self.shared.options.tube.admin_address:
            return await self.admin().committed(group, partitions)
        return await committed(self.shared, group, partitions)

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        """Move a group without being a member; refused where a member holds the partition."""
        await commit(self.shared, group, offsets)

    def membership(self, options: GroupOptions) -> BatchMembership:
        """A member-to-be of a group: the master shares out, or the members themselves (``client_balance``)."""
        if self.shared.options.tube.client_balance:
            return client_balanced(self.shared, options)
        return server_balanced(self.shared, options)

    hands_out_batches = True

    def membership_by_hand(self, options: GroupOptions) -> BatchMembership:
        """A member-to-be of a group whose partitions the application chooses."""
        return choosing(self.shared, options)

    def sender(self, *, idempotent: bool) -> TubeSender:
        """A producer; TubeMQ has nothing to be idempotent with, so a repeated message may be stored twice."""
        del idempotent
        return TubeSender(self.shared)

    def admin(self) -> TubeAdmin:
        """Topics and groups as operators see them; most of it takes ``admin_address``."""
        if self._web is None:
            self._web = WebApi(self._channel_of(HttpDialect()), self.shared.options, self.shared.masters.all)
        return TubeAdmin(self.shared, self._web)

    def distrust(self, partition: Partition) -> None:
        """Forget who leads it."""
        self.shared.placements.distrust(partition)

    async def close(self) -> None:
        """Say goodbye to the master and close all connections."""
        try:
            await self._polling.close()
            await self._readers.close()
            await self.shared.publisher.close()
        except PenstockError as error:
            self._log.info("closing was not announced to every server; they will notice by timeout: %s", error)
        finally:
            if self._web is not None:
                await self._web.close()
            await self._channel.close()


def open_client(
    channel_of: Callable[[Dialect[None]], Channel[None]],
    bootstrap: Sequence[Endpoint],
    config: ClientConfig,
    extra: Mapping[str, OptionValue],
) -> TubeClient:
    """A client over the transports that ``channel_of`` makes. Nothing is connected yet. Raises ConfigError."""
    options = options_of(config, extra)
    return TubeClient(channel_of, bootstrap, options)
