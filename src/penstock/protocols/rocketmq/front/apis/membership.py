"""Clients in groups: heartbeats, who is there, locks of queues. 34, 35, 38, 41, 42, 46.

Source: Apache RocketMQ 4.9 and 5.x, ``ClientManageProcessor``, ``ConsumerManageProcessor``, ``AdminBrokerProcessor``.
"""

from __future__ import annotations

from typing import Final

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.config.names import RETRY
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.broker.filters import wanted_by
from penstock.protocols.rocketmq.front.broker.groups import Who
from penstock.protocols.rocketmq.front.call import Call, OfConnected, Reply, read_large, written
from penstock.protocols.rocketmq.front.faults import Refused

__all__ = ["check", "heartbeat", "lock", "members", "named", "unlock", "unregister"]

_LONGEST_NAME: Final = 255
_STEPS_OF_A_TOPIC: Final = 200
"""Of `Turns`: to make one takes about two milliseconds."""


async def heartbeat(call: Call, request: m.NoFields) -> Reply:
    """Serve heart beat. A group that reads its own retry topic has one from then on."""
    del request
    said = await read_large(call.shared.beside, m.HeartbeatData, call.asked.body)
    shared, asked = call.shared, call.asked
    who = Who(said.client_id, asked.language, asked.version)
    for producer in said.producer_data_set:
        shared.clients.produce(call.line, who, named(producer.group_name), shared.now)
    for consumer in said.consumer_data_set:
        retry = f"{RETRY}{named(consumer.group_name)}"
        queues = shared.settings.retry_queues(consumer.group_name)
        if queues and any(each.topic == retry for each in consumer.subscription_data_set):
            if await shared.cluster.topic(retry) is None:
                await shared.turns.take(_STEPS_OF_A_TOPIC)
            await shared.cluster.ensure(retry, queues)
        shared.clients.consume(call.line, who, consumer, shared.now)
    if call.line.over:  # while a topic was being made
        shared.clients.lost(call.line)
    return Reply()


async def unregister(call: OfConnected, request: m.UnregisterClient) -> Reply:
    """Serve unregister client."""
    call.shared.clients.leave(call.line, consumer_group=request.consumer_group, producer_group=request.producer_group)
    return Reply()


async def members(call: OfConnected, request: m.OfGroup) -> Reply:
    """Serve get consumer list by group."""
    found = call.shared.clients.ids(request.consumer_group)
    if not found:
        raise Refused(Code.SYSTEM_ERROR, f"no consumer for this group, {request.consumer_group}")
    return Reply(body=m.ConsumerIds(consumer_id_list=tuple(found)))


async def check(call: Call, request: m.NoFields) -> Reply:
    """Serve check client config: would this subscription do?"""
    del request
    said = (await read_large(call.shared.beside, m.CheckClientConfig, call.asked.body)).subscription_data
    wanted_by(said.sub_string, said.expression_type)
    return Reply()


async def lock(call: Call, request: m.Routed) -> Reply:
    """Serve lock batch of queues."""
    del request
    shared = call.shared
    said = await read_large(shared.beside, m.LockQueues, call.asked.body)
    granted = shared.queue_locks.lock(named(said.consumer_group), said.client_id, said.mq_set, shared.now, call.line)
    return Reply(body=await written(shared.beside, m.LockedQueues(lock_ok_mq_set=tuple(granted)), len(granted)))


async def unlock(call: Call, request: m.Routed) -> Reply:
    """Serve unlock batch of queues."""
    del request
    said = await read_large(call.shared.beside, m.LockQueues, call.asked.body)
    call.shared.queue_locks.unlock(said.consumer_group, said.client_id, said.mq_set)
    return Reply()


def named(group: str) -> str:
    """A group's name. Raises Refused for what is none."""
    if not group or len(group) > _LONGEST_NAME:
        raise Refused(Code.SYSTEM_ERROR, f"a group's name of {len(group)} letters")
    return group
