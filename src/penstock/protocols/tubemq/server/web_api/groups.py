"""Consumer groups: who is in, who holds what, where they are; and moving groups."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from penstock.errors import ProtocolViolation
from penstock.interfaces.enode import TopicState, extent
from penstock.model import Partition
from penstock.protocols.tubemq.errors import Code, Refused
from penstock.protocols.tubemq.server.bookings import Key
from penstock.protocols.tubemq.server.context import to_record, to_wire
from penstock.protocols.tubemq.server.groups import ConsumerGroup, Member, Way
from penstock.protocols.tubemq.server.settings import UNSET
from penstock.protocols.tubemq.server.web_api.routes import AdminCall, Answer, done, from_broker, from_master
from penstock.protocols.tubemq.wire.strings import format_broker, parse_key

__all__ = [
    "bounds",
    "by_topic",
    "client_balanced",
    "clone_offsets",
    "detail",
    "groups",
    "query_offset",
    "query_offsets",
    "query_subscriptions",
    "rebalance",
    "remove_offsets",
    "set_offset",
    "set_offsets",
    "skip_to_end",
]

# Consumer groups: who is in, who holds what, and an operator's wish to move them.
_MOST_RUNS = 1_000


async def query_subscriptions(call: AdminCall) -> Answer:
    """Serve admin_query_sub_info: groups, their topics, how many members."""
    names = call.parameters.names("groupName") or call.parameters.names("consumeGroup")
    topics = set(call.parameters.names("topicName"))
    return from_master(
        [
            {
                "consumeGroup": group.name,
                "topicSet": sorted(group.terms.topics),
                "consumerNum": len(group.members),
            }
            for group in call.shared.groups
            if (not names or group.name in names) and (not topics or topics & group.terms.topics)
        ]
    )


async def detail(call: AdminCall) -> Answer:
    """Serve admin_query_consume_group_detail: each member and its partitions."""
    name = call.parameters.optional("consumeGroup") or call.parameters.text("groupName")
    group = call.shared.groups.get(name)
    if group is None:
        return {
            **from_master([]),
            "topicSet": [],
            "consumeGroup": name,
            "re-rebalance": {},
            "isBandConsume": Way.NORMAL.value,
            "rebInfo": {"isRebalanced": False},
            "filterConds": {},
        }
    known = call.shared.settings.group(name)
    members = [_member(call, member) for member in group.members.values()]
    return {
        "count": len(members),
        "topicSet": sorted(group.terms.topics),
        "consumeGroup": name,
        "re-rebalance": {member.id: member.bench for member in group.members.values() if member.strip or member.bench},
        "isBandConsume": group.terms.way.value,
        "rebInfo": {
            "isRebalanced": group.allocated,
            "checkPasted": True,  # one broker is never too many for a group
            "defBClientRate": UNSET,
            "confBClientRate": known.client_rate or UNSET,
            "curBClientRate": int(bool(members)),
            "unacknowledged": len(group.events),
            "phase": group.phase.value,
        },
        "filterConds": {topic: sorted(items) for topic, items in sorted(group.terms.conditions.items())},
        "data": members,
    }


async def rebalance(call: AdminCall) -> Answer:
    """Serve admin_rebalance_group_allocate: take everything from members in the next run."""
    given = call.parameters
    name = given.text("groupName")
    given.user("modifyUser")
    members = given.names("consumerId", required=True)
    runs = given.number("reJoinWait", 0, low=0, high=_MOST_RUNS)
    group = _online(call, name)
    if group.terms.way is Way.CLIENT_BALANCE:
        raise Refused(Code.BAD_REQUEST, f"The group({name}) balances itself: its members choose their partitions")
    strangers = [member for member in members if member not in group.members]
    if strangers:
        raise Refused(Code.BAD_REQUEST, f"consumers {strangers} are not in group({name})")
    group.strip(members, runs)
    return done()


async def skip_to_end(call: AdminCall) -> Answer:
    """Serve admin_set_client_balance_group_consume_from_max: its members jump to the end of each partition."""
    call.parameters.user("modifyUser")
    chosen = [
        name
        for name in call.parameters.names("groupName", required=True)
        if (group := call.shared.groups.get(name)) is not None and group.terms.way is Way.CLIENT_BALANCE
    ]
    if not chosen:
        raise Refused(Code.BAD_REQUEST, "all consumer groups are not client balance groups")
    settings = call.shared.settings
    for name in chosen:
        settings.set_group(name, replace(settings.group(name), from_max_id=call.shared.now_ms))
    return from_master([{"groupName": name, "success": True, "errCode": 200, "errInfo": "Ok!"} for name in chosen])


async def client_balanced(call: AdminCall) -> Answer:
    """Serve admin_query_client_balance_group_set."""
    return from_master([group.name for group in call.shared.groups if group.terms.way is Way.CLIENT_BALANCE])


async def by_topic(call: AdminCall) -> Answer:
    """Serve admin_query_group_info_by_topic: which groups read a topic now."""
    wanted = call.parameters.names("topicName")
    rows = []
    for topic in await call.shared.cluster.topics():
        if not wanted or topic.name in wanted:
            names = [group.name for group in call.shared.groups if topic.name in group.terms.topics]
            rows.append({"topicName": topic.name, "groupSet": names, "groupCnt": len(names)})
    return from_master(rows)


def _online(call: AdminCall, name: str) -> ConsumerGroup:
    group = call.shared.groups.get(name)
    if group is None:
        raise Refused(Code.BAD_REQUEST, f"The group({name}) not online!")
    return group


def _member(call: AdminCall, member: Member) -> dict[str, Any]:
    broker = format_broker(call.shared.cluster.node)
    held = [
        {"partId": partition.id, "brokerAddr": broker, "topicName": partition.topic}
        for partition in sorted(member.holds)
    ]
    shown: dict[str, Any] = {
        "consumerId": member.id,
        "receivedFrom": member.host,
        "isOverTLS": False,
        "parCount": len(held),
        "parInfo": held,
    }
    if member.node_id >= 0:
        shown["nodeId"] = member.node_id
    return shown


# Offsets: where partitions begin and end, where groups are, and moving groups, also ones that are not there.
#
# In TubeMQ's terms, 28 a record. Committed offsets are the node's, so a group of any protocol can be seen and moved.
# How many bytes lie between two offsets is not known here; such fields say -2, TubeMQ's "unknown".
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


async def query_offsets(call: AdminCall) -> Answer:
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


async def query_offset(call: AdminCall) -> Answer:
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


async def set_offsets(call: AdminCall) -> Answer:
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


async def set_offset(call: AdminCall) -> Answer:
    """Serve admin_manual_set_current_offset."""
    group, partition = await _one(call)
    call.parameters.user("modifyUser")
    offset = to_record(call.parameters.number("manualOffset", low=0))
    before = await call.shared.positions.of(group, partition)
    await _move(call, group, partition, offset)
    text = "Manual update current Offset success!"
    return {"errMsg": text, "oldOffset": UNSET if before is None else to_wire(before)}


async def clone_offsets(call: AdminCall) -> Answer:
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


async def remove_offsets(call: AdminCall) -> Answer:
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
