"""TubeAdmin: topics and groups as operators see them, and groups' committed offsets from outside of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from penstock.errors import ErrorKind, OffsetOutOfRange, PenstockError, ServerError, UsageError
from penstock.interfaces.admin import AdminClient, GroupDescription, GroupListing, GroupMember, NewTopic, TopicSetting
from penstock.interfaces.channel import Retry
from penstock.model import Committed, Endpoint, Partition, TopicInfo
from penstock.protocols.tubemq.client.calls import Booking, Position
from penstock.protocols.tubemq.client.cluster import Shared
from penstock.protocols.tubemq.client.reading import next_position
from penstock.protocols.tubemq.client.web_api import Row, WebApi, list_in, number_in, text_in
from penstock.protocols.tubemq.config import ConsumePosition
from penstock.protocols.tubemq.errors import Code
from penstock.protocols.tubemq.wire.rpc import ReadStatus
from penstock.protocols.tubemq.wire.strings import check_group, check_topic, parse_broker

__all__ = ["TubeAdmin", "commit", "committed", "committed_by_web_api"]

# Where groups stand, from the brokers' web API: nothing about a group that is read is changed by asking.
#
# A broker lists the groups of a file that it writes every five seconds. A group that is younger stands in its memory
# only, and is looked up there partition by partition. That look-up gives a partition that the group has nothing of the
# place 0, which is harmless (a member that comes still begins where it wants to), but why old groups are not asked so.
# Source: Apache InLong TubeMQ 2.4.0, ``BrokerAdminServlet`` and ``DefaultOffsetManager``; "HTTP API" of the broker.
_FILE_PATIENCE_MS = 7_000
"""How long a group may be in memory only, with something to spare."""


async def committed_by_web_api(
    shared: Shared, web: WebApi, group: str, partitions: Collection[Partition] | None
) -> dict[Partition, Committed]:
    """The group's offsets in these partitions, or in all."""
    if partitions is None:
        topics = [text_in(row, "topicName") for row in await web.ask("admin_query_topic_info")]
    else:
        topics = sorted({partition.topic for partition in partitions})
    found: dict[Partition, Committed] = {}
    for node, endpoint in (await web.brokers()).items():
        here = await _filed(web, endpoint, node, group, topics)
        if here is None and await _is_in_memory(web, endpoint, group):
            if partitions is None:
                here = await _filed_soon(shared, web, endpoint, node, group, topics)
            else:
                wanted = [each for each in partitions if each.node in ("", node)]
                here = await _remembered(web, endpoint, group, wanted)
        found.update(here or {})
    return found if partitions is None else {each: found[each] for each in partitions if each in found}


async def _filed(
    web: WebApi, endpoint: Endpoint, node: str, group: str, topics: Iterable[str]
) -> dict[Partition, Committed] | None:
    """What the broker lists; None if it does not list the group."""
    rows = await web.ask_broker(endpoint, "admin_query_offset", groupName=group, topicName=",".join(topics))
    found: dict[Partition, Committed] = {}
    for row in rows:
        found.update(_offsets(row, node))
    return found if rows else None


async def _filed_soon(
    shared: Shared, web: WebApi, endpoint: Endpoint, node: str, group: str, topics: Collection[str]
) -> dict[Partition, Committed]:
    retry = Retry(shared.channel, shared.options, timeout_ms=_FILE_PATIENCE_MS)
    while (found := await _filed(web, endpoint, node, group, topics)) is None:
        error = ServerError(
            f"group {group} is not listed yet",
            code=503,
            name="SERVICE_UNAVAILABLE",
            kind=ErrorKind.UNAVAILABLE,
            node=node,
        )
        await retry.pause(error, seconds=_POLL_S)
    return found


async def _is_in_memory(web: WebApi, endpoint: Endpoint, group: str) -> bool:
    rows = await web.ask_broker(endpoint, "admin_get_booked_groupname", divide=True)
    return any(row.get("type") == "online" and group in row.get("groupName", ()) for row in rows)


async def _remembered(
    web: WebApi, endpoint: Endpoint, group: str, partitions: Iterable[Partition]
) -> dict[Partition, Committed]:
    found = {}
    for partition in partitions:
        where = {"groupName": group, "topicName": partition.topic, "partitionId": partition.id}
        row = await web.broker_document(endpoint, "admin_query_group_offset", **where, requireRealOffset=True)
        found[partition] = Committed(number_in(row, "zkOffset"))
    return found


def _offsets(row: Row, node: str) -> dict[Partition, Committed]:
    return {
        Partition(text_in(topic, "topicName"), number_in(each, "partitionId"), node): Committed(
            number_in(each, "curOffset")
        )
        for topic in list_in(row, "subInfo")
        for each in list_in(topic, "offsets")
        if number_in(each, "curOffset") >= 0
    }


# Committed offsets of a group, from outside of it.
#
# A broker moves a group's offset to where a member registers for the group, and keeps it there; so committing is to
# register at the offset and to give the partition back at once. That is refused (410) where a member holds the
# partition: it must commit itself. Looking is the same without an offset, and has a price: a group that had no place in
# a partition has one afterwards, where ``consume_position`` (or ``auto_offset_reset``) says. The admin API has neither
# problem. Source: Apache InLong TubeMQ 2.x, broker method 15 (``currOffset``).
_OCCUPIED_PATIENCE_MS = 2_000


