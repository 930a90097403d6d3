"""TubeAdmin: topics and groups as operators see them. What requests can do, and what only the web API can.

A topic's partitions are spread over all brokers that are online; ``config`` holds the server's own words for a topic's
deployment (``numTopicStores``, ``deletePolicy`` …).
Source: Apache InLong TubeMQ 2.x, "HTTP API" documentation of master and broker.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import ErrorKind, ServerError, UsageError
from penstock.interfaces.admin import GroupDescription, GroupListing, GroupMember, NewTopic, TopicSetting
from penstock.interfaces.channel import Retry
from penstock.model import Committed, Partition, TopicInfo
from penstock.protocols.tubemq.client import booked_offsets, committing
from penstock.protocols.tubemq.client.web_api import Row, WebApi, list_in, number_in, text_in
from penstock.protocols.tubemq.names import check_group, check_topic
from penstock.protocols.tubemq.strings import parse_broker

if TYPE_CHECKING:
    from penstock.protocols.tubemq.client.shared import Shared

__all__ = ["TubeAdmin"]

_OURS: Final = frozenset({"brokerId", "topicName", "topicNameId", "runInfo", "dataPath"})
_POLL_S: Final = 0.2


class TubeAdmin:
    """``penstock.interfaces.admin.AdminClient``. Everything raises ServerError, ConnectionLost, RequestTimeout."""

    def __init__(self, shared: Shared, web: WebApi) -> None:
        self._shared = shared
        self._web = web

    async def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create all; returns when they can be written to and read, which takes servers half a minute by default."""
        brokers = list(await self._web.brokers())
        if not brokers:
            raise ServerError(
                "no broker is online", code=503, name="SERVICE_UNAVAILABLE", kind=ErrorKind.UNAVAILABLE, retriable=True
            )
        for topic in topics:
            check_topic(topic.name)
            await self._deploy(topic, brokers)
        for topic in topics:
            await self._wait_for(topic.name, max(topic.partitions, 1))

    async def delete_topics(self, names: Collection[str]) -> None:
        """Close them for everybody, then delete them with their messages."""
        for name in names:
            brokers = ",".join(text_in(row, "brokerId") for row in await self._deployments(name))
            if not brokers:
                raise _no_topic(name)
            where = {"topicName": name, "brokerId": brokers}
            await self._web.change("admin_modify_topic_info", **where, acceptPublish=False, acceptSubscribe=False)
            await self._web.change("admin_delete_topic_info", **where)
            await self._web.change("admin_remove_topic_info", **where)
            self._shared.placements.forget([name])
        for name in names:
            await self._wait_for_end(name)

    async def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to ``total`` partitions. Raises UsageError where its stores cannot share that number."""
        rows = await self._deployments(name)
        if not rows:
            raise _no_topic(name)
        change = _growth(name, rows, total)
        for row in rows:
            await self._web.change(
                "admin_modify_topic_info", topicName=name, brokerId=text_in(row, "brokerId"), **change
            )
        await self._wait_for(name, total)

    async def topics(self, names: Collection[str] | None = None, *, fresh: bool = True) -> Mapping[str, TopicInfo]:
        """Topics by name; None: all, which takes the web API."""
        if names is None:
            names = [text_in(row, "topicName") for row in await self._web.ask("admin_query_topic_info")]
        return await self._shared.topics.topics(names, fresh=fresh)

    async def topic_config(self, name: str) -> Mapping[str, str]:
        """Every setting of a topic, of its first broker where they differ."""
        rows = await self._deployments(name)
        if not rows:
            raise _no_topic(name)
        return {key: _text(value) for key, value in rows[0].items() if key not in _OURS}

    async def describe_topic_config(self, name: str) -> Mapping[str, TopicSetting]:
        """As `topic_config`: masters tell neither defaults nor who set it."""
        return {setting: TopicSetting(value) for setting, value in (await self.topic_config(name)).items()}

    async def alter_topic_config(self, name: str, settings: Mapping[str, str | None], *, dry_run: bool) -> None:
        """Change it on every broker that has the topic. Raises UsageError for what masters cannot do."""
        if dry_run:
            raise UsageError("TubeMQ's masters do not try a change without making it", topic=name)
        if unset := [setting for setting, value in settings.items() if value is None]:
            raise UsageError(
                f"TubeMQ's masters do not set {', '.join(unset)} back to its default", topic=name, hint="Give a value"
            )
        rows = await self._deployments(name)
        if not rows:
            raise _no_topic(name)
        if unknown := [setting for setting in settings if setting not in rows[0] or setting in _OURS]:
            known = ", ".join(sorted(set(rows[0]) - set(_OURS)))
            raise UsageError(f"there is no setting {', '.join(unknown)}", topic=name, hint=f"There are {known}")
        for row in rows:
            where = {"topicName": name, "brokerId": text_in(row, "brokerId")}
            await self._web.change("admin_modify_topic_info", **where, **settings)

    async def delete_records(self, before: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """Raises UsageError: TubeMQ deletes by age only."""
        del before
        raise UsageError("TubeMQ cannot delete messages below an offset", hint="Set the topic's deletePolicy")

    async def groups(self) -> Sequence[GroupListing]:
        """All groups that brokers remember, and those that only have members so far; not those we read ranges with."""
        members = {
            text_in(row, "consumeGroup"): number_in(row, "consumerNum")
            for row in await self._web.ask("admin_query_sub_info")
        }
        names = set(members)
        for endpoint in (await self._web.brokers()).values():
            for row in await self._web.ask_broker(endpoint, "admin_get_booked_groupname"):
                names.update(map(str, row.get("groupName", ())))
        ours = re.compile(re.escape(self._shared.options.tube.reader_group) + r"-\d+")
        return [
            GroupListing(name, "Stable" if members.get(name) else "Empty", "consumer")
            for name in sorted(names)
            if not ours.fullmatch(name)
        ]

    async def rebalances(self, group: str) -> None:
        """Nobody remembers them."""

    async def describe_group(self, group: str) -> GroupDescription:
        """One group and its members; "Dead" where nobody knows it."""
        check_group(group)
        document = await self._web.document("admin_query_consume_group_detail", consumeGroup=group)
        members = tuple(_member(row) for row in list_in(document, "data"))
        state = "Stable" if members else "Empty"
        if not members and group not in {each.group for each in await self.groups()}:
            state = "Dead"
        return GroupDescription(group, state, "", None, members)

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        """Where a group stands, from the brokers' web API: nothing is changed by asking.

        Without ``admin_address`` by requests, as `committing` describes.
        """
        check_group(group)
        if partitions is not None and not self._shared.options.tube.admin_address:
            return await committing.committed(self._shared, group, partitions)
        return await booked_offsets.committed(self._shared, self._web, group, partitions)

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        """Set a group's offsets; refused where a member holds the partition."""
        await committing.commit(self._shared, group, offsets)

    async def delete_groups(self, groups: Collection[str]) -> None:
        """Make brokers forget where groups stand. Raises ServerError for one that has members."""
        topics = [text_in(row, "topicName") for row in await self._web.ask("admin_query_topic_info")]
        for group in groups:
            await self._check_empty(group)
            await self._forget(group, topics)

    async def delete_offsets(self, group: str, partitions: Collection[Partition]) -> None:
        """Of whole topics, since brokers forget nothing less. Raises UsageError for less, ServerError with members."""
        topics = sorted({each.topic for each in partitions})
        kept = {each for each in await self.committed(group, None) if each.topic in topics} - set(partitions)
        if kept:
            raise UsageError(
                f"TubeMQ forgets where a group stands in whole topics only, and {min(kept)} would be forgotten, too",
                hint="Name all partitions of the topic, or reset the offsets of those that you mean",
            )
        await self._check_empty(group)
        if topics:
            await self._forget(group, topics)

    async def remove_members(self, group: str, instance_ids: Collection[str], *, reason: str) -> None:
        """Raises UsageError: masters throw nobody out."""
        raise _nobody_leaves(group)

    async def remove_all_members(self, group: str, *, reason: str) -> None:
        """Raises UsageError: masters throw nobody out."""
        raise _nobody_leaves(group)

    async def _check_empty(self, group: str) -> None:
        if members := (await self.describe_group(group)).members:
            raise ServerError(
                f"group {group} has {len(members)} members", code=400, name="NON_EMPTY_GROUP", hint="Stop them first"
            )

    async def _forget(self, group: str, topics: Sequence[str]) -> None:
        for endpoint in (await self._web.brokers()).values():
            await self._web.ask_broker(
                endpoint, "admin_rmv_offset", groupName=group, topicName=",".join(topics),
                modifyUser=self._shared.options.tube.admin_user, onlyMemory=False,
            )  # fmt: skip

    async def _deploy(self, topic: NewTopic, brokers: Sequence[str]) -> None:
        """As many partitions on each broker, one more on the first ones where that does not come out even; all in one
        store, unless ``numPartitions`` says how many share one."""
        total = max(topic.partitions, 1)
        each, more = divmod(total, len(brokers))
        for place, broker in enumerate(brokers):
            partitions = each + (place < more)
            if partitions:
                settings = _shape(partitions, topic.config or {})
                await self._web.change("admin_add_topic_deploy_info", topicName=topic.name, brokerId=broker, **settings)

    async def _wait_for(self, name: str, partitions: int) -> None:
        retry = Retry(self._shared.channel, self._shared.options)
        while True:
            rows = await self._web.ask("admin_query_topic_info", topicName=name)
            there = rows and rows[0].get("isSrvAcceptPublish") and rows[0].get("isSrvAcceptSubscribe")
            if there and number_in(rows[0], "totalRunNumPartCount") >= partitions:
                infos = (await self._shared.topics.topics([name], fresh=True)).get(name)
                if infos is not None and len(infos.partitions) >= partitions:
                    return
            error = ServerError(
                "the topic is not in service yet",
                code=503,
                name="SERVICE_UNAVAILABLE",
                kind=ErrorKind.UNAVAILABLE,
                topic=name,
            )
            await retry.pause(error, seconds=_POLL_S)

    async def _wait_for_end(self, name: str) -> None:
        """Until brokers have heard that they do not have the topic any more."""
        retry = Retry(self._shared.channel, self._shared.options)
        while await self._deployments(name):
            error = ServerError(
                "the topic is still being deleted",
                code=503,
                name="SERVICE_UNAVAILABLE",
                kind=ErrorKind.UNAVAILABLE,
                topic=name,
            )
            await retry.pause(error, seconds=_POLL_S)

    async def _deployments(self, name: str) -> Sequence[Row]:
        """One row a broker."""
        rows = await self._web.ask("admin_query_topic_info", topicName=check_topic(name))
        return list_in(rows[0], "topicInfo") if rows else []


