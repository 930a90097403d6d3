"""Producers at the broker: a message into the log. Method 13.

Source: TubeMQ 2.x broker; the order of checks is the real one's. Unlike there, an answer means that the message
outlives the process (or the machine, if the store syncs always).
"""

from __future__ import annotations

import zlib

from penstock.errors import CorruptBatch, PenstockError
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.broker.messages import record_of
from penstock.protocols.tubemq.front.broker.routes import Route
from penstock.protocols.tubemq.front.call import Call, Shared
from penstock.protocols.tubemq.front.checks import named
from penstock.protocols.tubemq.front.cluster import to_wire
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.messages.broker import SendMessageRequestP2B, SendMessageResponseB2P
from penstock.seams.later import Later

__all__ = ["send"]

_Answer = SendMessageResponseB2P | Later[SendMessageResponseB2P | PenstockError]

_RECORD_BYTES = 64
"""About what a record takes beside its payload while it waits."""


async def send(call: Call, request: SendMessageRequestP2B) -> _Answer:
    """Serve send message: the answer comes when the message is written, and until then no task waits for it."""
    named("clientId", request.client_id)
    name = named("topicName", request.topic_name)
    if name.startswith("__"):
        raise Refused(Code.FORBIDDEN, f"topicName {name} does not allow producers to send data!")
    shared = call.shared
    enode, senders, place = shared.services.enode, shared.senders, (name, request.partition_id)
    at_once = shared.writing.is_last(call.line) and call.line.alone and enode.near
    if not senders.take_free(place):
        await senders.take(place)
    try:
        topic = await enode.topic(name) or await shared.cluster.known(name)
        return _put(shared, shared.routes.of(topic), request, at_once)
    finally:
        senders.leave(place)


def _put(shared: Shared, route: Route, request: SendMessageRequestP2B, at_once: bool) -> _Answer:
    """Check a message and put it into the line of its partition; what becomes of it."""
    if not route.settings.accepts_publish:
        raise Refused(Code.FORBIDDEN, f"topicName {route.topic.name} has been closed")
    partition = route.partitions.get(request.partition_id)
    if partition is None:
        partition = shared.cluster.own(route.topic, request.partition_id)
    data = request.data
    _check_payload(route, request, data)
    runtime = shared.services.runtime
    now_ms = runtime.now_ms()
    try:
        record = record_of(data, request.flag, request.msg_type, now_ms)
    except CorruptBatch as error:
        raise Refused(Code.BAD_REQUEST, error.message) from error
    if record.key is None and route.needs_keys:
        raise Refused(Code.BAD_REQUEST, f"topicName {route.topic.name} is compacted, its messages need keys")
    answer: Later[SendMessageResponseB2P | PenstockError] = Later(runtime.promise)

    def written(offset: int | PenstockError) -> None:
        answer.give(offset if isinstance(offset, PenstockError) else _stored(offset, now_ms))

    shared.writing.put(partition, record, len(data) + _RECORD_BYTES, route.codec, written, at_once=at_once)
    found = answer.come()
    if isinstance(found, PenstockError):
        raise found
    return answer if found is None else found


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


def _check_payload(route: Route, request: SendMessageRequestP2B, data: bytes) -> None:
    size = len(data)
    if not size:
        raise Refused(Code.BAD_REQUEST, "data length is zero!")
    if size > route.most_bytes:
        raise Refused(
            Code.BAD_REQUEST,
            f"data length over max length, allowed max length is {route.most_bytes}, data length is {size}",
        )
    said = request.check_sum
    if said != -1:
        found = zlib.crc32(data) & 0x7FFFFFFF
        if found != said:
            raise Refused(
                Code.FORBIDDEN,
                f"Checksum msg data failure: {said} of {request.topic_name} "
                f"not equal to the data's checksum of {found}",
            )