async def commit(shared: Shared, group: str, offsets: Mapping[Partition, Committed]) -> None:
    """Move a group. Raises OffsetOutOfRange for an offset that the log does not have, ServerError, ConnectionLost."""
    check_group(group)
    places = {partition: next_position(committed.offset) for partition, committed in offsets.items()}
    found = await _visit_all(shared, group, places)
    for partition, position in found.items():
        if position.offset != places[partition]:
            raise OffsetOutOfRange(
                f"group {group} was moved to {position.offset}, not to {places[partition]}: there is no such place",
                code=Code.MOVED,
                name="MOVED",
                topic=partition.topic,
                partition=partition.id,
                offset=places[partition],
                node=partition.node,
                hint="The log begins behind it, or ends before it",
            )


async def committed(shared: Shared, group: str, partitions: Collection[Partition]) -> dict[Partition, Committed]:
    """Where a group stands in some partitions; see above for what asking does to a group that stands nowhere yet."""
    check_group(group)
    found = await _visit_all(shared, group, dict.fromkeys(partitions))
    return {partition: Committed(position.offset) for partition, position in found.items()}


async def _visit_all(shared: Shared, group: str, places: Mapping[Partition, int | None]) -> dict[Partition, Position]:
    await shared.topics.topics({partition.topic for partition in places})
    client_id = shared.identity.consumer_id(group)
    visits = [_visit(shared, group, client_id, partition, place) for partition, place in places.items()]
    outcomes = await shared.channel.gather(visits)
    found: dict[Partition, Position] = {}
    for partition, outcome in zip(places, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            raise outcome
        found[partition] = outcome
    return found


async def _visit(shared: Shared, group: str, client_id: str, partition: Partition, place: int | None) -> Position:
    """Register for a group, and give the partition back."""
    retry = Retry(shared.channel, shared.options)
    occupied = Retry(shared.channel, shared.options, timeout_ms=_OCCUPIED_PATIENCE_MS)
    placed = shared.placements.resolve(partition)
    booking = Booking(client_id, group, placed, shared.options.filters_of(partition.topic))
    behind_all = place is None and shared.options.position is not ConsumePosition.FIRST
    status = ReadStatus.FROM_MAX_FIRST_TIME if behind_all else ReadStatus.NORMAL
    while True:
        try:
            node = await shared.topics.leader(placed)
            position = await shared.brokers.register(node.endpoint, booking, start=place, read_status=status)
            await shared.brokers.unregister(node.endpoint, booking, consumed=False)
        except PenstockError as error:
            if isinstance(error, ServerError) and error.code == Code.PARTITION_OCCUPIED:
                error.hint = f"A member of group {group} holds the partition: let it commit, or stop it"
                await occupied.pause(error)
                continue
            shared.placements.distrust(placed)
            await retry.after(error)
        else:
            return position


# TubeAdmin: topics and groups as operators see them. What requests can do, and what only the web API can.
#
# A topic's partitions are spread over all brokers that are online; ``config`` holds the server's own words for a
# topic's deployment (``numTopicStores``, ``deletePolicy`` …). Source: Apache InLong TubeMQ 2.x, "HTTP API"
# documentation of master and broker.
_OURS: Final = frozenset({"brokerId", "topicName", "topicNameId", "runInfo", "dataPath"})
_POLL_S: Final = 0.2


class TubeAdmin(AdminClient):
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
        """Empty: neither masters nor brokers remember them."""

    async def describe_group(self, group: str) -> GroupDescription:
        """One group and its members; "Dead" if it is unknown."""
        check_group(group)
        document = await self._web.document("admin_query_consume_group_detail", consumeGroup=group)
        members = tuple(_member(row) for row in list_in(document, "data"))
        state = "Stable" if members else "Empty"
        if not members and group not in {each.group for each in await self.groups()}:
            state = "Dead"
        return GroupDescription(group, state, "", None, members)

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        """Where a group stands, from the brokers' web API: nothing is changed by asking.

        Without ``admin_address`` by requests, as `committed` describes.
        """
        check_group(group)
        if partitions is not None and not self._shared.options.tube.admin_address:
            return await committed(self._shared, group, partitions)
        return await committed_by_web_api(self._shared, self._web, group, partitions)

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        """Set a group's offsets; refused where a member holds the partition."""
        await commit(self._shared, group, offsets)

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
        """Raises UsageError: masters cannot remove members."""
        raise _cannot_remove_members(group)

    async def remove_all_members(self, group: str, *, reason: str) -> None:
        """Raises UsageError: masters cannot remove members."""
        raise _cannot_remove_members(group)

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
    """The request's fields for a broker that is to have so many of a topic's partitions."""
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


def _cannot_remove_members(group: str) -> UsageError:
    return UsageError(
        f"TubeMQ's masters cannot remove members of group {group}",
        hint="Stop the members' processes: masters give a silent one's partitions away after half a minute",
    )
