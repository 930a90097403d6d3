"""A broker's methods: sending, booking partitions, getting messages and confirming them. 13 and 15 to 18."""

from __future__ import annotations

import zlib
from typing import Final

from penstock.concurrency.runtime import Deferred
from penstock.errors import CorruptBatch, LogOffsetOutOfRange, PenstockError, ProtocolViolation, UpstreamLost
from penstock.interfaces.enode import TopicState, extent
from penstock.model import Partition
from penstock.protocols.tubemq.errors import Code, Refused, Thrown, refusal
from penstock.protocols.tubemq.server.bookings import Booking, Key
from penstock.protocols.tubemq.server.context import (
    JAVA_THREW,
    Call,
    ClientConnection,
    Continued,
    Shared,
    named,
    to_record,
    to_wire,
)
from penstock.protocols.tubemq.server.log import BatchLimits, Begin, MessageBatch, Route, look, read_batch, record_of
from penstock.protocols.tubemq.wire.messages import (
    CommitOffsetRequestC2B,
    CommitOffsetResponseB2C,
    GetMessageRequestC2B,
    GetMessageResponseB2C,
    HeartBeatRequestC2B,
    HeartBeatResponseB2C,
    RegisterRequestC2B,
    RegisterResponseB2C,
    SendMessageRequestP2B,
    SendMessageResponseB2P,
)
from penstock.protocols.tubemq.wire.protobuf import has
from penstock.protocols.tubemq.wire.rpc import ReadStatus, RegisterOperation
from penstock.protocols.tubemq.wire.strings import MAX_FILTER_ITEMS, Located, format_failure, java_hash, parse_located
from penstock.records.scalar_codec import Stored
from penstock.records.validation import Target

__all__ = ["commit", "get", "heartbeat", "register", "send"]

# Producers at the broker: a message into the log. Method 13.
#
# Source: TubeMQ 2.x broker; the order of checks is the real one's. Unlike there, an answer means that the message
# outlives the process (or the machine, if the store syncs always).
_Answer = SendMessageResponseB2P | Deferred[SendMessageResponseB2P | PenstockError]

_RECORD_BYTES = 64
"""About what a record takes on top of its payload while it waits."""


async def send(call: Call, request: SendMessageRequestP2B) -> _Answer:
    """Serve send message: the answer comes when the message is written.

    Until then no task waits for it, but where the message is the only one and has to wait for the disk.
    """
    line, shared = call.line, call.shared
    said = request.client_id, request.topic_name
    name = line.topic if said == line.sends else _topic_of(line, *said)
    enode, senders, place = shared.services.enode, shared.senders, (name, request.partition_id)
    alone = shared.writing.is_last(line) and line.alone and enode.near
    if not senders.take_free(place):
        await senders.take(place)
    try:
        topic = await enode.topic(name) or await shared.cluster.known(name)
        route, partition, record, size, now_ms = _message(shared, topic, request)
        if not alone or route.codec is not None or not shared.writing.idle:
            return _put(shared, partition, record, size, route.codec, now_ms)
    finally:
        senders.leave(place)
    # Not under the lock: who comes while this waits for the disk has the next round together with others.
    return _stored(await shared.writing.write_alone(partition, record, size), now_ms)


def _topic_of(line: ClientConnection, client_id: str, topic: str) -> str:
    """The topic's name, trimmed. Raises Refused."""
    client, name = named("clientId", client_id), named("topicName", topic)
    if name.startswith("__"):
        raise Refused(Code.FORBIDDEN, f"topicName {name} does not allow producers to send data!")
    if (client, name) == (client_id, topic):
        line.sends, line.topic = (client, name), name
    return name


def _message(
    shared: Shared, topic: TopicState, request: SendMessageRequestP2B
) -> tuple[Route, Partition, Stored, int, int]:
    """Where a message goes, and how: route, partition, record, about its size, the time it came. Raises Refused."""
    route, data, now_ms = shared.routes.of(topic), request.data, shared.services.runtime.now_ms()
    if not route.accepts_publish:
        raise Refused(Code.FORBIDDEN, f"topicName {topic.name} has been closed")
    partition = route.partitions.get(request.partition_id) or shared.cluster.own(topic, request.partition_id)
    size, said = len(data), request.check_sum
    if not 0 < size <= route.most_bytes or (said != -1 and said != zlib.crc32(data) & 0x7FFFFFFF):
        raise _bad_payload(route, request, data)
    try:
        record = record_of(data, request.flag, request.msg_type, now_ms)
    except CorruptBatch as error:
        raise Refused(Code.BAD_REQUEST, error.message) from error
    if route.needs_keys and record.key is None:
        raise Refused(Code.BAD_REQUEST, f"topicName {topic.name} is compacted, its messages need keys")
    return route, partition, record, size + _RECORD_BYTES, now_ms


