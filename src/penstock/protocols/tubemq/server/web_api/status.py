"""What there is: methods, versions, the broker, who has booked what, and the last messages of a partition."""

from __future__ import annotations

import base64
import sys
from typing import Any

from penstock._version import __version__
from penstock.interfaces.enode import extent
from penstock.protocols.tubemq.server.bookings import Booking
from penstock.protocols.tubemq.server.context import to_wire
from penstock.protocols.tubemq.server.log import BatchLimits, Begin, look, read_batch
from penstock.protocols.tubemq.server.settings import UNSET
from penstock.protocols.tubemq.server.web_api.routes import ROUTES, AdminCall, Answer, from_broker, from_master
from penstock.protocols.tubemq.wire.messages import TransferedMessage
from penstock.protocols.tubemq.wire.strings import STORE_BASE, java_hash

__all__ = [
    "bookings",
    "broker_configure",
    "broker_run_status",
    "consumers",
    "master_group",
    "messages",
    "methods",
    "stores",
    "version",
]


# What there is: methods, versions, the broker, who has booked what.
async def methods(call: AdminCall) -> Answer:
    """Serve admin_get_methods; both under a master's names and a broker's."""
    del call
    rows = [{"method": name, "needAuth": ROUTES[name].token} for name in sorted(ROUTES)]
    return {**from_broker(rows), **from_master(rows), "errMsg": "OK"}


async def version(call: AdminCall) -> Answer:
    """Serve admin_query_server_version."""
    del call
    return from_master([{"version": f"penstock {__version__}"}])


async def broker_configure(call: AdminCall) -> Answer:
    """Serve admin_query_broker_configure: the one broker, which did not have to be configured."""
    settings, wanted = call.shared.settings.broker, call.parameters.names("brokerId")
    shown = {
        **_broker(call),
        "isConfChanged": False,
        "isConfLoaded": True,
        "regionId": 0,
        "groupId": 0,
        "acceptPublish": settings.accepts_publish,
        "acceptSubscribe": settings.accepts_subscribe,
    }
    return from_master([shown] if not wanted or str(shown["brokerId"]) in wanted else [])


async def broker_run_status(call: AdminCall) -> Answer:
    """Serve admin_query_broker_run_status: it runs."""
    wanted = call.parameters.names("brokerId")
    shown = {
        **_broker(call),
        "enableTLS": False,
        "isRepAbnormal": False,
        "isAutoForbidden": False,
        "runStatus": "running",
        "subStatus": "idle",
        "stepOp": UNSET,
        "isConfChanged": "false",
        "isConfLoaded": "true",
        "isBrokerOnline": "true",
        "brokerVersion": f"penstock {__version__}",
        "acceptPublish": str(call.shared.settings.broker.accepts_publish).lower(),
        "acceptSubscribe": str(call.shared.settings.broker.accepts_subscribe).lower(),
    }
    return from_master([shown] if not wanted or str(shown["brokerId"]) in wanted else [])


async def master_group(call: AdminCall) -> Answer:
    """Serve admin_query_master_group_info: the one master."""
    endpoint = call.shared.cluster.node.endpoint
    node = {
        "index": 1,
        "name": f"penstock-{call.shared.cluster.broker_id}",
        "hostName": endpoint.host,
        "port": str(endpoint.port),
        "statusInfo": {"nodeStatus": "MASTER", "joinTime": str(call.shared.cluster.config_id)},
    }
    return {
        "errMsg": "Ok",
        "groupName": "penstock",
        "isPrimaryNodeActive": True,
        **from_master([node]),
        "groupStatus": "Running-ReadWrite",
    }


async def stores(call: AdminCall) -> Answer:
    """Serve admin_query_broker_all_store_info: the stores of each topic; how many bytes they have is not known here."""
    wanted = call.parameters.names("topicName")
    rows: list[dict[str, Any]] = []
    for topic in await call.shared.cluster.topics():
        if wanted and topic.name not in wanted:
            continue
        by_store: dict[int, list[dict[str, Any]]] = {}
        for partition, partition_id in call.shared.cluster.shown(topic):
            start, end, _, _ = await extent(call.shared.enode, partition)
            store, number = divmod(partition_id, STORE_BASE)
            by_store.setdefault(store, []).append(
                {
                    "partitionId": number,
                    "minOffset": to_wire(start),
                    "maxOffset": to_wire(end),
                    "sizeInBytes": to_wire(end - start),
                }
            )
        shown = [
            {
                "storeId": store,
                "numPartition": len(partitions),
                "minDataOffset": UNSET,
                "maxDataOffset": UNSET,
                "sizeInBytes": UNSET,
                "partitionInfo": partitions,
            }
            for store, partitions in sorted(by_store.items())
        ]
        rows.append({"index": len(rows) + 1, "topicName": topic.name, "storeInfo": shown})
    return from_broker(rows)


