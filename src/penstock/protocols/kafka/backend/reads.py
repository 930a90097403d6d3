"""Reads from a Kafka cluster.

`Reading` fetches batches as they are stored, `Arrivals` waits for more of them with one fetch session per broker, and
`Ends` finds where logs begin and end.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from penstock import kernels
from penstock.concurrency.runtime import Promise, Runtime
from penstock.errors import LogOffsetOutOfRange, PenstockError, ServerError, StoreError, Unsupported, UsageError
from penstock.interfaces.enode import Budget, Extent, Fetched, FetchPart, Writer
from penstock.interfaces.framing import Buffer
from penstock.kernels.lengths import last_whole
from penstock.model import Node, Partition
from penstock.protocols.kafka.backend.leader_requests import Asking, Rows
from penstock.protocols.kafka.client.cluster import Cluster, note_error
from penstock.protocols.kafka.client.connection import ByVersion, only
from penstock.protocols.kafka.client.fetch import Asked, FetchPosition, FetchSession, Key
from penstock.protocols.kafka.errors import NONE, OFFSET_OUT_OF_RANGE, error_for, row
from penstock.protocols.kafka.wire.coordinator_admin import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeProducersResponse,
)
from penstock.protocols.kafka.wire.declarations import NO_UUID
from penstock.protocols.kafka.wire.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
)
from penstock.protocols.kafka.wire.metadata import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from penstock.protocols.kafka.wire.topics import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)
from penstock.records.batch import as_array, as_view

__all__ = ["Arrivals", "Ends", "Reading", "out_of_range"]

# Waiting readers: one long-poll fetch per broker, in a fetch session, covers all partitions that have waiting readers.
#
# The fetch asks for one byte of each partition from its known end on. The broker holds the answer until there is data,
# for a quarter of a second at most. A partition that is new in the session may wait that long until the next request
# includes it. It stays in the session for two seconds after its last reader has left, because readers come back. The
# data that arrives is dropped: readers fetch it again, from their own offsets and with their own sizes. Source:
# KIP-227.

_WAIT_LANE: Final = "wait"
_HELD_S: Final = 0.25
_STAYS_S: Final = 2.0
_BETWEEN_S: Final = 0.002
"""Pause between two requests: under steady traffic, readers need not be woken for each batch."""
_PAUSE_S: Final = 0.1


class _Watched(Struct, eq=False):
    """A partition with waiting readers, now or lately; ``end`` and ``start`` as last reported, -1 if unknown."""

    end: int
    start: int = -1
    left_s: float = 0.0
    waiting: set[Promise[None]] = field(default_factory=set)


class _Watch(Struct, eq=False):
    """The waiting fetch of one broker."""

    node: Node
    parts: dict[Partition, _Watched] = field(default_factory=dict)
    session: FetchSession = field(default_factory=FetchSession)
    idle: Promise[None] | None = None


class Arrivals:
    """Waiting readers of an enode; each enode has one."""

    def __init__(self, asking: Asking, runtime: Runtime) -> None:
        self._asking = asking
        self._cluster = asking.cluster
        self._runtime = runtime
        self._watched: dict[Partition, _Watched] = {}
        self._watches: dict[str, _Watch] = {}
        self._homes: dict[Partition, _Watch] = {}
        self._of: dict[Promise[None], Collection[Partition]] = {}

    def wait(self, known: Mapping[Partition, int]) -> Promise[None]:
        """``penstock.interfaces.enode.Enode.arrival``."""
        promise: Promise[None] = self._runtime.promise()
        self._of[promise] = tuple(known)
        for partition, end in known.items():
            watched = self._watched.get(partition)
            if watched is None:
                watched = self._watched[partition] = _Watched(end)
            elif end > watched.end:
                self._wake(watched)  # this reader knows a later end than the waiting ones
                watched.end = end
            elif end < watched.end:
                self.forget(promise)
                promise.set(None)
                return promise
            watched.waiting.add(promise)
            self._place(partition, watched)
        return promise

    def forget(self, promise: Promise[None]) -> None:
        """``penstock.interfaces.enode.Enode.forget_arrival``."""
        now = self._runtime.monotonic()
        for partition in self._of.pop(promise, ()):
            watched = self._watched.get(partition)
            if watched is not None:
                watched.waiting.discard(promise)
                watched.left_s = now

    def _wake(self, watched: _Watched) -> None:
        for promise in tuple(watched.waiting):
            self.forget(promise)
            promise.set(None)

    # Which broker is asked.

    def _place(self, partition: Partition, watched: _Watched) -> None:
        """Add the partition to its leader's fetch, or find the leader first."""
        home = self._homes.get(partition)
        if home is not None:
            if home.idle is not None:
                home.idle.set(None)
            return
        node = self._cluster.leader(partition)
        if node is None:
            self._runtime.spawn(self._find(partition, watched), f"find the leader of {partition}")
        else:
            self._ask_of(node, partition, watched)

    def _ask_of(self, node: Node, partition: Partition, watched: _Watched) -> None:
        watch = self._watches.get(node.name)
        if watch is None or watch.node != node:
            watch = self._watches[node.name] = _Watch(node)
            self._runtime.spawn(self._keep_asking(watch), f"wait for records at {node.endpoint}")
        watch.parts[partition] = watched
        self._homes[partition] = watch
        if watch.idle is not None:
            watch.idle.set(None)

    async def _find(self, partition: Partition, watched: _Watched) -> None:
        while self._watched.get(partition) is watched and partition not in self._homes:
            try:
                node = await self._asking.leader(partition)
            except StoreError:
                self._drop(partition)  # it does not exist any more; the readers' next fetch reports that
                return
            except PenstockError:
                await self._runtime.sleep(_PAUSE_S)
                continue
            if self._watched.get(partition) is watched and partition not in self._homes:
                self._ask_of(node, partition, watched)

    def _leave(self, partition: Partition) -> None:
        """Look the leader up again, because it may have changed."""
        home, watched = self._homes.pop(partition, None), self._watched.get(partition)
        if home is not None:
            home.parts.pop(partition, None)
        if watched is not None:
            self._runtime.spawn(self._find(partition, watched), f"find the leader of {partition} again")

    def _drop(self, partition: Partition) -> None:
        home, watched = self._homes.pop(partition, None), self._watched.pop(partition, None)
        if home is not None:
            home.parts.pop(partition, None)
        if watched is not None:
            self._wake(watched)

    # Asking one broker.

    async def _keep_asking(self, watch: _Watch) -> None:
        while self._tidied(watch):
            if not any(each.waiting for each in watch.parts.values()):
                await self._rest(watch)
                continue
            try:
                await self._ask(watch)
            except PenstockError as error:
                for partition in tuple(watch.parts):
                    note_error(self._cluster, partition, error)
                    self._leave(partition)
                await self._runtime.sleep(_PAUSE_S)
            else:
                await self._runtime.sleep(_BETWEEN_S)
        if self._watches.get(watch.node.name) is watch:
            del self._watches[watch.node.name]

    def _tidied(self, watch: _Watch) -> bool:
        """Remove partitions without recent readers and those with another leader. Returns whether any is left."""
        now = self._runtime.monotonic()
        for partition, watched in tuple(watch.parts.items()):
            if not watched.waiting and now - watched.left_s > _STAYS_S:
                self._drop(partition)
            elif self._cluster.leader(partition) not in (watch.node, None):
                self._leave(partition)
        return bool(watch.parts)

    async def _rest(self, watch: _Watch) -> None:
        """Wait for a reader, or until partitions without readers can be removed."""
        idle = watch.idle = self._runtime.promise()
        timer = self._runtime.call_later(_STAYS_S, lambda: idle.set(None))
        try:
            await idle
        finally:
            timer.cancel()
            watch.idle = None

    async def _ask(self, watch: _Watch) -> None:
        """One request and its response. Raises ConnectionLost, RequestTimeout, ServerError."""
        cluster, session = self._cluster, watch.session
        parts = dict(watch.parts)  # partitions added while the connection is awaited go into the next request
        ids = {partition.topic: cluster.topic_id(partition.topic) for partition in parts}
        by_ids = None not in ids.values()
        names: dict[Key, Partition] = {}
        asked: Asked | None = None

        def build(version: int) -> FetchRequest:
            nonlocal asked
            with_ids = version > _HIGHEST_WITH_NAMES
            for partition in parts:
                names[ids[partition.topic] or NO_UUID if with_ids else partition.topic, partition.id] = partition
            places = {key: FetchPosition(parts[each].end, -1, -1, 1) for key, each in names.items()}
            asked = session.ask(places, by_ids=with_ids)
            return _wait_request(asked, with_ids)

        try:
            answer = await cluster.calls.call(
                watch.node.endpoint,
                ByVersion(FetchRequest, build, ids=by_ids),
                FetchResponse,
                lane=_WAIT_LANE,
                held_s=_HELD_S,
            )
        except BaseException:
            if asked is not None:
                session.lost(asked)
            raise
        result: dict[Key, FetchResponsePartition] = {
            (topic.topic or topic.topic_id, each.partition_index): each
            for topic in answer.responses
            for each in topic.partitions
        }
        if asked is not None:
            session.answered(asked, answer.error_code, answer.session_id, result)
        if answer.error_code != NONE and not row(answer.error_code).retriable:
            raise error_for(answer.error_code, "waiting for records failed", node=watch.node.name)
        for key, each in result.items():
            if key in names:
                self._heard(names[key], each)

    def _heard(self, partition: Partition, result: FetchResponsePartition) -> None:
        watched = self._watched.get(partition)
        if watched is None:
            return
        if result.error_code != NONE:
            error = error_for(
                result.error_code, "waiting for records failed", topic=partition.topic, partition=partition.id
            )
            self._refused(partition, watched, error)
            return
        moved = watched.start >= 0 and result.log_start_offset != watched.start
        watched.start = result.log_start_offset
        if result.high_watermark > watched.end or moved:
            watched.end = max(watched.end, result.high_watermark)
            self._wake(watched)

    def _refused(self, partition: Partition, watched: _Watched, error: ServerError) -> None:
        if error.code == OFFSET_OUT_OF_RANGE or not error.retriable:
            self._drop(partition)
        else:
            note_error(self._cluster, partition, error)
            self._leave(partition)