def _bad_payload(route: Route, request: SendMessageRequestP2B, data: bytes) -> Refused:
    if not data:
        return Refused(Code.BAD_REQUEST, "data length is zero!")
    if len(data) > route.most_bytes:
        return Refused(
            Code.BAD_REQUEST,
            f"data length over max length, allowed max length is {route.most_bytes}, data length is {len(data)}",
        )
    return Refused(
        Code.FORBIDDEN,
        f"Checksum msg data failure: {request.check_sum} of {request.topic_name} "
        f"not equal to the data's checksum of {zlib.crc32(data) & 0x7FFFFFFF}",
    )


def _put(
    shared: Shared, partition: Partition, record: Stored, size: int, codec: Target | None, now_ms: int
) -> Deferred[SendMessageResponseB2P | PenstockError]:
    """Put a message into the line of its partition; what becomes of it."""
    answer: Deferred[SendMessageResponseB2P | PenstockError] = Deferred(shared.services.runtime.promise)

    def written(offset: int | PenstockError) -> None:
        answer.give(offset if isinstance(offset, PenstockError) else _stored(offset, now_ms))

    shared.writing.put(partition, record, size, codec, written)
    return answer


def _stored(offset: int, now_ms: int) -> SendMessageResponseB2P:
    return SendMessageResponseB2P(
        success=True,
        err_code=Code.SUCCESS,
        err_msg=str(offset),
        require_auth=False,
        message_id=offset,
        append_time=now_ms,
        append_offset=to_wire(offset) if offset >= 0 else -1,
    )


# Consumers at the broker: booking partitions and keeping them. Methods 15 and 16.
#
# Source: TubeMQ 2.x broker. Registering also says where reading begins, and that becomes the group's offset.
_STEPS_OF_A_BOOKING: Final = 2
"""Of `Turns`, to renew it."""


async def register(call: Call, request: RegisterRequestC2B) -> RegisterResponseB2C:
    """Serve register and unregister, which are one method."""
    client = named("clientId", request.client_id)
    name = named("topicName", request.topic_name)
    # Of the topic is asked first, as the real broker does; of the rest in the line of the group's place.
    async with call.shared.readers.held((request.group_name.strip(), name, request.partition_id)):
        topic = await call.shared.cluster.known(name)
        group = named("groupName", request.group_name)
        key = Key(group, call.shared.cluster.own(topic, request.partition_id))
        if request.op_type == RegisterOperation.REGISTER:
            return await _book(call, key, client, request)
        if request.op_type == RegisterOperation.UNREGISTER:
            return await _give_back(call, key, client, request)
    raise Refused(Code.BAD_REQUEST, f"Invalid request:{request.op_type}")


async def _book(call: Call, key: Key, client: str, request: RegisterRequestC2B) -> RegisterResponseB2C:
    shared = call.shared
    if len(request.filter_cond_str) > MAX_FILTER_ITEMS:
        raise Refused(Code.BAD_REQUEST, f"{len(request.filter_cond_str)} filter items, {MAX_FILTER_ITEMS} are allowed")
    if not shared.settings.accepts_subscribe(key.partition.topic):
        raise Refused(Code.FORBIDDEN, f"topicName {key.partition.topic} has been closed")
    filters = frozenset(java_hash(item.strip()) for item in request.filter_cond_str)
    priority = request.qry_priority_id if has(request, "qry_priority_id") else -2
    booking = shared.bookings.register(key, client, filters, priority, shared.now, call.line)
    wanted = request.curr_offset if has(request, "curr_offset") and request.curr_offset >= 0 else None
    booking.stands = await shared.positions.begin(
        key.group,
        key.partition,
        None if wanted is None else to_record(wanted),
        from_end=request.read_status != ReadStatus.NORMAL,
        always=request.read_status == ReadStatus.FROM_MAX_ALWAYS,
        host=call.line.address.host,
    )
    end = (await extent(shared.enode, key.partition)).end
    return RegisterResponseB2C(
        success=True,
        err_code=Code.SUCCESS,
        err_msg="OK!",
        curr_offset=to_wire(booking.stands),
        max_offset=to_wire(end),
    )


