"""Who may read what: controlled topics, the groups recorded there, and the filter items they must ask for.

A record is of a group and a topic: whether the group may read, and which filter items it must choose from. The newer
verbs (``csmctrl``) change records as such; the older ones know them as a list of allowed groups, a black list, and
filter conditions. Records count where the topic is controlled, as on a real master.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from penstock.protocols.tubemq.errors import Code, Refused
from penstock.protocols.tubemq.server.settings import UNSET, GroupSettings, TopicSettings
from penstock.protocols.tubemq.server.web_api.routes import (
    EXISTS,
    UNKNOWN,
    AdminCall,
    Answer,
    Parameters,
    from_master,
    item,
)

__all__ = [
    "add_record",
    "allow_group",
    "authorize",
    "deny_group",
    "drop_filters",
    "drop_records",
    "drop_topic",
    "forbid_group",
    "permit_group",
    "query_allowed",
    "query_authorize",
    "query_denied",
    "query_filters",
    "query_groups",
    "query_records",
    "query_topics",
    "set_filters",
    "set_topic",
    "unauthorize",
    "update_record",
]

_MB: Final = 1 << 20
_MOST_MB: Final = 20
_MOST_ID: Final = 2**31 - 1

Change = Callable[[GroupSettings, str], GroupSettings]


# Topics.


async def set_topic(call: AdminCall) -> Answer:
    """Serve admin_add_topic_control_info and admin_update_topic_control_info: control, largest message, number."""
    given = call.parameters
    given.user("createUser", "modifyUser")
    controlled, limit = given.flag("enableAuthControl"), max_message_bytes(given)
    name_id = given.number("topicNameId", UNSET, low=UNSET, high=_MOST_ID)

    def change(known: TopicSettings) -> TopicSettings:
        return replace(
            known,
            controlled=known.controlled if controlled is None else controlled,
            max_message_bytes=limit or known.max_message_bytes,
            name_id=known.name_id if name_id == UNSET else name_id,
        )

    return _change_topics(call, change)


def max_message_bytes(given: Parameters) -> int:
    """What ``maxMsgSizeInMB`` says; 0: nothing. Raises Refused."""
    return given.number("maxMsgSizeInMB", 0, low=0, high=_MOST_MB) * _MB


async def drop_topic(call: AdminCall) -> Answer:
    """Serve admin_delete_topic_control_info: no control, and the cluster's limit of messages."""
    call.parameters.user("modifyUser")
    return _change_topics(call, lambda known: replace(known, controlled=False, max_message_bytes=0, name_id=UNSET))


async def authorize(call: AdminCall) -> Answer:
    """Serve admin_set_topic_authorize_control: control on, or off, which is what no word means at a real master."""
    call.parameters.user("createUser", "modifyUser")
    controlled = call.parameters.flag("isEnable") or False
    return _change_topics(call, lambda known: replace(known, controlled=controlled))


async def unauthorize(call: AdminCall) -> Answer:
    """Serve admin_delete_topic_authorize_control: control off."""
    call.parameters.user("modifyUser")
    return _change_topics(call, lambda known: replace(known, controlled=False))


async def query_topics(call: AdminCall) -> Answer:
    """Serve admin_query_topic_control_info."""
    settings = call.shared.settings
    return from_master(
        [
            {
                "topicName": name,
                "topicNameId": settings.topic(name).name_id,
                "enableAuthControl": settings.topic(name).controlled,
                "maxMsgSizeInMB": (settings.topic(name).max_message_bytes or settings.limits.max_message_bytes) // _MB,
            }
            for name in await _topics(call)
        ]
    )


async def query_authorize(call: AdminCall) -> Answer:
    """Serve admin_query_topic_authorize_control: the same, with the groups of each topic."""
    rows = []
    for name in await _topics(call):
        groups = [(group, kept.allowed[name]) for group, kept in _groups(call) if name in kept.allowed]
        rows.append(
            {
                "topicName": name,
                "isEnable": call.shared.settings.topic(name).controlled,
                "authConsumeGroup": [{"topicName": name, "groupName": group} for group, _ in groups],
                "groupCount": len(groups),
                "authFilterCondSet": [_filters(group, name, items) for group, items in groups],
                "filterCount": len(groups),
            }
        )
    return from_master(rows)


# Records, under their own names.


