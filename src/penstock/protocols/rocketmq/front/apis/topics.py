"""Topics: made, grown, deleted, and where their queues stand. 17, 215, 216, 202.

A topic has as many queues for readers as for writers, and keeps them. Source: Apache RocketMQ 4.9 and 5.x,
``AdminBrokerProcessor``, ``TopicValidator``.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.config.names import UNWRITABLE
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.call import Call, Reply, written
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.seams.enode import Extent

__all__ = ["create", "delete", "forget", "stats"]

_STEPS_OF_STATS: Final = 10
"""Of `Turns`, for a queue."""
_ALLOWED: Final = re.compile(r"[%a-zA-Z0-9_-]{1,127}")


async def create(call: Call, request: m.CreateTopic) -> Reply:
    """Serve update and create topic: one that is there grows."""
    name, queues = request.topic, max(request.read_queue_nums, request.write_queue_nums)
    if not _ALLOWED.fullmatch(name):
        raise Refused(
            Code.SYSTEM_ERROR,
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        )
    if name in UNWRITABLE:
        raise Refused(Code.SYSTEM_ERROR, f"The topic[{name}] is conflict with system topic.")
    if queues < 1:
        raise Refused(Code.SYSTEM_ERROR, f"a topic of {queues} queues")
    topic = await call.shared.cluster.ensure(name, queues)
    if topic.partitions < queues:
        await call.shared.enode.add_partitions(topic.name, queues)
    return Reply()


async def delete(call: Call, request: m.OfTopic) -> Reply:
    """Serve delete topic in broker; one that is not there is no error."""
    topic = await call.shared.cluster.topic(request.topic)
    if topic is not None:
        await call.shared.enode.delete_topic(topic.name)
    return Reply()


async def forget(call: Call, request: m.OfTopic) -> Reply:
    """Serve delete topic in name server, which knows what the broker does."""
    del call, request
    return Reply()


async def stats(call: Call, request: m.OfTopic) -> Reply:
    """Serve get topic stats info."""
    shared = call.shared
    topic = await shared.cluster.known(request.topic)
    partitions = [Partition(topic.name, number) for number in range(topic.partitions)]
    found = {}
    extents = await shared.enode.extents(partitions)
    async for partition, where in shared.turns.through(list(zip(partitions, extents, strict=True)), _STEPS_OF_STATS):
        if isinstance(where, PenstockError):
            raise where
        queue = m.MessageQueue(topic=request.topic, broker_name=shared.cluster.broker, queue_id=partition.id)
        found[queue] = m.OffsetsOfQueue(
            min_offset=where.start,
            max_offset=where.stable,
            last_update_timestamp=await _last_ms(call, partition, where),
        )
    return Reply(body=await written(shared.beside, m.TopicStats(offset_table=found), len(found)))


async def _last_ms(call: Call, partition: Partition, where: Extent) -> int:
    if where.start >= where.stable:
        return 0
    newest = await call.shared.enode.max_timestamp(partition)
    return 0 if newest is None else newest[1]
