"""Offsets: where queues begin and end, which message is of what time, where groups are. 14, 15, 29 to 32, 43.

Times are those of records, by which the log finds them; what comes back is as in 5.x: the first message that is not
earlier, or the end. Source: Apache RocketMQ 4.9 and 5.x, ``ConsumerManageProcessor``, ``AdminBrokerProcessor``.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from penstock.model import Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.call import Call, Reply
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.naming import is_hidden, log_name, rocket_name
from penstock.seams.enode import Extent, extent

__all__ = ["all_committed", "commit", "committed", "earliest_time", "end", "search", "start"]

_QUICK: Final = 1_000
_ENTRY_BYTES: Final = 100
"""Of a table of offsets, as it is written: so many entries are written where they were asked for."""


async def committed(call: Call, request: m.QueryConsumerOffset) -> Reply:
    """Serve query consumer offset. A group that has none begins at the first message of a queue that lost none yet."""
    shared = call.shared
    partition = Partition(log_name(request.topic), request.queue_id)
    offset = await shared.positions.of(request.consumer_group, partition)
    if offset is None and request.set_zero_if_not_found is not False:
        where = await _where(call, request.topic, request.queue_id)
        offset = 0 if where is not None and where.start == 0 else None
    if offset is None:
        raise Refused(Code.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")
    return Reply(m.FoundOffset(offset=offset))


async def commit(call: Call, request: m.UpdateConsumerOffset) -> Reply:
    """Serve update consumer offset."""
    if not request.consumer_group:
        raise Refused(Code.SYSTEM_ERROR, "no consumer group")
    partition = await call.shared.cluster.queue(request.topic, request.queue_id)
    if request.commit_offset < -1:
        raise Refused(Code.SYSTEM_ERROR, f"an offset of {request.commit_offset}")
    if request.commit_offset == -1:  # as with brokers, which answer then as before the group's first commit
        await call.shared.positions.forget(request.consumer_group, partition)
    else:
        await call.shared.positions.set(
            request.consumer_group, partition, request.commit_offset, call.line.address.host
        )
    return Reply()


async def all_committed(call: Call, request: m.NoFields) -> Reply:
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
    return Reply(body=write() if entries <= _QUICK else await call.shared.beside.run(write, entries * _ENTRY_BYTES))


async def end(call: Call, request: m.OfQueue) -> Reply:
    """Serve get max offset: the next one that readers will get."""
    where = await _where(call, request.topic, request.queue_id)
    return Reply(m.FoundOffset(offset=0 if where is None else where.stable))


async def start(call: Call, request: m.OfQueue) -> Reply:
    """Serve get min offset."""
    where = await _where(call, request.topic, request.queue_id)
    return Reply(m.FoundOffset(offset=0 if where is None else where.start))


async def earliest_time(call: Call, request: m.OfQueue) -> Reply:
    """Serve get earliest message's store time; as with brokers, -1 also where there is no such queue."""
    if await _where(call, request.topic, request.queue_id) is None:
        return Reply(m.StoreTime(timestamp=-1))
    partition = await call.shared.cluster.queue(request.topic, request.queue_id)
    found = await call.shared.enode.offset_for_time(partition, 0)
    return Reply(m.StoreTime(timestamp=-1 if found is None else found[1]))


async def search(call: Call, request: m.SearchOffset) -> Reply:
    """Serve search offset by timestamp; ``upper``: the last message that is not later.

    As with brokers, a queue that is not there is empty.
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
    """None where there is no such queue."""
    found = await call.shared.cluster.topic(topic)
    if found is None or not 0 <= queue < found.partitions:
        return None
    return await extent(call.shared.enode, Partition(found.name, queue))