def _shape(partitions: int, config: Mapping[str, str]) -> dict[str, object]:
    """What a broker is told that is to have so many of a topic's partitions."""
    shared = config.get("numPartitions", "")
    if "numTopicStores" not in config and shared.isdecimal() and int(shared) and not partitions % int(shared):
        return {"numTopicStores": partitions // int(shared), **config}
    return {"numTopicStores": 1, "numPartitions": partitions, **config}


def _growth(name: str, rows: Sequence[Row], total: int) -> Mapping[str, int]:
    """What to change on every broker: more partitions a store, or else more stores. Raises UsageError."""
    stores = [number_in(row, "numTopicStores") for row in rows]
    partitions = [number_in(row, "numPartitions") for row in rows]
    now = sum(count * each for count, each in zip(stores, partitions, strict=True))
    each_more = len(rows) * partitions[0]
    if total > now and total % sum(stores) == 0:
        return {"numPartitions": total // sum(stores)}
    if total > now and len(set(partitions)) == 1 and total % each_more == 0:
        return {"numTopicStores": total // each_more}
    raise UsageError(
        f"{name} has {now} partitions on {len(rows)} brokers and cannot get {total}",
        topic=name,
        hint=f"Give a multiple of {sum(stores)} or of {each_more} above {now}",
    )


def _member(row: Row) -> GroupMember:
    partitions = frozenset(
        Partition(text_in(each, "topicName"), number_in(each, "partId"), parse_broker(text_in(each, "brokerAddr")).name)
        for each in list_in(row, "parInfo")
    )
    name = text_in(row, "consumerId")
    return GroupMember(name, None, name, str(row.get("receivedFrom", "")), partitions)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _no_topic(name: str) -> ServerError:
    return ServerError(
        "there is no such topic", code=431, name="TOPIC_NOT_DEPLOYED", kind=ErrorKind.UNKNOWN_TOPIC, topic=name
    )


def _nobody_leaves(group: str) -> UsageError:
    return UsageError(
        f"TubeMQ's masters throw nobody out of group {group}",
        hint="Stop the members' processes: masters give a silent one's partitions away after half a minute",
    )
