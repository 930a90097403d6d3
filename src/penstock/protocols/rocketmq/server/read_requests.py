"""Handlers of pulls (11, 351, 361) and of single messages by id (33) or key (12), and of requests that the node pushes
to another client: an operator's questions to a consumer (307, 309) and replies (324, 325).
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from msgspec import Struct

from penstock.concurrency.background import BackgroundWorker
from penstock.errors import LogOffsetOutOfRange
from penstock.interfaces.channel import Outgoing
from penstock.interfaces.enode import Enode, Extent, FetchPart, TopicState, extent, fetch_one
from penstock.interfaces.framing import Buffer
from penstock.model import Codec, Partition
from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.protocols.rocketmq.server.call import Call, ClientConnection, OfConnected, Reply
from penstock.protocols.rocketmq.server.filters import Wanted, wanted_by
from penstock.protocols.rocketmq.server.group_requests import made_group
from penstock.protocols.rocketmq.server.ledger import READ
from penstock.protocols.rocketmq.server.parked_messages import header_of, record_at
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand, framed
from penstock.protocols.rocketmq.wire.log_records import MessageEncoder, is_hidden, rocket_name
from penstock.protocols.rocketmq.wire.message_format import parse_offset_id
from penstock.protocols.rocketmq.wire.properties import parse_properties
from penstock.protocols.rocketmq.wire.rpc import ACCESS_KEY, PUSH_REPLY_MESSAGE_TO_CLIENT, SECURITY_TOKEN, SIGNATURE
from penstock.protocols.rocketmq.wire.rpc import request as pushing
from penstock.records.batch import batches
from penstock.records.scalar_codec import MAX_INFLATED_BYTES, Stored, stored_records

__all__ = [
    "Limits",
    "Piece",
    "Reader",
    "ask_running_info",
    "ask_to_consume",
    "asked_of",
    "hand_to",
    "pass_on_reply",
    "pull",
    "query_messages",
    "snode_pull",
    "stored_at",
    "view_message",
]

# Reading a queue: partly read batches stay open for the next pull.
_PIECE_BYTES: Final = 256 << 10
_MOST_OPEN: Final = 256
_MOST_OPEN_BYTES: Final = 32 << 20
_RATIO: Final = 32
"""The ratio up to which a compressed batch is expected to inflate: text rarely shrinks below a thirtieth."""


class Limits(NamedTuple):
    """Limits of one response. A message larger than ``size`` goes alone; ``examined`` counts filtered ones, too."""

    messages: int
    size: int
    examined: int


class Piece(Struct):
    """The result of a pull: concatenated messages, the next pull's offset, and the queue's offsets.

    ``end`` is where the first open transaction begins, if there is one: later records are not visible. ``log_end`` is
    the end of the log itself.
    """

    messages: list[bytes]
    next_offset: int
    start: int
    end: int
    log_end: int


class _Open(NamedTuple):
    records: Iterator[Stored]
    next_offset: int
    size: int


class Reader:
    """One per front. Open pieces are bounded, in number and bytes."""

    def __init__(self, enode: Enode, background: BackgroundWorker) -> None:
        self._enode = enode
        self._background = background
        self._open: OrderedDict[tuple[bytes, int, int], _Open] = OrderedDict()
        self._open_bytes = 0

    async def read(
        self,
        topic: TopicState,
        partition: Partition,
        offset: int,
        dress: MessageEncoder,
        wanted: Wanted | None,
        limits: Limits,
    ) -> Piece:
        """Read from ``offset`` on. Raises LogOffsetOutOfRange, StoreError, CorruptBatch."""
        opened = self._take(topic, partition, offset)
        if opened is None:
            found = await fetch_one(self._enode, FetchPart(partition, offset, _PIECE_BYTES, stable=True))
            where = Extent(found.start, found.end, found.stable, found.epoch)
            if not len(found.data):
                return _nothing(max(offset, found.next_offset) if found.next_offset <= found.stable else offset, where)
            opened = await self._opened(found.read(), found.aborted, offset, found.next_offset)
        else:
            where = await extent(self._enode, partition)
        return self._taken(topic, partition, opened, offset, where, dress, wanted, limits)

    def _taken(
        self,
        topic: TopicState,
        partition: Partition,
        opened: _Open,
        offset: int,
        where: Extent,
        dress: MessageEncoder,
        wanted: Wanted | None,
        limits: Limits,
    ) -> Piece:
        piece = _nothing(offset, where)
        size = 0
        for examined, record in enumerate(opened.records, 1):
            message = dress.stored(record) if wanted is None or wanted(record) else None
            if message is not None and piece.messages and size + len(message) > limits.size:
                self._put(
                    topic, partition, piece.next_offset, opened._replace(records=chain((record,), opened.records))
                )
                return piece
            piece.next_offset = record.offset + 1
            if message is not None:
                piece.messages.append(message)
                size += len(message)
            if len(piece.messages) >= limits.messages or examined >= limits.examined:
                self._put(topic, partition, piece.next_offset, opened)
                return piece
        piece.next_offset = opened.next_offset
        return piece

    async def _opened(self, data: Buffer, aborted: object, offset: int, next_offset: int) -> _Open:
        records = partial(stored_records, data, offset, aborted)  # type: ignore[arg-type]
        packed = sum(header.length for header in batches(data) if header.codec is not Codec.NONE)
        if not packed:
            return _Open(records(), next_offset, len(data))
        every = await self._background.run(lambda: list(records()), min(MAX_INFLATED_BYTES, _RATIO * packed))
        return _Open(iter(every), next_offset, sum(sys.getsizeof(record.value) for record in every))

    # Open pieces.

    def _take(self, topic: TopicState, partition: Partition, offset: int) -> _Open | None:
        opened = self._open.pop((topic.id, partition.id, offset), None)
        if opened is not None:
            self._open_bytes -= opened.size
        return opened

    def _put(self, topic: TopicState, partition: Partition, offset: int, opened: _Open) -> None:
        self._take(topic, partition, offset)
        self._open[topic.id, partition.id, offset] = opened
        self._open_bytes += opened.size
        while self._open and (len(self._open) > _MOST_OPEN or self._open_bytes > _MOST_OPEN_BYTES):
            _, oldest = self._open.popitem(last=False)
            self._open_bytes -= oldest.size


def _nothing(offset: int, where: Extent) -> Piece:
    return Piece([], offset, where.start, where.stable, where.end)


# Pulls.
_FOUND: Final = "FOUND"
_NO_MATCH: Final = "NO_MATCHED_MESSAGE"
_AT_END: Final = "OFFSET_OVERFLOW_ONE"
_BEYOND: Final = "OFFSET_OVERFLOW_BADLY"
_BEFORE: Final = "OFFSET_TOO_SMALL"
_SQL92: Final = "SQL92"
_BROADCASTING: Final = "BROADCASTING"


_HELD_BYTES: Final = 4_000
"""Bytes of a waiting task with its request; measured."""


class _Asked(Struct, frozen=True, eq=False):
    topic: TopicState
    partition: Partition
    dress: MessageEncoder
    wanted: Wanted | None
    limits: Limits


async def pull(call: Call, request: m.PullMessage) -> Reply:
    """Serve pull message; without messages the response waits until some arrive or the client's time is over."""
    return await _pulled(call, request, _wanted)