async def _give_back(call: Call, key: Key, client: str, request: RegisterRequestC2B) -> RegisterResponseB2C:
    """What was delivered last counts as read where the client says so (status 0)."""
    shared = call.shared
    booking = shared.bookings.leaving(key, client, shared.now)
    # Before anybody else gets the partition, and begins where the group then stands.
    if booking.flight_end is not None and request.read_status == ReadStatus.NORMAL:
        await shared.positions.set(key.group, key.partition, booking.flight_end)
    shared.bookings.end(booking)
    return RegisterResponseB2C(success=True, err_code=Code.SUCCESS, err_msg="OK!", curr_offset=-1)


async def heartbeat(call: Call, request: HeartBeatRequestC2B) -> HeartBeatResponseB2C:
    """Serve partition heartbeat: renews each booking, and names those that are lost."""
    client = named("clientId", request.client_id)
    group = named("groupName", request.group_name)
    failures = []
    async for text in call.shared.turns.through(request.partition_info, _STEPS_OF_A_BOOKING):
        try:
            located = parse_located(text)
        except ProtocolViolation as error:
            raise Thrown(JAVA_THREW, error.message) from error
        code = await _renew(call, group, client, located, request.qry_priority_id)
        if code is not None:
            failures.append(format_failure(code, located))
    return HeartBeatResponseB2C(
        success=True,
        err_code=Code.SUCCESS,
        err_msg="OK!",
        has_part_failure=bool(failures),
        failure_info=failures,
        require_auth=False,
    )


async def _renew(call: Call, group: str, client: str, located: Located, priority: int) -> int | None:
    """Renew one booking, with the priority that its owner has now (0: it says none); the code of what is wrong."""
    shared = call.shared
    try:
        topic = await shared.cluster.known(located.partition.topic)
        key = Key(group, shared.cluster.own(topic, located.partition.id))
        booking = shared.bookings.use(key, client, shared.now)
        booking.priority = priority or booking.priority
    except UpstreamLost:
        raise  # of the whole heartbeat: a client that gets a code for one partition gives that one up
    except PenstockError as error:
        code = refusal(error).code
        # A topic that is gone has no bookings either.
        return Code.HB_NO_NODE if code == Code.FORBIDDEN else code
    return None


# Consumers at the broker: getting messages and confirming them. Methods 17 and 18.
#
# Source: TubeMQ 2.x broker. A group's offset C stands in the log; what was delivered and not confirmed ends at F (the
# booking's ``flight_end``). Automatic mode reads from C, after taking F for C where the client says that it consumed
# the batch. Manual mode reads on from F and leaves C alone until a commit.
_AT_END: Final = "The request offset reached maxOffset!"


async def get(call: Call, request: GetMessageRequestC2B) -> GetMessageResponseB2C | Continued:
    """Serve get message; answers at once also where nothing is there (404): the client waits."""
    shared = call.shared
    client = named("clientId", request.client_id)
    group = named("groupName", request.group_name)
    name = named("topicName", request.topic_name)
    async with shared.readers.held((group, name, request.partition_id)):
        topic = await shared.cluster.known(name)
        key = Key(group, shared.cluster.own(topic, request.partition_id))
        booking = shared.bookings.use(key, client, shared.now)
        if not shared.settings.accepts_subscribe(topic.name):
            raise Refused(Code.FORBIDDEN, f"topicName {topic.name} has been closed")
        return await _serve(shared, booking, request)


def _check_current(shared: Shared, booking: Booking) -> None:
    """Raises Refused where the client's time was over before its batch was read."""
    if not shared.bookings.is_current(booking):
        raise Refused(Code.HB_NO_NODE, f"UnRegistered Consumer:{booking.client}, you have to register firstly!")


