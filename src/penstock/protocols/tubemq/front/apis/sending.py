"""Producers at the broker: a message into the log. Method 13.

Source: TubeMQ 2.x broker; the order of checks is the real one's. Unlike there, an answer means that the message
outlives the process (or the machine, if the store syncs always).
"""

from __future__ import annotations

import zlib

from penstock.errors import CorruptBatch, PenstockError
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.broker.messages import record_of
from penstock.protocols.tubemq.front.call import Call
from penstock.protocols.tubemq.front.checks import named
from penstock.protocols.tubemq.front.cluster import to_wire
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.messages.broker import SendMessageRequestP2B, SendMessageResponseB2P
from penstock.protocols.tubemq.names import HEADER_ALLOWANCE_BYTES
from penstock.seams.runtime import Promise

__all__ = ["send"]

_RECORD_BYTES = 64
"""About what a record takes beside its payload while it waits."""


async def send(call: Call, request: SendMessageRequestP2B) -> SendMessageResponseB2P:
    """Serve send message."""
    shared = call.shared
    named("clientId", request.client_id)
    name = named("topicName", request.topic_name)
    if name.startswith("__"):
        raise Refused(Code.FORBIDDEN, f"topicName {name} does not allow producers to send data!")
    async with shared.senders.held((name, request.partition_id)):
        now_ms, written = await _put(call, name, request)
    offset = await written
    if isinstance(offset, PenstockError):
        raise offset
    return SendMessageResponseB2P(
        success=True,
        err_code=Code.SUCCESS,
        err_msg=str(offset),
        require_auth=False,
        message_id=offset,
        append_time=now_ms,
        append_offset=to_wire(offset),
    )


async def _put(call: Call, name: str, request: SendMessageRequestP2B) -> tuple[int, Promise[int | PenstockError]]:
    """Check a message and put it into the line of its partition; when that was, and what becomes of it."""
    shared = call.shared
    topic = await shared.cluster.known(name)
    if not shared.settings.topic(name).accepts_publish:
        raise Refused(Code.FORBIDDEN, f"topicName {name} has been closed")
    partition = shared.cluster.own(topic, request.partition_id)
    _check_payload(call, request)
    now_ms = shared.now_ms
    try:
        record = record_of(request.data, request.flag, request.msg_type, now_ms)
    except CorruptBatch as error:
        raise Refused(Code.BAD_REQUEST, error.message) from error
    if record.key is None and "compact" in topic.config.get("cleanup.policy", ""):
        raise Refused(Code.BAD_REQUEST, f"topicName {name} is compacted, its messages need keys")
    return now_ms, shared.writing.put(partition, record, len(request.data) + _RECORD_BYTES)


def _check_payload(call: Call, request: SendMessageRequestP2B) -> None:
    size = len(request.data)
    settings = call.shared.settings
    limit = settings.topic(request.topic_name.strip()).max_message_bytes or settings.limits.max_message_bytes
    most = limit + HEADER_ALLOWANCE_BYTES
    if not size:
        raise Refused(Code.BAD_REQUEST, "data length is zero!")
    if size > most:
        raise Refused(
            Code.BAD_REQUEST, f"data length over max length, allowed max length is {most}, data length is {size}"
        )
    if request.check_sum != -1:
        found = zlib.crc32(request.data) & 0x7FFFFFFF
        if found != request.check_sum:
            raise Refused(
                Code.FORBIDDEN,
                f"Checksum msg data failure: {request.check_sum} of {request.topic_name} "
                f"not equal to the data's checksum of {found}",
            )
