"""Offsets of queues (`find_offsets`), committed offsets of groups (`committed`, `commit`), and records that a group
gives back (`send_back`)."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.config.client import ClientLog
from penstock.errors import PenstockError, ProtocolViolation, ServerError, UsageError
from penstock.interfaces.channel import Retry
from penstock.interfaces.client import FoundOffset
from penstock.interfaces.framing import Buffer
from penstock.model import Committed, Endpoint, Node, Offset, OffsetSpec, Partition
from penstock.protocols.rocketmq.client.pulls import gone, pull, take
from penstock.protocols.rocketmq.config import RETRY
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import MAX_FRAME_BYTES
from penstock.protocols.rocketmq.wire.rpc import (
    CONSUMER_SEND_MSG_BACK,
    GET_ALL_CONSUMER_OFFSET,
    GET_MAX_OFFSET,
    GET_MIN_OFFSET,
    PULL_MESSAGE,
    QUERY_CONSUMER_OFFSET,
    SEARCH_OFFSET_BY_TIMESTAMP,
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    UPDATE_AND_CREATE_TOPIC,
    UPDATE_CONSUMER_OFFSET,
    Method,
)

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.shared import Shared
    from penstock.protocols.rocketmq.wire.message_format import StoredMessage

__all__ = ["bound", "by_node", "commit", "commit_for", "committed", "find_offsets", "make_group", "send_back"]

FIRST_5: Final = 413
"""The version number of servers of 5.0.0."""

_SYS_FLAG: Final = struct.Struct(">i")
_TIME: Final = struct.Struct(">q")
_SYS_FLAG_AT: Final = 36
_LONG_BORN_HOST: Final = 0x10
_STORE_TIME_AT: Final = (56, 68)


async def find_offsets(shared: Shared, wanted: Mapping[Partition, OffsetSpec]) -> dict[Partition, FoundOffset]:
    """Offsets by name or time, asked for concurrently. Raises ServerError, ConnectionLost, UsageError."""
    asked = [_find(shared, partition, spec) for partition, spec in wanted.items()]
    found = {}
    for partition, outcome in zip(wanted, await shared.channel.gather(asked), strict=True):
        if isinstance(outcome, BaseException):
            raise outcome
        found[partition] = outcome
    return found


async def bound(shared: Shared, node: Endpoint, partition: Partition, method: Method[m.OfQueue, m.FoundOffset]) -> int:
    """The first offset or the end of a queue. For a queue that was never written to, servers answer -1 or 0; it is 0
    here."""
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
    """The first offset in ``[first, end)`` that was stored at that time or later; ``end`` if there is none. Times of
    storing never decrease."""
    while first < end:
        middle = (first + end) // 2
        if await _stored_at(shared, node, partition, middle) < wanted_ms:
            first = middle + 1
        else:
            end = middle
    return first


async def _stored_at(shared: Shared, node: Endpoint, partition: Partition, offset: int) -> int:
    """When the message at an offset was stored. Raises OffsetOutOfRange if it is gone."""
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


# Committed offsets, which each broker keeps for its own queues.
#
# For a young queue in which a group has committed nothing, a broker of 4.9 answers 0; whether there is a commit, only
# the list of all offsets shows. A broker of 5.x refuses unknown groups (26): they are created, as a member's heartbeat
# would. Source: Apache RocketMQ 4.9 and 5.4, ``ConsumerManageProcessor``.
_LOG: Final = ClientLog("penstock.group")

T = TypeVar("T")


async def committed(shared: Shared, group: str, partitions: Collection[Partition] | None) -> dict[Partition, Committed]:
    """A group's offsets in those queues of ``partitions`` (None: of all) in which it has committed."""
    if partitions is None:
        nodes = await shared.topics.brokers()
        return _joined(await shared.together([_all_of(shared, node, group) for node in nodes]))

    async def once() -> dict[Partition, Committed]:
        nodes_of = await by_node(shared, partitions)
        return _joined(
            await shared.together([_those_of(shared, node, group, those) for node, those in nodes_of.items()])
        )

    return await _retried(shared, partitions, once)