async def add_record(call: AdminCall) -> Answer:
    """Serve admin_add_group_csmctrl_info."""
    call.parameters.user("createUser")
    return await _set_records(call, new=True)


async def update_record(call: AdminCall) -> Answer:
    """Serve admin_update_group_csmctrl_info."""
    call.parameters.user("modifyUser")
    return await _set_records(call, new=False)


async def drop_records(call: AdminCall) -> Answer:
    """Serve admin_delete_group_csmctrl_info: of the topics named, or of all."""
    call.parameters.user("modifyUser")
    topics = call.parameters.names("topicName")
    rows = []
    for group in call.parameters.names("groupName", required=True):
        for topic in topics or sorted(call.shared.settings.group(group).allowed):
            _change_group(call, group, topic, _without)
            if topics:
                rows.append(item(groupName=group, topicName=topic))
        if not topics:
            rows.append(item(groupName=group, topicName=""))
    return from_master(rows)


async def query_records(call: AdminCall) -> Answer:
    """Serve admin_query_group_csmctrl_info."""
    consume, filtered = call.parameters.flag("consumeEnable"), call.parameters.flag("filterEnable")
    rows = [
        {
            "topicName": topic,
            "groupName": group,
            "consumeEnable": topic not in kept.denied,
            "disableCsmRsn": kept.denied.get(topic, ""),
            "filterEnable": bool(kept.allowed[topic]),
            "filterConds": _listed(kept.allowed[topic]),
        }
        for group, topic, kept in _records(call)
    ]
    return from_master(
        [row for row in rows if consume in (None, row["consumeEnable"]) and filtered in (None, row["filterEnable"])]
    )


async def query_groups(call: AdminCall) -> Answer:
    """Serve admin_query_booked_csmctrl_groups."""
    return from_master(sorted({group for group, _, _ in _records(call)}))


# Records, as the older verbs know them.


async def allow_group(call: AdminCall) -> Answer:
    """Serve admin_add_authorized_consumergroup_info."""
    call.parameters.user("createUser", "modifyUser")
    return await _change(call, _allowing)


async def forbid_group(call: AdminCall) -> Answer:
    """Serve admin_delete_allowed_consumer_group_info."""
    call.parameters.user("modifyUser")
    return await _change(call, _without)


async def deny_group(call: AdminCall) -> Answer:
    """Serve admin_add_black_consumergroup_info."""
    call.parameters.user("createUser")
    reason = call.parameters.optional("disableCsmRsn")
    return await _change(call, lambda known, topic: _denying(known, topic, reason))


async def permit_group(call: AdminCall) -> Answer:
    """Serve admin_delete_black_consumergroup_info: groups that are on the list may read again."""
    call.parameters.user("modifyUser")
    if not call.parameters.names("groupName"):
        denied = [(group, topic) for group, topic, kept in _records(call) if topic in kept.denied]
        for group, topic in denied:
            _change_group(call, group, topic, _allowing)
        return from_master([item(groupName=group, topicName=topic) for group, topic in denied])
    return await _change(call, lambda known, topic: _allowing(known, topic) if topic in known.denied else known)


async def set_filters(call: AdminCall) -> Answer:
    """Serve admin_add_group_filtercond_info: the items a group must choose from, ``,a,b,``."""
    call.parameters.user("createUser", "modifyUser")
    items = tuple(call.parameters.names("filterConds"))
    asked = call.parameters.number("condStatus", 1, low=0, high=2)
    if asked and not items:
        raise Refused(Code.BAD_REQUEST, "Parameter filterConds is missing or value is blank!")
    return await _change(call, lambda known, topic: _filtering(known, topic, items if asked else ()))


async def drop_filters(call: AdminCall) -> Answer:
    """Serve admin_del_group_filtercond_info: any item, or none."""
    call.parameters.user("modifyUser")
    return await _change(call, lambda known, topic: _filtering(known, topic, ()) if topic in known.allowed else known)


async def query_allowed(call: AdminCall) -> Answer:
    """Serve admin_query_allowed_consumer_group_info."""
    return from_master(
        [{"topicName": topic, "groupName": group} for group, topic, kept in _records(call) if topic not in kept.denied]
    )


async def query_denied(call: AdminCall) -> Answer:
    """Serve admin_query_black_consumer_group_info."""
    return from_master(
        [
            {"groupName": group, "topicName": topic, "reason": kept.denied[topic]}
            for group, topic, kept in _records(call)
            if topic in kept.denied
        ]
    )


