"""Groups as operators see them: who is there, how far they are, how they are set.

Requests 200, 201, 203, 204, 207, 208, 222, 300 and 352.

Source: Apache RocketMQ 4.9 and 5.x, ``AdminBrokerProcessor``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.config.names import is_built_in
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.broker.groups import Member
from penstock.protocols.rocketmq.front.call import Call, Line, OfConnected, Reply, read_large, written
from penstock.protocols.rocketmq.front.faults import Refused, unmade
from penstock.protocols.rocketmq.front.naming import is_hidden, log_name, rocket_name
from penstock.protocols.rocketmq.methods import RESET_CONSUMER_CLIENT_OFFSET
from penstock.protocols.rocketmq.rpc import request as to_client
from penstock.seams.enode import extent

__all__ = [
    "connected",
    "connections",
    "create",
    "delete",
    "made_group",
    "producers",
    "readers",
    "reset",
    "setting",
    "settings",
    "stats",
]

_KIND: Final = "group"
_LONGEST_NAME: Final = 255
_STEPS_OF_A_SETTING: Final = 4
_STEPS_OF_STATS: Final = 10
"""Of `Turns`, for a group's setting, and for a topic's or a group's offsets."""


def made_group(call: Call, group: str) -> None:
    """Raises Refused for a group that nobody has made, where others are not served."""
    shared = call.shared
    if not (shared.options.auto_create_groups or is_built_in(group) or shared.ledger.get(_KIND, group) is not None):
        raise unmade(group)


async def create(call: Call, request: m.NoFields) -> Reply:
    """Serve update and create subscription group. Of its settings only ``retryMaxTimes`` does anything here."""
    del request
    said = await read_large(call.shared.beside, m.SubscriptionGroupConfig, call.asked.body)
    if not said.group_name or len(said.group_name) > _LONGEST_NAME:
        raise Refused(Code.SYSTEM_ERROR, f"a group's name of {len(said.group_name)} letters")
    await call.shared.ledger.put(_KIND, said.group_name, json.loads(m.write_body(said)))
    return Reply()


async def delete(call: Call, request: m.DeleteGroup) -> Reply:
    """Serve delete subscription group; its offsets go where it says so."""
    shared, name = call.shared, request.group_name
    if shared.ledger.get(_KIND, name) is not None:
        await shared.ledger.put(_KIND, name, None)
    if request.clean_offset or request.remove_offset:
        await shared.offsets.forget(name, lambda partition, known: True)
    return Reply()


async def setting(call: Call, request: m.OfGroupName) -> Reply:
    """Serve get subscription group config: as it was set, or as all are."""
    kept = call.shared.ledger.get(_KIND, request.group)
    return Reply(body=_setting(kept) if kept is not None else m.SubscriptionGroupConfig(group_name=request.group))


async def settings(call: Call, request: m.NoFields) -> Reply:
    """Serve get all subscription group configs: those that were set, and those that are there."""
    del request
    shared = call.shared
    there = {*await shared.offsets.groups(), *shared.clients.consumers}
    table = {name: m.SubscriptionGroupConfig(group_name=name) for name in sorted(there)}
    async for name, kept in shared.turns.through(list(shared.ledger.all(_KIND)), _STEPS_OF_A_SETTING):
        table[name] = _setting(kept)
    found = m.SubscriptionGroups(subscription_group_table=table, data_version=m.DataVersion(timestamp=shared.now_ms))
    return Reply(body=await written(shared.beside, found, len(table)))


async def producers(call: OfConnected, request: m.OfProducers) -> Reply:
    """Serve get producer connection list."""
    found = call.shared.clients.producers.get(request.producer_group)
    if found is None:
        raise Refused(Code.SYSTEM_ERROR, f"the producer group[{request.producer_group}] not exist")
    return Reply(body=m.ConsumerConnection(connection_set=connected(found.items())))


