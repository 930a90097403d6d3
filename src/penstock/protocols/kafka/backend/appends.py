"""Appends to a Kafka cluster.

One batch per partition is in flight. `ProduceBatcher` puts the batches for one broker into common requests, `merged`
joins small batches, `Identity` is the node's own producer id and epoch, and `Writing` sends each batch until it is
stored or refused.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Promise, Runtime
from penstock.errors import (
    ConnectionLost,
    CorruptBatch,
    PenstockError,
    ProtocolViolation,
    RequestTimeout,
    ServerError,
    UpstreamLost,
)
from penstock.interfaces.channel import Retry
from penstock.interfaces.enode import Appended, Batch, Stored
from penstock.interfaces.framing import Buffer
from penstock.model import Endpoint, Node, Partition
from penstock.protocols.kafka.backend.leader_requests import Asking, as_log_says, is_final
from penstock.protocols.kafka.client.cluster import Cluster, note_error
from penstock.protocols.kafka.client.connection import Calls
from penstock.protocols.kafka.client.sender import LARGEST_EPOCH, NOT_IDEMPOTENT, ProducerIdentity
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.wire.produce import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)
from penstock.records.batch import APPEND_TIME, BATCH_HEADER, CRC_START, HEADER_BYTES, BatchHeader, crc32c, parse_header
from penstock.records.scalar_reader import read_record
from penstock.records.validation import ValidatedBatch

__all__ = ["Identity", "ProduceBatcher", "Writing", "count_that_fit", "merged", "new_producer"]

# Produce requests: the waiting batches for one broker go together, one batch per partition.
#
# A broker works on one request of a connection at a time, so more than a few in flight gain nothing. Batches that
# arrive meanwhile gather, and the next request carries all of them.

_LANE: Final = "produce"
_UNDER_WAY: Final = 5
_BYTES: Final = 8 << 20
_REPLICAS_MS: Final = 5_000
"""How long a broker may wait for its replicas. After its timeout error the batch is sent again, and the broker
recognises it by its number."""
_SLACK_S: Final = 1.0
_WHAT: Final = "writing failed"
_LEFT_OUT: Final = 7

_Result = ProduceResponsePartition | PenstockError


class _Letter(NamedTuple):
    partition: Partition
    data: Buffer
    promise: Promise[_Result]


class ProduceBatcher:
    """Sends Produce requests to all brokers of a cluster."""

    def __init__(self, calls: Calls, runtime: Runtime) -> None:
        self._calls = calls
        self._runtime = runtime
        self._waiting: dict[Endpoint, list[_Letter]] = {}
        self._under_way: dict[Endpoint, int] = {}
        self._due: set[Endpoint] = set()

    async def send(self, node: Node, partition: Partition, data: Buffer) -> _Result:
        """The broker's response for one batch; only one batch of a partition may be in flight."""
        promise: Promise[_Result] = self._runtime.promise()
        self._waiting.setdefault(node.endpoint, []).append(_Letter(partition, data, promise))
        self._begin_soon(node.endpoint)
        return await promise

    def _begin_soon(self, endpoint: Endpoint) -> None:
        if endpoint not in self._due and self._under_way.get(endpoint, 0) < _UNDER_WAY:
            self._due.add(endpoint)
            # Not at once: other batches of this loop iteration go into the same request.
            self._runtime.call_later(0, lambda: self._begin(endpoint))

    def _begin(self, endpoint: Endpoint) -> None:
        self._due.discard(endpoint)
        waiting = self._waiting.pop(endpoint, [])
        size = count = 0
        for letter in waiting:
            size += len(letter.data)
            if count and size > _BYTES:
                break
            count += 1
        if count < len(waiting):
            self._waiting[endpoint] = waiting[count:]
        if count:
            self._under_way[endpoint] = self._under_way.get(endpoint, 0) + 1
            self._runtime.spawn(self._carry(endpoint, waiting[:count]), "write to a Kafka cluster")

    async def _carry(self, endpoint: Endpoint, letters: Sequence[_Letter]) -> None:
        try:
            result = await self._asked(endpoint, letters)
        except PenstockError as error:
            result = [error] * len(letters)
        finally:
            self._under_way[endpoint] -= 1
            if self._waiting.get(endpoint):
                self._begin_soon(endpoint)
        for letter, each in zip(letters, result, strict=True):
            letter.promise.set(each)

    async def _asked(self, endpoint: Endpoint, letters: Sequence[_Letter]) -> list[_Result]:
        topics: dict[str, list[ProduceRequestPartition]] = {}
        for letter in letters:
            part = ProduceRequestPartition(index=letter.partition.id, records=letter.data)
            topics.setdefault(letter.partition.topic, []).append(part)
        message = ProduceRequest(
            acks=-1,
            timeout_ms=_REPLICAS_MS,
            topic_data=[ProduceRequestTopic(name=name, partition_data=parts) for name, parts in topics.items()],
        )
        timeout_s = _REPLICAS_MS / 1_000 + _SLACK_S
        answer = await self._calls.call(endpoint, message, ProduceResponse, lane=_LANE, timeout_s=timeout_s)
        said = {
            Partition(topic.name, each.index): each for topic in answer.responses for each in topic.partition_responses
        }
        missing = error_for(_LEFT_OUT, f"{_WHAT}: the answer leaves it out", node=str(endpoint))
        return [said.get(letter.partition, missing) for letter in letters]


