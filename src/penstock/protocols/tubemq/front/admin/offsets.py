"""Offsets: where partitions begin and end, where groups are, and moving groups, also ones that are not there.

In TubeMQ's terms, 28 a record. Committed offsets are the node's, so a group of any protocol can be seen and moved. How
many bytes lie between two offsets is not known here; such fields say -2, TubeMQ's "unknown".
"""

from __future__ import annotations

import json
from typing import Any

from penstock.errors import ProtocolViolation
from penstock.interfaces.enode import TopicState, extent
from penstock.model import Partition
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.admin.answers import Answer, done, from_broker
from penstock.protocols.tubemq.front.admin.routes import AdminCall
from penstock.protocols.tubemq.front.broker.bookings import Key
from penstock.protocols.tubemq.front.cluster import to_record, to_wire
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.front.settings import UNSET
from penstock.protocols.tubemq.strings import parse_key

__all__ = ["bounds", "clone", "groups", "query", "query_one", "remove", "set", "set_one"]

_MOST_JSON = 1 << 20


async def bounds(call: AdminCall) -> Answer:
    """Serve admin_query_pubinfo: each partition's first and next offset."""
    rows = []
    for topic in await _chosen(call):
        offsets = [
            {
                "partitionId": partition_id,
                "offsetMin": to_wire(start),
                "offsetMax": to_wire(end),
                "dataMin": UNSET,
                "dataMax": UNSET,
            }
            for partition, partition_id in call.shared.cluster.shown(topic)
            for start, end, _, _ in [await extent(call.shared.enode, partition)]
        ]
        rows.append({"topicName": topic.name, "offsetInfo": offsets, "itemCount": len(offsets)})
    return from_broker(rows, "dataCount")


async def query(call: AdminCall) -> Answer:
    """Serve admin_query_offset: each group's offset and lag in each partition."""
    wanted = call.parameters.names("groupName")
    rows = []
    for group in wanted or list(await call.shared.offsets.groups()):
        known = list(await call.shared.offsets.committed(group))
        topics = [topic for topic in await _chosen(call) if any(partition.topic == topic.name for partition in known)]
        if topics:
            parts = [await _topic_offsets(call, group, topic) for topic in topics]
            rows.append({"groupName": group, "subInfo": parts, "topicCount": len(parts)})
    return from_broker(rows)


async def _topic_offsets(call: AdminCall, group: str, topic: TopicState) -> dict[str, Any]:
    offsets = [await _offset(call, group, partition) for partition, _ in call.shared.cluster.shown(topic)]
    return {"topicName": topic.name, "offsets": offsets, "partCount": len(offsets)}


async def _offset(call: AdminCall, group: str, partition: Partition) -> dict[str, Any]:
    end = (await extent(call.shared.enode, partition)).end
    committed = await call.shared.positions.of(group, partition)
    booking = call.shared.bookings.get(Key(group, partition))
    flight = 0
    if booking is not None and booking.flight_end is not None and committed is not None:
        flight = max(0, booking.flight_end - committed)
    return {
        "partitionId": await call.shared.cluster.id_of(partition),
        "curOffset": UNSET if committed is None else to_wire(committed),
        "flightOffset": to_wire(flight),
        "curDataOffset": UNSET,
        "offsetLag": UNSET if committed is None else to_wire(max(0, end - committed)),
        "dataLag": UNSET,
        "offsetMax": to_wire(end),
        "dataMax": UNSET,
    }


async def query_one(call: AdminCall) -> Answer:
    """Serve admin_query_group_offset: one partition."""
    group, partition = await _one(call)
    start, end, _, _ = await extent(call.shared.enode, partition)
    found = await _offset(call, group, partition)
    real = {}
    if call.parameters.flag("requireRealOffset"):
        real = {"zkOffset": found["curOffset"], "curReadDataOffset": -1, "curRdDltDataOffset": -1}
    return {
        "errMsg": "OK!",
        "curOffset": found["curOffset"],
        "tmpOffset": found["flightOffset"],
        "minOffset": to_wire(start),
        "maxOffset": to_wire(end),
        "minDataOffset": UNSET,
        "maxDataOffset": UNSET,
        **real,
    }


async def groups(call: AdminCall) -> Answer:
    """Serve admin_query_group and admin_get_booked_groupname: every group that has offsets, or (divide) in two parts:
    those that read now, and the others."""
    names = list(await call.shared.offsets.groups())
    if not call.parameters.flag("divide"):
        return from_broker([_named("all", names)], "dataCount")
    reading = {booking.key.group for booking in call.shared.bookings}
    rows = [
        _named("in-cache", [name for name in names if name in reading]),
        _named("in-zk", [name for name in names if name not in reading]),
    ]
    return from_broker(rows, "dataCount")


