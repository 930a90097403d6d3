"""Where groups stand, from the brokers' web API: nothing about a group that is read is changed by asking.

A broker lists the groups of a file that it writes every five seconds. A group that is younger stands in its memory
only, and is looked up there partition by partition. That look-up gives a partition that the group has nothing of the
place 0, which is harmless (a member that comes still begins where it wants to), but why old groups are not asked so.
Source: Apache InLong TubeMQ 2.4.0, ``BrokerAdminServlet`` and ``DefaultOffsetManager``; "HTTP API" of the broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.errors import ErrorKind, ServerError
from penstock.interfaces.channel import Retry
from penstock.model import Committed, Endpoint, Partition
from penstock.protocols.tubemq.client.shared import Shared
from penstock.protocols.tubemq.client.web_api import Row, WebApi, list_in, number_in, text_in

__all__ = ["committed"]

_FILE_PATIENCE_MS = 7_000
"""How long a group may be in memory only, with something to spare."""

_POLL_S = 0.2


async def committed(
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