async def snode_pull(call: Call, request: m.PullMessage) -> Reply:
    """Serve pull message of a Snode, whose groups the node need not know."""
    return await _pulled(call, request, _wanted_by_snode)


async def _pulled(
    call: Call, request: m.PullMessage, wanted_of: Callable[[Call, m.PullMessage], Wanted | None]
) -> Reply:
    shared = call.shared
    topic = await _allowed(call, request)
    partition = Partition(topic.name, request.queue_id)
    wanted = wanted_of(call, request)
    if request.sys_flag & m.PullFlag.COMMIT and request.commit_offset >= 0:
        await shared.positions.set(request.consumer_group, partition, request.commit_offset, call.line.address.host)
    place = await shared.places.base(topic, request.queue_id)
    cluster = shared.cluster
    dress = MessageEncoder(request.topic, request.queue_id, place, cluster.host, cluster.name)
    options = shared.options
    most_bytes = min(options.transfer_bytes, request.max_msg_bytes or options.transfer_bytes)
    limits = Limits(max(1, min(request.max_msg_nums, options.transfer_messages)), most_bytes, options.examined_messages)
    asked = _Asked(topic, partition, dress, wanted, limits)
    try:
        piece = await _read(call, asked, request)
    except LogOffsetOutOfRange as error:
        return _moved(request.queue_offset, error)
    if piece.messages:
        shared.counts.give(request.topic, request.consumer_group, len(piece.messages), shared.now)
    return _answer(request.queue_offset, piece)


