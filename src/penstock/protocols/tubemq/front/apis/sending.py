"""Producers at the broker: a message into the log. Method 13.

Source: TubeMQ 2.x broker; the order of checks is the real one's. Unlike there, an answer means that the message
outlives the process (or the machine, if the store syncs always).
"""

from __future__ import annotations

import zlib

from penstock.concurrency.runtime import Later
from penstock.errors import CorruptBatch, PenstockError
from penstock.interfaces.enode import TopicState
from penstock.model import Partition
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.broker.messages import record_of
from penstock.protocols.tubemq.front.broker.routes import Route
from penstock.protocols.tubemq.front.call import Call, Line, Shared
from penstock.protocols.tubemq.front.checks import named
from penstock.protocols.tubemq.front.cluster import to_wire
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.messages.broker import SendMessageRequestP2B, SendMessageResponseB2P
from penstock.records.scalar_codec import Stored
from penstock.records.validation import Target

__all__ = ["send"]

_Answer = SendMessageResponseB2P | Later[SendMessageResponseB2P | PenstockError]

_RECORD_BYTES = 64
"""About what a record takes beside its payload while it waits."""


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


def _topic_of(line: Line, client_id: str, topic: str) -> str:
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
