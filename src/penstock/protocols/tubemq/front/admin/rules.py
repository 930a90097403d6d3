"""Flow control and the cluster's limits: set, taken away, shown.

Rules are checked before they are kept, and kept in order; clients learn them by their id with the next heartbeat. Rules
that are taken away are told as none at all, under a new id, so that clients forget them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from penstock.errors import ProtocolViolation
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.flow_control import parse_rules
from penstock.protocols.tubemq.front.admin.answers import Answer, date, from_master, item
from penstock.protocols.tubemq.front.admin.routes import AdminCall
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.front.settings import UNSET, FlowRules, Limits

__all__ = [
    "drop_default",
    "drop_group",
    "query_cluster",
    "query_default",
    "query_group",
    "set_cluster",
    "set_default",
    "set_group",
]

_MB = 1 << 20
_MOST_MB = 20
_MOST_PRIORITY = 333


async def set_default(call: AdminCall) -> Answer:
    """Serve admin_set_def_flow_control_rule: for all groups."""
    call.parameters.user("createUser", "modifyUser")
    call.shared.settings.set_flow(_changed(call, call.shared.settings.flow))
    return await query_default(call)


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
    """Serve admin_set_group_flow_control_rule: for groups, before those for all."""
    call.parameters.user("createUser", "modifyUser")
    settings = call.shared.settings
    rows = []
    for name in call.parameters.names("groupName", required=True):
        known = settings.group(name)
        settings.set_group(name, replace(known, flow=_changed(call, known.flow)))
        rows.append(item(groupName=name))
    return from_master(rows)


async def drop_group(call: AdminCall) -> Answer:
    """Serve admin_rmv_group_flow_control_rule."""
    call.parameters.user("modifyUser")
    settings = call.shared.settings
    rows = []
    for name in call.parameters.names("groupName", required=True):
        known = settings.group(name)
        if known.flow.id != UNSET:
            gone = FlowRules(_new_id(call, known.flow), enabled=False)
            settings.set_group(name, replace(known, flow=gone))
        rows.append(item(groupName=name))
    return from_master(rows)


async def query_group(call: AdminCall) -> Answer:
    """Serve admin_query_group_flow_control_rule."""
    wanted = call.parameters.names("groupName")
    return from_master(
        [
            {"groupName": name, **_shown(kept.flow)}
            for name, kept in sorted(call.shared.settings.groups.items())
            if kept.flow.id != UNSET and (not wanted or name in wanted)
        ]
    )


async def set_cluster(call: AdminCall) -> Answer:
    """Serve admin_set_cluster_default_setting: the largest message."""
    given, settings = call.parameters, call.shared.settings
    given.user("createUser", "modifyUser")
    size = given.number("maxMsgSizeInMB", 0, low=0, high=_MOST_MB) * _MB
    if size and size != settings.limits.max_message_bytes:
        settings.set_limits(Limits(max(call.shared.now_ms, settings.limits.id + 1), size))
    return await query_cluster(call)


async def query_cluster(call: AdminCall) -> Answer:
    """Serve admin_query_cluster_default_setting."""
    settings = call.shared.settings
    port = call.shared.cluster.node.endpoint.port
    shown = _shown(settings.flow)
    return from_master(
        [
            {
                "brokerPort": port,
                "brokerWebPort": port,
                "maxMsgSizeInMB": settings.limits.max_message_bytes // _MB,
                "qryPriorityId": shown["qryPriorityId"],
                "flowCtrlEnable": settings.flow.enabled and settings.flow.id != UNSET,
                "flowCtrlRuleCount": shown["ruleCnt"],
                "flowCtrlInfo": shown["flowCtrlInfo"],
                "serialId": settings.limits.id,
            }
        ]
    )


def _changed(call: AdminCall, known: FlowRules) -> FlowRules:
    given = call.parameters
    said = given.optional("flowCtrlInfo")
    enabled = given.number("statusId", int(known.enabled), low=0, high=1)
    priority = given.number("qryPriorityId", known.priority, low=UNSET, high=_MOST_PRIORITY)
    return FlowRules(_new_id(call, known), _in_order(said) if said else known.text, priority, bool(enabled))


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
