"""The name server: where topics are, and which brokers there are. 105, 106, 206, 224.

Source: Apache RocketMQ 4.9 and 5.x, ``ClientRequestProcessor``, ``DefaultRequestProcessor``. Old clients are told keys
that are numbers without quotes, as their servers write them.
"""

from __future__ import annotations

from typing import Final

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.call import Call, Reply, Shared
from penstock.protocols.rocketmq.front.cluster import TEMPLATE
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.snodes import info, own

__all__ = ["brokers", "route", "topics", "topics_of_cluster"]

_STANDARD_JSON_FROM: Final = 401
_INHERIT: Final = int(m.Perm.INHERIT)
_EVERYTHING: Final = int(m.Perm.READ | m.Perm.WRITE | m.Perm.INHERIT)
_MASTER: Final = 0
_REPLIES: Final = "_REPLY_TOPIC"
"""Where replies go by their name; they are handed on, and not stored."""


async def route(call: Call, request: m.GetRoute) -> Reply:
    """Serve get route info: all queues are on the one broker."""
    shared = call.shared
    if request.topic == TEMPLATE and shared.options.auto_create_topics:
        queues = shared.options.template_queues
        said = m.TopicConfig(topic_name=TEMPLATE, read_queue_nums=queues, write_queue_nums=queues, perm=_EVERYTHING)
    elif request.topic == f"{shared.cluster.name}{_REPLIES}":
        said = m.TopicConfig(topic_name=request.topic, read_queue_nums=1, write_queue_nums=1)
    else:
        topic = await shared.cluster.topic(request.topic)
        if topic is None:
            raise Refused(Code.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {request.topic}")
        said = shared.settings.topic(topic)
    queue_data = m.QueueData(
        broker_name=shared.cluster.broker,
        read_queue_nums=said.read_queue_nums,
        write_queue_nums=said.write_queue_nums,
        perm=said.perm & (shared.settings.route_perm | _INHERIT),
        topic_sys_flag=said.topic_sys_flag,
    )
    found = m.Route(broker_datas=(_broker(shared),), queue_datas=(queue_data,))
    standard = call.asked.version >= _STANDARD_JSON_FROM or bool(request.accept_standard_json_only)
    return Reply(body=m.write_body(found, bare_numbers=not standard))


async def brokers(call: Call, request: m.NoFields) -> Reply:
    """Serve get broker cluster info."""
    del request
    cluster = call.shared.cluster
    snodes = info([own(call.shared), *call.shared.snodes.all])
    found = m.ClusterInfo(
        broker_addr_table={cluster.broker: _broker(call.shared)},
        cluster_addr_table={cluster.name: (cluster.broker,)},
        snode_table=snodes.snode_table,
        snode_cluster=snodes.snode_cluster,
    )
    return Reply(body=m.write_body(found, bare_numbers=True))


async def topics(call: Call, request: m.NoFields) -> Reply:
    """Serve get all topics."""
    del request
    return Reply(body=m.TopicList(topic_list=tuple(await call.shared.cluster.names())))


async def topics_of_cluster(call: Call, request: m.OfCluster) -> Reply:
    """Serve get topics by cluster."""
    cluster = call.shared.cluster
    names = await cluster.names() if request.cluster == cluster.name else []
    return Reply(body=m.TopicList(topic_list=tuple(names)))


def _broker(shared: Shared) -> m.BrokerData:
    cluster = shared.cluster
    return m.BrokerData(
        cluster=cluster.name,
        broker_name=cluster.broker,
        broker_addrs={_MASTER: cluster.address},
        enable_acting_master=False,
    )
