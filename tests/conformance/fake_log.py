"""A log in memory, and a LogClient of it that speaks no protocol: what every real one must be able to do.

Batches are kept encoded, so that reading decodes as it does in life. Tests make it misbehave through ``faults``.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from penstock.config import ClientConfig, OptionValue, ProtocolConfig
from penstock.errors import ErrorKind, OffsetOutOfRange, PenstockError, ServerError
from penstock.interfaces import (
    Channel,
    ChannelFactory,
    Dialect,
    FoundOffset,
    GroupOptions,
    ReadFrom,
    ReadLimits,
    WireProtocol,
)
from penstock.interfaces.client import FetchHeard, LogClient
from penstock.model import (
    Committed,
    Endpoint,
    LogRange,
    Node,
    Offset,
    OffsetSpec,
    Partition,
    PartitionInfo,
    PreparedTransaction,
    TopicInfo,
)
from penstock.records import decode_v2
from penstock.records.batch import parse_header
from penstock.records.encoding import encode_v2
from tests.conformance.fake_admin import FakeAdmin
from tests.conformance.fake_group import FakeGroup, FakeMembership
from tests.conformance.fake_partition import FakeFetched, PartitionLog
from tests.conformance.fake_sender import FakeSender, FakeTransactionalSender, tell_later

NODES = tuple(Node(str(number), Endpoint("fake", number + 1)) for number in range(12))


class FakeLog:
    """What all clients of one test share."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        self.partitions: dict[Partition, PartitionLog] = defaultdict(PartitionLog)
        self.groups: dict[str, FakeGroup] = defaultdict(FakeGroup)
        self.faults: dict[str, deque[PenstockError | None]] = defaultdict(deque)
        self.calls: list[tuple[str, object]] = []
        self.asked: list[tuple[float, Collection[str] | None]] = []
        self.delays_s: deque[float] = deque()
        self.topics_delays_s: deque[float] = deque()
        self.leaderless: set[Partition] = set()
        self.troubles: dict[Partition, PenstockError] = {}
        self.largest_batch = 1 << 30
        self.senders = 0
        self.takes_at_once = True
        self.nodes = 2
        self._arrivals: set[Callable[[], None]] = set()

    @staticmethod
    def clock() -> float:
        """The loop's time, 0 without a loop."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return 0.0

    def create(self, topic: str, partitions: int = 1) -> None:
        self.topics[topic] = partitions

    def append(self, partition: Partition, data: bytes | memoryview) -> int:
        if len(data) > self.largest_batch:
            raise ServerError("too large", code=10, name="X", kind=ErrorKind.TOO_LARGE)
        base = self.partitions[partition].append(data)
        for arrived in list(self._arrivals):
            arrived()
        return base

    def write(self, topic: str, values: Sequence[bytes | None], partition: int = 0) -> int:
        """Put records there without a producer."""
        rows = pa.record_batch({"value": pa.array(values, pa.binary())})
        return self.append(Partition(topic, partition), encode_v2(rows, timestamp_ms=1_000))

    def delete_before(self, partition: Partition, offset: int) -> None:
        self.partitions[partition].start = offset

    def fault(self, call: str) -> None:
        """Raise what a test wants the next ``call`` to end in."""
        if self.faults[call] and (error := self.faults[call].popleft()) is not None:
            raise error

    async def delay(self) -> None:
        """What a test wants the next request to take."""
        await self._pass(self.delays_s.popleft() if self.delays_s else 0.0)

    async def delay_topics(self) -> None:
        """What a test wants the next question about topics to take."""
        if self.topics_delays_s:
            await self._pass(self.topics_delays_s.popleft())

    async def _pass(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        loop.call_later(seconds, over.set_result, None)
        await over

    async def arrival(self, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        event = asyncio.Event()

        def arrived() -> None:
            loop.call_soon_threadsafe(event.set)

        self._arrivals.add(arrived)
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self._arrivals.discard(arrived)


@dataclass(frozen=True, slots=True)
class FakeLimits:
    """Nothing of a fake mends itself: it is not waited for."""

    retry_backoff_ms: int = 1
    retry_backoff_max_ms: int = 1
    api_timeout_ms: int = 0
    short_log_patience_ms: int = 0

    def patience_ms(self, error: PenstockError) -> int:
        return self.api_timeout_ms


class FakeRange:
    """One partition's range, batch by batch; ``penstock.interfaces.RangeSource``."""

    depth = 1
    limits = FakeLimits()

    def __init__(self, channel: Channel[None], log: PartitionLog, wanted: LogRange) -> None:
        self.channel = channel
        self.start, self.end, self.ahead = wanted.start, wanted.end, 0
        self._log = log
        self._partition = Partition(wanted.topic, wanted.partition)
        self._offset = wanted.start

    async def ask(self, offset: int) -> None:
        self._offset, self.ahead = offset, 1

    async def take(self) -> FakeFetched:
        self.ahead = 0
        if not self._log.start <= self._offset < self._log.end:
            raise self.gone("gone", self._offset)
        data = self._log.read(self._offset, 1)
        return FakeFetched(self._partition, self._offset, self._log.end, self._log.start, data)

    def note(self, error: PenstockError) -> None:
        return

    def gone(self, text: str, offset: int) -> OffsetOutOfRange:
        return OffsetOutOfRange(text, code=1, name="OFFSET_OUT_OF_RANGE", offset=offset)

    def close(self) -> None:
        self.ahead = 0

    async def finish(self) -> None:
        return


