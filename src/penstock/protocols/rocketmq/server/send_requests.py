"""Handlers of producers' requests: sends (10, 310, 320), send-backs by consumers (36) and ends of transactions (37)."""

from __future__ import annotations

import logging
import re
from functools import lru_cache, partial
from importlib import import_module
from typing import Final

from msgspec.structs import replace

from penstock.concurrency.runtime import Runtime
from penstock.errors import PenstockError
from penstock.interfaces.enode import Appended, Batch, Enode, TopicState
from penstock.interfaces.framing import Buffer
from penstock.model import Partition
from penstock.protocols.rocketmq.config import DEAD_LETTER, RETRY, UNWRITABLE
from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.protocols.rocketmq.kernels.interface import KIND_OF, Kind
from penstock.protocols.rocketmq.server.call import Call, Reply
from penstock.protocols.rocketmq.server.cluster import Cluster
from penstock.protocols.rocketmq.server.group_requests import made_group
from penstock.protocols.rocketmq.server.ledger import WRITE
from penstock.protocols.rocketmq.server.parked_messages import header_of, record_at
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.log_records import dated, number_of, record_of, rocket_name
from penstock.protocols.rocketmq.wire.message_format import count_of, read_batch
from penstock.protocols.rocketmq.wire.properties import (
    BORN_HOST,
    CLOSE_MS,
    FLAG,
    NOT_KEPT,
    RECONSUMED,
    parse_properties,
)
from penstock.records.scalar_codec import Stored, encode_batch, encode_one, header_name
from penstock.records.scalar_writer import varint
from penstock.records.validation import ValidatedBatch, recompressed, target_of

__all__ = ["Writing", "encode_message", "end_transaction", "send", "send_back"]

_BATCH: Final = 320
_COMPRESSED: Final = 0x1
_TRANSACTION: Final = 0xC
_PREPARED: Final = 0x4
_MOST_PROPERTIES: Final = 32_767
_DELAY: Final = "DELAY"
_JAVA_INT: Final = re.compile(r"[+-]?\d{1,100}")
"""What Java's ``Integer.parseInt`` accepts, if the value is an int: digits of any script, no blanks."""
_NO_LEVEL: Final = "DELAY has to be the number of a delay level"
_RATIO: Final = 16
_MOST_MESSAGES: Final = 50_000
_QUICK_BYTES: Final = 32 << 10
_QUICK_MESSAGES: Final = 2_000
"""A message of a batch takes about five microseconds to read. Up to this many are read on the event loop."""


async def send(call: Call, request: m.SendMessage) -> Reply:
    """Serve send message, and its forms."""
    shared = call.shared
    name = _destination(call, request)
    topic = await shared.cluster.written(name, request.default_topic, request.default_topic_queue_nums)
    _allowed(call, topic)
    queue = _queue(call, topic, request)
    properties = _properties(call, request)
    level = _level(call, request)
    prepared = request.sys_flag & _TRANSACTION == _PREPARED
    # Most sends are one message whose batch can be written from its bytes. A topic's settings may ask for more.
    usual = not (topic.config or prepared or level > 0)
    batch = _batch(call, request, properties) if usual else None
    records = [] if batch is not None else await _records(call, request, properties)
    if prepared or level > 0:
        return await _later(call, name, queue, records[0], 0 if prepared else level)
    # Look the place up before the message is stored: an error after that would make the client send it again.
    place = await shared.places.base(topic, queue)
    partition = Partition(topic.name, queue)
    if batch is not None:
        return Reply(_sent(call, place, queue, (await shared.writing.write(partition, batch)).base_offset, 1))
    first = (await shared.writing.append(topic, partition, records)).base_offset
    if len(records) > _QUICK_MESSAGES:
        # The response names each message, so a long one takes a turn of the event loop.
        await shared.turns.take(len(records) // 4)
    return Reply(_sent(call, place, queue, first, len(records)))


async def _later(call: Call, topic: str, queue: int, record: Stored, level: int) -> Reply:
    """Park a message until its time or, if ``level`` is 0, until its producer's decision; the response names where."""
    shared = call.shared
    waits = shared.delays if level else shared.transactions
    number = shared.delays.number(level) if level else 0
    place = await shared.places.base(await waits.topic.made(), number)
    if level:
        first = await shared.delays.park(level, topic, queue, record)
    else:
        first = await shared.transactions.prepare(topic, queue, record)
    said = _sent(call, place, queue, first, 1)
    return Reply(said if level else replace(said, transaction_id=header_of(record, "UNIQ_KEY") or None))


def _sent(call: Call, place: int, queue: int, first: int, count: int) -> m.Sent:
    """The response's header; ``place`` is the place of the partition's first offset."""
    cluster = call.shared.cluster
    ids = cluster.message_id(place | first)
    if count > 1:
        ids = ",".join([ids, *(cluster.message_id(place | first + row) for row in range(1, count))])
    return m.Sent(msg_id=ids, queue_id=queue, queue_offset=first)


def _destination(call: Call, request: m.SendMessage) -> str:
    """The topic; the dead letter topic for a message that was redelivered too often. Raises Refused."""
    name = request.topic
    if name in UNWRITABLE:
        raise Refused(Code.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden.")
    if name.startswith(RETRY):
        group = name.removeprefix(RETRY)
        most = request.max_reconsume_times
        if (request.reconsume_times or 0) >= (call.shared.retries(group) if most is None else most):
            return f"{DEAD_LETTER}{group}"
    return name


def _queue(call: Call, topic: TopicState, request: m.SendMessage) -> int:
    """The queue; a random writable one if the request names none. Raises Refused."""
    queue, has = request.queue_id, call.shared.settings.queues(topic)
    if queue < 0 and has.write:
        return int.from_bytes(call.shared.services.runtime.random_bytes(4), "big") % has.write
    if not 0 <= queue < has.most:
        raise Refused(
            Code.INVALID_PARAMETER,
            f"request queueId[{queue}] is illegal, {request.topic} has {has.write} queues to write to",
        )
    return queue


def _allowed(call: Call, topic: TopicState) -> None:
    """Refuse ordered topics while the broker is not writable. Producers of other topics see the permission in the route
    and decide themselves. Raises Refused."""
    settings = call.shared.settings
    if not settings.perm & WRITE and settings.topic(topic).order:
        raise Refused(Code.NO_PERMISSION, f"the broker[{call.shared.cluster.broker}] sending message is forbidden")


def _level(call: Call, request: m.SendMessage) -> int:
    """The delay level; 0 or less means no delay. Raises Refused.

    In a batch only the request's own properties count, not those of its messages; and a batch cannot be delayed.
    """
    properties = request.properties or ""
    text = parse_properties(properties).get(_DELAY, "0") if _DELAY in properties else "0"
    level = int(text) if _JAVA_INT.fullmatch(text) else None
    if level is None or not -(1 << 31) <= level < 1 << 31:
        raise Refused(
            Code.SYSTEM_ERROR, f'java.lang.NumberFormatException: For input string: "{text[:100]}": {_NO_LEVEL}'
        )
    if level > 0 and _is_batch(call, request):
        raise Refused(Code.MESSAGE_ILLEGAL, "a batch cannot be delayed: send its messages one by one")
    return level


def _is_batch(call: Call, request: m.SendMessage) -> bool:
    return call.asked.code == _BATCH or bool(request.batch)


def _properties(call: Call, request: m.SendMessage) -> bytes:
    """The properties, once they and the body are found to be within their limits. Raises Refused."""
    size, most = len(call.asked.body), call.shared.options.max_message_bytes
    if size > most:
        raise Refused(Code.MESSAGE_ILLEGAL, f"message body length over max value, {size} > {most}")
    text = request.properties or ""
    properties = text.encode()
    if len(properties) > _MOST_PROPERTIES:
        raise Refused(
            Code.MESSAGE_ILLEGAL, f"message properties length over max value, {len(properties)} > {_MOST_PROPERTIES}"
        )
    if "TIMER_DEL" in text and not _is_batch(call, request):
        raise Refused(Code.MESSAGE_ILLEGAL, "timer messages are not served, delays by level are")
    return properties


def _batch(call: Call, request: m.SendMessage, properties: bytes) -> ValidatedBatch | None:
    """The batch of a request with one plain message; None if it has to be made of `_records`."""
    if _is_batch(call, request) or request.sys_flag & _COMPRESSED or (request.reconsume_times or 0) > 0:
        return None
    now_ms = call.shared.now_ms
    born_ms = request.born_timestamp if request.born_timestamp > 0 else now_ms
    return encode_message(properties, bytes(call.asked.body), born_ms, request.flag, now_ms, call.line.born_host)


async def _records(call: Call, request: m.SendMessage, properties: bytes) -> list[Stored]:
    """The messages of a request as records. Raises Refused, ProtocolViolation, CorruptBatch."""
    asked = call.asked
    born_ms = request.born_timestamp if request.born_timestamp > 0 else call.shared.now_ms
    if _is_batch(call, request):
        if len(asked.body) <= _QUICK_BYTES or _count(asked.body) < _QUICK_MESSAGES:
            return _batched(call, born_ms)
        return await call.shared.background.run(partial(_batched, call, born_ms), _RATIO * len(asked.body))
    body = bytes(asked.body)
    if request.sys_flag & _COMPRESSED:
        body = await call.shared.background.run(partial(_inflated, body, request.sys_flag), _RATIO * len(body))
    return [
        record_of(
            body,
            properties,
            born_ms,
            call.shared.now_ms,
            flag=request.flag,
            reconsumed=max(request.reconsume_times or 0, 0),
            born_host=call.line.born_host,
        )
    ]


def _count(body: Buffer) -> int:
    return count_of(memoryview(body), _QUICK_MESSAGES)


def _batched(call: Call, born_ms: int) -> list[Stored]:
    now_ms = call.shared.now_ms
    records = [
        record_of(body, properties, born_ms, now_ms, flag=flag, born_host=call.line.born_host)
        for flag, body, properties in read_batch(memoryview(call.asked.body))
    ]
    if not records:
        raise Refused(Code.MESSAGE_ILLEGAL, "a batch without a message")
    if len(records) > _MOST_MESSAGES:  # the response's header names each of them, and headers are bounded
        raise Refused(Code.MESSAGE_ILLEGAL, f"a batch of {len(records)} messages; {_MOST_MESSAGES} are allowed")
    return records


def _inflated(body: bytes, sys_flag: int) -> bytes:
    """Runs in a thread, because decompression imports Arrow."""
    plain: bytes = import_module("penstock.protocols.rocketmq.wire.message_format").inflated(body, sys_flag)
    return plain


# Send-back (36): a message that a consumer failed on is delivered again later, to its group only, and in the end
# becomes a dead letter. Source: Apache RocketMQ 4.9 and 5.x, ``AbstractSendMessageProcessor.consumerSendMsgBack``.
_FIRST_LEVEL: Final = 3
_SAYS_HOW_OFTEN_FROM: Final = 121


async def send_back(call: Call, request: m.SendBack) -> Reply:
    """Serve consumer send message back."""
    shared = call.shared
    made_group(call, request.group)
    if not shared.settings.perm & WRITE:
        raise Refused(Code.NO_PERMISSION, f"the broker[{shared.cluster.broker}] sending message is forbidden")
    queues = shared.settings.retry_queues(request.group)
    if not queues:  # as at brokers: no retry queues means no redelivery
        return Reply()
    found = await shared.places.find(request.offset)
    record = None if found is None else await record_at(shared.enode, *found)
    if found is None or record is None:
        raise Refused(Code.SYSTEM_ERROR, f"look message by offset failed, {request.offset}")
    before = number_of(record, RECONSUMED)
    most = request.max_reconsume_times if call.asked.version >= _SAYS_HOW_OFTEN_FROM else None
    dead = before >= (shared.retries(request.group) if most is None else most) or request.delay_level < 0
    again = _again(call, record, found[0], request.offset, before + 1)
    if dead:
        await shared.cluster.ensure(f"{DEAD_LETTER}{request.group}", 1)
        await shared.writing.deliver(f"{DEAD_LETTER}{request.group}", 0, again)
    else:
        retry = f"{RETRY}{request.group}"
        topic = await shared.cluster.ensure(retry, queues)
        queue = request.offset % min(queues, topic.partitions)
        await shared.delays.park(request.delay_level or _FIRST_LEVEL + before, retry, queue, again)
    return Reply()


def _again(call: Call, record: Stored, partition: Partition, place: int, times: int) -> Stored:
    """The record in the form of its next delivery."""
    headers = [pair for pair in record.headers if pair[0] not in {RECONSUMED, "DELAY", "REAL_TOPIC", "REAL_QID"}]
    names = {name for name, _ in headers}
    if "RETRY_TOPIC" not in names:
        headers.append(("RETRY_TOPIC", rocket_name(partition.topic).encode()))
    if "ORIGIN_MESSAGE_ID" not in names:
        headers.append(("ORIGIN_MESSAGE_ID", call.shared.cluster.message_id(place).encode()))
    headers.append((RECONSUMED, b"%d" % times))
    return record._replace(headers=tuple(headers))


# Source: Apache RocketMQ 4.9 and 5.x, ``EndTransactionProcessor``.
async def end_transaction(call: Call, request: m.EndTransaction) -> Reply:
    """Serve end transaction. Clients send it one-way; if it gets lost, the node asks the producer again."""
    shared = call.shared
    found = await shared.places.find(request.commit_log_offset)
    if found is None or found[1] != request.tran_state_table_offset:
        raise Refused(Code.SYSTEM_ERROR, "The transaction state table offset wrong")
    await shared.transactions.end(*found, request.commit_log_offset, request.producer_group, request.commit_or_rollback)
    return Reply()


# Writing records: what a producer sends now, and parked messages whose time has come.
_QUICK_RECORDS: Final = 2_000

_log = logging.getLogger("penstock.node")


class Writing:
    """Appends records to the log; one per front."""

    def __init__(self, enode: Enode, runtime: Runtime, cluster: Cluster) -> None:
        self._enode = enode
        self._runtime = runtime
        self._cluster = cluster

    async def append(self, topic: TopicState, partition: Partition, records: list[Stored]) -> Appended:
        """Write records as one batch, compressed as the topic's settings want. Raises Refused, StoreError."""
        # The node has encoded this batch itself, so its header needs no check.
        if len(records) <= _QUICK_RECORDS:
            batch = ValidatedBatch(encode_batch(records))
        else:
            batch = await self._runtime.in_thread(lambda: ValidatedBatch(encode_batch(records)))
        if topic.config:
            if "compact" in topic.config.get("cleanup.policy", "") and any(record.key is None for record in records):
                raise Refused(Code.MESSAGE_ILLEGAL, f"topic[{topic.name}] is compacted, its messages need keys")
            target = target_of(topic.config)
            if target is not None and not target.meets(batch.data):
                plain = batch.data
                batch = await self._runtime.in_thread(lambda: ValidatedBatch(recompressed(plain, target, len(plain))))
        return await self.write(partition, batch)

    async def write(self, partition: Partition, batch: Batch) -> Appended:
        """Write a batch as it is. Raises StoreError."""
        (result,) = await self._enode.append_all(((partition, batch),))
        if isinstance(result, PenstockError):
            raise result
        return result

    async def deliver(self, name: str, queue: int, record: Stored) -> None:
        """Write a parked record. If its topic is gone by now, the record is dropped with a warning."""
        if name.startswith((RETRY, DEAD_LETTER)) or name in UNWRITABLE:
            topic: TopicState | None = await self._cluster.ensure(name, 1)
        else:
            topic = await self._cluster.topic(name)
        if topic is None:
            _log.warning("a message that waited for topic %s is dropped: there is no such topic any more", name)
            return
        partition = Partition(topic.name, queue % topic.partitions)
        try:
            await self.append(topic, partition, [dated(record, self._runtime.now_ms())])
        except Refused as error:
            _log.warning("a message that waited for topic %s is dropped: %s", name, error)


# The batch of one plain message, built without intermediate objects: properties become headers one by one.
#
# Anything unusual (properties that stand for others, a birth time of their own, names that are not text) is left to
# `wire/log_records.record_of` and `encode_batch`, which write the same bytes and take ten microseconds more.
_KEPT: Final = 4_096
"""How many names are cached. In practice there are about thirty, unless a client makes names up."""
_LONGEST_NAME: Final = 64
_FLAG: Final = header_name(FLAG)
_BORN_HOST: Final = header_name(BORN_HOST)
_KEY: Final = b"KEYS"
_LEFT_OUT: Final = b""

_names: Final[dict[bytes, bytes | None]] = {}
"""The encoded start of each name's header; empty for a name that is not kept, None for an unusual one."""


def encode_message(
    properties: bytes, body: bytes, born_ms: int, flag: int, now_ms: int, born_host: str = ""
) -> ValidatedBatch | None:
    """The batch that `wire/log_records.record_of` and `encode_batch` would make; None if they have to make it."""
    if not -CLOSE_MS <= born_ms - now_ms <= CLOSE_MS:
        return None
    key: bytes | None = None
    headers: list[bytes] = []
    for entry in properties.split(b"\x02"):
        name, _, value = entry.partition(b"\x01")
        if not name or not value:
            continue
        begin = _names[name] if name in _names else _begin_of(name)
        if begin is None:
            return None
        if begin:
            headers.append(b"%b%b%b" % (begin, varint(len(value)), value))
        elif name == _KEY:
            key = value
    if flag:
        value = b"%d" % flag
        headers.append(b"%b%b%b" % (_FLAG, varint(len(value)), value))
    if born_host:
        headers.append(_host_header(born_host))
    return encode_one(key, body, headers, born_ms)


@lru_cache(4_096)
def _host_header(born_host: str) -> bytes:
    value = born_host.encode()
    return b"%b%b%b" % (_BORN_HOST, varint(len(value)), value)


def _begin_of(name: bytes) -> bytes | None:
    if len(name) > _LONGEST_NAME or len(_names) >= _KEPT:
        return None
    begin: bytes | None = None
    if KIND_OF.get(name) != Kind.CODED and name.isascii():
        text = name.decode()
        begin = _LEFT_OUT if text in NOT_KEPT else header_name(text)
    _names[name] = begin
    return begin