def _named(kind: str, names: list[str]) -> dict[str, Any]:
    return {"type": kind, "groupName": names, "groupCount": len(names)}


# Moving groups.


async def set(call: AdminCall) -> Answer:
    """Serve admin_set_offset: to given offsets, moved into the log, or (manualSet=false) to the end of topics."""
    given = call.parameters
    names = given.names("groupName", required=True)
    given.user("modifyUser")
    given.text("manualSet")
    if given.flag("manualSet"):
        offsets = await _given_offsets(call, given.text("offsetJsonInfo"))
    else:
        given.names("topicName", required=True)
        offsets = {
            partition: (await extent(call.shared.enode, partition)).end
            for topic in await _chosen(call)
            for partition in _partitions(topic)
        }
    for group in names:
        for partition, offset in offsets.items():
            await _move(call, group, partition, offset)
    return done()


async def set_one(call: AdminCall) -> Answer:
    """Serve admin_manual_set_current_offset."""
    group, partition = await _one(call)
    call.parameters.user("modifyUser")
    offset = to_record(call.parameters.number("manualOffset", low=0))
    before = await call.shared.positions.of(group, partition)
    await _move(call, group, partition, offset)
    text = "Manual update current Offset success!"
    return {"errMsg": text, "oldOffset": UNSET if before is None else to_wire(before)}


async def clone(call: AdminCall) -> Answer:
    """Serve admin_clone_offset: give groups another one's offsets, of the topics named or of all."""
    given = call.parameters
    source, targets = given.text("sourceGroupName"), given.names("targetGroupName", required=True)
    given.user("modifyUser")
    topics = {topic.name for topic in await _chosen(call)}
    found = {
        partition: committed.offset
        for partition, committed in (await call.shared.offsets.committed(source)).items()
        if partition.topic in topics
    }
    if not found:
        raise Refused(Code.BAD_REQUEST, f"Parameter sourceGroupName: {source} has no offsets in these topics!")
    for partition, offset in found.items():
        for target in targets:
            await _move(call, target, partition, offset)
    return done()


async def remove(call: AdminCall) -> Answer:
    """Serve admin_rmv_offset: forget where groups were in topics."""
    names = call.parameters.names("groupName", required=True)
    call.parameters.user("modifyUser")
    if call.parameters.flag("onlyMemory"):
        raise Refused(Code.BAD_REQUEST, "Parameter onlyMemory: this node keeps offsets in one place, its log")
    topics = {topic.name for topic in await _chosen(call)}
    for group in names:
        await call.shared.offsets.forget(group, lambda partition, _: partition.topic in topics)
    return {"data": []}


async def _move(call: AdminCall, group: str, partition: Partition, offset: int) -> None:
    """A reader that is there goes on from the new offset; what it has in hand does not count any more."""
    start, end, _, _ = await extent(call.shared.enode, partition)
    place = (group, partition.topic, await call.shared.cluster.id_of(partition))
    async with call.shared.readers.held(place):  # also from a batch that is being read
        await call.shared.positions.set(group, partition, min(max(offset, start), end))
        booking = call.shared.bookings.get(Key(group, partition))
        if booking is not None:
            booking.flight_end = None


# Parts.


async def _chosen(call: AdminCall) -> list[TopicState]:
    wanted = call.parameters.names("topicName")
    return [topic for topic in await call.shared.cluster.topics() if not wanted or topic.name in wanted]


def _partitions(topic: TopicState) -> list[Partition]:
    return [Partition(topic.name, number) for number in range(topic.partitions)]


async def _one(call: AdminCall) -> tuple[str, Partition]:
    group = call.parameters.text("groupName")
    topic = await call.shared.cluster.known(call.parameters.text("topicName"))
    return group, call.shared.cluster.own(topic, call.parameters.number("partitionId", low=0, high=2**31 - 1))


async def _given_offsets(call: AdminCall, text: str) -> dict[Partition, int]:
    """``{"brokerId:topic:partitionId": offset, ...}``."""
    try:
        found = json.loads(text) if len(text) <= _MOST_JSON else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(type(offset) is int for offset in found.values()):
        raise Refused(Code.BAD_REQUEST, 'Parameter offsetJsonInfo is not {"brokerId:topic:partitionId": offset, ...}')
    offsets = {}
    for key, offset in found.items():
        try:
            partition = parse_key(key)
        except ProtocolViolation as error:
            raise Refused(Code.BAD_REQUEST, error.message) from error
        if partition.node == str(call.shared.cluster.broker_id):
            topic = await call.shared.cluster.known(partition.topic)
            offsets[call.shared.cluster.own(topic, partition.id)] = to_record(offset)
    if not offsets:
        broker = call.shared.cluster.broker_id
        raise Refused(Code.BAD_REQUEST, f"Parameter offsetJsonInfo names no partition of this node, broker {broker}")
    return offsets
