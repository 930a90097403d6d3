"""Consumers at the broker: booking partitions and keeping them. Methods 15 and 16.

Source: TubeMQ 2.x broker. Registering also says where reading begins, and that becomes the group's offset.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import PenstockError, ProtocolViolation, UpstreamLost
from penstock.interfaces.enode import extent
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.broker.bookings import Key
from penstock.protocols.tubemq.front.call import Call
from penstock.protocols.tubemq.front.checks import JAVA_THREW, named
from penstock.protocols.tubemq.front.cluster import to_record, to_wire
from penstock.protocols.tubemq.front.faults import Refused, Thrown, refusal
from penstock.protocols.tubemq.java_hash import java_hash
from penstock.protocols.tubemq.messages.broker import (
    HeartBeatRequestC2B,
    HeartBeatResponseB2C,
    RegisterRequestC2B,
    RegisterResponseB2C,
)
from penstock.protocols.tubemq.messages.declare import has
from penstock.protocols.tubemq.methods import ReadStatus, RegisterOperation
from penstock.protocols.tubemq.names import MAX_FILTER_ITEMS
from penstock.protocols.tubemq.strings import Located, format_failure, parse_located

__all__ = ["heartbeat", "register"]

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
        raise  # of the whole heartbeat: who is told of the one partition gives it up
    except PenstockError as error:
        code = refusal(error).code
        # A topic that is gone has no bookings either.
        return Code.HB_NO_NODE if code == Code.FORBIDDEN else code
    return None
