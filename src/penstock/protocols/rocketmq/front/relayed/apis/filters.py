"""Would a subscription do? Brokers know what their grammar is, and whether they filter at all. 46."""

from __future__ import annotations

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.call import Reply
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.relayed.apis.asked import RelayedCall, agreed
from penstock.protocols.rocketmq.methods import CHECK_CLIENT_CONFIG
from penstock.protocols.rocketmq.rpc import request

__all__ = ["check"]


async def check(call: RelayedCall, header: m.NoFields) -> Reply:
    """Serve check client config: any master answers. The group need not be known there."""
    relay = call.shared.relay
    masters = relay.brokers.masters()
    if not masters:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, "no name server knows a master broker now")
    broker = masters[call.line.number % len(masters)]
    frame = await relay.ask(broker, request(CHECK_CLIENT_CONFIG, header, call.asked.body))
    agreed(frame)
    return Reply()
