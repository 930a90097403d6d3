"""The broker as operators see it: how it is, how it is set, how its topics are. 21, 26, 28, 351.

Source: Apache RocketMQ 4.9 and 5.x, ``AdminBrokerProcessor``.
"""

from __future__ import annotations

from penstock._version import __version__
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.front.call import Call, Reply, written
from penstock.protocols.rocketmq.front.naming import rocket_name
from penstock.seams.enode import TopicState

__all__ = ["config", "runtime", "topic_config", "topic_configs"]


async def runtime(call: Call, request: m.NoFields) -> Reply:
    """Serve get broker runtime info."""
    del request
    shared = call.shared
    topics = await shared.cluster.topics()
    table = {
        "brokerVersionDesc": f"penstock_{__version__}",
        "brokerVersion": str(call.asked.version),
        "consumerNum": str(len(shared.clients.consumers)),
        "producerNum": str(len(shared.clients.producers)),
        "topicNum": str(len(topics)),
        "queueNum": str(sum(topic.partitions for topic in topics)),
    }
    return Reply(body=m.Table(table=table))


async def config(call: Call, request: m.NoFields) -> Reply:
    """Serve get broker config, as a property file."""
    del request
    shared = call.shared
    said = {
        "autoCreateTopicEnable": "true" if shared.options.auto_create_topics else "false",
        "brokerClusterName": shared.cluster.name,
        "brokerId": "0",
        "brokerName": shared.cluster.broker,
        "maxMessageSize": str(shared.options.max_message_bytes),
    }
    return Reply(body="".join(f"{name}={value}\n" for name, value in said.items()).encode())


async def topic_config(call: Call, request: m.OfTopic) -> Reply:
    """Serve get topic config."""
    return Reply(body=_config(await call.shared.cluster.known(request.topic)))


async def topic_configs(call: Call, request: m.NoFields) -> Reply:
    """Serve get all topic configs."""
    del request
    table = {rocket_name(topic.name): _config(topic) for topic in await call.shared.cluster.topics()}
    found = m.TopicConfigs(topic_config_table=table, data_version=m.DataVersion(timestamp=call.shared.now_ms))
    return Reply(body=await written(call.shared.beside, found, len(table)))


def _config(topic: TopicState) -> m.TopicConfig:
    return m.TopicConfig(
        topic_name=rocket_name(topic.name), read_queue_nums=topic.partitions, write_queue_nums=topic.partitions
    )
