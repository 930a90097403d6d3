"""Committed offsets: where groups stand, kept by each broker for its own queues.

A broker of 4.9 says 0 of a group that has committed nothing in a young queue; what such a group really has is in the
list of all offsets. A broker of 5.x refuses groups that it does not know (26): they are made, as a member's heartbeat
would.
Source: Apache RocketMQ 4.9 and 5.4, ``ConsumerManageProcessor``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.config.logs import ClientLog
from penstock.errors import PenstockError, ServerError
from penstock.model import Committed, Node, Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.client.offsets import FIRST_5
from penstock.protocols.rocketmq.command import MAX_FRAME_BYTES
from penstock.protocols.rocketmq.config.names import RETRY
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.methods import (
    GET_ALL_CONSUMER_OFFSET,
    QUERY_CONSUMER_OFFSET,
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    UPDATE_AND_CREATE_TOPIC,
    UPDATE_CONSUMER_OFFSET,
)
from penstock.seams.retry import Retry

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.shared import Shared

__all__ = ["by_node", "commit", "commit_for", "committed", "make_group"]

_LOG: Final = ClientLog("penstock.group")

T = TypeVar("T")


async def committed(shared: Shared, group: str, partitions: Collection[Partition] | None) -> dict[Partition, Committed]:
    """Where a group stands, in those queues of ``partitions`` (None: of all) in which it has committed."""
    if partitions is None:
        nodes = await shared.topics.brokers()
        return _joined(await shared.together([_all_of(shared, node, group) for node in nodes]))

    async def once() -> dict[Partition, Committed]:
        nodes_of = await by_node(shared, partitions)
        return _joined(
            await shared.together([_those_of(shared, node, group, those) for node, those in nodes_of.items()])
        )

    return await _retried(shared, partitions, once)


async def commit(shared: Shared, group: str, offsets: Mapping[Partition, Committed]) -> None:
    """Put a group at these offsets. Raises ServerError."""

    async def once() -> None:
        nodes_of = await by_node(shared, offsets)
        await shared.together([_commit_at(shared, node, group, those, offsets) for node, those in nodes_of.items()])

    await _retried(shared, offsets, once)


async def commit_for(shared: Shared, group: str, offsets: Mapping[Partition, Committed]) -> None:
    """As ``commit``, by somebody who is no member: the first time the group is made known, too."""
    await commit(shared, group, offsets)
    if group not in shared.shown:
        await _show(shared, group, offsets)
        shared.shown.add(group)


async def _show(shared: Shared, group: str, partitions: Collection[Partition]) -> None:
    """Have operators' tools find a group that never had members: they look for it where its retry topic is, which
    brokers make when they hear of a member. Where that may not be done, its offsets count all the same."""
    topic = RETRY + group
    header = m.CreateTopic(topic=topic, read_queue_nums=1, write_queue_nums=1)
    try:
        if topic in await shared.topics.topics([topic]):
            return
        for node in await by_node(shared, partitions):
            await shared.calls.call(node.endpoint, UPDATE_AND_CREATE_TOPIC, header)
    except PenstockError as error:
        _LOG.info("group %s is not made known to those who look for it by its retry topic: %s", group, error)


async def make_group(shared: Shared, node: Node, group: str) -> None:
    """Have a broker know a group."""
    body = m.SubscriptionGroupConfig(group_name=group)
    await shared.calls.call(node.endpoint, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, m.NoFields(), body)


async def by_node(shared: Shared, partitions: Iterable[Partition]) -> dict[Node, list[Partition]]:
    """Queues by their brokers. Raises ServerError for one that nobody has."""
    found: dict[Node, list[Partition]] = {}
    for partition in partitions:
        found.setdefault(await shared.topics.leader(partition), []).append(partition)
    return found


async def _retried(shared: Shared, partitions: Iterable[Partition], once: Callable[[], Awaitable[T]]) -> T:
    retry = Retry(shared.channel, shared.options)
    while True:
        try:
            return await once()
        except PenstockError as error:
            for partition in partitions if error.retriable else ():
                shared.topics.routing.distrust(partition)
            await retry.after(error)


async def _those_of(shared: Shared, node: Node, group: str, asked: Sequence[Partition]) -> dict[Partition, Committed]:
    requests = [
        shared.calls.request(
            QUERY_CONSUMER_OFFSET,
            m.QueryConsumerOffset(
                consumer_group=group,
                topic=partition.topic,
                queue_id=partition.id,
                set_zero_if_not_found=False,
                broker_name=partition.node,
            ),
        )
        for partition in asked
    ]
    found: dict[Partition, Committed] = {}
    doubtful = False
    started = await shared.calls.start(node.endpoint, QUERY_CONSUMER_OFFSET, requests)
    for partition, each in zip(asked, started, strict=True):
        try:
            answer = await each.answer(of=partition)
        except ServerError as error:
            if error.code != Code.QUERY_NOT_FOUND:
                raise
            continue
        found[partition] = Committed(answer.header.offset)
        doubtful |= answer.command.version < FIRST_5 and not answer.header.offset
    if doubtful:
        really = await _all_of(shared, node, group)
        found = {partition: each for partition, each in found.items() if each.offset or partition in really}
    return found


async def _all_of(shared: Shared, node: Node, group: str) -> dict[Partition, Committed]:
    answer = await shared.calls.call(node.endpoint, GET_ALL_CONSUMER_OFFSET, m.NoFields())
    table = m.read_body(m.ConsumerOffsets, answer.body, max_bytes=MAX_FRAME_BYTES).offset_table
    found: dict[Partition, Committed] = {}
    for name, offsets in table.items():
        topic, _, of_group = name.partition("@")
        if of_group == group:
            found |= {Partition(topic, number, node.name): Committed(offset) for number, offset in offsets.items()}
    return found


async def _commit_at(
    shared: Shared, node: Node, group: str, those: Sequence[Partition], offsets: Mapping[Partition, Committed]
) -> None:
    try:
        await _update(shared, node, group, those, offsets)
    except ServerError as error:
        if error.code != Code.SUBSCRIPTION_GROUP_NOT_EXIST:
            raise
        await make_group(shared, node, group)
        await _update(shared, node, group, those, offsets)


async def _update(
    shared: Shared, node: Node, group: str, those: Sequence[Partition], offsets: Mapping[Partition, Committed]
) -> None:
    requests = [
        shared.calls.request(
            UPDATE_CONSUMER_OFFSET,
            m.UpdateConsumerOffset(
                consumer_group=group,
                topic=partition.topic,
                queue_id=partition.id,
                commit_offset=offsets[partition].offset,
                broker_name=partition.node,
            ),
        )
        for partition in those
    ]
    started = await shared.calls.start(node.endpoint, UPDATE_CONSUMER_OFFSET, requests)
    for partition, each in zip(those, started, strict=True):
        await each.answer(of=partition)


def _joined(found: Iterable[dict[Partition, Committed]]) -> dict[Partition, Committed]:
    return {partition: offset for each in found for partition, offset in each.items()}
