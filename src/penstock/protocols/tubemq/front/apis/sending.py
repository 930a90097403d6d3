"""Producers at the broker: a message into the log. Method 13.

Source: TubeMQ 2.x broker; the order of checks is the real one's. Unlike there, an answer means that the message
outlives the process (or the machine, if the store syncs always).
"""

from __future__ import annotations

import zlib

from penstock.columnar.plain_records import Stored
from penstock.columnar.recompress import Target
from penstock.errors import CorruptBatch, PenstockError
from penstock.model import Partition
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
    """Serve send message: the answer comes when the message is written.

    Until then no task waits for it, but where the message is the only one and has to wait for the disk.
    """
    named("clientId", request.client_id)
    name = named("topicName", request.topic_name)
    if name.startswith("__"):
        raise Refused(Code.FORBIDDEN, f"topicName {name} does not allow producers to send data!")
    shared, partition_id = call.shared, request.partition_id
    enode, senders, place, writing = shared.services.enode, shared.senders, (name, partition_id), shared.writing
    at_once = writing.is_last(call.line) and call.line.alone and enode.near
    if not senders.take_free(place):
        await senders.take(place)
    try:
        route = shared.routes.of(await enode.topic(name) or await shared.cluster.known(name))
        if not route.settings.accepts_publish:
            raise Refused(Code.FORBIDDEN, f"topicName {route.topic.name} has been closed")
        partition = route.partitions.get(partition_id) or shared.cluster.own(route.topic, partition_id)
        data, now_ms = request.data, shared.services.runtime.now_ms()
        _check_payload(route, request, data)
        record, size = _record_of(route, request, data, now_ms), len(data) + _RECORD_BYTES
        if not at_once or route.codec is not None or not writing.idle:
            return _put(shared, partition, record, size, route.codec, now_ms)
    finally:
        senders.leave(place)
    # Not under the lock: who comes while this waits for the disk has the next round together with others.
    return _stored(await writing.write_alone(partition, record, size), now_ms)


def _record_of(route: Route, request: SendMessageRequestP2B, data: bytes, now_ms: int) -> Stored:
    try:
        record = record_of(data, request.flag, request.msg_type, now_ms)
    except CorruptBatch as error:
        raise Refused(Code.BAD_REQUEST, error.message) from error
    if record.key is None and route.needs_keys:
        raise Refused(Code.BAD_REQUEST, f"topicName {route.topic.name} is compacted, its messages need keys")
    return record


def _put(
    shared: Shared, partition: Partition, record: Stored, size: int, codec: Target | None, now_ms: int
) -> Later[SendMessageResponseB2P | PenstockError]:
    """Put a message into the line of its partition; what becomes of it."""
    answer: Later[SendMessageResponseB2P | PenstockError] = Later(shared.services.runtime.promise)

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
