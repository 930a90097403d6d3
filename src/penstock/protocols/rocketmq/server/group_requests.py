"""Handlers of requests about groups: settings, statistics, heartbeats and members, queue locks, and offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Final

from penstock.errors import PenstockError
from penstock.interfaces.enode import Extent, extent
from penstock.model import Partition
from penstock.protocols.rocketmq.config import BUILT_IN, RETRY, is_built_in
from penstock.protocols.rocketmq.errors import Code, Refused, unmade
from penstock.protocols.rocketmq.server.call import Call, ClientConnection, OfConnected, Reply, read_large, written
from penstock.protocols.rocketmq.server.clients import SPANS_S, Member, Who
from penstock.protocols.rocketmq.server.filters import wanted_by
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.log_records import is_hidden, log_name, rocket_name
from penstock.protocols.rocketmq.wire.rpc import RESET_CONSUMER_CLIENT_OFFSET
from penstock.protocols.rocketmq.wire.rpc import request as to_client

__all__ = [
    "all_committed_offsets",
    "all_group_stats",
    "all_producers",
    "check_subscription",
    "commit_offset",
    "committed_offset",
    "connected",
    "connections",
    "consumed_counts",
    "create_group",
    "create_groups",
    "delete_group",
    "earliest_time",
    "end_offset",
    "group_setting",
    "group_settings",
    "group_stats",
    "heartbeat",
    "lock_queues",
    "made_group",
    "members",
    "named",
    "producers",
    "reset_offsets",
    "search_offset",
    "start_offset",
    "topic_readers",
    "unlock_queues",
    "unregister",
]

_MOST_RETRY_QUEUES: Final = 1_000
_SENT: Final = "TOPIC_PUT_NUMS"
_GIVEN: Final = "GROUP_GET_NUMS"
_LONGEST_NAME: Final = 255
_STEPS_OF_A_SETTING: Final = 4
_STEPS_OF_STATS: Final = 10
"""Steps of `LoopBudget` for a group's settings, and for the offsets of a topic or a group."""


def made_group(call: Call, group: str) -> None:
    """Raises Refused for a group that was never created, unless groups are created automatically."""
    shared = call.shared
    if not (shared.options.auto_create_groups or is_built_in(group) or shared.settings.has_group(group)):
        raise unmade(group)


async def create_group(call: Call, request: m.NoFields) -> Reply:
    """Serve update and create subscription group."""
    del request
    said = await read_large(call.shared.background, m.SubscriptionGroupConfig, call.asked.body)
    _check(said)
    await _set(call, said)
    return Reply()


async def create_groups(call: Call, request: m.NoFields) -> Reply:
    """Serve update and create subscription group list. All settings are checked before any is written."""
    del request
    said = (await read_large(call.shared.background, m.SubscriptionGroupList, call.asked.body)).group_config_list
    for each in said:
        _check(each)
    async for each in call.shared.turns.through(list(said), _STEPS_OF_A_SETTING):
        await _set(call, each)
    return Reply()


def _check(said: m.SubscriptionGroupConfig) -> None:
    """Raises Refused for settings that the node would not follow."""
    if not said.group_name or len(said.group_name) > _LONGEST_NAME:
        raise Refused(Code.INVALID_PARAMETER, f"a group's name of {len(said.group_name)} letters")
    if not 0 <= said.retry_queue_nums <= _MOST_RETRY_QUEUES:
        raise Refused(Code.INVALID_PARAMETER, f"retryQueueNums is {said.retry_queue_nums}: 0 to {_MOST_RETRY_QUEUES}")
    policy = said.group_retry_policy
    if policy is not None and policy != m.GroupRetryPolicy():
        raise Refused(
            Code.INVALID_PARAMETER,
            f"groupRetryPolicy is of type {policy.type[:100]}: a group's messages come again by the delay levels",
        )
    if said.attributes:
        name = next(iter(said.attributes))
        raise Refused(Code.INVALID_PARAMETER, f"the attribute {name[:100]} of groups is not served here")