async def commit(shared: Shared, group: str, offsets: Mapping[Partition, Committed]) -> None:
    """Commit offsets of a group. Raises ServerError."""

    async def once() -> None:
        nodes_of = await by_node(shared, offsets)
        await shared.together([_commit_at(shared, node, group, those, offsets) for node, those in nodes_of.items()])

    await _retried(shared, offsets, once)


async def commit_for(shared: Shared, group: str, offsets: Mapping[Partition, Committed]) -> None:
    """As ``commit``, for a client that is no member: the first time, it also makes the group visible."""
    await commit(shared, group, offsets)
    if group not in shared.shown:
        await _show(shared, group, offsets)
        shared.shown.add(group)


async def _show(shared: Shared, group: str, partitions: Collection[Partition]) -> None:
    """Make a group without members visible to operators' tools: they look for it where its retry topic is, which
    brokers create for a group's first member. If that fails, the offsets are valid all the same."""
    topic = RETRY + group
    header = m.CreateTopic(topic=topic, read_queue_nums=1, write_queue_nums=1)
    try:
        if topic in await shared.topics.topics([topic]):
            return
        for node in await by_node(shared, partitions):
            await shared.calls.call(node.endpoint, UPDATE_AND_CREATE_TOPIC, header)
    except PenstockError as error:
        _LOG.info("group %s is not made known to those who look for it by its retry topic: %s", group, error)


async def make_group(shared: Shared, node: Node, group: str) -> None:
    """Create a group at a broker."""
    body = m.SubscriptionGroupConfig(group_name=group)
    await shared.calls.call(node.endpoint, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, m.NoFields(), body)


async def by_node(shared: Shared, partitions: Iterable[Partition]) -> dict[Node, list[Partition]]:
    """Queues by broker. Raises ServerError for a queue without one."""
    found: dict[Node, list[Partition]] = {}
    for partition in partitions:
        found.setdefault(await shared.topics.leader(partition), []).append(partition)
    return found


async def _retried(shared: Shared, partitions: Iterable[Partition], once: Callable[[], Awaitable[T]]) -> T:
    retry = Retry(shared.channel, shared.options)
    while True:
        try:
            return await once()
        except PenstockError as error:
            for partition in partitions if error.retriable else ():
                shared.topics.routing.distrust(partition)
            await retry.after(error)


async def _those_of(shared: Shared, node: Node, group: str, asked: Sequence[Partition]) -> dict[Partition, Committed]:
    requests = [
        shared.calls.request(
            QUERY_CONSUMER_OFFSET,
            m.QueryConsumerOffset(
                consumer_group=group,
                topic=partition.topic,
                queue_id=partition.id,
                set_zero_if_not_found=False,
                broker_name=partition.node,
            ),
        )
        for partition in asked
    ]
    found: dict[Partition, Committed] = {}
    doubtful = False
    started = await shared.calls.start(node.endpoint, QUERY_CONSUMER_OFFSET, requests)
    for partition, each in zip(asked, started, strict=True):
        try:
            answer = await each.answer(of=partition)
        except ServerError as error:
            if error.code != Code.QUERY_NOT_FOUND:
                raise
            continue
        found[partition] = Committed(answer.header.offset)
        doubtful |= answer.command.version < FIRST_5 and not answer.header.offset
    if doubtful:
        really = await _all_of(shared, node, group)
        found = {partition: each for partition, each in found.items() if each.offset or partition in really}
    return found


async def _all_of(shared: Shared, node: Node, group: str) -> dict[Partition, Committed]:
    answer = await shared.calls.call(node.endpoint, GET_ALL_CONSUMER_OFFSET, m.NoFields())
    table = m.read_body(m.ConsumerOffsets, answer.body, max_bytes=MAX_FRAME_BYTES).offset_table
    found: dict[Partition, Committed] = {}
    for name, offsets in table.items():
        topic, _, of_group = name.partition("@")
        if of_group == group:
            found |= {Partition(topic, number, node.name): Committed(offset) for number, offset in offsets.items()}
    return found