def _wait_request(asked: Asked, by_ids: bool) -> FetchRequest:
    topics: dict[str | bytes, list[FetchRequestPartition]] = {}
    for (name, number), place in asked.named.items():
        part = FetchRequestPartition(partition=number, fetch_offset=place.offset, partition_max_bytes=place.max_bytes)
        topics.setdefault(name, []).append(part)
    forgotten: dict[str | bytes, list[int]] = {}
    for name, number in asked.forgotten:
        forgotten.setdefault(name, []).append(number)
    return FetchRequest(
        max_wait_ms=int(_HELD_S * 1_000),
        min_bytes=1,
        max_bytes=1,
        session_id=asked.session_id,
        session_epoch=asked.epoch,
        topics=[
            FetchRequestTopic(topic=name, partitions=parts)
            if isinstance(name, str)
            else FetchRequestTopic(topic_id=name, partitions=parts)
            for name, parts in topics.items()
        ],
        forgotten_topics_data=[
            FetchRequestForgottenTopic(topic=name, partitions=numbers)
            if isinstance(name, str)
            else FetchRequestForgottenTopic(topic_id=name, partitions=numbers)
            for name, numbers in forgotten.items()
        ],
    )


# Where logs begin and end, by name, by time and by epoch; active producers; deletion of records.
#
# Source: Kafka protocol guide, ListOffsets v1-v11, OffsetForLeaderEpoch v2-v4, DescribeProducers v0, DeleteRecords.