# Merging small batches: a request takes one batch per partition only, so the waiting batches of a partition become one.
#
# Records keep their bytes except for their time and offset deltas. Only uncompressed batches without a producer are
# merged, so nothing is decoded beyond those fields. Source: Kafka protocol, record batch v2 (KIP-98).

_MOST_BYTES: Final = 256 << 10
"""Well below the brokers' default limit (1 MiB)."""
_MOST_RECORDS: Final = 2_000
_LENGTH_AFTER: Final = 12
_MAGIC: Final = 2


def _fits(header: BatchHeader) -> bool:
    """Whether a batch can be part of a larger one: uncompressed, without a producer, without offset gaps."""
    return (
        not header.attributes
        and header.producer_id < 0
        and header.record_count == header.last_offset_delta + 1
        and header.length <= _MOST_BYTES
    )


def count_that_fit(headers: Iterable[BatchHeader]) -> int:
    """How many of the first batches can be merged; at least 1."""
    count = size = records = 0
    for header in headers:
        size += header.length
        records += header.record_count
        if count and (not _fits(header) or size > _MOST_BYTES or records > _MOST_RECORDS):
            break
        count += 1
        if not _fits(header):
            break
    return max(count, 1)


def merged(batches: Iterable[tuple[BatchHeader, Buffer]]) -> bytearray:
    """One batch of all records, in order; the caller writes its checksum with its number. Raises CorruptBatch."""
    result = list(batches)
    first = result[0][0].base_timestamp
    out = bytearray(HEADER_BYTES)
    count = 0
    for header, data in result:
        plain = bytes(data)
        for record in _moved(header, plain, count, header.base_timestamp - first):
            out += record
        count += header.record_count
    newest = max(header.max_timestamp for header, _ in result)
    length = len(out) - _LENGTH_AFTER
    BATCH_HEADER.pack_into(out, 0, 0, length, -1, _MAGIC, 0, 0, count - 1, first, newest, -1, -1, -1, count)
    return out


def _moved(header: BatchHeader, data: bytes, offset: int, later: int) -> Iterator[bytes]:
    """The records of a batch, moved behind ``offset`` others and ``later`` ms after a new first time."""
    at, end = HEADER_BYTES, header.length
    for number in range(header.record_count):
        time, delta, rest, stop = read_record(data, at, end, header.base_offset)
        if delta != number:
            raise CorruptBatch(f"record {number} has offset delta {delta}", offset=header.base_offset)
        body = b"\0" + _varint(time + later) + _varint(delta + offset) + data[rest:stop]
        yield _varint(len(body)) + body
        at = stop


def _varint(value: int) -> bytes:
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


