"""What operators ask a consumer itself, through the broker that it is connected to. 307, 309.

The question goes on to the member as it came, and its answer comes back as it is. Source: Apache RocketMQ 4.9 and 5.x,
``AdminBrokerProcessor.callConsumer``.
"""

from __future__ import annotations

from typing import Final

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.command import RemotingCommand, encode
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.apis.viewing import stored_at
from penstock.protocols.rocketmq.front.call import Call, Line, OfConnected, Reply
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.records.ids import parse_offset_id
from penstock.protocols.rocketmq.signing import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from penstock.seams.framing import Buffer

__all__ = ["asked_of", "consume", "hand_to", "running"]

_PATIENCE_S: Final = 10.0
_SECRETS: Final = frozenset({ACCESS_KEY, SIGNATURE, SECURITY_TOKEN})


async def running(call: OfConnected, request: m.OfMember) -> Reply:
    """Serve get consumer running info."""
    return await hand_to(call, request.consumer_group, request.client_id, call.asked.body)


async def consume(call: Call, request: m.ConsumeDirectly) -> Reply:
    """Serve consume message directly: the member is given the message, wherever its group is."""
    body: Buffer = call.asked.body
    if request.msg_id:
        _, place = parse_offset_id(request.msg_id)
        body = await stored_at(call, place)
    return await hand_to(call, request.consumer_group, request.client_id or "", body)


async def hand_to(call: OfConnected, group: str, client_id: str, body: Buffer) -> Reply:
    """Ask the member what was asked, with this body. Raises Refused where it is not there, or does not answer."""
    member = call.shared.clients.line_of(group, client_id)
    if member is None:
        raise Refused(Code.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
    return await asked_of(call, member, call.asked._replace(body=body), f"The Consumer <{group}> <{client_id}>")


async def asked_of(call: OfConnected, member: Line, asked: RemotingCommand, who: str) -> Reply:
    """What a client answers to this. Raises Refused where it does not answer."""
    clients, runtime = call.shared.clients, call.shared.services.runtime
    number, arrival = clients.next_number(), runtime.promise()
    answers: list[RemotingCommand] = []

    def heard(answer: RemotingCommand | None) -> None:
        if answer is not None:
            answers.append(answer)
        arrival.set(None)

    fields = {name: value for name, value in asked.fields.items() if name not in _SECRETS}
    timer = runtime.call_later(_PATIENCE_S, lambda: arrival.set(None))
    member.asked[number] = heard
    try:
        member.push(encode(asked._replace(opaque=number, fields=fields)))
        await call.line.park(arrival)
    finally:
        timer.cancel()
        del member.asked[number]
    if not answers:
        raise Refused(Code.SYSTEM_ERROR, f"{who} did not answer within {_PATIENCE_S} s")
    said = answers[0]
    return Reply(None, said.body, said.code, said.remark, said.fields)