_EARLIEST, _LATEST, _MAX_TIMESTAMP = -2, -1, -3
_OFFSETS_FAILED: Final = "asking for an offset failed"


class _Found(NamedTuple):
    offset: int
    timestamp: int
    epoch: int


class Ends:
    """Offsets of an enode's logs; each enode has one."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._cluster = asking.cluster

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        """``penstock.interfaces.enode.Enode.extents``, in three requests: no Kafka request returns all three
        offsets."""

        async def ask(node: Node, rows: Sequence[int]) -> Rows[Extent]:
            asked = [partitions[row] for row in rows]
            found = await self._cluster.calls.channel.gather(
                [
                    self._list(node, asked, _EARLIEST),
                    self._list(node, asked, _LATEST),
                    self._list(node, asked, _LATEST, stable=True),
                ]
            )
            for each in found:
                if isinstance(each, BaseException):
                    raise each
            starts, ends, stables = (each for each in found if not isinstance(each, BaseException))
            return {
                row: self._extent(partitions[row], *result)
                for row, *result in zip(rows, starts, ends, stables, strict=True)
            }

        return await self._asking.each(partitions, ask, _OFFSETS_FAILED)

    def _extent(
        self,
        partition: Partition,
        start: _Found | PenstockError,
        end: _Found | PenstockError,
        stable: _Found | PenstockError,
    ) -> Extent | PenstockError:
        for each in (start, end, stable):
            if isinstance(each, PenstockError):
                return each
        assert isinstance(start, _Found)
        assert isinstance(end, _Found)
        assert isinstance(stable, _Found)
        epoch = max(end.epoch, self._cluster.leader_epoch(partition))
        # The requests are answered one after the other, while records come and go.
        return Extent(min(start.offset, end.offset), end.offset, min(stable.offset, end.offset), epoch)

    async def for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp ms) of the first record at or after that time."""
        return await self._by_time(partition, max(timestamp_ms, 0))

    async def newest(self, partition: Partition) -> tuple[int, int] | None:
        """(offset, timestamp ms) of the first record with the largest timestamp."""
        return await self._by_time(partition, _MAX_TIMESTAMP)

    async def _by_time(self, partition: Partition, time: int) -> tuple[int, int] | None:
        async def ask(node: Node) -> _Found | PenstockError:
            (found,) = await self._list(node, (partition,), time)
            return found

        found = await self._asking.one(partition, ask, _OFFSETS_FAILED)
        return None if found.offset < 0 else (found.offset, found.timestamp)

    async def _list(
        self, node: Node, partitions: Sequence[Partition], time: int, *, stable: bool = False
    ) -> list[_Found | PenstockError]:
        topics: dict[str, list[ListOffsetsRequestPartition]] = {}
        for each in partitions:
            asked = ListOffsetsRequestPartition(partition_index=each.id, timestamp=time)
            topics.setdefault(each.topic, []).append(asked)
        message = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(stable),
            timeout_ms=self._cluster.calls.options.request_timeout_ms,
            topics=[ListOffsetsRequestTopic(name=name, partitions=asked) for name, asked in topics.items()],
        )
        answer = await self._cluster.calls.call(node.endpoint, message, ListOffsetsResponse)
        result = {
            Partition(topic.name, part.partition_index): part for topic in answer.topics for part in topic.partitions
        }
        found: list[_Found | PenstockError] = []
        for partition in partitions:
            part = result.get(partition)
            if part is None or part.error_code != NONE:
                code = _LEFT_OUT if part is None else part.error_code
                found.append(
                    error_for(code, _OFFSETS_FAILED, topic=partition.topic, partition=partition.id, node=node.name)
                )
            else:
                found.append(_Found(part.offset, part.timestamp, part.leader_epoch))
        return found

    async def epoch_end(self, partition: Partition, epoch: int, leader_epoch: int) -> tuple[int, int]:
        """``penstock.interfaces.enode.Enode.epoch_end``; (-1, -1) if the log no longer knows such an old epoch."""
        part = OffsetForLeaderEpochRequestPartition(
            partition=partition.id, current_leader_epoch=leader_epoch, leader_epoch=epoch
        )
        topic = OffsetForLeaderEpochRequestTopic(topic=partition.topic, partitions=[part])
        message = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
        what = "asking how far a leader epoch reaches failed"

        async def ask(node: Node) -> tuple[int, int] | PenstockError:
            answer = await self._cluster.calls.call(node.endpoint, message, OffsetForLeaderEpochResponse)
            result = only(only(answer.topics, what).partitions, what)
            if result.error_code != NONE:
                return error_for(result.error_code, what, topic=partition.topic, partition=partition.id)
            return result.leader_epoch, result.end_offset

        return await self._asking.one(partition, ask, what)

    async def writers(self, partition: Partition) -> list[Writer]:
        """``penstock.interfaces.enode.Enode.writers``."""
        topic = DescribeProducersRequestTopic(name=partition.topic, partition_indexes=[partition.id])
        message = DescribeProducersRequest(topics=[topic])
        what = "asking for producers failed"

        async def ask(node: Node) -> list[Writer] | PenstockError:
            answer = await self._cluster.calls.call(node.endpoint, message, DescribeProducersResponse)
            result = only(only(answer.topics, what).partitions, what)
            if result.error_code != NONE:
                return error_for(result.error_code, what, topic=partition.topic, partition=partition.id)
            return [
                Writer(
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    each.current_txn_start_offset,
                )
                for each in result.active_producers
            ]

        return await self._asking.one(partition, ask, what)

    async def cut(self, partition: Partition, before: int) -> int:
        """Delete all records below ``before``; returns the log's new start."""
        if before < 0:
            raise UsageError(f"no offset is {before}")
        part = DeleteRecordsRequestPartition(partition_index=partition.id, offset=before)
        topic = DeleteRecordsRequestTopic(name=partition.topic, partitions=[part])
        options = self._cluster.calls.options
        message = DeleteRecordsRequest(timeout_ms=options.request_timeout_ms, topics=[topic])
        what = "deleting records failed"

        async def ask(node: Node) -> int | PenstockError:
            answer = await self._cluster.calls.call(
                node.endpoint, message, DeleteRecordsResponse, timeout_s=2 * options.request_timeout_s
            )
            result = only(only(answer.topics, what).partitions, what)
            if result.error_code != NONE:
                return error_for(result.error_code, what, topic=partition.topic, partition=partition.id, offset=before)
            return result.low_watermark

        return await self._asking.one(partition, ask, what)