# The node's own producer: an id from the cluster, and an epoch.
#
# A partition's batches are numbered from 0 in each epoch. Giving up one batch in doubt ends the epoch for all
# partitions: once a batch of the next epoch is stored, the broker refuses any batch of the old epoch that still
# arrives. Source: KIP-98; KIP-360 (without transactions the producer raises its epoch by itself).

_HIGHEST: Final = 4
_NOT_YET: Final = 14
_FOR_EVER_MS: Final = (1 << 31) - 1


class Identity:
    """The producer identity of an enode; ``current`` has id -1 before the first batch."""

    def __init__(self, cluster: Cluster, new_promise: Callable[[], Promise[Any]]) -> None:
        self._cluster = cluster
        self._turns: Locks[str] = Locks(new_promise)
        self.current = NOT_IDEMPOTENT

    async def known(self) -> ProducerIdentity:
        """The current identity. Raises ConnectionLost, RequestTimeout, ServerError."""
        if self.current == NOT_IDEMPOTENT:
            await self.replace(NOT_IDEMPOTENT)
        return self.current

    async def replace(self, used: ProducerIdentity) -> None:
        """Get a new id from the cluster, unless ``used`` is not the current identity any more. Raises as ``known``."""
        async with self._turns.held("id"):
            if self.current == used:
                self.current = await new_producer(self._cluster)

    async def next_epoch(self, used: ProducerIdentity) -> None:
        """End the epoch of ``used``. Raises as ``known``, but only if the epochs are exhausted, which is rare."""
        if self.current != used:
            return
        if used.epoch >= LARGEST_EPOCH:
            await self.replace(used)
        else:
            self.current = ProducerIdentity(used.producer_id, used.epoch + 1)


async def new_producer(cluster: Cluster) -> ProducerIdentity:
    """A new producer id from the cluster. Raises ConnectionLost, RequestTimeout, ServerError."""
    message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_FOR_EVER_MS)
    answer = await cluster.ask_anyone(message, InitProducerIdResponse, at_most=_HIGHEST)
    if answer.error_code != NONE or answer.producer_id < 0:
        # A broker that has just started has no block of ids yet, and answers with any of several codes.
        raise error_for(_NOT_YET, "getting a producer id failed", detail=f"code {answer.error_code}")
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


# Appends: a queue per partition with one batch in flight, so that batches are stored in the order of the calls.
#
# Kafka keeps the order among several batches of one producer by their numbers, but not among producers, and fronts
# write for many producers. The queue goes on when its batch is stored or given up. Uncompressed batches without a
# producer that have gathered meanwhile go as one batch.
#
# A batch without a producer gets the node's own producer id and a number. This needs a copy, because the caller's bytes
# must not change. A batch with a producer id goes unchanged, and the cluster checks that producer's sequence. Both may
# be sent again for `PATIENCE_S` without being stored twice.
#
# | result for a batch of the node's own producer | reaction |
# | --- | --- |
# | retriable error, or no response | sent again unchanged: the broker recognises it by its number |
# | OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID | the broker lost its state: renumbered, in a new epoch |
# | INVALID_PRODUCER_EPOCH | the same, under a new id |
# | given up, and it may be stored | a new epoch, so that it cannot be stored after later batches |
# | anything else | refused; the next batch gets its number |

PATIENCE_S: Final = 20.0
"""A killed broker's partitions get other leaders after nine seconds; Kafka's producers wait for thirty."""

_PRODUCER: Final = struct.Struct(">qhi")  # producer id, epoch, base sequence
_PRODUCER_AT: Final = 43
_ATTRIBUTES: Final = struct.Struct(">h")  # the first that the checksum covers
_CRC_AT: Final = 17
_SEQUENCES: Final = 1 << 31
_OUT_OF_ORDER, _DUPLICATE, _INVALID_EPOCH, _UNKNOWN_PRODUCER = 45, 46, 47, 59
_NUMBERED_ANEW: Final = 5
_IN_DOUBT: Final = frozenset((-1, 7, 13, 20))
"""Codes of batches that may be stored all the same."""


