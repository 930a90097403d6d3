"""An operator puts a group elsewhere (mqadmin resetOffsetByTime). 222.

Brokers tell the members that are connected to them, and those are connected here. So the node asks the broker for
offsets and tells the members; these commit them, as they do when a broker tells them. Other Snodes that have members of
the group do the same for these. Where nobody is there, the broker answers: one of 5.x puts the group
there, one of 4.9 says that nobody is there, and the tool commits by itself.

Source: Apache RocketMQ 4.9 and 5.x, ``Broker2Client.resetOffset``.
"""

from __future__ import annotations

from typing import TypeVar

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.command import framed
from penstock.protocols.rocketmq.enode.brokers import Broker
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.framing import command_of
from penstock.protocols.rocketmq.front.call import Reply
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.relayed.apis.asked import RelayedCall, agreed
from penstock.protocols.rocketmq.front.relayed.apis.routes import route_of
from penstock.protocols.rocketmq.front.relayed.everywhere import PATIENCE_S
from penstock.protocols.rocketmq.front.relayed.peers.handing import everywhere_else
from penstock.protocols.rocketmq.front.relayed.targets import named_or_next
from penstock.protocols.rocketmq.methods import (
    GET_MAX_OFFSET,
    QUERY_CONSUMER_OFFSET,
    RESET_CONSUMER_CLIENT_OFFSET,
    SEARCH_OFFSET_BY_TIMESTAMP,
    Method,
)
from penstock.protocols.rocketmq.rpc import read_answer, request

__all__ = ["reset"]

R = TypeVar("R")


async def reset(call: RelayedCall, header: m.ResetOffsetsOfGroup) -> Reply:
    """Serve invoke broker to reset offset, for the queues of one broker: tools ask each."""
    around = call.shared
    broker = named_or_next(around, call.line, call.asked)
    if header.group not in around.clients.consumers and not around.peers.members(header.group):
        at_broker = command_of(await around.relay.ask(broker, framed(call.asked), timeout_s=PATIENCE_S))
        return Reply(None, at_broker.body, at_broker.code, at_broker.remark, at_broker.fields)
    named = call.asked._replace(fields={**call.asked.fields, "bname": broker.name})
    await everywhere_else(around, named, header.group)
    route = await route_of(around, header.topic)
    count = next((each.read_queue_nums for each in route.queue_datas if each.broker_name == broker.name), 0)
    numbers = range(count)
    if header.queue_id is not None and header.queue_id >= 0:
        numbers = range(header.queue_id, min(header.queue_id + 1, count))
    table: dict[m.MessageQueue, int] = {}
    for number in numbers:
        offset, known = await _wanted(call, broker, header, number), await _committed(call, broker, header, number)
        queue = m.MessageQueue(topic=header.topic, broker_name=broker.name, queue_id=number)
        table[queue] = offset if header.is_force or known is None or offset <= known else known
    body = m.ResetOffset(offset_table=table)
    around.clients.tell_consumers(header.group, request(RESET_CONSUMER_CLIENT_OFFSET, header, body, one_way=True))
    return Reply(body=body)


async def _wanted(call: RelayedCall, broker: Broker, header: m.ResetOffsetsOfGroup, queue: int) -> int:
    if header.offset is not None and header.offset >= 0:
        return header.offset
    if header.timestamp < 0:
        return await _offset(call, broker, GET_MAX_OFFSET, m.OfQueue(topic=header.topic, queue_id=queue))
    wanted = m.SearchOffset(topic=header.topic, queue_id=queue, timestamp=header.timestamp)
    return await _offset(call, broker, SEARCH_OFFSET_BY_TIMESTAMP, wanted)


async def _committed(call: RelayedCall, broker: Broker, header: m.ResetOffsetsOfGroup, queue: int) -> int | None:
    wanted = m.QueryConsumerOffset(consumer_group=header.group, topic=header.topic, queue_id=queue)
    try:
        return await _offset(call, broker, QUERY_CONSUMER_OFFSET, wanted)
    except Refused as no:
        if no.code != Code.QUERY_NOT_FOUND:
            raise
        return None


async def _offset(call: RelayedCall, broker: Broker, method: Method[R, m.FoundOffset], wanted: R) -> int:
    frame = await call.shared.relay.ask(broker, request(method, wanted))
    agreed(frame)
    return read_answer(method, frame).header.offset
