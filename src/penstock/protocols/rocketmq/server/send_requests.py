"""Handlers of producers' requests: sends (10, 310, 320), send-backs by consumers (36) and ends of transactions (37)."""

from __future__ import annotations

import re
from functools import partial
from importlib import import_module
from typing import Final

from msgspec.structs import replace

from penstock.interfaces.enode import TopicState
from penstock.interfaces.framing import Buffer
from penstock.model import Partition
from penstock.protocols.rocketmq.config import DEAD_LETTER, RETRY, UNWRITABLE
from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.protocols.rocketmq.server.call import Call, Reply
from penstock.protocols.rocketmq.server.group_requests import made_group
from penstock.protocols.rocketmq.server.ledger import WRITE
from penstock.protocols.rocketmq.server.log_access import sent_answer
from penstock.protocols.rocketmq.server.parked_messages import header_of, record_at
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.log_records import number_of, record_of, rocket_name
from penstock.protocols.rocketmq.wire.message_format import offset_id
from penstock.protocols.rocketmq.wire.properties import RECONSUMED, parse_properties
from penstock.records.scalar_codec import Stored

__all__ = ["end_transaction", "send", "send_back"]

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


async def send(call: Call, request: m.SendMessage) -> Reply | bytes:
    """Serve send message, and its forms."""
    shared = call.shared
    name = _destination(call, request)
    topic = await shared.cluster.written(name, request.default_topic, request.default_topic_queue_nums)
    _allowed(call, topic)
    queue = _queue(call, topic, request)
    records = await _records(call, request)
    level = _level(call, request)
    prepared = request.sys_flag & _TRANSACTION == _PREPARED
    if prepared or level > 0:
        return await _later(call, name, queue, records[0], 0 if prepared else level)
    # Look the place up before the message is stored: an error after that would make the client send it again.
    place = await shared.places.base(topic, queue)
    first = (await shared.writing.append(topic, Partition(topic.name, queue), records)).base_offset
    said = sent_answer(call.asked, shared.cluster.host, place | first, queue, first) if len(records) == 1 else None
    if said is None and len(records) > _QUICK_MESSAGES:
        # The response names each message, so a long one takes a turn of the event loop.
        await shared.turns.take(len(records) // 4)
    return said or Reply(_sent(call, place, queue, first, len(records)))


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
    host = call.shared.cluster.host
    ids = ",".join(offset_id(host, place | first + row) for row in range(count))
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


async def _records(call: Call, request: m.SendMessage) -> list[Stored]:
    """The messages of a request as records. Raises Refused, ProtocolViolation, CorruptBatch."""
    asked, most = call.asked, call.shared.options.max_message_bytes
    if len(asked.body) > most:
        raise Refused(Code.MESSAGE_ILLEGAL, f"message body length over max value, {len(asked.body)} > {most}")
    properties = (request.properties or "").encode()
    if len(properties) > _MOST_PROPERTIES:
        raise Refused(
            Code.MESSAGE_ILLEGAL, f"message properties length over max value, {len(properties)} > {_MOST_PROPERTIES}"
        )
    born_ms = request.born_timestamp if request.born_timestamp > 0 else call.shared.now_ms
    if _is_batch(call, request):
        if len(asked.body) <= _QUICK_BYTES or _count(asked.body) < _QUICK_MESSAGES:
            return _batched(call, born_ms)
        return await call.shared.beside.run(partial(_batched, call, born_ms), _RATIO * len(asked.body))
    if "TIMER_DEL" in (request.properties or ""):
        raise Refused(Code.MESSAGE_ILLEGAL, "timer messages are not served, delays by level are")
    body = bytes(asked.body)
    if request.sys_flag & _COMPRESSED:
        body = await call.shared.beside.run(partial(_inflated, body, request.sys_flag), _RATIO * len(body))
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
    from penstock.protocols.rocketmq.wire.message_format import count_of

    return count_of(memoryview(body), _QUICK_MESSAGES)


def _batched(call: Call, born_ms: int) -> list[Stored]:
    from penstock.protocols.rocketmq.wire.message_format import read_batch

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
        headers.append(("ORIGIN_MESSAGE_ID", offset_id(call.shared.cluster.host, place).encode()))
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