async def _set(call: Call, said: m.SubscriptionGroupConfig) -> None:
    """Write a group's settings. If its retry topic exists, it gets the number of queues that they ask for."""
    shared = call.shared
    await shared.settings.set_group(said)
    retry = await shared.cluster.topic(f"{RETRY}{said.group_name}")
    if retry is not None and retry.partitions < said.retry_queue_nums:
        await shared.enode.add_partitions(retry.name, said.retry_queue_nums)


async def delete_group(call: Call, request: m.DeleteGroup) -> Reply:
    """Serve delete subscription group; committed offsets are deleted if the request says so. Deleting an unknown group
    is no error.

    Raises Refused if nothing would be deleted although the group exists by its offsets or its members.
    """
    shared, name = call.shared, request.group_name
    offsets = bool(await shared.offsets.committed(name))
    was_set = await shared.settings.forget_group(name)
    if offsets and (request.clean_offset or request.remove_offset):
        await shared.offsets.forget(name, lambda partition, known: True)
    elif not was_set and (offsets or shared.clients.ids(name)):
        raise Refused(
            Code.SYSTEM_ERROR,
            f"group[{name[:_LONGEST_NAME]}] has no settings that could be deleted, "
            + (
                "it is there by its committed offsets: delete these, too (cleanOffset, mqadmin deleteSubGroup -r true)"
                if offsets
                else "it is there by its members: stop these"
            ),
        )
    return Reply()


async def group_setting(call: Call, request: m.OfGroupName) -> Reply:
    """Serve get subscription group config: the stored settings, or the defaults."""
    shared, name = call.shared, request.group
    found = shared.settings.group(name)
    if found is None:
        there = is_built_in(name) or name in shared.clients.consumers or await shared.offsets.committed(name)
        if not there and not shared.options.auto_create_groups:
            raise unmade(name)
        found = m.SubscriptionGroupConfig(group_name=name)
    return Reply(body=found)


async def group_settings(call: Call, request: m.NoFields) -> Reply:
    """Serve get all subscription group configs: of built-in groups, of those with settings, and of those in use."""
    del request
    shared = call.shared
    there = {*BUILT_IN, *await shared.offsets.groups(), *shared.clients.consumers}
    table = {name: m.SubscriptionGroupConfig(group_name=name) for name in sorted(there)}
    async for name in shared.turns.through(shared.settings.groups(), _STEPS_OF_A_SETTING):
        table[name] = shared.settings.group(name) or m.SubscriptionGroupConfig(group_name=name)
    version = await shared.settings.version("groups", [str(each).encode() for each in table.values()], shared.now_ms)
    found = m.SubscriptionGroups(subscription_group_table=table, data_version=version)
    return Reply(body=await written(shared.background, found, len(table)))


async def producers(call: OfConnected, request: m.OfProducers) -> Reply:
    """Serve get producer connection list."""
    found = call.shared.clients.producers.get(request.producer_group)
    if found is None:
        raise Refused(Code.SYSTEM_ERROR, f"the producer group[{request.producer_group}] not exist")
    return Reply(body=m.ConsumerConnection(connection_set=connected(found.items())))


async def all_producers(call: OfConnected, request: m.NoFields) -> Reply:
    """Serve get all producer info."""
    del request
    shared = call.shared
    data = {
        group: tuple(
            m.ProducerInfo(
                client_id=member.who.client_id,
                remote_ip=str(line.address),
                language=member.who.language,
                version=member.who.version,
                last_update_timestamp=shared.now_ms - int((shared.now - member.seen) * 1_000),
            )
            for line, member in members.items()
        )
        for group, members in shared.clients.producers.items()
    }
    return Reply(body=m.Producers(data=data))