async def _commit_at(
    shared: Shared, node: Node, group: str, those: Sequence[Partition], offsets: Mapping[Partition, Committed]
) -> None:
    try:
        await _update(shared, node, group, those, offsets)
    except ServerError as error:
        if error.code != Code.SUBSCRIPTION_GROUP_NOT_EXIST:
            raise
        await make_group(shared, node, group)
        await _update(shared, node, group, those, offsets)


async def _update(
    shared: Shared, node: Node, group: str, those: Sequence[Partition], offsets: Mapping[Partition, Committed]
) -> None:
    requests = [
        shared.calls.request(
            UPDATE_CONSUMER_OFFSET,
            m.UpdateConsumerOffset(
                consumer_group=group,
                topic=partition.topic,
                queue_id=partition.id,
                commit_offset=offsets[partition].offset,
                broker_name=partition.node,
            ),
        )
        for partition in those
    ]
    started = await shared.calls.start(node.endpoint, UPDATE_CONSUMER_OFFSET, requests)
    for partition, each in zip(those, started, strict=True):
        await each.answer(of=partition)


def _joined(found: Iterable[dict[Partition, Committed]]) -> dict[Partition, Committed]:
    return {partition: offset for each in found for partition, offset in each.items()}


# Sending back: records that a group failed on are redelivered to it later, while the others continue.
#
# A broker finds a message by its place in the commit log, which records do not contain, so each message is read once
# more. The broker puts it into the group's retry topic after a while, or among the dead letters once the group's limit
# of attempts is reached. Source: Apache RocketMQ 4.9 and 5.4, ``DefaultMQPushConsumerImpl.sendMessageBack``,
# ``SendMessageProcessor``.
_AT_ONCE: Final = 32
_PATIENCE_MS: Final = 10_000
_LEVELS: Final = range(-1, 19)


async def send_back(shared: Shared, group: str, offsets: Mapping[Partition, Sequence[int]], level: int) -> None:
    """Give records back, those of one queue in order. Raises UsageError for an unknown level, OffsetOutOfRange for
    records that are gone, ServerError."""
    if level not in _LEVELS:
        raise UsageError(
            f"the delay is {level}, RocketMQ has levels 1 to 18, 0 for a longer one each time, -1 for no other attempt"
        )
    for partition, those in offsets.items():
        for begin in range(0, len(those), _AT_ONCE):
            await _some(shared, group, partition, those[begin : begin + _AT_ONCE], level)


async def _some(shared: Shared, group: str, partition: Partition, offsets: Sequence[int], level: int) -> None:
    left = list(offsets)
    retry = Retry(shared.channel, shared.options, timeout_ms=min(_PATIENCE_MS, shared.options.api_timeout_ms))
    while left:
        try:
            node = await shared.topics.leader(partition)
            requests = [pull(shared.calls, partition, each, 1, held=False, everything=True) for each in left]
            started = await shared.calls.start(node.endpoint, PULL_MESSAGE, requests)
            found = [
                _message((await take(each, partition, offset)).body, partition, offset)
                for offset, each in zip(left, started, strict=True)
            ]
            for message in found:
                header = _header(shared, group, partition, message, level)
                await shared.calls.call(node.endpoint, CONSUMER_SEND_MSG_BACK, header, of=partition)
                left.pop(0)
        except PenstockError as error:
            if error.retriable:
                shared.topics.routing.distrust(partition)
            await retry.after(error)


def _message(body: Buffer, partition: Partition, offset: int) -> StoredMessage:
    from penstock.protocols.rocketmq.wire.message_format import read_stored

    found = next((each for each in read_stored(body, check_crcs=False) if each.queue_offset == offset), None)
    if found is None:
        raise gone(partition, f"there is no message at {offset} any more", offset, "Retention deleted it")
    return found


def _header(shared: Shared, group: str, partition: Partition, message: StoredMessage, level: int) -> m.SendBack:
    properties = message.property_map
    most = shared.options.rocket.max_reconsume_times
    return m.SendBack(
        offset=message.physical_offset,
        group=group,
        delay_level=level,
        origin_msg_id=properties.get("UNIQ_KEY"),
        origin_topic=properties.get("RETRY_TOPIC", message.topic),
        unit_mode=False,
        max_reconsume_times=most if most >= 0 else None,
        broker_name=partition.node,
    )
