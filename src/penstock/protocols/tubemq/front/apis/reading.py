"""Consumers at the broker: getting messages and confirming them. Methods 17 and 18.

Source: TubeMQ 2.x broker. A group's offset C stands in the log; what was delivered and not confirmed ends at F (the
booking's ``flight_end``). Automatic mode reads from C, after taking F for C where the client says that it consumed the
batch. Manual mode reads on from F and leaves C alone until it is told.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import LogOffsetOutOfRange
from penstock.interfaces.enode import extent
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.broker.bookings import Booking, Key
from penstock.protocols.tubemq.front.broker.reading import Batch, Begin, Limits, look, read_batch
from penstock.protocols.tubemq.front.call import Call, Continued, Shared
from penstock.protocols.tubemq.front.checks import named
from penstock.protocols.tubemq.front.cluster import to_wire
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.messages.broker import (
    CommitOffsetRequestC2B,
    CommitOffsetResponseB2C,
    GetMessageRequestC2B,
    GetMessageResponseB2C,
)
from penstock.protocols.tubemq.messages.declare import has

__all__ = ["commit", "get"]

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
        shared.beside,
        partition,
        begin,
        booking.filters,
        Limits(min(grant.max_bytes, options.transfer_bytes), options.transfer_records, shared.warming.many),
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


async def _note(shared: Shared, booking: Booking, batch: Batch, *, manual: bool) -> None:
    """Remember where the batch ends; one without messages is confirmed at once, for there is nothing to confirm."""
    if manual or not batch.empty:
        booking.flight_end = batch.end
    else:
        await _move(shared, booking, batch.end)


async def _move(shared: Shared, booking: Booking, offset: int) -> None:
    """Commit. The reader remembers it, too: the node forgets offsets that nobody moves for long, as Kafka does."""
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