class FakeClient(LogClient):
    """``penstock.interfaces.LogClient`` of a FakeLog."""

    def __init__(self, log: FakeLog, channel: Channel[None]) -> None:
        self._log = log
        self._channel = channel  # for its clock: nobody is connected to
        self._known: set[Partition] = set()
        self._asked: set[asyncio.Task[Sequence[FakeFetched]]] = set()
        self._last: dict[str, tuple[dict[Partition, ReadFrom], ReadLimits]] = {}
        self.closed = False

    async def topics(self, names: Collection[str] | None, *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        self._log.asked.append((self._log.clock(), names))
        self._log.fault("topics")
        if fresh:
            await self._log.delay_topics()
        wanted = [name for name in (self._log.topics if names is None else names) if name in self._log.topics]
        found = {name: _topic(name, self._log.topics[name], self._log.nodes) for name in wanted}
        told = {info.partition for topic in found.values() for info in topic.partitions}
        self._known = (self._known | told) - self._log.leaderless
        return found

    def leader(self, partition: Partition) -> Node | None:
        return NODES[partition.id % self._log.nodes] if partition in self._known else None

    def trouble(self, partition: Partition) -> PenstockError | None:
        return self._log.troubles.get(partition)

    def distrust(self, partition: Partition) -> None:
        self._known.discard(partition)

    async def offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, FoundOffset]:
        self._log.fault("offsets")
        if not self._log.leaderless.isdisjoint(wanted):
            raise ServerError("not all of them have a leader", code=5, name="LEADER_NOT_AVAILABLE", retriable=True)
        return {partition: self._offset(self._log.partitions[partition], spec) for partition, spec in wanted.items()}

    async def read(
        self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str = ""
    ) -> Sequence[FakeFetched]:
        del node, lane
        self._log.calls.append(("read", [(read.partition, read.offset) for read in reads]))
        return await self._found(reads, limits)

    async def _found(self, reads: Sequence[ReadFrom], limits: ReadLimits) -> Sequence[FakeFetched]:
        await asyncio.sleep(0)
        self._log.fault("read")
        found = [self._fetch(read) for read in reads]
        if limits.max_wait_ms and not any(each.size or each.error for each in found):
            await self._log.arrival(limits.max_wait_ms / 1_000)
            found = [self._fetch(read) for read in reads]
        return found

    def read_at_once(self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, heard: FetchHeard) -> bool:
        """As ``read``, unless the log wants to be waited for."""
        if not self._log.takes_at_once:
            return False
        self._last[node.name] = {read.partition: read for read in reads}, limits
        self._log.calls.append(("read", [(read.partition, read.offset) for read in reads]))
        task = tell_later(self._found(reads, limits), heard)
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        return True

    def read_again(self, node: Node, moved: Sequence[ReadFrom], heard: FetchHeard) -> bool:
        """The last read of ``read_at_once``, with what has moved."""
        if node.name not in self._last:
            return False
        reads, limits = self._last[node.name]
        reads.update({read.partition: read for read in moved})
        return self.read_at_once(node, list(reads.values()), limits, heard)

    def ranges(self, wanted: LogRange, *, fetch_bytes: int = 0) -> FakeRange:
        del fetch_bytes
        return FakeRange(self._channel, self._log.partitions[Partition(wanted.topic, wanted.partition)], wanted)

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        self._log.fault("committed")
        all_of = self._log.groups[group].committed
        return {partition: all_of[partition] for partition in (partitions or all_of) if partition in all_of}

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        self._log.fault("commit")
        self._log.groups[group].committed.update(offsets)

    def membership(self, options: GroupOptions) -> FakeMembership:
        async def partitions(topics: Collection[str]) -> frozenset[Partition]:
            found = await self.topics(topics)
            return frozenset(info.partition for topic in found.values() for info in topic.partitions)

        return FakeMembership(self._log.groups[options.group], options, partitions, self._log.fault)

    def sender(self, *, idempotent: bool) -> FakeSender:
        return FakeSender(self._log, idempotent)

    def transactional_sender(self, transactional_id: str, timeout_ms: int) -> FakeTransactionalSender:
        self._log.calls.append(("transactional id", (transactional_id, timeout_ms)))
        return FakeTransactionalSender(self._log, transactional_id)

    async def complete(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        self._log.calls.append(("complete", (prepared, commit)))
        self._log.fault("complete")

    def admin(self) -> FakeAdmin:
        return FakeAdmin(self, self._log.topics, self._log.groups)

    async def close(self) -> None:
        self.closed = True
        if asked := list(self._asked):
            for task in asked:
                task.cancel()
            await asyncio.wait(asked)

    def _offset(self, log: PartitionLog, spec: OffsetSpec) -> FoundOffset:
        if spec.timestamp_ms is None:
            return FoundOffset(log.start if spec.name is Offset.EARLIEST else log.end)
        for batch in log.batches:
            if parse_header(batch).max_timestamp >= spec.timestamp_ms:
                rows = decode_v2(batch, columns=["offset", "timestamp"]).batch
                times = [each // 1_000 for each in rows.column("timestamp").view(pa.int64()).to_pylist()]
                row = next(row for row, time_ms in enumerate(times) if time_ms >= spec.timestamp_ms)
                return FoundOffset(rows.column("offset")[row].as_py(), times[row])
        return FoundOffset(-1)

    def _fetch(self, read: ReadFrom) -> FakeFetched:
        log = self._log.partitions[read.partition]
        fetched = FakeFetched(read.partition, read.offset, log.end, log.start)
        if not log.start <= read.offset <= log.end:
            fetched.error = OffsetOutOfRange(
                "gone", code=1, name="OFFSET_OUT_OF_RANGE", topic=read.partition.topic, partition=read.partition.id
            )
        else:
            try:
                self._log.fault("fetch")
                fetched.data = log.read(read.offset, read.max_bytes)
            except PenstockError as error:
                self.distrust(read.partition)
                fetched.error = error
        return fetched


def _topic(name: str, partitions: int, nodes: int) -> TopicInfo:
    infos = [PartitionInfo(Partition(name, each), NODES[each % nodes], 0) for each in range(partitions)]
    return TopicInfo(name, tuple(infos))


class FakeLogs:
    """One FakeLog a host name, behind ``fake://``."""

    def __init__(self) -> None:
        self.logs: dict[str, FakeLog] = defaultdict(FakeLog)

    def protocol(self) -> WireProtocol:
        return WireProtocol("fake", self._client, None, ProtocolConfig(options=frozenset({"tags"})))

    def _client(
        self,
        channel_of: ChannelFactory,
        bootstrap: Sequence[Endpoint],
        config: ClientConfig,
        extra: Mapping[str, OptionValue],
    ) -> FakeClient:
        del config, extra
        return FakeClient(self.logs[bootstrap[0].host], channel_of(cast("Dialect[None]", None)))
