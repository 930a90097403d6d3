"""A send of one plain message, the most frequent request of all: the checks and the answer of `sending`, and no more.

What is in any way unusual (delays, transactions, compression, a topic with options, a refusal) is left to `sending`,
which alone says what is wrong. Source: Apache RocketMQ 4.9 and 5.x, ``SendMessageRequestHeaderV2``.
"""

from __future__ import annotations

from typing import Final

from penstock.model import Partition
from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.config.names import UNWRITABLE
from penstock.protocols.rocketmq.front.broker.quick import sent
from penstock.protocols.rocketmq.front.broker.quick_record import quick_batch
from penstock.protocols.rocketmq.front.call import Shared
from penstock.protocols.rocketmq.front.naming import is_hidden
from penstock.protocols.rocketmq.usual import Written

__all__ = ["SINGLE", "send"]

SINGLE: Final = 310

_MOST_BODY: Final = 64 << 10
_MOST_PROPERTIES: Final = 8_000
_DELAY: Final = "DELAY"
_TIMER: Final = "TIMER_DEL"
_MOST_INT32: Final = 0x7FFFFFFF
_MOST_DIGITS: Final = 18


async def send(shared: Shared, asked: RemotingCommand, born_host: str) -> bytes | None:
    """The framed answer, or None for a request that `sending.send` has to look at. Raises StoreError."""
    fields, body = asked.fields, asked.body
    if isinstance(fields, Written):
        fields = fields.read()
    name, properties = fields.get("b", ""), fields.get("i", "")
    queue, born, flag = fields.get("e", ""), fields.get("g", ""), fields.get("h", "0")
    if asked.compact or fields.get("f") != "0" or fields.get("j", "0") != "0" or fields.get("m", "false") != "false":
        return None
    if not (_is_number(queue) and _is_number(born) and _is_number(flag)) or int(flag) > _MOST_INT32 or born == "0":
        return None
    if "a" not in fields or "%" in name or name in UNWRITABLE or is_hidden(name):
        return None
    if len(properties) > _MOST_PROPERTIES or _DELAY in properties or _TIMER in properties:
        return None
    if len(body) > _MOST_BODY or len(body) > shared.options.max_message_bytes:
        return None
    topic = await shared.enode.topic(name)
    if topic is None or topic.config or int(queue) >= topic.partitions or shared.settings.is_set(topic):
        return None
    number = int(queue)
    # Before the message is stored: once it is, nothing may fail any more, or it would be sent again.
    place = await shared.places.base(topic, number)
    batch = quick_batch(properties.encode(), bytes(body), int(born), int(flag), shared.now_ms, born_host)
    if batch is None:
        return None
    offset = (await shared.writing.write(Partition(name, number), batch)).base_offset
    return sent(asked, shared.cluster.host, place | offset, number, offset)


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS
