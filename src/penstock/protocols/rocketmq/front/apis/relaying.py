"""What goes on to a client: questions of operators to a consumer, and replies to who asked for one. 307, 309, 324, 325.

A question goes on to the member as it came, and its answer comes back as it is. A reply is not stored. Source: Apache
RocketMQ 4.9 and 5.x, ``AdminBrokerProcessor.callConsumer``, ``ReplyMessageProcessor``.
"""

from __future__ import annotations

from typing import Final

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.command import RemotingCommand, framed
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.apis.viewing import stored_at
from penstock.protocols.rocketmq.front.call import Call, Line, OfConnected, Reply
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.methods import PUSH_REPLY_MESSAGE_TO_CLIENT
from penstock.protocols.rocketmq.records.ids import parse_offset_id
from penstock.protocols.rocketmq.records.properties import parse_properties
from penstock.protocols.rocketmq.rpc import request as pushing
from penstock.protocols.rocketmq.signing import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from penstock.seams.channel import Outgoing
from penstock.seams.framing import Buffer

__all__ = ["asked_of", "consume", "hand_to", "reply", "running"]

_PATIENCE_S: Final = 10.0
_LONGEST: Final = 255
_REPLY_TO: Final = "REPLY_TO_CLIENT"
_SCHEME: Final = "rocketmq"
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


async def reply(call: OfConnected, request: m.SendMessage) -> Reply:
    """Serve send reply message: the client that the message names is given it, and says that it has it."""
    shared = call.shared
    client_id = parse_properties(request.properties or "").get(_REPLY_TO, "")
    line = shared.clients.named(client_id)
    if line is None:
        raise Refused(Code.SYSTEM_ERROR, f"push reply message to {client_id[:_LONGEST]} fail: it is not connected here")
    header = m.PushReply(
        producer_group=request.producer_group,
        topic=request.topic,
        default_topic=request.default_topic,
        default_topic_queue_nums=request.default_topic_queue_nums,
        queue_id=request.queue_id,
        sys_flag=request.sys_flag,
        born_timestamp=request.born_timestamp,
        flag=request.flag,
        properties=request.properties,
        reconsume_times=request.reconsume_times,
        unit_mode=request.unit_mode,
        born_host=str(call.line.address),
        store_host=str(shared.services.identity.advertised[_SCHEME]),
        store_timestamp=shared.now_ms,
    )
    asking = pushing(PUSH_REPLY_MESSAGE_TO_CLIENT, header, call.asked.body)
    said = await _heard(call, line, asking, f"The client <{client_id}>")
    if said.code != Code.SUCCESS:
        raise Refused(said.code, f"push reply message to {client_id[:_LONGEST]} fail: {said.remark or 'it says no'}")
    return Reply(m.Sent(msg_id="0", queue_id=request.queue_id, queue_offset=0))


async def hand_to(call: OfConnected, group: str, client_id: str, body: Buffer) -> Reply:
    """Ask the member what was asked, with this body. Raises Refused where it is not there, or does not answer."""
    member = call.shared.clients.line_of(group, client_id)
    if member is None:
        raise Refused(Code.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
    return await asked_of(call, member, call.asked._replace(body=body), f"The Consumer <{group}> <{client_id}>")


async def asked_of(call: OfConnected, member: Line, asked: RemotingCommand, who: str) -> Reply:
    """What a client answers to this. Raises Refused where it does not answer."""
    fields = {name: value for name, value in asked.fields.items() if name not in _SECRETS}
    said = await _heard(call, member, framed(asked._replace(fields=fields)), who)
    return Reply(None, said.body, said.code, said.remark, said.fields)


async def _heard(call: OfConnected, line: Line, asking: Outgoing, who: str) -> RemotingCommand:
    """What a client answers to a question. Raises Refused where it does not."""
    runtime = call.shared.services.runtime
    number, arrival = call.shared.clients.next_number(), runtime.promise()
    answers: list[RemotingCommand] = []

    def heard(answer: RemotingCommand | None) -> None:
        if answer is not None:
            answers.append(answer)
        arrival.set(None)

    timer = runtime.call_later(_PATIENCE_S, lambda: arrival.set(None))
    line.asked[number] = heard
    try:
        line.push(asking(number))
        await call.line.park(arrival)
    finally:
        timer.cancel()
        del line.asked[number]
    if not answers:
        raise Refused(Code.SYSTEM_ERROR, f"{who} did not answer within {_PATIENCE_S} s")
    return answers[0]
