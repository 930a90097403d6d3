"""Consumer groups: who is in, who holds what, and an operator's wish to move them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.admin.answers import Answer, done, from_master
from penstock.protocols.tubemq.front.admin.routes import AdminCall
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.front.master.group import ConsumerGroup
from penstock.protocols.tubemq.front.master.members import Member
from penstock.protocols.tubemq.front.master.terms import Way
from penstock.protocols.tubemq.front.settings import UNSET
from penstock.protocols.tubemq.strings import format_broker

__all__ = ["by_topic", "client_balanced", "detail", "query", "rebalance", "skip_to_end"]

_MOST_RUNS = 1_000


async def query(call: AdminCall) -> Answer:
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
