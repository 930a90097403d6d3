"""Clients in groups: who is there is known here, and nowhere else. 34, 35, 38, 203, 204.

Source: Apache RocketMQ 4.9 and 5.x, ``ClientManageProcessor``, ``ConsumerManageProcessor``.
"""

from __future__ import annotations

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.config.names import RETRY
from penstock.protocols.rocketmq.front.apis.groups import connections, producers
from penstock.protocols.rocketmq.front.apis.membership import members, named, unregister
from penstock.protocols.rocketmq.front.broker.groups import Who
from penstock.protocols.rocketmq.front.call import Reply
from penstock.protocols.rocketmq.front.relayed.apis.asked import RelayedCall

__all__ = ["connections", "heartbeat", "members", "producers", "unregister"]


async def heartbeat(call: RelayedCall, header: m.NoFields) -> Reply:
    """Serve heart beat: others of a group are told at once when somebody comes."""
    del header
    said = m.read_body(m.HeartbeatData, call.asked.body)
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