# Stored batches as a broker sends them, in the buffer that they arrived in. Nothing is decoded or copied.
#
# Each leader is asked once for all of its partitions, without a fetch session: fronts read different partitions each
# time, and brokers keep few sessions. The result has at most the requested bytes, plus one batch per broker. Source:
# Kafka protocol guide, Fetch v4-v18; KIP-320 (epochs), KIP-516 (topic ids).

_READING_FAILED: Final = "reading failed"
_FETCH_LANE: Final = "fetch"
_HIGHEST_WITH_NAMES: Final = 12
_FIRST_WITH_LAST_EPOCH: Final = 12
_LEFT_OUT: Final = 7
_MOST_BYTES: Final = 64 << 20
_PREFIX: Final = struct.Struct(">qiib")  # base offset, length of what follows, leader epoch, magic
_LENGTH_AFTER: Final = 12
_DELTA: Final = struct.Struct(">i")
_DELTA_AT: Final = 23
_MAGIC: Final = 2


class Reading:
    """Fetches of an enode; each enode has one."""

    def __init__(self, asking: Asking, ends: Ends) -> None:
        self._asking = asking
        self._cluster = asking.cluster
        self._ends = ends

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        """``penstock.interfaces.enode.Enode.fetch``."""
        found: dict[int, Fetched | PenstockError] = {}
        for stable in {part.stable for part in parts}:
            rows = [row for row, part in enumerate(parts) if part.stable is stable]
            result = await self._read([parts[row] for row in rows], stable, max(1, min(budget.left, _MOST_BYTES)))
            found.update(zip(rows, result, strict=True))
        return [_within(part, found[row], budget) for row, part in enumerate(parts)]

    async def _read(self, parts: Sequence[FetchPart], stable: bool, most: int) -> list[Fetched | PenstockError]:
        async def ask(node: Node, rows: Sequence[int]) -> Rows[Fetched]:
            asked = [parts[row] for row in rows]
            answer = await self._ask(node, asked, stable, most)
            return dict(zip(rows, answer, strict=True))

        found = await self._asking.each([part.partition for part in parts], ask, _READING_FAILED)
        return [await self._placed(part, each) for part, each in zip(parts, found, strict=True)]

    async def _ask(
        self, node: Node, parts: Sequence[FetchPart], stable: bool, most: int
    ) -> list[Fetched | PenstockError]:
        cluster = self._cluster
        ids = {part.partition.topic: cluster.topic_id(part.partition.topic) for part in parts}
        by_ids = None not in ids.values()

        def build(version: int) -> FetchRequest:
            return _fetch_request(parts, ids if version > _HIGHEST_WITH_NAMES else None, version, stable, most)

        message = ByVersion(FetchRequest, build, ids=by_ids)
        answer = await cluster.calls.call(node.endpoint, message, FetchResponse, lane=_FETCH_LANE)
        if answer.error_code != NONE:
            raise error_for(answer.error_code, _READING_FAILED, node=str(node.endpoint))
        result = _results(cluster, answer)
        nothing = not any(each.records for each in result.values())
        return [self._fetched(node, part, result.get(part.partition), nothing) for part in parts]

    def _fetched(
        self, node: Node, part: FetchPart, result: FetchResponsePartition | None, nothing: bool
    ) -> Fetched | PenstockError:
        topic, number = part.partition.topic, part.partition.id
        if result is None or result.error_code != NONE:
            code = _LEFT_OUT if result is None else result.error_code
            where = str(node.endpoint)
            return error_for(code, _READING_FAILED, topic=topic, partition=number, offset=part.offset, node=where)
        start, end = result.log_start_offset, result.high_watermark
        stable = end if result.last_stable_offset < 0 else result.last_stable_offset
        epoch = self._cluster.leader_epoch(part.partition)
        parted = result.diverging_epoch
        if parted.end_offset >= 0:
            return Fetched(b"", part.offset, start, end, stable, epoch, parted=(parted.epoch, parted.end_offset))
        try:
            data, beyond = _whole(result.records or b"")
        except Unsupported as error:
            error.topic, error.partition = topic, number
            return error
        bound = stable if part.stable else end
        if not len(data) and nothing and part.offset < bound:
            # A broker sends at least one batch if it has any, however little is asked for: compaction has left none
            # here.
            beyond = bound
        aborted = [(each.producer_id, each.first_offset) for each in result.aborted_transactions or ()]
        return Fetched(data, max(part.offset, beyond), start, end, stable, epoch, aborted if part.stable else ())

    async def _placed(self, part: FetchPart, found: Fetched | PenstockError) -> Fetched | PenstockError:
        """Add the log's start and end, which brokers do not return, to an out-of-range error."""
        cause = found.__cause__ if isinstance(found, PenstockError) else None
        if getattr(cause, "code", None) != OFFSET_OUT_OF_RANGE:
            return found
        (where,) = await self._ends.extents((part.partition,))
        if isinstance(where, PenstockError):
            return where
        return out_of_range(part.partition, part.offset, where.start, where.end)