async def _serve(shared: Shared, booking: Booking, request: GetMessageRequestC2B) -> GetMessageResponseB2C | Continued:
    _, partition = booking.key
    start = await _start(shared, booking, request)
    begin = await _look(shared, booking, start)
    if begin is None or start >= begin.found.stable:  # what comes later may still be aborted
        return _nothing(Code.NOT_FOUND, _AT_END, -1)
    options, log_end = shared.options, begin.found.end
    now_ms, escapes = int(shared.now * 1_000), request.esc_flow_ctrl
    grant = booking.quota.grant(shared.settings.rules, booking.lag, now_ms, shared.now_ms, escapes=escapes)
    if not grant.max_bytes:
        return _nothing(Code.SERVER_CONSUME_SPEED_LIMIT, "RpcServer consume speed limit!", grant.wait_ms)
    batch = await read_batch(
        shared.enode,
        shared.background,
        partition,
        begin,
        booking.filters,
        BatchLimits(min(grant.max_bytes, options.transfer_bytes), options.transfer_records, shared.warming.many),
    )
    _check_current(shared, booking)
    shared.warming.note(batch.end - batch.start)
    booking.lag = batch.lag(log_end)
    booking.quota.sent(batch.size)
    if batch.end > batch.start or batch.start > start:
        await _note(shared, booking, batch, manual=request.manual_commit_offset)
    answer = GetMessageResponseB2C(
        success=True,
        err_code=Code.SUCCESS,
        err_msg="OK!",
        messages=batch.messages,
        curr_offset=to_wire(batch.start),
        min_limit_time=0,
        esc_flow_ctrl=False,
        curr_data_dlt=booking.lag,
        require_slow=bool(booking.filters) and batch.end >= log_end,
        max_offset=to_wire(log_end),
    )
    return Continued(answer, batch.encoded) if batch.encoded else answer


async def _look(shared: Shared, booking: Booking, start: int) -> Begin | None:
    """What is there from ``start`` on, or from the log's own start; None, and the group at its end, if that is less."""
    partition, most = booking.key.partition, shared.options.transfer_bytes
    try:
        return Begin(start, await look(shared.enode, partition, start, most))
    except LogOffsetOutOfRange as error:
        if start > error.end_offset:
            await _move(shared, booking, error.end_offset)
            booking.flight_end = None
            return None
        return Begin(error.start_offset, await look(shared.enode, partition, error.start_offset, most))


async def _start(shared: Shared, booking: Booking, request: GetMessageRequestC2B) -> int:
    """Where this batch begins, the one before being confirmed first if it was consumed."""
    group, partition = booking.key
    flight_end = booking.flight_end
    if request.manual_commit_offset:
        if flight_end is not None:
            return flight_end
    else:
        if request.last_pack_consumed and flight_end is not None:
            await _move(shared, booking, flight_end)
        booking.flight_end = None
    committed = await shared.positions.of(group, partition)
    return booking.stands if committed is None else committed


async def _note(shared: Shared, booking: Booking, batch: MessageBatch, *, manual: bool) -> None:
    """Remember where the batch ends; one without messages is confirmed at once, for there is nothing to confirm."""
    if manual or not batch.empty:
        booking.flight_end = batch.end
    else:
        await _move(shared, booking, batch.end)


async def _move(shared: Shared, booking: Booking, offset: int) -> None:
    """Commit. The reader remembers it, too: like Kafka, the node forgets offsets that do not move for long."""
    await shared.positions.set(booking.key.group, booking.key.partition, offset)
    booking.stands = offset


def _nothing(code: int, text: str, wait_ms: int) -> GetMessageResponseB2C:
    return GetMessageResponseB2C(
        success=False,
        err_code=code,
        err_msg=text,
        curr_offset=-1,
        min_limit_time=wait_ms,
        esc_flow_ctrl=False,
        curr_data_dlt=-1,
    )


async def commit(call: Call, request: CommitOffsetRequestC2B) -> CommitOffsetResponseB2C:
    """Serve commit offset: what was delivered last is consumed (the default), or is to be delivered again."""
    shared = call.shared
    client = named("clientId", request.client_id)
    group = named("groupName", request.group_name)
    name = named("topicName", request.topic_name)
    consumed = request.last_pack_consumed or not has(request, "last_pack_consumed")
    async with shared.readers.held((group, name, request.partition_id)):
        topic = await shared.cluster.known(name)
        partition = shared.cluster.own(topic, request.partition_id)
        booking = shared.bookings.confirmable(Key(group, partition), client, shared.now)
        if consumed and booking.flight_end is not None:
            await _move(shared, booking, booking.flight_end)
        booking.flight_end = None
        committed = await shared.positions.of(group, partition)
    end = (await extent(shared.enode, partition)).end
    return CommitOffsetResponseB2C(
        success=True,
        err_code=Code.SUCCESS,
        err_msg="OK!",
        curr_offset=to_wire(booking.stands if committed is None else committed),
        max_offset=to_wire(end),
    )
