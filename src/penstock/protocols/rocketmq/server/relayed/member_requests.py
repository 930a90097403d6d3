"""Handlers of requests that the node serves itself in front of real brokers.

They are about members of groups (heartbeats, lists, questions, replies, resets) and about Snodes. Requests that concern
members at other Snodes are forwarded there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from penstock.interfaces.framing import Buffer
from penstock.model import Endpoint
from penstock.protocols.rocketmq.backend.relay import Broker
from penstock.protocols.rocketmq.config import RETRY
from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.protocols.rocketmq.server.call import Reply, read_large
from penstock.protocols.rocketmq.server.clients import ConsumerGroup, Who
from penstock.protocols.rocketmq.server.cluster_requests import (
    group_of,
    known_snodes,
    register_snode,
    snodes_of_cluster,
)
from penstock.protocols.rocketmq.server.group_requests import connected, named
from penstock.protocols.rocketmq.server.read_requests import asked_of, hand_to
from penstock.protocols.rocketmq.server.relayed.forwarding import (
    PATIENCE_S,
    RelayContext,
    RelayedCall,
    agreed,
    named_or_next,
    route_of,
)
from penstock.protocols.rocketmq.server.relayed.peer_groups import CONSUMER, PRODUCER, Key
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand, command_of, framed
from penstock.protocols.rocketmq.wire.message_format import parse_offset_id
from penstock.protocols.rocketmq.wire.messages import write_fields
from penstock.protocols.rocketmq.wire.properties import format_properties, parse_properties
from penstock.protocols.rocketmq.wire.rpc import (
    CHECK_CLIENT_CONFIG,
    GET_MAX_OFFSET,
    QUERY_CONSUMER_OFFSET,
    RESET_CONSUMER_CLIENT_OFFSET,
    SEARCH_OFFSET_BY_TIMESTAMP,
    VIEW_MESSAGE_BY_ID,
    Method,
    read_answer,
    request,
)

__all__ = [
    "ask_running_info",
    "ask_to_consume",
    "came_from_a_snode",
    "check_subscription",
    "connections",
    "create_retry_topic",
    "elsewhere",
    "everywhere_else",
    "hand_over",
    "heartbeat",
    "known_snodes",
    "members",
    "pass_on_reply",
    "producers",
    "register_snode",
    "reset_offsets",
    "snodes_of_cluster",
    "tell_peer",
    "topic_readers",
    "unregister",
]


async def heartbeat(call: RelayedCall, header: m.NoFields) -> Reply:
    """Serve heart beat; the other members of a group are notified at once when a new one joins."""
    del header
    said = await read_large(call.shared.background, m.HeartbeatData, call.asked.body)
    around, asked = call.shared, call.asked
    who = Who(said.client_id, asked.language, asked.version)
    for producer in said.producer_data_set:
        fresh = named(producer.group_name) not in around.clients.producers
        around.clients.produce(call.line, who, producer.group_name, around.now)
        if fresh:
            around.producers.joined(producer.group_name)
    for consumer in said.consumer_data_set:
        retry = f"{RETRY}{named(consumer.group_name)}"
        around.clients.consume(call.line, who, consumer, around.now)
        if any(each.topic == retry for each in consumer.subscription_data_set):
            around.retry_topics.want(consumer.group_name)
    if call.line.over:
        around.clients.lost(call.line)
    return Reply()


async def unregister(call: RelayedCall, request: m.UnregisterClient) -> Reply:
    """Serve unregister client: the client leaves the group at all Snodes, also where a lost Snode had it."""
    around = call.shared
    around.clients.leave(call.line, consumer_group=request.consumer_group, producer_group=request.producer_group)
    if request.consumer_group is not None:
        around.peers.left(CONSUMER, request.consumer_group, request.client_id)
    return Reply()


async def members(call: RelayedCall, request: m.OfGroup) -> Reply:
    """Serve get consumer list by group."""
    peers = call.shared.peers
    if peers.waits(request.consumer_group):
        raise Refused(
            Code.SYSTEM_ERROR,
            f"not all of {request.consumer_group} have beaten since this Snode started: they keep what they have",
        )
    found = peers.consumers(request.consumer_group)
    if not found:
        raise Refused(Code.SYSTEM_ERROR, f"no consumer for this group, {request.consumer_group}")
    return Reply(body=m.ConsumerIds(consumer_id_list=tuple(found)))


async def topic_readers(call: RelayedCall, header: m.OfTopic) -> Reply:
    """Serve query topic consume by who: groups with offsets at a broker, and groups with members that subscribe."""
    around = call.shared
    broker = named_or_next(around, call.line, call.asked)
    found = set(m.read_body(m.Groups, agreed(await around.relay.ask(broker, framed(call.asked))).body).group_list)
    found |= {name for name, each in around.clients.consumers.items() if header.topic in each.subscriptions}
    found |= around.peers.union.readers(header.topic)
    return Reply(body=m.Groups(group_list=tuple(sorted(found))))


async def connections(call: RelayedCall, request: m.OfGroup) -> Reply:
    """Serve get consumer connection list."""
    peers, name = call.shared.peers, request.consumer_group
    here = call.shared.clients.consumers.get(name)
    said: list[ConsumerGroup | m.PeerGroup] = [] if here is None else [here]
    said += peers.union.groups(Key(CONSUMER, name))
    if not said:
        raise Refused(Code.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
    found = () if here is None else connected(here.members.items())
    return Reply(
        body=m.ConsumerConnection(
            connection_set=_together(found, peers.members(name)),
            subscription_table=_subscriptions(said),
            consume_type=said[0].consume_type,
            message_model=said[0].message_model,
            consume_from_where=said[0].consume_from_where,
        )
    )


async def producers(call: RelayedCall, request: m.OfProducers) -> Reply:
    """Serve get producer connection list."""
    name = request.producer_group
    here = call.shared.clients.producers.get(name, {})
    found = _together(connected(here.items()), call.shared.peers.members(name, PRODUCER))
    if not found:
        raise Refused(Code.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    return Reply(body=m.ConsumerConnection(connection_set=found))


def _together(here: Iterable[m.Connection], there: Mapping[str, m.PeerMember]) -> tuple[m.Connection, ...]:
    found = tuple(here)
    known = {each.client_id for each in found}
    return (
        *found,
        *(
            m.Connection(client_id=who, client_addr=each.address, language=each.language, version=each.version)
            for who, each in there.items()
            if who not in known
        ),
    )


def _subscriptions(said: Iterable[ConsumerGroup | m.PeerGroup]) -> dict[str, m.SubscriptionData]:
    found: dict[str, m.SubscriptionData] = {}
    for group in said:
        wanted = group.subscriptions.values() if isinstance(group, ConsumerGroup) else group.subscriptions
        for each in wanted:
            if each.topic not in found or found[each.topic].sub_version < each.sub_version:
                found[each.topic] = each
    return found


# Check of a subscription (46): only brokers know their grammar, and whether they filter at all.
async def check_subscription(call: RelayedCall, header: m.NoFields) -> Reply:
    """Serve check client config: any master answers. The group need not exist there."""
    relay = call.shared.relay
    masters = relay.brokers.masters()
    if not masters:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, "no name server knows a master broker now")
    broker = masters[call.line.number % len(masters)]
    frame = await relay.ask(broker, request(CHECK_CLIENT_CONFIG, header, call.asked.body))
    agreed(frame)
    return Reply()


# Requests of the first Snode's clients: Snodes, and a group's retry topic (350, 353 to 355).
#
# 355 is never forwarded: stock brokers do not know it, or mean something else by it. Source: the Snode of 2019,
# ``ConsumerManageProcessor``.
async def create_retry_topic(call: RelayedCall, request: m.CreateRetryTopic) -> Reply:
    """Serve create retry topic: create it (17) at the named broker, or at all, where it does not exist."""
    around, relay = call.shared, call.shared.relay
    said = request.enode_name
    name = None if said is None else relay.brokers.known(said)
    if said is not None and name is None:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, f"no name server knows a broker {said[:100]!r}")
    group = group_of(request)
    await around.made_groups.need(group)
    await around.retry_topics.ensure(group, only=name)
    return Reply()


# Another Snode of the cluster asks for the clients here.
async def tell_peer(call: RelayedCall, header: m.NoFields) -> Reply:
    """Serve ask peer; the response waits until there is news."""
    del header
    peers = call.shared.peers
    asked = m.read_body(m.AskPeer, call.asked.body)
    if not peers.stopping:
        found = await peers.tell(asked, call.line)
        if not peers.stopping:
            return Reply(body=found)
    raise Refused(Code.SYSTEM_ERROR, "this Snode stops")


# Requests that concern another Snode's member are forwarded to that Snode, and no further.
_FROM: Final = "penstockSnode"
"""A field that marks a request as forwarded by a Snode, which has asked all Snodes concerned."""
_PATIENCE_S: Final = 10.0


def came_from_a_snode(asked: RemotingCommand) -> bool:
    """Whether a Snode forwarded it, so that it must not be forwarded again."""
    return _FROM in asked.fields


async def elsewhere(
    around: RelayContext, asked: RemotingCommand, group: str, member: str, body: Buffer
) -> Reply | None:
    """The response of a member at another Snode; None if it is here, or at no Snode that can be asked.

    Raises UpstreamLost."""
    if came_from_a_snode(asked) or around.clients.line_of(group, member) is not None:
        return None
    home = around.peers.home_of(group, member)
    if home is None:
        return None
    said = await hand_over(around, home, asked._replace(body=body))
    return Reply(None, said.body, said.code, said.remark, said.fields)


async def everywhere_else(around: RelayContext, asked: RemotingCommand, group: str) -> list[RemotingCommand]:
    """The responses of the other Snodes that have members of a group. Raises UpstreamLost if one does not answer."""
    if came_from_a_snode(asked):
        return []
    homes = around.peers.homes_of(group)
    answers = await around.relay.gather([hand_over(around, home, asked) for home in homes])
    for each in answers:
        if isinstance(each, BaseException):
            raise each
    return answers


async def hand_over(around: RelayContext, home: Endpoint, asked: RemotingCommand) -> RemotingCommand:
    """The response of another Snode, which does not forward the request. Raises UpstreamLost if it does not answer."""
    marked = asked._replace(fields={**asked.fields, _FROM: around.peers.union.own.id})
    return command_of(await around.relay.ask_snode(home, framed(marked), held_s=_PATIENCE_S))


# Operators' questions to a consumer, through the Snode that it is connected to (307, 309). Source: Apache RocketMQ 4.9
# and 5.x, ``AdminBrokerProcessor.callConsumer``.
async def ask_to_consume(call: RelayedCall, header: m.ConsumeDirectly) -> Reply:
    """Serve consume message directly: fetch the message from the broker in its id, and push it to the member."""
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


async def ask_running_info(call: RelayedCall, header: m.OfMember) -> Reply:
    """Serve get consumer running info."""
    return await _handed(call, header.consumer_group, header.client_id, call.asked.body)


async def _handed(call: RelayedCall, group: str, member: str, body: Buffer) -> Reply:
    """Forward to the member, here or at another Snode."""
    said = await elsewhere(call.shared, call.asked, group, member, body)
    return await hand_to(call, group, member, body) if said is None else said


# Replies to request messages (324, 325, 326) go to the producer that asked, wherever it is connected.
#
# A consumer sends its reply to a broker, which pushes it to the producer whose client id the reply names. Brokers have
# no client connections here, so the Snode pushes. The reply is not stored, as at a broker with
# ``storeReplyMessageEnable=false``. Source: Apache RocketMQ 4.9 and 5.x, ``ReplyMessageProcessor``.
_PUSH: Final = 326
_ASKED_BY: Final = "REPLY_TO_CLIENT"
_PUSHED_AT: Final = "PUSH_REPLY_TIME"


async def pass_on_reply(call: RelayedCall, header: m.SendMessage) -> Reply:
    """Serve send reply message. Raises Refused if the producer is not connected."""
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


# An operator resets a group's offsets (222, mqadmin resetOffsetByTime).
#
# Brokers notify the members connected to them; here members are connected to Snodes. So the node asks the broker for
# the offsets and notifies its members, which commit them as they do for a broker. Other Snodes with members of the
# group do the same. Without any members the broker answers: one of 5.x resets the group, one of 4.9 reports that there
# are no members, and the tool commits by itself. Source: Apache RocketMQ 4.9 and 5.x, ``Broker2Client.resetOffset``.
R = TypeVar("R")


async def reset_offsets(call: RelayedCall, header: m.ResetOffsetsOfGroup) -> Reply:
    """Serve invoke broker to reset offset, for the queues of one broker; tools ask each broker."""
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
