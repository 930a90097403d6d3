"""A TubeMQ cluster as an enode: topics and messages stay at its brokers, fronts of all protocols use them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Promise, Runtime
from penstock.config import parse_address
from penstock.config.address import Address
from penstock.errors import (
    BatchTooLarge,
    ConfigError,
    ConnectionLost,
    CorruptBatch,
    ErrorKind,
    LocalError,
    PenstockError,
    ProtocolViolation,
    RequestTimeout,
    ServerError,
    StoreError,
    UnknownTopic,
    Unsupported,
    UpstreamLost,
)
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
from penstock.interfaces.node import BackendContext, EnodeIdentity
from penstock.model import Partition
from penstock.protocols.tubemq.backend.appends import Appends, batch_of, load
from penstock.protocols.tubemq.backend.catalog import Catalog, TopicChanges
from penstock.protocols.tubemq.backend.partition_log import Chunks, PartitionLog
from penstock.protocols.tubemq.client.client import TubeClient
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.protocols.tubemq.config import MASTER_PORT, TubeConfig, tube_config
from penstock.protocols.tubemq.errors import Code

__all__ = ["Arriving", "TubeEnode", "as_store_says", "open_enode"]

# What went wrong with the cluster, in the words that fronts have codes for.
_FORBIDDEN = frozenset({Code.CERTIFICATE_FAILURE, Code.CONSUME_GROUP_FORBIDDEN, Code.CONSUME_CONTENT_FORBIDDEN})
_NO_RIGHT = "Let the node in at the masters: its groups are those of reader_group, its user that of user and password"


def as_store_says(error: PenstockError, where: Partition | None = None) -> PenstockError:
    """The same as an error of an enode. ``where`` is in this node's numbers: those of the cluster mean nothing here."""
    made: PenstockError
    if isinstance(error, StoreError | Unsupported | UpstreamLost | CorruptBatch):
        made = error
    elif isinstance(error, ConnectionLost | RequestTimeout | ProtocolViolation):
        made = UpstreamLost(f"the TubeMQ cluster did not answer: {error.message}", node=error.node)
    elif isinstance(error, ServerError):
        made = _refusal(error)
    elif isinstance(error, LocalError):
        made = Unsupported(error.message, topic=error.topic, hint=error.hint)
    else:
        made = StoreError(error.message, node=error.node, hint=error.hint)
    if where is not None:
        made.topic, made.partition = where.topic, where.id
    if made is not error:
        made.__cause__ = error
    return made


def _refusal(error: ServerError) -> PenstockError:
    words = f"TubeMQ says {error.code} {error.name}: {error.message}"
    if error.kind is ErrorKind.UNKNOWN_TOPIC:
        return UnknownTopic(words, topic=error.topic)
    if error.code == Code.PARAMETER_MSG_OVER_MAX_LENGTH:
        return BatchTooLarge(words, topic=error.topic, hint="Raise the topic's maxMsgSizeInMB at the masters")
    if error.code in _FORBIDDEN:
        return Unsupported(words, topic=error.topic, hint=_NO_RIGHT)
    return UpstreamLost(words, node=error.node) if error.retriable else StoreError(words, node=error.node)


# Arriving: readers that wait for records. TubeMQ has no long poll, so a partition with waiting readers is polled.
#
# The pause begins short and doubles up to ``not_found_wait_ms``, the protocol's own pause after "nothing there"; one
# poll serves all waiting readers. Without readers there are no polls.
_FIRST_S: Final = 0.02


class Arriving:
    """``grows`` asks whether a partition has more than before; it raises if that is not known."""

    def __init__(self, runtime: Runtime, grows: Callable[[Partition], Awaitable[bool]], longest_s: float) -> None:
        self._runtime = runtime
        self._grows = grows
        self._longest_s = max(longest_s, _FIRST_S)
        self._waiting: dict[Partition, set[Promise[None]]] = {}
        self._looking: set[Partition] = set()

    def wait(self, known: Mapping[Partition, int]) -> Promise[None]:
        """Set when one of them has more. Give it back to `forget`."""
        promise: Promise[None] = self._runtime.promise()
        for partition in known:
            self._waiting.setdefault(partition, set()).add(promise)
            if partition not in self._looking:
                self._looking.add(partition)
                self._runtime.spawn(self._look(partition), f"look for what arrives in {partition}")
        return promise

    def changed(self, partition: Partition) -> None:
        """Wake everybody who waits for it."""
        for promise in self._waiting.pop(partition, ()):
            promise.set(None)

    def forget(self, promise: Promise[None]) -> None:
        """No reader waits for it any more."""
        for partition, waiting in list(self._waiting.items()):
            waiting.discard(promise)
            if not waiting:
                del self._waiting[partition]

    async def _look(self, partition: Partition) -> None:
        pause_s = _FIRST_S
        try:
            while partition in self._waiting:
                await self._runtime.sleep(pause_s)
                if partition in self._waiting and await self._has_news(partition):
                    self.changed(partition)
                pause_s = min(2 * pause_s, self._longest_s)
        finally:
            self._looking.discard(partition)

    async def _has_news(self, partition: Partition) -> bool:
        try:
            return await self._grows(partition)
        except PenstockError:
            return True  # who reads will hear what it is


