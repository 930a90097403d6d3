"""Finding: single messages by a key or by an id, of which there are two.

One says at which broker, and where in its commit log, a message lies (``offset_msg_id``); the other is given by its
producer (``UNIQ_KEY``) and is found as a key is, in every broker's index. Both look alike. Brokers put a message into
their index a moment after it was stored.
Source: Apache RocketMQ 4.9 and 5.4, ``MQAdminImpl.viewMessage``, ``queryMessage``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.errors import ProtocolViolation, ServerError
from penstock.model import Record
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.error_codes import Code, error_of
from penstock.protocols.rocketmq.methods import QUERY_MESSAGE, VIEW_MESSAGE_BY_ID

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.shared import Shared
    from penstock.protocols.rocketmq.records import StoredMessage

__all__ = ["find_by_id", "find_by_key"]

_ANY_TIME: Final = (0, (1 << 63) - 1)
_OF_AN_ID: Final = 32


async def find_by_key(
    shared: Shared, topic: str, key: str, times_ms: tuple[int, int], most: int, *, unique: bool = False
) -> list[Record]:
    """``penstock.seams.finding.FindsRecords``; ``unique``: the key is what its producer called the message."""
    await shared.topics.topics([topic], fresh=True)
    nodes = shared.topics.routes.masters(topic)
    if not nodes:
        raise error_of(Code.TOPIC_NOT_EXIST, "no name server knows it", topic=topic)
    begin, end = times_ms
    header = m.QueryMessage(
        topic=topic, key=key, max_num=most, begin_timestamp=begin, end_timestamp=end, is_unique_key=unique or None
    )
    accept = (Code.SUCCESS, Code.QUERY_NOT_FOUND)
    answers = await shared.together(
        [shared.calls.call(node.endpoint, QUERY_MESSAGE, header, accept=accept) for node in nodes]
    )
    found = [
        (each, node.name)
        for node, answer in zip(nodes, answers, strict=True)
        if answer.code == Code.SUCCESS
        for each in _stored(bytes(answer.body))
    ]
    # An index is one of hashes.
    meant = [(each, node) for each, node in found if each.topic == topic and _has(each, key, unique=unique)]
    return [_record(each, node) for each, node in sorted(meant, key=lambda pair: pair[0].store_ms)][:most]


async def find_by_id(shared: Shared, topic: str, record_id: str) -> list[Record]:
    """``penstock.seams.finding.FindsRecords``."""
    there = await _at_its_place(shared, record_id)
    if there is not None and there[0].topic == topic:
        return [_record(*there)]
    return await find_by_key(shared, topic, record_id, _ANY_TIME, _OF_AN_ID, unique=True)


async def _at_its_place(shared: Shared, record_id: str) -> tuple[StoredMessage, str] | None:
    from penstock.protocols.rocketmq.records import parse_offset_id

    try:
        host, place = parse_offset_id(record_id)
    except ProtocolViolation:
        return None
    known = {str(node.endpoint): node for node in await shared.topics.brokers()}
    # Who is told of a Snode does not know where brokers are; it does, and takes an address for the broker's name.
    asked = [known[str(host)]] if str(host) in known else list(known.values())
    header = m.ViewMessage(offset=place, broker_name=None if str(host) in known else str(host))
    for node in asked:
        with contextlib.suppress(ServerError):  # there is nothing: it may be the other kind of id
            answer = await shared.calls.call(node.endpoint, VIEW_MESSAGE_BY_ID, header)
            message = next(iter(_stored(bytes(answer.body))), None)
            if message is not None and parse_offset_id(message.offset_id) == (host, place):
                return message, node.name
    return None


def _stored(body: bytes) -> Sequence[StoredMessage]:
    from penstock.protocols.rocketmq.records import read_stored

    return list(read_stored(body))


def _has(message: StoredMessage, key: str, *, unique: bool) -> bool:
    properties = message.property_map
    if unique:
        return properties.get("UNIQ_KEY") == key
    return key in properties.get("KEYS", "").split(" ")


def _record(message: StoredMessage, node: str) -> Record:
    from penstock.protocols.rocketmq.records import read_record

    said = read_record(message.properties, message.plain_body, every=True)
    return Record(
        message.topic,
        message.queue_id,
        message.queue_offset,
        message.born_ms,
        said.key,
        said.value,
        tuple(said.headers),
        node=node,
    )
