"""A RocketMQ cluster as an enode: topics, messages and offsets stay at its brokers; the node stores nothing.

RocketMQ's own front forwards frames (`RocketRelay`). All other fronts use the neutral form, which is assembled here
from partition numbers (`topics`), messages as batches of records (`queue_writes`, `queue_reads`) and committed offsets
(`offsets`).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.concurrency.runtime import Promise
from penstock.config import ClientConfig, parse_address
from penstock.config.options import canonical_options, read_options
from penstock.errors import ConfigError, PenstockError, Unsupported, UpstreamLost
from penstock.interfaces.channel import Connection
from penstock.interfaces.enode import (
    Abilities,
    Appended,
    Batch,
    Budget,
    DiskSpace,
    Extent,
    Fetched,
    FetchPart,
    PartitionLocation,
    Relay,
    TopicState,
    Writer,
)
from penstock.interfaces.framing import Frame
from penstock.interfaces.node import BackendContext, EnodeIdentity, Offsets
from penstock.model import Endpoint, Partition
from penstock.protocols.rocketmq.backend.offsets import BrokerOffsets
from penstock.protocols.rocketmq.backend.queue_reads import Arrivals, Finding, Reading
from penstock.protocols.rocketmq.backend.queue_writes import Ends, Writing
from penstock.protocols.rocketmq.backend.relay import Asking, Credentials, RocketRelay
from penstock.protocols.rocketmq.backend.topics import Topics
from penstock.protocols.rocketmq.config import ADDED, NAME_SERVER_PORT, RocketConfig, RocketNodeConfig, rocket_config
from penstock.protocols.rocketmq.wire.framing import RocketDialect
from penstock.protocols.rocketmq.wire.rpc import Account

__all__ = ["RocketEnode", "open_enode"]

_log = logging.getLogger("penstock.node")

_SOON_S: Final = 1.0
_IDLE_S: Final = 100.0
"""Brokers close a connection after two minutes of silence."""
_LETTERS: Final = 22


class _Dialect(RocketDialect):
    """Passes requests that brokers send to the relay."""

    relay: RocketRelay | None = None

    def pushed(self, connection: Connection, frame: Frame) -> None:
        if self.relay is not None:
            self.relay.pushed(connection, frame)


class RocketEnode:
    """The backend (``penstock.interfaces.node.OpenedEnode``). ``timeout_s``: how long a broker may take to answer.

    ``look_s``: how often name servers are asked for the brokers; earlier after a broker did not answer.
    """

    abilities = Abilities(
        sequences=False,
        transactions=False,
        epochs=False,
        compaction=False,
        deletion=False,
        options=False,
        sizes=False,
    )
    near = False

    def __init__(
        self,
        url: str,
        names: Sequence[Endpoint],
        around: BackendContext,
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
        self._snodes = around.channel_of(dialect, idle_timeout_s=_IDLE_S)
        self._relay = dialect.relay = RocketRelay(
            self._channel, names, around.runtime.promise, timeout_s, credentials, self._snodes
        )
        runtime = around.runtime
        self._asking = asking = Asking(self._relay)
        self._topics = topics = Topics(asking, runtime)
        ends = Ends(runtime.monotonic)
        self._writing = Writing(asking, topics, ends, runtime)
        self._reading = Reading(asking, topics, ends, runtime)
        self._finding = Finding(self._reading, runtime)
        self._arrivals = Arrivals(self._reading, topics, runtime)
        # The epoch is the start time: the node remembers nothing between starts.
        self._started = around.runtime.now_ms() // 1_000
        self._node_id = around.config.node_id

    @property
    def identity(self) -> EnodeIdentity:
        names = ",".join(sorted(self._relay.brokers.clusters))
        return EnodeIdentity(self._node_id, hashlib.sha256(names.encode()).hexdigest()[:_LETTERS], self._started)

    async def start(self) -> list[str]:
        """Load the brokers from a name server. Raises UpstreamLost if none answers."""
        try:
            await self._relay.look()
        except PenstockError as error:
            raise UpstreamLost(
                f"cannot ask {self.url} for its brokers: {error.message}",
                hint="Give the addresses of RocketMQ's name servers (rocketmq://HOST:9876), and start them first",
            ) from error
        return [] if self._relay.brokers.names else [f"the name servers of {self.url} know no broker yet"]

    async def unreachable(self) -> str | None:
        """Check that a name server answers and a master accepts a connection."""
        return await self._relay.unreachable()

    def keep_up(self) -> None:
        self._runtime.spawn(self._look_for_ever(), "ask RocketMQ's name servers where its brokers are")

    async def close(self, within_s: float) -> None:
        await self._snodes.close()
        await self._channel.close()

    def abandon(self) -> None:
        return

    def abilities_of(self, topic: str) -> Abilities:
        return self.abilities

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

    # Topics.

    async def topics(self) -> Sequence[TopicState]:
        return await self._topics.all()

    async def topic(self, name: str) -> TopicState | None:
        return await self._topics.topic(name)

    async def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        return await self._topics.by_id(topic_id)

    async def places(self, topic: str) -> Sequence[PartitionLocation]:
        return [PartitionLocation(0, queue.number, queue.broker) for queue in await self._topics.queues(topic)]

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        return await self._topics.create(name, partitions, config)

    async def delete_topic(self, name: str) -> None:
        await self._topics.delete(name)

    async def add_partitions(self, name: str, total: int) -> None:
        await self._topics.grow(name, total)

    async def set_config(self, name: str, config: Mapping[str, str]) -> None:
        self.abilities.need("options")

    async def defaults(self) -> Mapping[str, str]:
        return {}

    async def node_options(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    async def set_defaults(self, defaults: Mapping[str, str], said: Mapping[str, Mapping[str, str]]) -> None:
        self.abilities.need("options")

    # Writing.

    async def append(self, partition: Partition, batch: Batch) -> Appended:
        return await self._writing.append(partition, batch)

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        return await self._writing.append_all(batches)

    async def delete_records(self, partition: Partition, before: int) -> int:
        raise Unsupported("a RocketMQ broker deletes by age only", hint="Set its fileReservedTime")

    # Reading.

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        return await self._reading.fetch(parts, budget)

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        return await self._reading.extents(partitions)

    async def epoch_end(self, partition: Partition, epoch: int, *, leader_epoch: int = -1) -> tuple[int, int]:
        raise Unsupported("a RocketMQ cluster has no leader epochs")

    async def offset_for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        return await self._finding.at(await self._topics.home(partition), timestamp_ms)

    async def max_timestamp(self, partition: Partition) -> tuple[int, int] | None:
        raise Unsupported("a RocketMQ broker does not know its largest time of birth")

    async def writers(self, partition: Partition) -> Sequence[Writer]:
        return []

    async def size(self, partition: Partition) -> int:
        raise Unsupported("a RocketMQ broker does not tell how many bytes a queue has")

    async def room(self) -> DiskSpace:
        return DiskSpace(self.url, -1, -1)

    # Waiting.

    def arrival(self, known: Mapping[Partition, int]) -> Promise[None]:
        return self._arrivals.wait(known)

    def forget_arrival(self, promise: Promise[None]) -> None:
        self._arrivals.forget(promise)

    # Groups.

    def offsets_with(self, rest: Offsets) -> Offsets:
        """Committed offsets at the brokers, the rest in ``rest`` (``penstock.interfaces.node.KeepsOffsets``)."""
        return BrokerOffsets(rest, self._asking, self._topics, self._runtime)


# Opening a backend by the address of name servers.
#
# The address may have a client's options for signing and encryption, in penstock's words or Java's: ``access_key`` and
# ``secret_key``, ``tls`` and ``tls_…``. They are left out wherever the address is shown.
_ACCOUNT: Final = frozenset({"access_key", "secret_key"})
_TLS: Final = "tls"


def open_enode(url: str, around: BackendContext) -> RocketEnode:
    """Open ``rocketmq://HOST:PORT[,HOST:PORT…][?access_key=…&secret_key=…&tls=true…]``, the addresses of name servers.

    Raises ConfigError.
    """
    shown = url.partition("?")[0]
    address = parse_address(url, lambda scheme: NAME_SERVER_PORT)
    if not address.endpoints or address.topics:
        raise ConfigError(
            f"{shown!r} names no RocketMQ cluster", hint="Write rocketmq://HOST:9876, with commas between name servers"
        )
    tls, rocket = _client(address.options)
    own = around.config.front(RocketNodeConfig)
    account = None
    if rocket.access_key is not None and rocket.secret_key is not None:
        account = Account(rocket.access_key, rocket.secret_key)
    known = {key: Account(key, secret) for key, secret in own.accounts.items()}
    credentials = Credentials(account, known if own.sign_as_clients else {}, next(iter(known.values()), None))
    return RocketEnode(
        shown.rstrip("/"),
        address.endpoints,
        around,
        own.enode_timeout_ms / 1_000,
        credentials,
        tls,
        own.enode_look_ms / 1_000,
    )


def _client(given: Mapping[str, Any]) -> tuple[ClientConfig, RocketConfig]:
    """The client options that concern connections. Raises ConfigError for others."""
    said = canonical_options(ClientConfig, given, ADDED)
    other = [name for name in said if name not in _ACCOUNT and not name.startswith(_TLS)]
    if other:
        raise ConfigError(
            f"{', '.join(other)} means nothing in the address of a node's cluster",
            hint="It may say access_key and secret_key, tls and what begins with tls_",
        )
    account = {name: value for name, value in said.items() if name in _ACCOUNT}
    return read_options(ClientConfig, {name: value for name, value in said.items() if name not in account}), (
        rocket_config(account)
    )
