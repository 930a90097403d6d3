"""Flow control and the cluster's limits: set, taken away, shown; and what scripts do to a broker."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from penstock.errors import ProtocolViolation
from penstock.protocols.tubemq.errors import Code, Refused
from penstock.protocols.tubemq.flow_control import parse_rules
from penstock.protocols.tubemq.server.settings import UNSET, BrokerSettings, FlowRules, GroupSettings, Limits
from penstock.protocols.tubemq.server.web_api.access_control import max_message_bytes
from penstock.protocols.tubemq.server.web_api.routes import EXISTS, UNKNOWN, AdminCall, Answer, date, from_master, item

__all__ = [
    "OF_TOPICS",
    "add",
    "add_group",
    "confirm",
    "drop_default",
    "drop_group",
    "open_or_close",
    "query_cluster",
    "query_default",
    "query_group",
    "query_names",
    "query_resources",
    "query_setting",
    "set_cluster",
    "set_default",
    "set_group",
    "update",
    "update_group",
]

# What scripts do to a broker: here it is there already, and online.
#
# So that a script for a real cluster runs on: configuring the one broker again is answered as what it is, a record that
# exists; bringing it online, or reloading it, succeeds and changes nothing. It can be closed for writing and reading.
_FIXED = ("brokerIp", "brokerPort", "brokerWebPort", "brokerTLSPort", "regionId", "groupId", "manageStatus")
OF_TOPICS = (
    "deletePolicy",
    "memCacheFlushIntvl",
    "memCacheMsgCntInK",
    "memCacheMsgSizeInMB",
    "numPartitions",
    "numTopicStores",
    "unflushDataHold",
    "unflushInterval",
    "unflushThreshold",
)


async def add(call: AdminCall) -> Answer:
    """Serve admin_add_broker_configure."""
    call.parameters.user("createUser")
    rows = []
    for name in call.parameters.names("brokerId", required=True):
        if name == str(call.shared.cluster.broker_id):
            refused = Refused(EXISTS, f"Existed record found for brokerId({name})!")
        else:
            refused = Refused(UNKNOWN, f"this node is broker {call.shared.cluster.broker_id}, and takes no other")
        rows.append(_row(call, name, refused))
    return from_master(rows)


async def confirm(call: AdminCall) -> Answer:
    """Serve what succeeds at a broker that is online, has its configuration and was never forbidden anything.

    These are admin_online_broker_configure, admin_reload_broker_configure and
    admin_release_broker_autoforbidden_status.
    """
    call.parameters.user("modifyUser")
    return _rows(call)


async def open_or_close(call: AdminCall) -> Answer:
    """Serve admin_set_broker_read_or_write: whether topics of the node may be written and read at all."""
    call.parameters.user("modifyUser")
    return _open(call)


async def update(call: AdminCall) -> Answer:
    """Serve admin_update_broker_configure, as far as it says the same; what else it may say is refused."""
    given = call.parameters
    given.user("modifyUser")
    given.refuse(_FIXED, "this node is its only broker, and is what it was started as")
    given.refuse(OF_TOPICS, "say it with each topic, this node keeps no defaults of topics")
    return _open(call)


def _open(call: AdminCall) -> Answer:
    given, settings = call.parameters, call.shared.settings
    publish, subscribe = given.flag("acceptPublish"), given.flag("acceptSubscribe")
    if publish is None and subscribe is None:
        raise Refused(Code.BAD_REQUEST, "Parameter acceptPublish or acceptSubscribe is missing or value is blank!")
    if str(call.shared.cluster.broker_id) in given.names("brokerId", required=True):
        known = settings.broker
        settings.set_broker(
            BrokerSettings(
                known.accepts_publish if publish is None else publish,
                known.accepts_subscribe if subscribe is None else subscribe,
            )
        )
    return _rows(call)


def _rows(call: AdminCall) -> Answer:
    rows = []
    for name in call.parameters.names("brokerId", required=True):
        known = name == str(call.shared.cluster.broker_id)
        refused = None if known else Refused(UNKNOWN, f"Not found broker configure record by brokerId={name}")
        rows.append(_row(call, name, refused))
    return from_master(rows)


def _row(call: AdminCall, name: str, refused: Refused | None) -> Answer:
    host = call.shared.cluster.node.endpoint.host if name == str(call.shared.cluster.broker_id) else ""
    return item(refused, brokerId=int(name) if name.isdigit() else name, brokerIp=host)


# Flow control and the cluster's limits: set, taken away, shown.
#
# Rules are checked before they are kept, and kept in order; clients learn them by their id with the next heartbeat.
# Rules that are taken away are sent as none at all, under a new id, so that clients forget them.
_MB = 1 << 20
_MOST_PRIORITY = 333
_MOST_RATE = 10_000
_PORTS = ("brokerPort", "brokerWebPort", "brokerTLSPort")
_OF_NEW_TOPICS = ("acceptPublish", "acceptSubscribe", *OF_TOPICS)


async def set_default(call: AdminCall) -> Answer:
    """Serve admin_set_def_flow_control_rule and admin_upd_def_flow_control_rule: for all groups."""
    _set_cluster(call)
    return await query_default(call)


async def set_cluster(call: AdminCall) -> Answer:
    """Serve admin_set_cluster_default_setting and admin_update_cluster_default_setting: rules and largest message."""
    _set_cluster(call)
    return await query_cluster(call)


def _set_cluster(call: AdminCall) -> None:
    given, settings = call.parameters, call.shared.settings
    given.user("createUser", "modifyUser")
    given.refuse(_PORTS, "this node is its only broker, and listens where it was started")
    given.refuse(_OF_NEW_TOPICS, "say it with each topic, this node keeps no defaults of topics")
    size = max_message_bytes(given)
    flow = _changed(call, settings.flow)
    if flow is not None:
        settings.set_flow(flow)
    if size and size != settings.limits.max_message_bytes:
        settings.set_limits(Limits(max(call.shared.now_ms, settings.limits.id + 1), size))


async def drop_default(call: AdminCall) -> Answer:
    """Serve admin_rmv_def_flow_control_rule."""
    call.parameters.user("modifyUser")
    call.shared.settings.set_flow(FlowRules(_new_id(call, call.shared.settings.flow), enabled=False))
    return await query_default(call)


async def query_default(call: AdminCall) -> Answer:
    """Serve admin_query_def_flow_control_rule."""
    limit = call.shared.settings.limits.max_message_bytes // _MB
    return from_master([{**_shown(call.shared.settings.flow), "maxMsgSizeInMB": limit}])


async def set_group(call: AdminCall) -> Answer:
    """Serve admin_set_group_flow_control_rule and its like: for groups, before those for all."""
    call.parameters.user("createUser", "modifyUser")
    return _set_groups(call, None)


async def add_group(call: AdminCall) -> Answer:
    """Serve admin_add_group_resctrl_info and admin_add_consume_group_setting."""
    call.parameters.user("createUser")
    return _set_groups(call, EXISTS)


async def update_group(call: AdminCall) -> Answer:
    """Serve admin_update_group_resctrl_info and admin_upd_consume_group_setting."""
    call.parameters.user("modifyUser")
    return _set_groups(call, UNKNOWN)


def _set_groups(call: AdminCall, refusal: int | None) -> Answer:
    """``refusal``: which code refuses groups that are (EXISTS), or are not (UNKNOWN), recorded."""
    given, settings = call.parameters, call.shared.settings
    checks = given.flag("resCheckEnable")
    rate = given.number("alwdBrokerClientRate", UNSET, low=UNSET, high=_MOST_RATE)
    rate = given.number("allowedBClientRate", rate, low=UNSET, high=_MOST_RATE)
    rows = []
    for name in given.names("groupName", required=True):
        known = settings.group(name)
        if refusal is not None and (refusal == EXISTS) is _recorded(known):
            text = f"{'Existed' if refusal == EXISTS else 'Not found'} record for groupName({name})!"
            rows.append(item(Refused(refusal, text), groupName=name))
            continue
        flow = _changed(call, known.flow)
        if flow is None and not _recorded(known):
            flow = FlowRules(_new_id(call, known.flow), enabled=False)
        changed = replace(
            known,
            flow=flow or known.flow,
            checks_rate=known.checks_rate if checks is None else checks,
            client_rate=known.client_rate if rate == UNSET else rate,
        )
        settings.set_group(name, changed)
        rows.append(item(groupName=name))
    return from_master(rows)


async def drop_group(call: AdminCall) -> Answer:
    """Serve admin_rmv_group_flow_control_rule, admin_delete_group_resctrl_info and admin_del_consume_group_setting."""
    call.parameters.user("modifyUser")
    settings = call.shared.settings
    rows = []
    for name in call.parameters.names("groupName", required=True):
        known = settings.group(name)
        if _recorded(known):
            gone = FlowRules(_new_id(call, known.flow), enabled=False, dropped=True)
            settings.set_group(name, replace(known, flow=gone, checks_rate=False, client_rate=0))
        rows.append(item(groupName=name))
    return from_master(rows)


async def query_group(call: AdminCall) -> Answer:
    """Serve admin_query_group_flow_control_rule."""
    return from_master([{"groupName": name, **_shown(kept.flow)} for name, kept in _chosen(call)])


async def query_resources(call: AdminCall) -> Answer:
    """Serve admin_query_group_resctrl_info: the same under newer names, and more."""
    return from_master(
        [
            {
                "groupName": name,
                "resCheckEnable": kept.checks_rate,
                "alwdBrokerClientRate": kept.client_rate,
                **_shown_anew(kept.flow),
            }
            for name, kept in _chosen(call)
        ]
    )


async def query_setting(call: AdminCall) -> Answer:
    """Serve admin_query_consume_group_setting."""
    return from_master(
        [
            {
                "groupName": name,
                "enableBind": 1,
                "allowedBClientRate": kept.client_rate,
                "attributes": "",
                "lastBindUsedDate": "-",
            }
            for name, kept in _chosen(call)
        ]
    )


async def query_names(call: AdminCall) -> Answer:
    """Serve admin_query_booked_resctrl_groups."""
    return from_master([name for name, _ in _chosen(call)])


def _recorded(known: GroupSettings) -> bool:
    return known.flow.id != UNSET and not known.flow.dropped


def _chosen(call: AdminCall) -> list[tuple[str, GroupSettings]]:
    wanted = call.parameters.names("groupName")
    return [
        (name, kept)
        for name, kept in sorted(call.shared.settings.groups.items())
        if _recorded(kept) and (not wanted or name in wanted)
    ]


async def query_cluster(call: AdminCall) -> Answer:
    """Serve admin_query_cluster_default_setting."""
    settings = call.shared.settings
    port = call.shared.cluster.node.endpoint.port
    return from_master(
        [
            {
                "brokerPort": port,
                "brokerWebPort": port,
                "maxMsgSizeInMB": settings.limits.max_message_bytes // _MB,
                **_shown_anew(settings.flow),
                "serialId": settings.limits.id,
            }
        ]
    )


def _changed(call: AdminCall, known: FlowRules) -> FlowRules | None:
    """The rules as the call wants them, new ones not in force unless it says so; None where it says nothing of them."""
    given = call.parameters
    said = given.optional("flowCtrlInfo")
    enabled = given.flag("flowCtrlEnable")
    if enabled is None:
        before = known.enabled and known.id != UNSET
        enabled = bool(given.number("statusId", int(before), low=0, high=1))
    priority = given.number("qryPriorityId", known.priority, low=UNSET, high=_MOST_PRIORITY)
    if not said and (enabled, priority) == (known.enabled, known.priority):
        return None
    return FlowRules(_new_id(call, known), _in_order(said) if said else known.text, priority, enabled)


def _new_id(call: AdminCall, known: FlowRules) -> int:
    return max(call.shared.now_ms, known.id + 1)


def _in_order(text: str) -> str:
    """Rules as clients get them: times of day ascending, empty polls descending. Raises Refused (BAD_REQUEST)."""
    try:
        parse_rules(text)
    except ProtocolViolation as error:
        raise Refused(Code.BAD_REQUEST, f"Parse parameter flowCtrlInfo failure: {error.message}") from error
    entries: list[dict[str, Any]] = json.loads(text)
    for entry in entries:
        if entry["type"] == 0:
            entry["rule"].sort(key=lambda rule: tuple(int(part) for part in rule["start"].split(":")))
        elif entry["type"] == 1:
            entry["rule"].sort(key=lambda rule: -int(rule["zeroCnt"]))
    return json.dumps(entries, separators=(",", ":"))


def _shown_anew(rules: FlowRules) -> dict[str, Any]:
    shown = _shown(rules)
    return {
        "qryPriorityId": rules.priority,
        "flowCtrlEnable": bool(shown["statusId"]),
        "flowCtrlRuleCount": shown["ruleCnt"],
        "flowCtrlInfo": shown["flowCtrlInfo"],
    }


def _shown(rules: FlowRules) -> dict[str, Any]:
    entries = json.loads(rules.text)
    return {
        "statusId": int(rules.enabled and rules.id != UNSET),
        "qryPriorityId": rules.priority,
        "ruleCnt": len(entries),
        "flowCtrlInfo": entries,
        "dataVersionId": UNSET,
        "serialId": rules.id,
        "modifyDate": date(rules.id),
    }
