"""Offsets: where queues begin and end, and which message was stored first at or after a time.

Brokers search by the time of storing. Those of 5.x answer with the first message that is not earlier; those of 4.9 with
the nearest one, and of several of one millisecond with any: there we look for ourselves, message by message, in halves.
Source: Apache RocketMQ 4.9 and 5.4, ``AdminBrokerProcessor``, ``ConsumeQueue.getOffsetInQueueByTime``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError, ProtocolViolation, UsageError
from penstock.model import Endpoint, Offset, OffsetSpec, Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.client.pulls import pull, take
from penstock.protocols.rocketmq.methods import (
    GET_MAX_OFFSET,
    GET_MIN_OFFSET,
    PULL_MESSAGE,
    SEARCH_OFFSET_BY_TIMESTAMP,
    Method,
)
from penstock.seams.client import FoundOffset
from penstock.seams.retry import Retry

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.shared import Shared

__all__ = ["bound", "find_offsets"]

FIRST_5: Final = 413
"""The version that servers of 5.0.0 say they are."""

_SYS_FLAG: Final = struct.Struct(">i")
_TIME: Final = struct.Struct(">q")
_SYS_FLAG_AT: Final = 36
_LONG_BORN_HOST: Final = 0x10
_STORE_TIME_AT: Final = (56, 68)


async def find_offsets(shared: Shared, wanted: Mapping[Partition, OffsetSpec]) -> dict[Partition, FoundOffset]:
    """Answers in any order. Raises ServerError, ConnectionLost, UsageError."""
    asked = [_find(shared, partition, spec) for partition, spec in wanted.items()]
    found = {}
    for partition, outcome in zip(wanted, await shared.channel.gather(asked), strict=True):
        if isinstance(outcome, BaseException):
            raise outcome
        found[partition] = outcome
    return found


async def bound(shared: Shared, node: Endpoint, partition: Partition, method: Method[m.OfQueue, m.FoundOffset]) -> int:
    """Where a queue begins, or ends. A queue that was never written to has neither, which is told as -1 or 0."""
    header = m.OfQueue(topic=partition.topic, queue_id=partition.id, broker_name=partition.node)
    answer = await shared.calls.call(node, method, header, of=partition)
    return max(answer.header.offset, 0)


async def _find(shared: Shared, partition: Partition, spec: OffsetSpec) -> FoundOffset:
    partition = shared.topics.routes.resolve(partition)
    retry = Retry(shared.channel, shared.options)
    while True:
        try:
            return await _find_once(shared, partition, spec)
        except PenstockError as error:
            if error.retriable:
                shared.topics.routing.distrust(partition)
            await retry.after(error)


async def _find_once(shared: Shared, partition: Partition, spec: OffsetSpec) -> FoundOffset:
    node = (await shared.topics.leader(partition)).endpoint
    if spec.timestamp_ms is not None:
        return await _by_time(shared, node, partition, spec.timestamp_ms)
    if spec.name is Offset.EARLIEST:
        return FoundOffset(await bound(shared, node, partition, GET_MIN_OFFSET))
    if spec.name is Offset.LATEST:
        return FoundOffset(await bound(shared, node, partition, GET_MAX_OFFSET))
    raise UsageError("an offset is asked for neither by name nor by time", topic=partition.topic)


async def _by_time(shared: Shared, node: Endpoint, partition: Partition, wanted_ms: int) -> FoundOffset:
    first = await bound(shared, node, partition, GET_MIN_OFFSET)
    end = await bound(shared, node, partition, GET_MAX_OFFSET)
    if first >= end:
        return FoundOffset(-1)
    header = m.SearchOffset(
        topic=partition.topic, queue_id=partition.id, timestamp=wanted_ms, broker_name=partition.node
    )
    answer = await shared.calls.call(node, SEARCH_OFFSET_BY_TIMESTAMP, header, of=partition)
    offset = answer.header.offset
    if answer.command.version < FIRST_5:
        offset = await _in_halves(shared, node, partition, wanted_ms, first, end)
    if not first <= offset < end:
        return FoundOffset(-1)
    stored_ms = await _stored_at(shared, node, partition, offset)
    return FoundOffset(offset, stored_ms) if stored_ms >= wanted_ms else FoundOffset(-1)


async def _in_halves(shared: Shared, node: Endpoint, partition: Partition, wanted_ms: int, first: int, end: int) -> int:
    """The first offset in ``[first, end)`` that was not stored before; ``end`` if there is none. Times never go
    back."""
    while first < end:
        middle = (first + end) // 2
        if await _stored_at(shared, node, partition, middle) < wanted_ms:
            first = middle + 1
        else:
            end = middle
    return first


async def _stored_at(shared: Shared, node: Endpoint, partition: Partition, offset: int) -> int:
    """When the message at an offset was stored. Raises OffsetOutOfRange where it is not there any more."""
    request = pull(shared.calls, partition, offset, 1, held=False, everything=True)
    (started,) = await shared.calls.start(node, PULL_MESSAGE, [request])
    got = await take(started, partition, offset)
    at = _STORE_TIME_AT[0]
    if len(got.body) > _STORE_TIME_AT[1] + _TIME.size:
        at = _STORE_TIME_AT[bool(_SYS_FLAG.unpack_from(got.body, _SYS_FLAG_AT)[0] & _LONG_BORN_HOST)]
    if len(got.body) < at + _TIME.size:
        raise ProtocolViolation("a message that is none", topic=partition.topic, partition=partition.id, offset=offset)
    found: int = _TIME.unpack_from(got.body, at)[0]
    return found