async def bookings(call: AdminCall) -> Answer:
    """Serve admin_get_partition_reginfo and admin_query_consumer_regmap: which consumer has which partition."""
    rows = [
        {"Partition": await _name(call, booking), "Consumer": booking.client, "index": row}
        for row, booking in enumerate(_chosen(call), 1)
    ]
    return from_broker(rows)


async def consumers(call: AdminCall) -> Answer:
    """Serve admin_query_broker_all_consumer_info and admin_get_group_detail_info: the same with offsets."""
    rows = []
    for row, booking in enumerate(_chosen(call), 1):
        group, partition = booking.key
        start, end, _, _ = await extent(call.shared.enode, partition)
        committed = await call.shared.positions.of(group, partition)
        stands = booking.stands if committed is None else committed
        rows.append(
            {
                "index": row,
                "groupName": group,
                "topicName": partition.topic,
                "partitionId": await call.shared.cluster.id_of(partition),
                "consumerId": booking.client,
                "isRegOk": True,
                "isFilterConsume": bool(booking.filters),
                "qryPriorityId": booking.priority,
                "isMessageStoreOk": True,
                "minOffset": to_wire(start),
                "maxOffset": to_wire(end),
                "zkOffset": to_wire(stands),
                "tmpOffset": to_wire(max(0, (booking.flight_end or stands) - stands)),
                "minDataOffset": UNSET,
                "maxDataOffset": UNSET,
            }
        )
    return from_broker(rows)


def _chosen(call: AdminCall) -> list[Booking]:
    groups = call.parameters.names("groupName")
    topics = call.parameters.names("topicName")
    return [
        booking
        for booking in call.shared.bookings
        if (not groups or booking.key.group in groups) and (not topics or booking.key.partition.topic in topics)
    ]


async def _name(call: AdminCall, booking: Booking) -> str:
    group, partition = booking.key
    return f"{group}:{partition.topic}:{await call.shared.cluster.id_of(partition)}"


def _broker(call: AdminCall) -> dict[str, Any]:
    """The HTTP port is the RPC's own."""
    endpoint = call.shared.cluster.node.endpoint
    return {
        "brokerId": call.shared.cluster.broker_id,
        "brokerIp": endpoint.host,
        "brokerPort": endpoint.port,
        "brokerWebPort": endpoint.port,
        "manageStatus": "online",
    }


# A look at the last messages of a partition.
_MOST_BYTES = 4 << 20
_LENGTH = 4


async def messages(call: AdminCall) -> Answer:
    """Serve admin_snapshot_message: up to ``msgCount`` of the last messages, those that fit ``filterConds``.

    Of partition 0 where none is named: InLong Manager names none.
    """
    given = call.parameters
    topic = await call.shared.cluster.known(given.text("topicName"))
    partition = call.shared.cluster.own(topic, given.number("partitionId", 0, low=0, high=2**31 - 1))
    count = given.number("msgCount", 3, low=1, high=50)
    filters = frozenset(java_hash(each) for each in given.names("filterConds"))
    start, end, _, _ = await extent(call.shared.enode, partition)
    begin = max(start, end - count)
    if begin == end:
        return from_broker([])
    shared, limits = call.shared, BatchLimits(_MOST_BYTES, count, sys.maxsize)
    found = await look(shared.enode, partition, begin, _MOST_BYTES)
    batch = await read_batch(shared.enode, shared.background, partition, Begin(begin, found), filters, limits)
    return from_broker([_shown(row, message) for row, message in enumerate(batch.messages)])


def _shown(row: int, message: TransferedMessage) -> dict[str, object]:
    payload = message.pay_load_data
    attributes, body = b"null", payload  # as the real one shows that there are none
    if message.flag & 1:
        size = int.from_bytes(payload[:_LENGTH], "big")
        attributes, body = payload[_LENGTH : _LENGTH + size], payload[_LENGTH + size :]
    return {"index": row, "data": base64.b64encode(body).decode(), "attr": attributes.decode("utf-8", "replace")}
