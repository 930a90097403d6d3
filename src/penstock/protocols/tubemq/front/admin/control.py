"""Who may read what: controlled topics, the groups allowed there, and the filter items they must ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.admin.answers import Answer, from_master, item
from penstock.protocols.tubemq.front.admin.routes import AdminCall
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.front.settings import UNSET

__all__ = [
    "allow_group",
    "drop_filters",
    "forbid_group",
    "query_allowed",
    "query_filters",
    "query_topics",
    "set_filters",
    "set_topic",
]

_Allowed: TypeAlias = Mapping[str, tuple[str, ...]]
"""Filter items by topic; none: any."""

_MB = 1 << 20
_MOST_MB = 20


async def set_topic(call: AdminCall) -> Answer:
    """Serve admin_set_topic_authorize_control and admin_*_topic_control_info: control on or off, largest message."""
    given, settings = call.parameters, call.shared.settings
    given.user("createUser", "modifyUser")
    controlled = given.flag("isEnable")
    controlled = given.flag("enableAuthControl") if controlled is None else controlled
    limit = given.number("maxMsgSizeInMB", 0, low=0, high=_MOST_MB) * _MB
    rows = []
    for name in given.names("topicName", required=True):
        known = settings.topic(name)
        changed = replace(
            known,
            controlled=known.controlled if controlled is None else controlled,
            max_message_bytes=limit or known.max_message_bytes,
        )
        settings.set_topic(name, changed)
        rows.append(item(topicName=name))
    return from_master(rows)


async def query_topics(call: AdminCall) -> Answer:
    """Serve admin_query_topic_control_info."""
    wanted = call.parameters.names("topicName")
    settings = call.shared.settings
    return from_master(
        [
            {
                "topicName": topic.name,
                "topicNameId": UNSET,
                "enableAuthControl": settings.topic(topic.name).controlled,
                "maxMsgSizeInMB": (settings.topic(topic.name).max_message_bytes or settings.limits.max_message_bytes)
                // _MB,
            }
            for topic in await call.shared.cluster.topics()
            if not wanted or topic.name in wanted
        ]
    )


async def allow_group(call: AdminCall) -> Answer:
    """Serve admin_add_authorized_consumergroup_info."""
    call.parameters.user("createUser", "modifyUser")
    return _change(call, lambda allowed, topic: {topic: (), **allowed})


async def forbid_group(call: AdminCall) -> Answer:
    """Serve admin_delete_allowed_consumer_group_info."""
    call.parameters.user("modifyUser")
    return _change(call, lambda allowed, topic: {name: items for name, items in allowed.items() if name != topic})


async def set_filters(call: AdminCall) -> Answer:
    """Serve admin_add_group_filtercond_info: the items a group must choose from, ``,a,b,``."""
    call.parameters.user("createUser", "modifyUser")
    items = tuple(call.parameters.names("filterConds"))
    asked = call.parameters.number("condStatus", 1, low=0, high=2)
    if asked and not items:
        raise Refused(Code.BAD_REQUEST, "Parameter filterConds is missing or value is blank!")
    return _change(call, lambda allowed, topic: {**allowed, topic: items if asked else ()})


async def drop_filters(call: AdminCall) -> Answer:
    """Serve admin_del_group_filtercond_info: any item, or none."""
    call.parameters.user("modifyUser")
    return _change(call, lambda allowed, topic: {**allowed, topic: ()} if topic in allowed else allowed)


async def query_allowed(call: AdminCall) -> Answer:
    """Serve admin_query_allowed_consumer_group_info."""
    return from_master([{"topicName": topic, "groupName": group} for group, topic, _ in _allowed(call)])


async def query_filters(call: AdminCall) -> Answer:
    """Serve admin_query_group_filtercond_info."""
    return from_master(
        [
            {
                "topicName": topic,
                "groupName": group,
                "condStatus": int(bool(items)),
                "filterConds": f",{','.join(items)}," if items else "",
            }
            for group, topic, items in _allowed(call)
        ]
    )


def _allowed(call: AdminCall) -> list[tuple[str, str, tuple[str, ...]]]:
    groups, topics = call.parameters.names("groupName"), call.parameters.names("topicName")
    return [
        (group, topic, items)
        for group, kept in sorted(call.shared.settings.groups.items())
        for topic, items in sorted(kept.allowed.items())
        if (not groups or group in groups) and (not topics or topic in topics)
    ]


def _change(call: AdminCall, change: Callable[[_Allowed, str], _Allowed]) -> Answer:
    """Change what each of the groups is allowed for each of the topics named."""
    settings = call.shared.settings
    rows = []
    for group in call.parameters.names("groupName", required=True):
        for topic in call.parameters.names("topicName", required=True):
            known = settings.group(group)
            settings.set_group(group, replace(known, allowed=change(known.allowed, topic)))
        rows.append(item(groupName=group))
    return from_master(rows)
