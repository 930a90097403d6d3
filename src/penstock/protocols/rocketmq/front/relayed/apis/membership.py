"""Clients in groups: who is there is known here and at other Snodes, and nowhere else. 34, 35, 38, 203, 204, 300.

Source: Apache RocketMQ 4.9 and 5.x, ``ClientManageProcessor``, ``ConsumerManageProcessor``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.command import framed
from penstock.protocols.rocketmq.config.names import RETRY
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.apis.groups import connected
from penstock.protocols.rocketmq.front.apis.membership import named
from penstock.protocols.rocketmq.front.broker.groups import ConsumerGroup, Who
from penstock.protocols.rocketmq.front.call import Reply, read_large
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.relayed.apis.asked import RelayedCall, agreed
from penstock.protocols.rocketmq.front.relayed.peers.told import CONSUMER, PRODUCER, Key
from penstock.protocols.rocketmq.front.relayed.targets import named_or_next

__all__ = ["connections", "heartbeat", "members", "producers", "readers", "unregister"]


async def heartbeat(call: RelayedCall, header: m.NoFields) -> Reply:
    """Serve heart beat: others of a group are told at once when somebody comes."""
    del header
    said = await read_large(call.shared.beside, m.HeartbeatData, call.asked.body)
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
    """Serve unregister client: it is in the group nowhere any more, also where a Snode that is gone had it."""
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


async def readers(call: RelayedCall, header: m.OfTopic) -> Reply:
    """Serve query topic consume by who: groups that a broker has offsets of, and those whose members are here."""
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
