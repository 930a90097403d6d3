"""A RocketMQ cluster as an enode: topics, messages and offsets stay at its brokers; a node keeps nothing.

Only what the RocketMQ front hands on goes there (`RocketRelay`). The neutral form, batches of records that any front
could ask for, is not served: `Abilities.records` says so, and a node refuses other listeners over it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from penstock.errors import PenstockError, Unsupported, UpstreamLost
from penstock.model import Endpoint, Partition
from penstock.protocols.rocketmq.dialect import RocketDialect
from penstock.protocols.rocketmq.enode.credentials import Credentials
from penstock.protocols.rocketmq.enode.relay import RocketRelay
from penstock.seams.abilities import Abilities
from penstock.seams.channel import Connection
from penstock.seams.enode import Appended, Batch, Budget, Extent, Fetched, FetchPart, Place, Room, TopicState, Writer
from penstock.seams.framing import Frame
from penstock.seams.opening import EnodeIdentity, Surroundings
from penstock.seams.relay import Relay
from penstock.seams.runtime import Promise

if TYPE_CHECKING:
    from penstock.config import ClientConfig

__all__ = ["RocketEnode"]

_log = logging.getLogger("penstock.node")

_SOON_S: Final = 1.0
_IDLE_S: Final = 100.0
"""Brokers hang up on who was silent for two minutes."""
_LETTERS: Final = 22


class _Dialect(RocketDialect):
    """Tells the relay what brokers send of their own accord, frame and all."""

    relay: RocketRelay | None = None

    def pushed(self, connection: Connection, frame: Frame) -> None:
        if self.relay is not None:
            self.relay.pushed(connection, frame)


class RocketEnode:
    """``penstock.seams.opening.OpenedEnode``. An answer of a broker may take ``timeout_s``.

    ``look_s``: how often name servers are asked where brokers are; sooner, where one did not answer.
    """

    abilities = Abilities(
        records=False,
        sequences=False,
        transactions=False,
        epochs=False,
        compaction=False,
        deletion=False,
        times=False,
        topics=False,
        options=False,
        sizes=False,
    )
    near = False

    def __init__(
        self,
        url: str,
        names: Sequence[Endpoint],
        around: Surroundings,
        timeout_s: float,
        credentials: Credentials | None = None,
        tls: ClientConfig | None = None,
        look_s: float = 10.0,
    ) -> None:
        self.url = url
        self._runtime = around.runtime
        self._look_s = look_s
        dialect = _Dialect()
        self._channel = around.channel_of(dialect, idle_timeout_s=_IDLE_S, tls=tls)
        self._relay = dialect.relay = RocketRelay(self._channel, names, around.runtime.promise, timeout_s, credentials)
        # Nothing is remembered from one start to the next, so the clock has to say which one this is.
        self._started = around.runtime.now_ms() // 1_000
        self._node_id = around.config.node_id

    @property
    def identity(self) -> EnodeIdentity:
        names = ",".join(sorted(self._relay.brokers.clusters))
        return EnodeIdentity(self._node_id, hashlib.sha256(names.encode()).hexdigest()[:_LETTERS], self._started)

    async def start(self) -> list[str]:
        """Raises UpstreamLost where no name server answers."""
        try:
            await self._relay.look()
        except PenstockError as error:
            raise UpstreamLost(
                f"cannot ask {self.url} for its brokers: {error.message}",
                hint="Give the addresses of RocketMQ's name servers (rocketmq://HOST:9876), and start them first",
            ) from error
        return [] if self._relay.brokers.names else [f"the name servers of {self.url} know no broker yet"]

    def keep_up(self) -> None:
        self._runtime.spawn(self._look_for_ever(), "ask RocketMQ's name servers where its brokers are")

    async def close(self, within_s: float) -> None:
        await self._channel.close()

    def abandon(self) -> None:
        return

    def relay(self, scheme: str) -> Relay | None:
        return self._relay if scheme == self._relay.scheme else None

    async def _look_for_ever(self) -> None:
        lost = False
        while True:
            await self._runtime.sleep(_SOON_S)
            if self._relay.looked_within(self._look_s):
                continue
            try:
                await self._relay.look()
                lost = False
            except PenstockError as error:
                if not lost:
                    _log.warning("cannot ask where RocketMQ's brokers are, going on with what is known: %s", error)
                lost = True

    # The neutral form.

    async def topics(self) -> Sequence[TopicState]:
        _no()

    async def topic(self, name: str) -> TopicState | None:
        _no()

    async def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        _no()

    async def places(self, topic: str) -> Sequence[Place]:
        _no()

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        _no()

    async def delete_topic(self, name: str) -> None:
        _no()

    async def add_partitions(self, name: str, total: int) -> None:
        _no()

    async def set_config(self, name: str, config: Mapping[str, str]) -> None:
        _no()

    async def defaults(self) -> Mapping[str, str]:
        return {}

    async def node_options(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    async def set_defaults(self, defaults: Mapping[str, str], said: Mapping[str, Mapping[str, str]]) -> None:
        _no()

    async def append(self, partition: Partition, batch: Batch) -> Appended:
        _no()

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        return [_unsupported() for _ in batches]

    async def delete_records(self, partition: Partition, before: int) -> int:
        _no()

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        return [_unsupported() for _ in parts]

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        return [_unsupported() for _ in partitions]

    async def epoch_end(self, partition: Partition, epoch: int, *, leader_epoch: int = -1) -> tuple[int, int]:
        _no()

    async def offset_for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        _no()

    async def max_timestamp(self, partition: Partition) -> tuple[int, int] | None:
        _no()

    async def writers(self, partition: Partition) -> Sequence[Writer]:
        return []

    async def size(self, partition: Partition) -> int:
        _no()

    async def room(self) -> Room:
        return Room(self.url, -1, -1)

    def arrival(self, known: Mapping[Partition, int]) -> Promise[None]:
        _no()

    def forget_arrival(self, promise: Promise[Any]) -> None:
        promise.set(None)


def _no() -> NoReturn:
    raise _unsupported()


def _unsupported() -> Unsupported:
    return Unsupported("topics of a RocketMQ cluster are reached through RocketMQ's own protocol only")