async def _allowed(call: Call, request: m.PullMessage) -> TopicState:
    """The topic, if the group may read this queue. Raises Refused, with the checks in the brokers' order."""
    shared, group = call.shared, request.consumer_group
    settings = shared.settings
    if not settings.perm & READ:
        raise Refused(Code.NO_PERMISSION, f"the broker[{shared.cluster.broker}] pulling message is forbidden")
    made_group(call, group)
    if not settings.may_consume(group):
        raise Refused(Code.NO_PERMISSION, f"subscription group no permission, {group}")
    topic = await shared.cluster.known(request.topic)
    queues = settings.queues(topic)
    if not queues.perm & READ:
        raise Refused(Code.NO_PERMISSION, f"the topic[{request.topic}] pulling message is forbidden")
    if not 0 <= request.queue_id < queues.read:
        raise Refused(
            Code.INVALID_PARAMETER,
            f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] topicConfig.readQueueNums:"
            f"[{queues.read}] consumer:[{call.line.address}]",
        )
    return topic


async def _read(call: Call, asked: _Asked, request: m.PullMessage) -> Piece:
    """Read once; if there is nothing and the request allows it, wait for messages.

    If the filter left out everything that there was, the response is sent at once with the next offset, as brokers do.
    Otherwise the group's lag would not shrink in the meantime.
    """
    shared = call.shared
    piece = await _once(call, asked, request.queue_offset)
    if piece.messages or piece.next_offset > request.queue_offset or not request.sys_flag & m.PullFlag.SUSPEND:
        return piece
    if (full := shared.held.put(asked, call.line, _HELD_BYTES)) is not None:
        raise Refused(Code.SYSTEM_BUSY, full)
    try:
        return await _held(call, asked, request, piece)
    finally:
        shared.held.drop(asked)


async def _held(call: Call, asked: _Asked, request: m.PullMessage, piece: Piece) -> Piece:
    """Wait for messages for as long as the request asks."""
    shared = call.shared
    runtime = shared.services.runtime
    until = shared.now + min(max(request.suspend_timeout_millis, 0), shared.options.max_hold_ms) / 1_000
    while not piece.messages and not call.line.over and (left := until - shared.now) > 0:
        if piece.next_offset >= piece.end:
            arrival = shared.enode.arrival({asked.partition: piece.log_end})
            timer = runtime.call_later(left, lambda arrival=arrival: arrival.set(None))  # type: ignore[misc]
            try:
                await call.line.park(arrival)
            finally:
                timer.cancel()
                shared.enode.forget_arrival(arrival)
        piece = await _once(call, asked, piece.next_offset)
    await _allowed(call, request)  # permissions may have changed while the pull waited
    return piece


async def _once(call: Call, asked: _Asked, offset: int) -> Piece:
    return await call.shared.reader.read(asked.topic, asked.partition, offset, asked.dress, asked.wanted, asked.limits)