def _within(part: FetchPart, found: Fetched | PenstockError, budget: Budget) -> Fetched | PenstockError:
    """The result if it fits the budget: several brokers together may have sent more than was asked for."""
    if isinstance(found, PenstockError):
        return found
    if len(found.data) > budget.left and budget.taken:
        return found._replace(data=b"", next_offset=part.offset, aborted=())
    budget.take(found.data)
    return found


def out_of_range(partition: Partition, offset: int, start: int, end: int) -> LogOffsetOutOfRange:
    """The error with the log's start and end."""
    error = LogOffsetOutOfRange("it is not there", offset=offset, start=start, end=end)
    error.topic, error.partition = partition.topic, partition.id
    return error


def _fetch_request(
    parts: Sequence[FetchPart], ids: Mapping[str, bytes | None] | None, version: int, stable: bool, most: int
) -> FetchRequest:
    topics: dict[str, list[FetchRequestPartition]] = {}
    for part in parts:
        asked = FetchRequestPartition(
            partition=part.partition.id,
            current_leader_epoch=part.leader_epoch,
            fetch_offset=part.offset,
            last_fetched_epoch=part.last_epoch if version >= _FIRST_WITH_LAST_EPOCH else -1,
            partition_max_bytes=max(1, min(part.max_bytes, most)),
        )
        topics.setdefault(part.partition.topic, []).append(asked)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=most,
        isolation_level=int(stable),
        topics=[
            FetchRequestTopic(topic=name, partitions=asked)
            if ids is None
            else FetchRequestTopic(topic_id=ids[name] or b"", partitions=asked)
            for name, asked in topics.items()
        ],
    )