# A TubeMQ cluster as an enode: topics and messages stay at its brokers, fronts of every protocol read and write them.
#
# This only puts the parts together: `catalog` says which partition is where, `partition_log` reads, `appends` writes,
# `Arriving` waits, `TopicChanges` asks the web API. See ``README.md`` for what cannot be.
T = TypeVar("T")
_log = logging.getLogger("penstock.node")

_AT_ONCE: Final = 16
"""Partitions of one request that are read side by side; each may bring a MiB before the budget is looked at."""
_LETTERS: Final = 22
_LOOK_S: Final = 30.0


class TubeEnode:
    """``penstock.interfaces.node.OpenedEnode``."""

    near = False

    def __init__(self, address: Address, reading: TubeOptions, writing: TubeOptions, around: BackendContext) -> None:
        self.url = str(address)
        self._runtime = around.runtime
        self._reader = TubeClient(around.channel_of, address.endpoints, reading)
        self._writer = TubeClient(around.channel_of, address.endpoints, writing)
        self._catalog = Catalog(self._reader.shared, around.journals, Locks(around.runtime.promise))
        self._changes = TopicChanges(self._reader.admin(), self._catalog)
        self._turns: Locks[Partition] = Locks(around.runtime.promise)
        self._chunks = Chunks()
        self._logs: dict[Partition, PartitionLog] = {}
        self._arriving = Arriving(around.runtime, self._grows, reading.tube.not_found_wait_ms / 1_000)
        self._appends = Appends(self._writer.shared, around.runtime, self._arriving.changed)
        self._unheard: str | None = None
        self._lists = bool(reading.tube.admin_address)
        self.abilities = _abilities(topics=self._lists, groups=around.journals is not None)
        # Nothing is remembered from one start to the next, so the clock has to say which one this is.
        started = around.runtime.now_ms() // 1_000
        digest = hashlib.sha256(self.url.encode()).hexdigest()[:_LETTERS]
        self.identity = EnodeIdentity(around.config.node_id, digest, started)

    async def start(self) -> list[str]:
        """Raises UpstreamLost where no master answers, and what keeps the node's own journal from being read."""
        await self._runtime.in_thread(load)
        await self._catalog.load()
        try:
            await self._appends.sender.open()
        except PenstockError as error:
            raise UpstreamLost(
                f"no master of {self.url} takes this node as a producer: {error.message}",
                hint="Give the addresses of TubeMQ's masters (tubemq://HOST:8715), and start them first",
            ) from error
        found = []
        if not self._lists:
            found.append("without admin_address a TubeMQ cluster's topics can be used, but neither listed nor made")
        if not self.abilities.groups:
            found.append(
                "without --journals groups' offsets are refused, and partitions are numbered anew at each start"
            )
        return found

    async def unreachable(self) -> str | None:
        """As the last beat found it: masters are asked every few seconds anyway."""
        return self._unheard

    def keep_up(self) -> None:
        self._runtime.spawn(self._beat_for_ever(), "tell TubeMQ's master that this node is there")
        self._runtime.spawn(self._look_for_ever(), "ask TubeMQ's master where partitions are")

    async def close(self, within_s: float) -> None:
        for each in self._logs.values():
            await each.close()
        for client in (self._reader, self._writer):
            await client.close()

    def abandon(self) -> None:
        return

    def abilities_of(self, topic: str) -> Abilities:
        return self.abilities

    def relay(self, scheme: str) -> Relay | None:
        """None: TubeMQ's own clients go by batches, too, for its servers are spoken to in this node's name."""
        return None

    # Topics.

    async def topics(self) -> Sequence[TopicState]:
        names = self._catalog.known()
        if self._lists:
            try:
                names = [*await self._reader.admin().topics(None, fresh=False)]
            except PenstockError as error:
                _log.warning("the web API of TubeMQ's masters does not answer, going on with what is known: %s", error)
        await self._in_store_errors(self._catalog.look(names))
        found = [await self._in_store_errors(self._catalog.topic(name)) for name in names]
        return [each for each in found if each is not None]

    async def topic(self, name: str) -> TopicState | None:
        return await self._in_store_errors(self._catalog.topic(name))

    async def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        return self._catalog.by_id(topic_id)

    async def places(self, topic: str) -> Sequence[PartitionLocation]:
        await self._in_store_errors(self._catalog.look([topic]))
        return [PartitionLocation(0, home.id, home.node) for home in self._catalog.homes(topic)]

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        return await self._in_store_errors(self._changes.create(name, partitions, config))

    async def delete_topic(self, name: str) -> None:
        homes = self._catalog.homes(name)
        await self._in_store_errors(self._changes.delete(name))
        for home in homes:
            self._chunks.forget(home)
            self._logs.pop(home, None)
            self._arriving.changed(home)

    async def add_partitions(self, name: str, total: int) -> None:
        await self._in_store_errors(self._changes.grow(name, total))

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
        (stored,) = await self.append_all([(partition, batch)])
        if isinstance(stored, PenstockError):
            raise stored
        return stored

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        lines = [await self._put(*each) for each in batches]
        found: list[Appended | PenstockError] = []
        for (partition, _), line in zip(batches, lines, strict=True):
            stored = line if isinstance(line, PenstockError) else await line
            found.append(as_store_says(stored, partition) if isinstance(stored, PenstockError) else stored)
        return found

    async def _put(self, partition: Partition, batch: Batch) -> Promise[Any] | PenstockError:
        """In the order of the calls: nothing is waited for where the partition is known."""
        try:
            return self._appends.put(await self._catalog.home(partition), batch)
        except PenstockError as error:
            return error

    async def delete_records(self, partition: Partition, before: int) -> int:
        raise Unsupported("TubeMQ deletes messages by age only", hint="Set the topic's deletePolicy at its masters")

    # Reading.

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        found: list[Fetched | PenstockError] = []
        for at in range(0, len(parts), _AT_ONCE):
            lump = parts[at : at + _AT_ONCE]
            found += await self._all([self._fetch(part, budget) for part in lump], [each.partition for each in lump])
        return found

    async def _fetch(self, part: FetchPart, budget: Budget) -> Fetched:
        log = await self._log(part.partition)
        if budget.left <= 0 and budget.taken:
            end = max(part.offset, log.grown_to)
            return Fetched(b"", part.offset, max(log.start, 0), end, end, 0)
        if log.start < 0:
            await log.ends()
        piece = await log.read(part.offset, max(min(part.max_bytes, budget.left), 1))
        data = b"" if piece.rows is None else batch_of(piece.rows)
        if data:
            budget.take(data)
        return Fetched(data, piece.until, log.start, piece.end, piece.end, 0)

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        return await self._all([self._extent(each) for each in partitions], partitions)

    async def _extent(self, partition: Partition) -> Extent:
        start, end = await (await self._log(partition)).ends()
        return Extent(start, end, end, 0)

    async def epoch_end(self, partition: Partition, epoch: int, *, leader_epoch: int = -1) -> tuple[int, int]:
        raise Unsupported("TubeMQ has no leader epochs")

    async def offset_for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        raise Unsupported("TubeMQ does not find messages by time", hint="Begin at the earliest or the latest offset")

    async def max_timestamp(self, partition: Partition) -> tuple[int, int] | None:
        raise Unsupported("TubeMQ does not know its messages' times")

    async def writers(self, partition: Partition) -> Sequence[Writer]:
        return []

    async def size(self, partition: Partition) -> int:
        raise Unsupported("TubeMQ does not tell how large a partition is")

    async def room(self) -> DiskSpace:
        return DiskSpace(self.url, -1, -1)

    # Waiting.

    def arrival(self, known: Mapping[Partition, int]) -> Promise[None]:
        waited: dict[Partition, int] = {}
        news = False
        for partition, end in known.items():
            homes = self._catalog.homes(partition.topic)
            if 0 <= partition.id < len(homes):
                waited[homes[partition.id]] = end
                log = self._logs.get(homes[partition.id])
                news = news or (log is not None and log.grown_to > end)
        promise = self._arriving.wait(waited)
        if news:
            promise.set(None)
        return promise

    def forget_arrival(self, promise: Promise[None]) -> None:
        self._arriving.forget(promise)

    async def _grows(self, home: Partition) -> bool:
        log = self._logs.get(home)
        return True if log is None else await log.grows()

    # The rest.

    async def _log(self, partition: Partition) -> PartitionLog:
        home = await self._catalog.home(partition)
        log = self._logs.get(home)
        if log is None:
            log = self._logs[home] = PartitionLog(self._reader.shared, home, self._chunks, self._turns)
        return log

    async def _in_store_errors(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except PenstockError as error:
            raise as_store_says(error) from error

    async def _all(self, work: Sequence[Any], partitions: Sequence[Partition]) -> list[Any]:
        answers = await self._reader.shared.channel.gather(work)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, PenstockError):
                raise answer
        return [
            as_store_says(answer, partition) if isinstance(answer, PenstockError) else answer
            for answer, partition in zip(answers, partitions, strict=True)
        ]

    async def _beat_for_ever(self) -> None:
        while True:
            await self._runtime.sleep(self._appends.sender.beat_interval_s)
            try:
                await self._appends.sender.beat()
                self._unheard = None
            except PenstockError as error:
                if self._unheard is None:
                    _log.warning("TubeMQ's masters do not hear this node, going on with what is known: %s", error)
                self._unheard = f"TubeMQ's masters do not hear this node: {error.message}"

    async def _look_for_ever(self) -> None:
        """Partitions that come, and the visit tokens that masters change every few minutes, are heard of so."""
        while True:
            await self._runtime.sleep(_LOOK_S)
            try:
                await self._catalog.look(self._catalog.known(), fresh=True)
            except PenstockError as error:
                _log.info("TubeMQ's masters do not tell where partitions are: %s", error)


