"""Appends: one line a partition, one batch of it under way, so that batches are stored in the order of the calls.

Kafka keeps order among several batches of one producer by their numbers, but not among producers, and what fronts
write here is of many. A line goes on when the batch before is stored, or given up; what has gathered meanwhile goes as
one batch, where nobody numbered or compressed it (`merging`).

A batch without a producer gets the node's own, and a number: the one copy, because the caller's bytes are not ours to
change. One that comes with a producer's id goes as it is, and the cluster checks that producer's sequence. Both may be
sent again for `PATIENCE_S` without being stored twice.

| what happened to a batch of the node's own | what is done |
| --- | --- |
| retriable, or no answer | sent again as it is: the broker knows it by its number |
| OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID | the broker lost what was before: numbered anew, in a new epoch |
| INVALID_PRODUCER_EPOCH | the same, under a new id |
| given up, and it may be stored | a new epoch, so that it cannot be stored after what comes next |
| anything else | refused; its number is the next one's |

What must not live here: requests.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

from penstock._dataclasses import dataclass
from penstock.columnar.batch import APPEND_TIME, CRC_START, BatchHeader, parse_header
from penstock.columnar.buffers import crc32c
from penstock.columnar.checked import Checked
from penstock.errors import ConnectionLost, PenstockError, ProtocolViolation, RequestTimeout, ServerError, UpstreamLost
from penstock.model import Partition
from penstock.protocols.kafka.client.routing import note_error
from penstock.protocols.kafka.client.sequences import NOT_IDEMPOTENT, ProducerIdentity
from penstock.protocols.kafka.enode.asking import Asking
from penstock.protocols.kafka.enode.couriers import Couriers
from penstock.protocols.kafka.enode.identity import Identity
from penstock.protocols.kafka.enode.merging import count_that_fit, merged
from penstock.protocols.kafka.enode.refusals import as_log_says, is_final
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.produce import ProduceResponsePartition
from penstock.seams.enode import Appended, Batch, Stored
from penstock.seams.framing import Buffer
from penstock.seams.retry import Retry
from penstock.seams.runtime import Promise, Runtime

__all__ = ["Writing"]

PATIENCE_S: Final = 20.0
"""A broker that was killed is missed for nine seconds before its partitions have other leaders; Kafka's producers wait
for thirty."""

_PRODUCER: Final = struct.Struct(">qhi")  # producer id, epoch, base sequence
_PRODUCER_AT: Final = 43
_ATTRIBUTES: Final = struct.Struct(">h")  # the first that the checksum covers
_CRC_AT: Final = 17
_SEQUENCES: Final = 1 << 31
_OUT_OF_ORDER, _DUPLICATE, _INVALID_EPOCH, _UNKNOWN_PRODUCER = 45, 46, 47, 59
_NUMBERED_ANEW: Final = 5
_IN_DOUBT: Final = frozenset((-1, 7, 13, 20))
"""Codes of what may be stored all the same."""


@dataclass(eq=False, slots=True)
class _Waiting:
    data: Buffer
    header: BatchHeader
    told: Promise[Appended | PenstockError]
    until_s: float
    identity: ProducerIdentity = NOT_IDEMPOTENT
    in_doubt: bool = False
    renumbered: int = 0

    @property
    def own(self) -> bool:
        return self.header.producer_id < 0


@dataclass(eq=False, slots=True)
class _Line:
    """``next`` is the number of the next record of ours in ``identity``."""

    waiting: deque[_Waiting] = field(default_factory=deque)
    identity: ProducerIdentity = NOT_IDEMPOTENT
    next: int = 0
    moves: bool = False


class Writing:
    """One an enode."""

    def __init__(self, asking: Asking, runtime: Runtime) -> None:
        self._asking = asking
        self._runtime = runtime
        self._couriers = Couriers(asking.cluster.calls, runtime)
        self._identity = Identity(asking.cluster, runtime.promise)
        self._lines: dict[Partition, _Line] = {}

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        """``penstock.seams.enode.Enode.append_all``; all have their place in line before anything is waited for."""
        told = [self._put(partition, batch) for partition, batch in batches]
        return [each if isinstance(each, PenstockError) else await each for each in told]

    def _put(self, partition: Partition, batch: Batch) -> Promise[Appended | PenstockError] | PenstockError:
        try:
            checked = batch if isinstance(batch, Checked) else Checked(batch)
        except PenstockError as error:
            return as_log_says(error, partition)
        told: Promise[Appended | PenstockError] = self._runtime.promise()
        line = self._lines.setdefault(partition, _Line())
        line.waiting.append(_Waiting(checked.data, checked.header, told, self._runtime.monotonic() + PATIENCE_S))
        if not line.moves:
            line.moves = True
            self._runtime.spawn(self._move(partition, line), f"write to {partition.topic}-{partition.id}")
        return told

    async def _move(self, partition: Partition, line: _Line) -> None:
        try:
            while line.waiting:
                count = count_that_fit(each.header for each in line.waiting)
                taken = [line.waiting[at] for at in range(count)]
                for each, outcome in zip(taken, await self._together(partition, line, taken), strict=True):
                    line.waiting.popleft()
                    each.told.set(outcome)
        finally:
            line.moves = False

    async def _together(
        self, partition: Partition, line: _Line, taken: Sequence[_Waiting]
    ) -> list[Appended | PenstockError]:
        """What became of each; where they are refused as one batch, each gets its own try."""
        if len(taken) > 1:
            try:
                data = merged((each.header, each.data) for each in taken)
            except PenstockError:
                pass  # one of them is none: it is told by itself
            else:
                whole = _Waiting(data, parse_header(data), taken[0].told, min(each.until_s for each in taken))
                stored = await self._stored(partition, line, whole)
                if not isinstance(stored, PenstockError):
                    return list(_parts(stored, taken))
                if isinstance(stored, UpstreamLost):
                    return [stored] * len(taken)
        return [await self._stored(partition, line, each) for each in taken]

    async def _stored(self, partition: Partition, line: _Line, batch: _Waiting) -> Appended | PenstockError:
        """Send it until it is stored or refused, or its time is over."""
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
        """Raises what the broker, or the way to it, says."""
        node = await self._asking.leader(partition)
        if batch.own and batch.identity == NOT_IDEMPOTENT:
            await self._number(line, batch)
        told = await self._couriers.send(node, partition, batch.data)
        if isinstance(told, PenstockError):
            raise told
        if told.error_code not in (NONE, _DUPLICATE):
            raise _refusal(partition, told, node.name)
        if batch.own:
            line.next = (line.next + batch.header.last_offset_delta + 1) % _SEQUENCES
        duplicate = told.error_code == _DUPLICATE
        last = -1 if told.base_offset < 0 else told.base_offset + batch.header.last_offset_delta
        return Stored(told.base_offset, last, told.log_append_time_ms, told.log_start_offset, duplicate)

    async def _number(self, line: _Line, batch: _Waiting) -> None:
        """Give it the next number of the current epoch. Raises where the cluster gives no id."""
        current = await self._identity.known()
        if line.identity != current:
            line.identity, line.next = current, 0
        data = bytearray(batch.data)
        _PRODUCER.pack_into(data, _PRODUCER_AT, current.producer_id, current.epoch, line.next)
        # Brokers refuse a producer's batch that says its times are the log's; which they are is the topic's to say.
        _ATTRIBUTES.pack_into(data, CRC_START, batch.header.attributes & ~APPEND_TIME)
        struct.pack_into(">I", data, _CRC_AT, crc32c(data, CRC_START))
        batch.data, batch.identity = data, current

    async def _numbered_anew(self, line: _Line, batch: _Waiting, error: PenstockError) -> bool:
        """Whether the broker's word on numbers was the reason, and it gets another one."""
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
    """Where each of several batches is that were stored as one."""
    base = stored.base_offset
    for each in taken:
        last = base + each.header.last_offset_delta
        yield Stored(base, last, stored.append_time_ms, stored.log_start_offset, stored.duplicate)
        base = last + 1


@dataclass(frozen=True, slots=True)
class _Patience:
    """``penstock.seams.retry.RetryLimits`` of one batch."""

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


def _refusal(partition: Partition, told: ProduceResponsePartition, node: str) -> ServerError:
    records = (f"record {each.batch_index}: {each.batch_index_error_message}" for each in told.record_errors)
    detail = "; ".join([told.error_message or "", *records]).strip("; ") or None
    return error_for(
        told.error_code, "writing failed", topic=partition.topic, partition=partition.id, node=node, detail=detail
    )