async def consumed_counts(call: Call, request: m.StatsOf) -> Reply:
    """Serve view broker stats data: messages sent to a topic, by their records' times, or given to a group.

    Each is counted for the last minute, hour and day.
    """
    if request.stats_name == _SENT:
        found = await _sent(call, request.stats_key)
    elif request.stats_name == _GIVEN:
        topic, _, group = request.stats_key.rpartition("@")
        found = call.shared.counts.given(topic, group, call.shared.now)
    else:
        found = None
    if found is None:
        name, key = request.stats_name[:_LONGEST_NAME], request.stats_key[:_LONGEST_NAME]
        raise Refused(
            Code.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist: {_SENT} (topic) and {_GIVEN} (topic@group) do"
        )
    spans = zip(("statsMinute", "statsHour", "statsDay"), SPANS_S, found, strict=True)
    said = {name: {"sum": count, "tps": round(count / seconds, 3)} for name, seconds, count in spans}
    return Reply(body=json.dumps(said).encode())


async def _sent(call: Call, name: str) -> tuple[int, ...] | None:
    shared = call.shared
    topic = await shared.cluster.topic(name)
    if topic is None:
        return None
    found = [0 for _ in SPANS_S]
    partitions = [Partition(topic.name, number) for number in range(topic.partitions)]
    async for partition in shared.turns.through(partitions, _STEPS_OF_STATS):
        where = await extent(shared.enode, partition)
        for row, seconds in enumerate(SPANS_S):
            first = await shared.enode.offset_for_time(partition, shared.now_ms - seconds * 1_000)
            found[row] += 0 if first is None else max(0, where.stable - max(first[0], where.start))
    return tuple(found)


async def reset_offsets(call: Call, request: m.ResetOffsetsOfGroup) -> Reply:
    """Serve invoke broker to reset offset: commit the new offsets, and notify the group's members, if there are any.

    Raises Refused, also for an offset that a queue does not have; then nothing is committed.
    """
    shared = call.shared
    topic = await shared.cluster.known(request.topic)
    if request.queue_id is not None and request.queue_id >= 0:
        partitions = [await shared.cluster.queue(request.topic, request.queue_id)]
    else:
        partitions = [Partition(topic.name, number) for number in range(topic.partitions)]
    offsets = {partition: await _reset_to(call, partition, request) for partition in partitions}
    table: dict[m.MessageQueue, int] = {}
    for partition, offset in offsets.items():
        known = await shared.positions.of(request.group, partition)
        if request.is_force or known is None or offset <= known:
            queue = m.MessageQueue(topic=request.topic, broker_name=shared.cluster.broker, queue_id=partition.id)
            table[queue] = offset
            await shared.positions.set(request.group, partition, offset, call.line.address.host)
    body = m.ResetOffset(offset_table=table)
    shared.clients.tell_consumers(request.group, to_client(RESET_CONSUMER_CLIENT_OFFSET, request, body, one_way=True))
    return Reply(body=body)


async def _reset_to(call: Call, partition: Partition, request: m.ResetOffsetsOfGroup) -> int:
    where = await extent(call.shared.enode, partition)
    if request.offset is not None and request.offset >= 0:
        if not where.start <= request.offset <= where.stable:
            raise Refused(
                Code.SYSTEM_ERROR,
                f"Target offset {request.offset} not in consume queue range [{where.start}-{where.stable}], queueId "
                f"{partition.id}",
            )
        return request.offset
    if request.timestamp < 0:
        return where.stable
    found = await call.shared.enode.offset_for_time(partition, request.timestamp)
    return where.stable if found is None else min(max(found[0], where.start), where.stable)