def _abilities(*, topics: bool, groups: bool) -> Abilities:
    return Abilities(
        sequences=False,
        transactions=False,
        epochs=False,
        compaction=False,
        deletion=False,
        times=False,
        groups=groups,
        topics=topics,
        options=False,
        sizes=False,
    )


# From an address of masters to an enode. Its options are those of a client's ``tubemq://`` address that concern both
# reading and writing (`penstock.protocols.tubemq.config.TubeConfig`).
_OPTIONS: Final = frozenset(
    {
        "admin_address", "admin_token", "admin_user", "allow_duplicates", "authenticate", "connections_per_broker",
        "heartbeat_after_fail_ms", "heartbeat_period_ms", "heartbeat_retries", "link_max_delayed", "local_address",
        "not_found_wait_ms", "password", "reader_group", "register_backoff_ms", "register_retries", "rpc_timeout_ms",
        "session_max_delayed", "unavailable_broker_ms", "user",
    }
)  # fmt: skip
_READ_MS: Final = 10_000
"""How long a question about topics or offsets may take with all its attempts: clients wait 30 s."""
_WRITE_MS: Final = 25_000
"""How long a batch is tried: less than Kafka's producers wait for an answer (30 s), so that they hear what happened."""
_NEVER_MS: Final = 86_400_000
"""The enode itself asks anew where partitions are, every half a minute: no reader waits for masters that are away."""


def open_enode(url: str, around: BackendContext) -> TubeEnode:
    """``tubemq://HOST:PORT[,HOST:PORT…][?option=value…]``: masters. Raises ConfigError."""
    address = parse_address(url, lambda scheme: MASTER_PORT)
    if not address.endpoints or address.topics:
        raise ConfigError(
            f"{address.scheme}:// names no TubeMQ cluster",
            hint="Write tubemq://HOST:8715, with commas between masters and options behind a '?'",
        )
    reading = TubeOptions(
        tube=_tube(address, around.config.node_id),
        client_id=f"penstock-node-{around.config.node_id}",
        api_timeout_ms=_READ_MS,
        metadata_max_age_ms=_NEVER_MS,
    )
    writing = replace(reading, api_timeout_ms=_WRITE_MS, publishing=True)
    return TubeEnode(Address(address.scheme, address.endpoints), reading, writing, around)


def _tube(address: Address, node_id: int) -> TubeConfig:
    for name in address.options:
        if name not in _OPTIONS:
            raise ConfigError(
                f"a node's TubeMQ cluster has no option {name!r}", hint=f"There are {', '.join(sorted(_OPTIONS))}"
            )
    return tube_config({"reader_group": f"penstock-node-{node_id}", **address.options})