async def query_filters(call: AdminCall) -> Answer:
    """Serve admin_query_group_filtercond_info."""
    return from_master([_filters(group, topic, kept.allowed[topic]) for group, topic, kept in _records(call)])


# Parts.


async def _topics(call: AdminCall) -> list[str]:
    wanted = call.parameters.names("topicName")
    return [topic.name for topic in await call.shared.cluster.topics() if not wanted or topic.name in wanted]


def _change_topics(call: AdminCall, change: Callable[[TopicSettings], TopicSettings]) -> Answer:
    settings = call.shared.settings
    rows = []
    for name in call.parameters.names("topicName", required=True):
        settings.set_topic(name, change(settings.topic(name)))
        rows.append(item(topicName=name))
    return from_master(rows)


def _groups(call: AdminCall) -> list[tuple[str, GroupSettings]]:
    return sorted(call.shared.settings.groups.items())


def _records(call: AdminCall) -> list[tuple[str, str, GroupSettings]]:
    groups = call.parameters.names("groupName") or call.parameters.names("consumeGroup")
    topics = call.parameters.names("topicName")
    return [
        (group, topic, kept)
        for group, kept in _groups(call)
        for topic in sorted(kept.allowed)
        if (not groups or group in groups) and (not topics or topic in topics)
    ]


def _filters(group: str, topic: str, items: tuple[str, ...]) -> dict[str, Any]:
    return {"topicName": topic, "groupName": group, "condStatus": 2 if items else 0, "filterConds": _listed(items)}


def _listed(items: tuple[str, ...]) -> str:
    return f",{','.join(items)}," if items else ""


async def _set_records(call: AdminCall, *, new: bool) -> Answer:
    given = call.parameters
    consume, filtered = given.flag("consumeEnable"), given.flag("filterEnable")
    items, reason = tuple(given.names("filterConds")), given.optional("disableCsmRsn")
    if filtered and not items:
        raise Refused(Code.BAD_REQUEST, "Parameter filterConds is missing or value is blank!")
    if items and not filtered:
        raise Refused(Code.BAD_REQUEST, "Parameter filterConds has no effect without filterEnable=true")
    rows = []
    for group in given.names("groupName", required=True):
        for topic in given.names("topicName", required=True):
            known = call.shared.settings.group(group)
            if new is (topic in known.allowed):
                text = f"{'Existed' if new else 'Not found'} record for groupName-topicName({group}-{topic})!"
                refused = Refused(EXISTS if new else UNKNOWN, text)
                rows.append(item(refused, groupName=group, topicName=topic))
                continue
            changed = known if filtered is None else _filtering(known, topic, items)
            if consume is not None or new:
                changed = _denying(changed, topic, reason) if consume is False else _allowing(changed, topic)
            call.shared.settings.set_group(group, changed)
            rows.append(item(groupName=group, topicName=topic))
    return from_master(rows)


async def _change(call: AdminCall, change: Change) -> Answer:
    """Change the record of each of the groups for each of the topics named."""
    rows = []
    for group in call.parameters.names("groupName", required=True):
        for topic in call.parameters.names("topicName", required=True):
            _change_group(call, group, topic, change)
            rows.append(item(groupName=group, topicName=topic))
    return from_master(rows)


def _change_group(call: AdminCall, group: str, topic: str, change: Change) -> None:
    settings = call.shared.settings
    settings.set_group(group, change(settings.group(group), topic))


def _allowing(known: GroupSettings, topic: str) -> GroupSettings:
    denied = {name: reason for name, reason in known.denied.items() if name != topic}
    return replace(known, allowed={topic: (), **known.allowed}, denied=denied)


def _denying(known: GroupSettings, topic: str, reason: str) -> GroupSettings:
    return replace(known, allowed={topic: (), **known.allowed}, denied={**known.denied, topic: reason})


def _filtering(known: GroupSettings, topic: str, items: tuple[str, ...]) -> GroupSettings:
    return replace(known, allowed={**known.allowed, topic: items})


def _without(known: GroupSettings, topic: str) -> GroupSettings:
    return replace(
        known,
        allowed={name: items for name, items in known.allowed.items() if name != topic},
        denied={name: reason for name, reason in known.denied.items() if name != topic},
    )
