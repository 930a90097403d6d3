"""Where topics and brokers are: as name servers say, but every broker is reached at this node. 105, 106.

Clients that name no broker in their requests are told its own port, if it has one here (``front/doors``). Where an
operator chose the port, all are: by its version not every client can be told from one that names no broker.

Names, ids and numbers of queues stay what they are, so that requests say which broker they mean. Source: Apache
RocketMQ 4.9 and 5.x, ``ClientRequestProcessor``; the Proxy's ``ClusterTopicRouteService``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.errors import UpstreamLost
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.front.call import Reply
from penstock.protocols.rocketmq.front.relayed.apis.asked import RelayedCall, agreed
from penstock.protocols.rocketmq.front.relayed.around import Around
from penstock.protocols.rocketmq.front.snodes import info, own
from penstock.protocols.rocketmq.methods import GET_BROKER_CLUSTER_INFO, GET_ROUTEINFO_BY_TOPIC
from penstock.protocols.rocketmq.rpc import request

__all__ = ["cluster", "route", "route_of"]

_STANDARD_JSON_FROM: Final = 401


async def route(call: RelayedCall, header: m.GetRoute) -> Reply:
    """Serve get route info."""
    found = await route_of(call.shared, header.topic)
    brokers = tuple(_here(call, each) for each in found.broker_datas)
    standard = call.asked.version >= _STANDARD_JSON_FROM or bool(header.accept_standard_json_only)
    return Reply(body=m.write_body(replace(found, broker_datas=brokers), bare_numbers=not standard))


async def cluster(call: RelayedCall, header: m.NoFields) -> Reply:
    """Serve get broker cluster info."""
    del header
    frame = await call.shared.relay.ask_names(request(GET_BROKER_CLUSTER_INFO, m.NoFields()))
    told = m.read_body(m.ClusterInfo, agreed(frame).body)
    call.shared.relay.told(told)
    table = {name: _here(call, each) for name, each in told.broker_addr_table.items()}
    snodes = info([own(call.shared), *call.shared.snodes.all])
    found = replace(told, broker_addr_table=table, snode_table=snodes.snode_table, snode_cluster=snodes.snode_cluster)
    return Reply(body=m.write_body(found, bare_numbers=True))


async def route_of(around: Around, topic: str) -> m.Route:
    """As a name server says now; as one said last, where none answers. Raises Refused, UpstreamLost."""
    try:
        frame = await around.relay.ask_names(request(GET_ROUTEINFO_BY_TOPIC, m.GetRoute(topic=topic)))
    except UpstreamLost:
        known = around.routes.get(topic)
        if known is None:
            raise
        return known
    found = m.read_body(m.Route, agreed(frame).body)
    around.routes.put(topic, found)
    return found


def _here(call: RelayedCall, broker: m.BrokerData) -> m.BrokerData:
    """Name servers of 4.x do not say whether a standby acts as master, and clients of 5.x may need to hear it."""
    addresses = dict.fromkeys(broker.broker_addrs, call.shared.place_of(broker.broker_name, call.asked))
    return replace(broker, broker_addrs=addresses, enable_acting_master=bool(broker.enable_acting_master))