def _results(cluster: Cluster, answer: FetchResponse) -> dict[Partition, FetchResponsePartition]:
    return {
        Partition(topic.topic or cluster.topic_name(topic.topic_id) or "", each.partition_index): each
        for topic in answer.responses
        for each in topic.partitions
    }


def _whole(records: Buffer) -> tuple[Buffer, int]:
    """The whole batches at the beginning, and the offset after them. Raises Unsupported for messages of old formats."""
    view = as_view(records)
    if len(view) < _PREFIX.size:
        return b"", -1
    if view[_PREFIX.size - 1] < _MAGIC:
        raise Unsupported(
            "the topic has messages in a format of Kafka before 0.11, which are not read through this node",
            hint="Read them from the cluster itself, or write them anew (message.format.version)",
        )
    kernel = kernels.if_loaded()
    last = last_whole(view, 0, len(view)) if kernel is None else kernel.last_batch(as_array(records), 0, len(view))
    if last < 0:
        return b"", -1
    base, length, _, _ = _PREFIX.unpack_from(view, last)
    end = last + length + _LENGTH_AFTER
    if length + _LENGTH_AFTER < _DELTA_AT + _DELTA.size:
        return b"", -1
    delta: int = _DELTA.unpack_from(view, last + _DELTA_AT)[0]
    return (records if end == len(view) else view[:end]), base + delta + 1
