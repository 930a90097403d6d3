"""What operators ask a consumer itself, through the Snode that it is connected to. 307, 309.

Source: Apache RocketMQ 4.9 and 5.x, ``AdminBrokerProcessor.callConsumer``.
"""

from __future__ import annotations

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.apis.relaying import hand_to
from penstock.protocols.rocketmq.front.call import Reply
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.relayed.apis.asked import RelayedCall, agreed
from penstock.protocols.rocketmq.front.relayed.peers.handing import came_from_a_snode, elsewhere
from penstock.protocols.rocketmq.methods import VIEW_MESSAGE_BY_ID
from penstock.protocols.rocketmq.records.ids import parse_offset_id
from penstock.protocols.rocketmq.rpc import request
from penstock.seams.framing import Buffer

__all__ = ["consume", "running"]


async def consume(call: RelayedCall, header: m.ConsumeDirectly) -> Reply:
    """Serve consume message directly: the broker that the id says has the message."""
    body: Buffer = call.asked.body
    if header.msg_id and not came_from_a_snode(call.asked):
        relay = call.shared.relay
        host, place = parse_offset_id(header.msg_id)
        name = relay.brokers.at(host)
        if name is None:
            raise Refused(Code.SYSTEM_ERROR, f"message {header.msg_id[:100]} is at {host}, which is no broker here")
        frame = await relay.ask(relay.brokers.of(name), request(VIEW_MESSAGE_BY_ID, m.ViewMessage(offset=place)))
        body = agreed(frame).body
    return await _handed(call, header.consumer_group, header.client_id or "", body)


async def running(call: RelayedCall, header: m.OfMember) -> Reply:
    """Serve get consumer running info."""
    return await _handed(call, header.consumer_group, header.client_id, call.asked.body)


async def _handed(call: RelayedCall, group: str, member: str, body: Buffer) -> Reply:
    """To the member, wherever it is connected."""
    said = await elsewhere(call.shared, call.asked, group, member, body)
    return await hand_to(call, group, member, body) if said is None else said