async def connections(call: OfConnected, request: m.OfGroup) -> Reply:
    """Serve get consumer connection list."""
    group = call.shared.clients.consumers.get(request.consumer_group)
    if group is None:
        raise Refused(Code.CONSUMER_NOT_ONLINE, f"the consumer group[{request.consumer_group}] not online")
    return Reply(
        body=m.ConsumerConnection(
            connection_set=connected(group.members.items()),
            subscription_table=dict(group.subscriptions),
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
    )


async def group_stats(call: Call, request: m.StatsOfGroup) -> Reply:
    """Serve get consume stats: of all topics that the group subscribes to or has an offset in."""
    found = await _stats(call, request.consumer_group, request.topic)
    return Reply(body=await written(call.shared.background, m.ConsumeStats(offset_table=found), len(found)))


async def all_group_stats(call: Call, request: m.StatsOfAll) -> Reply:
    """Serve get broker consume stats: of all groups, one entry per topic. The choice of ordered topics is ignored."""
    del request
    shared = call.shared
    listed: list[dict[str, tuple[m.ConsumeStats, ...]]] = []
    lag = entries = 0
    for group in sorted({*await shared.offsets.groups(), *shared.clients.consumers}):
        by_topic: dict[str, dict[m.MessageQueue, m.QueueStats]] = {}
        for queue, each in (await _stats(call, group)).items():
            by_topic.setdefault(queue.topic, {})[queue] = each
            lag += each.broker_offset - each.consumer_offset
            entries += 1
        if by_topic:
            listed.append({group: tuple(m.ConsumeStats(offset_table=table) for table in by_topic.values())})
    found = m.ConsumeStatsOfAll(
        broker_addr=shared.cluster.address, consume_stats_list=tuple(listed), total_diff=lag, total_inflight_diff=0
    )
    return Reply(body=await written(shared.background, found, entries))


async def _stats(call: Call, group: str, only: str | None = None) -> dict[m.MessageQueue, m.QueueStats]:
    """Each queue's end offset, and the group's offset in it. Raises StoreError."""
    shared = call.shared
    committed = await shared.offsets.committed(group)
    at = {partition: known.offset for partition, known in committed.items()}
    topics = [only] if only else sorted(_topics_of(call, group, at))
    found: dict[m.MessageQueue, m.QueueStats] = {}
    async for name in shared.turns.through(topics, _STEPS_OF_STATS):
        topic = await shared.cluster.topic(name)
        count = shared.settings.queues(topic).read if topic else 0
        partitions = [Partition(topic.name, number) for number in range(count)] if topic else []
        for partition, where in zip(partitions, await shared.enode.extents(partitions), strict=True):
            if isinstance(where, PenstockError):
                raise where
            queue = m.MessageQueue(topic=name, broker_name=shared.cluster.broker, queue_id=partition.id)
            found[queue] = m.QueueStats(broker_offset=where.stable, consumer_offset=at.get(partition, 0))
    return found


async def topic_readers(call: Call, request: m.OfTopic) -> Reply:
    """Serve query topic consume by who: groups that subscribe to the topic or have committed an offset in it."""
    shared = call.shared
    name = log_name(request.topic)
    found = {name for name, group in shared.clients.consumers.items() if request.topic in group.subscriptions}
    async for group in shared.turns.through(await shared.offsets.groups(), _STEPS_OF_STATS):
        if any(partition.topic == name for partition in await shared.offsets.committed(group)):
            found.add(group)
    return Reply(body=m.Groups(group_list=tuple(sorted(found))))


def _topics_of(call: Call, group: str, at: Iterable[Partition]) -> set[str]:
    known = call.shared.clients.consumers.get(group)
    topics = {rocket_name(partition.topic) for partition in at if not is_hidden(partition.topic)}
    return topics if known is None else topics | known.subscriptions.keys()


def connected(members: Iterable[tuple[ClientConnection, Member]]) -> tuple[m.Connection, ...]:
    """The connections of members for operators, each client once."""
    found = {
        member.who.client_id: m.Connection(
            client_id=member.who.client_id,
            client_addr=str(line.address),
            language=member.who.language,
            version=member.who.version,
        )
        for line, member in members
    }
    return tuple(found.values())


# Clients in groups: heartbeats, members, queue locks, filters (34, 35, 38, 41, 42, 46). Source: Apache RocketMQ 4.9 and
# 5.x, ``ClientManageProcessor``, ``ConsumerManageProcessor``, ``AdminBrokerProcessor``.

_STEPS_OF_A_TOPIC: Final = 200
"""Steps of `LoopBudget` for creating a topic, which takes about two milliseconds."""


async def heartbeat(call: Call, request: m.NoFields) -> Reply:
    """Serve heart beat. It creates the retry topic of a group that subscribes to it."""
    del request
    said = await read_large(call.shared.background, m.HeartbeatData, call.asked.body)
    shared, asked = call.shared, call.asked
    who = Who(said.client_id, asked.language, asked.version)
    for producer in said.producer_data_set:
        shared.clients.produce(call.line, who, named(producer.group_name), shared.now)
    for consumer in said.consumer_data_set:
        retry = f"{RETRY}{named(consumer.group_name)}"
        queues = shared.settings.retry_queues(consumer.group_name)
        if queues and any(each.topic == retry for each in consumer.subscription_data_set):
            if await shared.cluster.topic(retry) is None:
                await shared.turns.take(_STEPS_OF_A_TOPIC)
            await shared.cluster.ensure(retry, queues)
        shared.clients.consume(call.line, who, consumer, shared.now)
    if call.line.over:  # the connection ended while a topic was being created
        shared.clients.lost(call.line)
    return Reply()


async def unregister(call: OfConnected, request: m.UnregisterClient) -> Reply:
    """Serve unregister client."""
    call.shared.clients.leave(call.line, consumer_group=request.consumer_group, producer_group=request.producer_group)
    return Reply()


async def members(call: OfConnected, request: m.OfGroup) -> Reply:
    """Serve get consumer list by group."""
    found = call.shared.clients.ids(request.consumer_group)
    if not found:
        raise Refused(Code.SYSTEM_ERROR, f"no consumer for this group, {request.consumer_group}")
    return Reply(body=m.ConsumerIds(consumer_id_list=tuple(found)))


async def check_subscription(call: Call, request: m.NoFields) -> Reply:
    """Serve check client config: check a subscription's filter."""
    del request
    said = (await read_large(call.shared.background, m.CheckClientConfig, call.asked.body)).subscription_data
    wanted_by(said.sub_string, said.expression_type)
    return Reply()


async def lock_queues(call: Call, request: m.Routed) -> Reply:
    """Serve lock batch of queues."""
    del request
    shared = call.shared
    said = await read_large(shared.background, m.LockQueues, call.asked.body)
    granted = shared.queue_locks.lock(named(said.consumer_group), said.client_id, said.mq_set, shared.now, call.line)
    return Reply(body=await written(shared.background, m.LockedQueues(lock_ok_mq_set=tuple(granted)), len(granted)))


async def unlock_queues(call: Call, request: m.Routed) -> Reply:
    """Serve unlock batch of queues."""
    del request
    said = await read_large(call.shared.background, m.LockQueues, call.asked.body)
    call.shared.queue_locks.unlock(said.consumer_group, said.client_id, said.mq_set)
    return Reply()


def named(group: str) -> str:
    """A group's name, checked. Raises Refused for an empty or too long one."""
    if not group or len(group) > _LONGEST_NAME:
        raise Refused(Code.SYSTEM_ERROR, f"a group's name of {len(group)} letters")
    return group


# Offsets: of queues, of times, and committed ones (14, 15, 29 to 32, 43).
#
# Times are those of the records, by which the log finds them. A search answers as 5.x does: with the first message that
# is not earlier, or the end. Source: Apache RocketMQ 4.9 and 5.x, ``ConsumerManageProcessor``,
# ``AdminBrokerProcessor``.
_QUICK: Final = 1_000
_ENTRY_BYTES: Final = 100
"""For a table of offsets: up to `_QUICK` entries are written on the event loop; an entry's bytes as it is written."""


async def committed_offset(call: Call, request: m.QueryConsumerOffset) -> Reply:
    """Serve query consumer offset. Without a committed one it is 0 if the queue still has its first message."""
    shared = call.shared
    partition = Partition(log_name(request.topic), request.queue_id)
    offset = await shared.positions.of(request.consumer_group, partition)
    if offset is None and request.set_zero_if_not_found is not False:
        where = await _where(call, request.topic, request.queue_id)
        offset = 0 if where is not None and where.start == 0 else None
    if offset is None:
        raise Refused(Code.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")
    return Reply(m.FoundOffset(offset=offset))


async def commit_offset(call: Call, request: m.UpdateConsumerOffset) -> Reply:
    """Serve update consumer offset."""
    if not request.consumer_group:
        raise Refused(Code.SYSTEM_ERROR, "no consumer group")
    partition = await call.shared.cluster.queue(request.topic, request.queue_id)
    if request.commit_offset < -1:
        raise Refused(Code.SYSTEM_ERROR, f"an offset of {request.commit_offset}")
    if request.commit_offset == -1:  # as at brokers: afterwards the group has no offset there
        await call.shared.positions.forget(request.consumer_group, partition)
    else:
        await call.shared.positions.set(
            request.consumer_group, partition, request.commit_offset, call.line.address.host
        )
    return Reply()


async def all_committed_offsets(call: Call, request: m.NoFields) -> Reply:
    """Serve get all consumer offsets."""
    del request
    offsets, turns = call.shared.offsets, call.shared.turns
    table: dict[str, dict[int, int]] = {}
    entries = 0
    async for group in turns.through(await offsets.groups(), 1):
        committed = await offsets.committed(group)
        entries += len(committed)
        async for partition, known in turns.through(list(committed.items()), 1):
            if not is_hidden(partition.topic):
                name = f"{rocket_name(partition.topic)}@{group}"
                table.setdefault(name, {})[partition.id] = known.offset
    write = partial(m.write_body, m.ConsumerOffsets(offset_table=table), bare_numbers=True)
    return Reply(body=write() if entries <= _QUICK else await call.shared.background.run(write, entries * _ENTRY_BYTES))


async def end_offset(call: Call, request: m.OfQueue) -> Reply:
    """Serve get max offset: the offset of the next message that readers will get."""
    where = await _where(call, request.topic, request.queue_id)
    return Reply(m.FoundOffset(offset=0 if where is None else where.stable))


async def start_offset(call: Call, request: m.OfQueue) -> Reply:
    """Serve get min offset."""
    where = await _where(call, request.topic, request.queue_id)
    return Reply(m.FoundOffset(offset=0 if where is None else where.start))


async def earliest_time(call: Call, request: m.OfQueue) -> Reply:
    """Serve get earliest message's store time; -1 also for an unknown queue, as at brokers."""
    if await _where(call, request.topic, request.queue_id) is None:
        return Reply(m.StoreTime(timestamp=-1))
    partition = await call.shared.cluster.queue(request.topic, request.queue_id)
    found = await call.shared.enode.offset_for_time(partition, 0)
    return Reply(m.StoreTime(timestamp=-1 if found is None else found[1]))


async def search_offset(call: Call, request: m.SearchOffset) -> Reply:
    """Serve search offset by timestamp. With boundary type ``upper`` it is the last message that is not later.

    An unknown queue counts as empty, as at brokers.
    """
    if await _where(call, request.topic, request.queue_id) is None:
        return Reply(m.FoundOffset(offset=0))
    partition = await call.shared.cluster.queue(request.topic, request.queue_id)
    upper = (request.boundary_type or "").lower() == "upper"
    where = await extent(call.shared.enode, partition)
    found = await call.shared.enode.offset_for_time(partition, max(request.timestamp + upper, 0))
    offset = where.stable if found is None else min(found[0], where.stable)
    return Reply(m.FoundOffset(offset=max(offset - upper, where.start, 0)))


async def _where(call: Call, topic: str, queue: int) -> Extent | None:
    """The queue's offsets; None for an unknown queue."""
    found = await call.shared.cluster.topic(topic)
    if found is None or not 0 <= queue < found.partitions:
        return None
    return await extent(call.shared.enode, Partition(found.name, queue))