def _wanted(call: Call, request: m.PullMessage) -> Wanted | None:
    """The filter of the request, or of its group's heartbeats. Raises Refused."""
    if request.sys_flag & m.PullFlag.INLINE:
        return wanted_by(request.subscription, request.expression_type)
    group = call.shared.clients.consumers.get(request.consumer_group)
    if group is None:
        raise Refused(Code.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist: {request.consumer_group}")
    if group.message_model == _BROADCASTING and not call.shared.settings.may_broadcast(request.consumer_group):
        raise Refused(
            Code.NO_PERMISSION, f"the consumer group[{request.consumer_group}] can not consume by broadcast way"
        )
    known = group.subscriptions.get(request.topic)
    if known is None:
        raise Refused(Code.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist: {request.topic}")
    if known.sub_version < request.sub_version:
        raise Refused(Code.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    return wanted_by(known.sub_string, known.expression_type)


def _wanted_by_snode(call: Call, request: m.PullMessage) -> Wanted | None:
    """The filter of a group that sends its heartbeats to its Snode and may be unknown here. Raises Refused.

    For an unknown group everything matches, as at the first Snode's brokers, since clients filter tags once more
    themselves. They do not do so with SQL92, so an SQL92 expression must be in the pull.
    """
    inline = request.sys_flag & m.PullFlag.INLINE
    if inline or request.consumer_group in call.shared.clients.consumers or request.expression_type == _SQL92:
        return _wanted(call, request)
    return None


def _answer(offset: int, piece: Piece) -> Reply:
    header = m.Pulled(next_begin_offset=piece.next_offset, min_offset=piece.start, max_offset=piece.end)
    if piece.messages:
        return Reply(header, b"".join(piece.messages), remark=_FOUND)
    if piece.next_offset > offset:
        return Reply(header, code=Code.PULL_RETRY_IMMEDIATELY, remark=_NO_MATCH)
    return Reply(header, code=Code.PULL_NOT_FOUND, remark=_AT_END)


def _moved(offset: int, error: LogOffsetOutOfRange) -> Reply:
    start, end = error.start_offset, error.end_offset
    header = m.Pulled(next_begin_offset=start if offset < start else end, min_offset=start, max_offset=end)
    return Reply(header, code=Code.PULL_OFFSET_MOVED, remark=_BEFORE if offset < start else _BEYOND)


# Single messages by id (33) and by key (12).
#
# There is no index of keys: the topic is read from the requested time on, up to a limit of records. Source: Apache
# RocketMQ 4.9 and 5.x, ``QueryMessageProcessor``.
_MOST_EXAMINED: Final = 200_000
_PIECE: Final = 800
_STEPS: Final = 800
"""Steps of `LoopBudget` for a piece: about ten microseconds per record."""
_MOST_FOUND: Final = 64


async def view_message(call: Call, request: m.ViewMessage) -> Reply:
    """Serve view message by id."""
    return Reply(body=await stored_at(call, request.offset))


async def stored_at(call: Call, place: int) -> bytes:
    """The message at a place. Raises Refused if there is none, or none any more."""
    shared = call.shared
    found = await shared.places.find(place)
    record = None
    if found is not None and not is_hidden(found[0].topic):
        record = await record_at(shared.enode, *found)
    if found is None or record is None:
        raise Refused(Code.SYSTEM_ERROR, f"can not find message by the offset: {place}")
    topic = await shared.cluster.known(rocket_name(found[0].topic))
    return (await _dress(call, topic, found[0])).stored(record)


async def query_messages(call: Call, request: m.QueryMessage) -> Reply:
    """Serve query message: at most ``max_num`` messages with the key or the unique id."""
    shared = call.shared
    topic = await shared.cluster.known(request.topic)
    most = max(1, min(request.max_num, _MOST_FOUND))
    found: list[bytes] = []
    newest_ms = 0
    left = _MOST_EXAMINED
    for number in range(topic.partitions):
        partition = Partition(topic.name, number)
        dress = await _dress(call, topic, partition)
        at = await _begin(call, partition, request.begin_timestamp)

        def wanted(record: Stored) -> bool:
            nonlocal newest_ms
            hit = _has(record, request)
            newest_ms = max(newest_ms, record.timestamp_ms if hit else 0)
            return hit

        while at is not None and left > 0 and len(found) < most:
            await shared.turns.take(_STEPS)
            piece = await shared.reader.read(
                topic, partition, at, dress, wanted, Limits(most - len(found), 8 << 20, _PIECE)
            )
            found += piece.messages
            left -= max(1, piece.next_offset - at)
            at = piece.next_offset if at < piece.next_offset < piece.end else None
    if not found:
        raise Refused(Code.QUERY_NOT_FOUND, "can not find message, maybe time range not correct")
    header = m.QueriedMessages(index_last_update_timestamp=newest_ms, index_last_update_phyoffset=0)
    return Reply(header, b"".join(found))


async def _begin(call: Call, partition: Partition, begin_ms: int) -> int | None:
    """The offset of the first record in the requested time; None if there is none."""
    where = await extent(call.shared.enode, partition)
    if where.start >= where.stable:
        return None
    if begin_ms <= 0:
        return where.start
    found = await call.shared.enode.offset_for_time(partition, begin_ms)
    return None if found is None else max(found[0], where.start)


def _has(record: Stored, request: m.QueryMessage) -> bool:
    if not request.begin_timestamp <= record.timestamp_ms <= request.end_timestamp:
        return False
    key = request.key
    if header_of(record, "UNIQ_KEY") == key:
        return True
    if request.is_unique_key or record.key is None:
        return False
    return key.encode() in record.key.split()


async def _dress(call: Call, topic: TopicState, partition: Partition) -> MessageEncoder:
    cluster = call.shared.cluster
    place = await call.shared.places.base(topic, partition.id)
    return MessageEncoder(rocket_name(topic.name), partition.id, place, cluster.host, cluster.name)


# Requests that the node pushes to another client (307, 309, 324, 325).
#
# A question is forwarded to the member unchanged, and so is the response. Replies are not stored. Source: Apache
# RocketMQ 4.9 and 5.x, ``AdminBrokerProcessor.callConsumer``, ``ReplyMessageProcessor``.
_PATIENCE_S: Final = 10.0
_LONGEST: Final = 255
_REPLY_TO: Final = "REPLY_TO_CLIENT"
_SCHEME: Final = "rocketmq"
_SECRETS: Final = frozenset({ACCESS_KEY, SIGNATURE, SECURITY_TOKEN})


async def ask_running_info(call: OfConnected, request: m.OfMember) -> Reply:
    """Serve get consumer running info."""
    return await hand_to(call, request.consumer_group, request.client_id, call.asked.body)


async def ask_to_consume(call: Call, request: m.ConsumeDirectly) -> Reply:
    """Serve consume message directly: push the message to the member, on whichever connection it is."""
    body: Buffer = call.asked.body
    if request.msg_id:
        _, place = parse_offset_id(request.msg_id)
        body = await stored_at(call, place)
    return await hand_to(call, request.consumer_group, request.client_id or "", body)


async def pass_on_reply(call: OfConnected, request: m.SendMessage) -> Reply:
    """Serve send reply message: push the reply to the client that the message names, and wait for its response."""
    shared = call.shared
    client_id = parse_properties(request.properties or "").get(_REPLY_TO, "")
    line = shared.clients.named(client_id)
    if line is None:
        raise Refused(Code.SYSTEM_ERROR, f"push reply message to {client_id[:_LONGEST]} fail: it is not connected here")
    header = m.PushReply(
        producer_group=request.producer_group,
        topic=request.topic,
        default_topic=request.default_topic,
        default_topic_queue_nums=request.default_topic_queue_nums,
        queue_id=request.queue_id,
        sys_flag=request.sys_flag,
        born_timestamp=request.born_timestamp,
        flag=request.flag,
        properties=request.properties,
        reconsume_times=request.reconsume_times,
        unit_mode=request.unit_mode,
        born_host=str(call.line.address),
        store_host=str(shared.services.identity.advertised[_SCHEME]),
        store_timestamp=shared.now_ms,
    )
    asking = pushing(PUSH_REPLY_MESSAGE_TO_CLIENT, header, call.asked.body)
    said = await _heard(call, line, asking, f"The client <{client_id}>")
    if said.code != Code.SUCCESS:
        raise Refused(said.code, f"push reply message to {client_id[:_LONGEST]} fail: {said.remark or 'it says no'}")
    return Reply(m.Sent(msg_id="0", queue_id=request.queue_id, queue_offset=0))


async def hand_to(call: OfConnected, group: str, client_id: str, body: Buffer) -> Reply:
    """Forward the request with this body to a member. Raises Refused if it is not connected or does not answer."""
    member = call.shared.clients.line_of(group, client_id)
    if member is None:
        raise Refused(Code.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
    return await asked_of(call, member, call.asked._replace(body=body), f"The Consumer <{group}> <{client_id}>")


async def asked_of(call: OfConnected, member: ClientConnection, asked: RemotingCommand, who: str) -> Reply:
    """A client's response to a forwarded request. Raises Refused if it does not answer."""
    fields = {name: value for name, value in asked.fields.items() if name not in _SECRETS}
    said = await _heard(call, member, framed(asked._replace(fields=fields)), who)
    return Reply(None, said.body, said.code, said.remark, said.fields)


async def _heard(call: OfConnected, line: ClientConnection, asking: Outgoing, who: str) -> RemotingCommand:
    """A client's response to a request of the node. Raises Refused if there is none in time."""
    runtime = call.shared.services.runtime
    number, arrival = call.shared.clients.next_number(), runtime.promise()
    answers: list[RemotingCommand] = []

    def heard(answer: RemotingCommand | None) -> None:
        if answer is not None:
            answers.append(answer)
        arrival.set(None)

    timer = runtime.call_later(_PATIENCE_S, lambda: arrival.set(None))
    line.asked[number] = heard
    try:
        line.push(asking(number))
        await call.line.park(arrival)
    finally:
        timer.cancel()
        del line.asked[number]
    if not answers:
        raise Refused(Code.SYSTEM_ERROR, f"{who} did not answer within {_PATIENCE_S} s")
    return answers[0]
