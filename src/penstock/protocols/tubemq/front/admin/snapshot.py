"""A look at the last messages of a partition."""

from __future__ import annotations

import base64
import sys

from penstock.interfaces.enode import extent
from penstock.protocols.tubemq.front.admin.answers import Answer, from_broker
from penstock.protocols.tubemq.front.admin.routes import AdminCall
from penstock.protocols.tubemq.front.broker.reading import Begin, Limits, look, read_batch
from penstock.protocols.tubemq.java_hash import java_hash
from penstock.protocols.tubemq.messages.broker import TransferedMessage

__all__ = ["messages"]

_MOST_BYTES = 4 << 20
_LENGTH = 4


async def messages(call: AdminCall) -> Answer:
    """Serve admin_snapshot_message: up to ``msgCount`` of the last messages, those that fit ``filterConds``.

    Of partition 0 where none is named: InLong Manager names none.
    """
    given = call.parameters
    topic = await call.shared.cluster.known(given.text("topicName"))
    partition = call.shared.cluster.own(topic, given.number("partitionId", 0, low=0, high=2**31 - 1))
    count = given.number("msgCount", 3, low=1, high=50)
    filters = frozenset(java_hash(each) for each in given.names("filterConds"))
    start, end, _, _ = await extent(call.shared.enode, partition)
    begin = max(start, end - count)
    if begin == end:
        return from_broker([])
    shared, limits = call.shared, Limits(_MOST_BYTES, count, sys.maxsize)
    found = await look(shared.enode, partition, begin, _MOST_BYTES)
    batch = await read_batch(shared.enode, shared.beside, partition, Begin(begin, found), filters, limits)
    return from_broker([_shown(row, message) for row, message in enumerate(batch.messages)])


def _shown(row: int, message: TransferedMessage) -> dict[str, object]:
    payload = message.pay_load_data
    attributes, body = b"null", payload  # as the real one shows that there are none
    if message.flag & 1:
        size = int.from_bytes(payload[:_LENGTH], "big")
        attributes, body = payload[_LENGTH : _LENGTH + size], payload[_LENGTH + size :]
    return {"index": row, "data": base64.b64encode(body).decode(), "attr": attributes.decode("utf-8", "replace")}