class _Waiting(Struct, eq=False):
    data: Buffer
    header: BatchHeader
    promise: Promise[Appended | PenstockError]
    until_s: float
    identity: ProducerIdentity = NOT_IDEMPOTENT
    in_doubt: bool = False
    renumbered: int = 0

    @property
    def own(self) -> bool:
        return self.header.producer_id < 0


class _Line(Struct, eq=False):
    """A partition's queue; ``next`` is the next sequence number of the node's producer in ``identity``."""

    waiting: deque[_Waiting] = field(default_factory=deque)
    identity: ProducerIdentity = NOT_IDEMPOTENT
    next: int = 0
    moves: bool = False


class Writing:
    """Appends of an enode; each enode has one."""

    def __init__(self, asking: Asking, runtime: Runtime) -> None:
        self._asking = asking
        self._runtime = runtime
        self._couriers = ProduceBatcher(asking.cluster.calls, runtime)
        self._identity = Identity(asking.cluster, runtime.promise)
        self._lines: dict[Partition, _Line] = {}

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        """``penstock.interfaces.enode.Enode.append_all``; all batches are queued before the first await."""
        result = [self._put(partition, batch) for partition, batch in batches]
        return [each if isinstance(each, PenstockError) else await each for each in result]

    def _put(self, partition: Partition, batch: Batch) -> Promise[Appended | PenstockError] | PenstockError:
        try:
            checked = batch if isinstance(batch, ValidatedBatch) else ValidatedBatch(batch)
        except PenstockError as error:
            return as_log_says(error, partition)
        promise: Promise[Appended | PenstockError] = self._runtime.promise()
        line = self._lines.setdefault(partition, _Line())
        line.waiting.append(_Waiting(checked.data, checked.header, promise, self._runtime.monotonic() + PATIENCE_S))
        if not line.moves:
            line.moves = True
            self._runtime.spawn(self._move(partition, line), f"write to {partition.topic}-{partition.id}")
        return promise

    async def _move(self, partition: Partition, line: _Line) -> None:
        try:
            while line.waiting:
                count = count_that_fit(each.header for each in line.waiting)
                taken = [line.waiting[at] for at in range(count)]
                for each, outcome in zip(taken, await self._together(partition, line, taken), strict=True):
                    line.waiting.popleft()
                    each.promise.set(outcome)
        finally:
            line.moves = False

    async def _together(
        self, partition: Partition, line: _Line, taken: Sequence[_Waiting]
    ) -> list[Appended | PenstockError]:
        """The result of each batch; if the merged batch is refused, each one is sent alone."""
        if len(taken) > 1:
            try:
                data = merged((each.header, each.data) for each in taken)
            except PenstockError:
                pass  # one of them is corrupt: alone it gets its own error
            else:
                whole = _Waiting(data, parse_header(data), taken[0].promise, min(each.until_s for each in taken))
                stored = await self._stored(partition, line, whole)
                if not isinstance(stored, PenstockError):
                    return list(_parts(stored, taken))
                if isinstance(stored, UpstreamLost):
                    return [stored] * len(taken)
        return [await self._stored(partition, line, each) for each in taken]

    async def _stored(self, partition: Partition, line: _Line, batch: _Waiting) -> Appended | PenstockError:
        """Send the batch until it is stored or refused, or its time is over."""
        cluster = self._asking.cluster
        left_s = max(0.0, batch.until_s - self._runtime.monotonic())
        retry = Retry(cluster.calls.channel, _Patience(left_s), timeout_ms=left_s * 1_000)
        while True:
            try:
                return await self._once(partition, line, batch)
            except PenstockError as error:
                note_error(cluster, partition, error)
                batch.in_doubt |= _may_be_stored(error)
                try:
                    if batch.own and await self._numbered_anew(line, batch, error):
                        continue
                    if is_final(error) or not error.retriable:
                        raise
                    await retry.pause(error)
                except PenstockError as final:
                    await self._give_up(line, batch)
                    return as_log_says(final, partition)

    async def _once(self, partition: Partition, line: _Line, batch: _Waiting) -> Appended:
        """Send the batch once. Raises the broker's refusal, or the connection's error."""
        node = await self._asking.leader(partition)
        if batch.own and batch.identity == NOT_IDEMPOTENT:
            await self._number(line, batch)
        result = await self._couriers.send(node, partition, batch.data)
        if isinstance(result, PenstockError):
            raise result
        if result.error_code not in (NONE, _DUPLICATE):
            raise _refusal(partition, result, node.name)
        if batch.own:
            line.next = (line.next + batch.header.last_offset_delta + 1) % _SEQUENCES
        duplicate = result.error_code == _DUPLICATE
        last = -1 if result.base_offset < 0 else result.base_offset + batch.header.last_offset_delta
        return Stored(result.base_offset, last, result.log_append_time_ms, result.log_start_offset, duplicate)

    async def _number(self, line: _Line, batch: _Waiting) -> None:
        """Give the batch the next number of the current epoch. Raises if the cluster assigns no producer id."""
        current = await self._identity.known()
        if line.identity != current:
            line.identity, line.next = current, 0
        data = bytearray(batch.data)
        _PRODUCER.pack_into(data, _PRODUCER_AT, current.producer_id, current.epoch, line.next)
        # Brokers refuse a producer's batch that is marked with log append time; the topic decides which time applies.
        _ATTRIBUTES.pack_into(data, CRC_START, batch.header.attributes & ~APPEND_TIME)
        struct.pack_into(">I", data, _CRC_AT, crc32c(data, CRC_START))
        batch.data, batch.identity = data, current

    async def _numbered_anew(self, line: _Line, batch: _Waiting, error: PenstockError) -> bool:
        """Renumber the batch if the broker refused its number. Returns whether it did."""
        code = error.code if isinstance(error, ServerError) else None
        if code not in (_OUT_OF_ORDER, _INVALID_EPOCH, _UNKNOWN_PRODUCER) or batch.renumbered >= _NUMBERED_ANEW:
            return False
        if code == _INVALID_EPOCH:
            await self._identity.replace(batch.identity)
        else:
            await self._identity.next_epoch(batch.identity)
        batch.renumbered += 1
        batch.identity, batch.in_doubt = NOT_IDEMPOTENT, False
        return True

    async def _give_up(self, line: _Line, batch: _Waiting) -> None:
        if batch.own and batch.in_doubt:
            try:
                await self._identity.next_epoch(batch.identity)
            except PenstockError:
                line.identity = NOT_IDEMPOTENT