async def reset(call: Call, request: m.ResetOffsetsOfGroup) -> Reply:
    """Serve invoke broker to reset offset: the group begins there, and its members are told."""
    shared = call.shared
    topic = await shared.cluster.known(request.topic)
    numbers = range(topic.partitions)
    if request.queue_id is not None and request.queue_id >= 0:
        numbers = range(request.queue_id, min(request.queue_id + 1, topic.partitions))
    table: dict[m.MessageQueue, int] = {}
    for number in numbers:
        partition = Partition(topic.name, number)
        known = await shared.positions.of(request.group, partition)
        offset = await _reset_to(call, partition, request)
        if request.is_force or known is None or offset <= known:
            queue = m.MessageQueue(topic=request.topic, broker_name=shared.cluster.broker, queue_id=number)
            table[queue] = offset
            await shared.positions.set(request.group, partition, offset, call.line.address.host)
    body = m.ResetOffset(offset_table=table)
    shared.clients.tell_consumers(request.group, to_client(RESET_CONSUMER_CLIENT_OFFSET, request, body, one_way=True))
    return Reply(body=body)


async def _reset_to(call: Call, partition: Partition, request: m.ResetOffsetsOfGroup) -> int:
    where = await extent(call.shared.enode, partition)
    if request.offset is not None and request.offset >= 0:
        return min(max(request.offset, where.start), where.stable)
    if request.timestamp < 0:
        return where.stable
    found = await call.shared.enode.offset_for_time(partition, request.timestamp)
    return where.stable if found is None else min(max(found[0], where.start), where.stable)


def _setting(kept: dict[str, object]) -> m.SubscriptionGroupConfig:
    return m.read_body(m.SubscriptionGroupConfig, json.dumps(kept).encode())


async def connections(call: OfConnected, request: m.OfGroup) -> Reply:
    """Serve get consumer connection list."""
    group = call.shared.clients.consumers.get(request.consumer_group)
    if group is None:
        raise Refused(Code.CONSUMER_NOT_ONLINE, f"the consumer group[{request.consumer_group}] not online")
    return Reply(
        body=m.ConsumerConnection(
            connection_set=connected(group.members.items()),
            subscription_table=dict(group.subscriptions),
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
    )


async def stats(call: Call, request: m.StatsOfGroup) -> Reply:
    """Serve get consume stats: of all topics that the group has an offset in, or reads."""
    shared, group = call.shared, request.consumer_group
    committed = await shared.offsets.committed(group)
    at = {partition: known.offset for partition, known in committed.items()}
    topics = [request.topic] if request.topic else sorted(_topics_of(call, group, at))
    found: dict[m.MessageQueue, m.QueueStats] = {}
    async for name in shared.turns.through(topics, _STEPS_OF_STATS):
        topic = await shared.cluster.topic(name)
        partitions = [Partition(topic.name, number) for number in range(topic.partitions)] if topic else []
        for partition, where in zip(partitions, await shared.enode.extents(partitions), strict=True):
            if isinstance(where, PenstockError):
                raise where
            queue = m.MessageQueue(topic=name, broker_name=shared.cluster.broker, queue_id=partition.id)
            found[queue] = m.QueueStats(broker_offset=where.stable, consumer_offset=at.get(partition, 0))
    return Reply(body=await written(shared.beside, m.ConsumeStats(offset_table=found), len(found)))


async def readers(call: Call, request: m.OfTopic) -> Reply:
    """Serve query topic consume by who: groups that have committed something there, or subscribe to it."""
    shared = call.shared
    name = log_name(request.topic)
    found = {name for name, group in shared.clients.consumers.items() if request.topic in group.subscriptions}
    async for group in shared.turns.through(await shared.offsets.groups(), _STEPS_OF_STATS):
        if any(partition.topic == name for partition in await shared.offsets.committed(group)):
            found.add(group)
    return Reply(body=m.Groups(group_list=tuple(sorted(found))))


def _topics_of(call: Call, group: str, at: Iterable[Partition]) -> set[str]:
    known = call.shared.clients.consumers.get(group)
    topics = {rocket_name(partition.topic) for partition in at if not is_hidden(partition.topic)}
    return topics if known is None else topics | known.subscriptions.keys()


def connected(members: Iterable[tuple[Line, Member]]) -> tuple[m.Connection, ...]:
    """Members as operators are shown them, each once."""
    found = {
        member.who.client_id: m.Connection(
            client_id=member.who.client_id,
            client_addr=str(line.address),
            language=member.who.language,
            version=member.who.version,
        )
        for line, member in members
    }
    return tuple(found.values())
