"""The answer to a request message goes to the producer that asked, wherever it is connected. 324, 325, 326.

A consumer sends its reply to a broker, and that pushes it to the producer whose client id the reply names. Brokers see
no clients here, so the Snode does. The reply is stored nowhere, as at a broker with ``storeReplyMessageEnable=false``.

Source: Apache RocketMQ 4.9 and 5.x, ``ReplyMessageProcessor``.
"""

from __future__ import annotations

from typing import Final

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.apis.relaying import asked_of
from penstock.protocols.rocketmq.front.call import Reply
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.relayed.apis.asked import RelayedCall
from penstock.protocols.rocketmq.front.relayed.peers.handing import came_from_a_snode, hand_over
from penstock.protocols.rocketmq.messages import write_fields
from penstock.protocols.rocketmq.records.properties import format_properties, parse_properties

__all__ = ["reply"]

_PUSH: Final = 326
_ASKED_BY: Final = "REPLY_TO_CLIENT"
_PUSHED_AT: Final = "PUSH_REPLY_TIME"


async def reply(call: RelayedCall, header: m.SendMessage) -> Reply:
    """Serve send reply message. Raises Refused where its producer is not there."""
    around = call.shared
    properties = parse_properties(header.properties or "")
    who = properties.get(_ASKED_BY)
    if not who:
        raise Refused(Code.SYSTEM_ERROR, f"reply message properties[{_ASKED_BY}] is null")
    line = around.clients.producer_line(who)
    home = None if line is not None or came_from_a_snode(call.asked) else around.peers.home_of_producer(who)
    if home is not None:
        said = await hand_over(around, home, call.asked)
        return Reply(None, said.body, said.code, said.remark, said.fields)
    if line is None:
        raise Refused(Code.SYSTEM_ERROR, f"push reply message fail, channel of <{who[:255]}> not found.")
    properties[_PUSHED_AT] = str(around.now_ms)
    here = around.services.identity.advertised["rocketmq"]
    fields = {
        **write_fields(header),
        "properties": format_properties(properties),
        "bornHost": f"/{call.line.address}",
        "storeHost": f"/{here}",
        "storeTimestamp": str(around.now_ms),
    }
    pushed = await asked_of(call, line, RemotingCommand(_PUSH, fields=fields, body=call.asked.body), f"<{who[:255]}>")
    if pushed.code != Code.SUCCESS:
        return pushed
    return Reply(m.Sent(msg_id="0", queue_id=max(header.queue_id, 0), queue_offset=0))