def _parts(stored: Appended, taken: Sequence[_Waiting]) -> Iterator[Stored]:
    """The offsets of each batch, computed from those of the merged batch."""
    base = stored.base_offset
    for each in taken:
        last = base + each.header.last_offset_delta
        yield Stored(base, last, stored.append_time_ms, stored.log_start_offset, stored.duplicate)
        base = last + 1


class _Patience(Struct, frozen=True):
    """``penstock.interfaces.channel.RetryLimits`` of one batch."""

    left_s: float
    retry_backoff_ms: int = 50
    retry_backoff_max_ms: int = 500

    @property
    def api_timeout_ms(self) -> int:
        return int(self.left_s * 1_000)

    def patience_ms(self, error: PenstockError) -> int:
        del error
        return self.api_timeout_ms


def _may_be_stored(error: PenstockError) -> bool:
    if isinstance(error, ServerError):
        return error.code in _IN_DOUBT
    return isinstance(error, ConnectionLost | RequestTimeout | ProtocolViolation)


def _refusal(partition: Partition, result: ProduceResponsePartition, node: str) -> ServerError:
    records = (f"record {each.batch_index}: {each.batch_index_error_message}" for each in result.record_errors)
    detail = "; ".join([result.error_message or "", *records]).strip("; ") or None
    return error_for(
        result.error_code, "writing failed", topic=partition.topic, partition=partition.id, node=node, detail=detail
    )
