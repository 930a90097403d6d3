"""Topics: made, set, deleted, and where their queues stand. 17, 18, 215, 216, 202.

Partitions are added where a topic is to have more queues, and never taken away: of a topic with fewer, the others lie
still, and are there again when it grows. Source: Apache RocketMQ 4.9 and 5.x, ``AdminBrokerProcessor``,
``TopicValidator``, ``TopicAttributes``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.config.names import UNWRITABLE
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.call import Call, Reply, read_large, written
from penstock.protocols.rocketmq.front.cluster import TEMPLATE
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.naming import is_hidden, log_name
from penstock.seams.enode import Extent

__all__ = ["create", "create_all", "delete", "forget", "stats"]

_STEPS_OF_STATS: Final = 10
"""Of `Turns`, for a queue."""
_STEPS_OF_A_TOPIC: Final = 200
_ALLOWED: Final = re.compile(r"[%a-zA-Z0-9_-]{1,127}")
_PERMS: Final = range(int(m.Perm.PRIORITY))
_SYSTEM: Final = UNWRITABLE | {TEMPLATE}
_KIND: Final = "message.type"
_KINDS: Final = frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"})


async def create(call: Call, request: m.CreateTopic) -> Reply:
    """Serve update and create topic."""
    topic = await call.shared.cluster.topic(request.topic) if _ALLOWED.fullmatch(request.topic) else None
    before = {} if topic is None else call.shared.settings.topic(topic).attributes
    said = m.TopicConfig(
        topic_name=request.topic,
        read_queue_nums=request.read_queue_nums,
        write_queue_nums=request.write_queue_nums,
        perm=request.perm,
        topic_filter_type=request.topic_filter_type,
        topic_sys_flag=request.topic_sys_flag or 0,
        order=request.order,
        attributes=_changed(before, request.attributes or ""),
    )
    _check(said)
    await _set(call, said)
    return Reply()


async def create_all(call: Call, request: m.NoFields) -> Reply:
    """Serve update and create topic list: all of them, or none where one cannot be."""
    del request
    asked = await read_large(call.shared.beside, m.TopicConfigList, call.asked.body)
    said = [replace(each, attributes=_changed({}, _as_text(each.attributes))) for each in asked.topic_config_list]
    for each in said:
        _check(each)
    async for each in call.shared.turns.through(said, _STEPS_OF_A_TOPIC):
        await _set(call, each)
    return Reply()


def _check(said: m.TopicConfig) -> None:
    """Raises Refused for what no topic can be."""
    name = said.topic_name
    if not _ALLOWED.fullmatch(name):
        raise Refused(
            Code.INVALID_PARAMETER,
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        )
    if name in _SYSTEM:
        raise Refused(Code.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")
    if is_hidden(log_name(name)):
        raise Refused(Code.NO_PERMISSION, f"topic[{name}] is the node's own")
    if min(said.read_queue_nums, said.write_queue_nums) < 0 or not max(said.read_queue_nums, said.write_queue_nums):
        raise Refused(
            Code.INVALID_PARAMETER,
            f"a topic of {said.read_queue_nums} queues to read (readQueueNums) and {said.write_queue_nums} to write "
            "(writeQueueNums)",
        )
    if said.perm not in _PERMS:
        raise Refused(
            Code.INVALID_PARAMETER, f"perm is {said.perm}: 2 lets a topic be written, 4 be read, 6 both, 0 neither"
        )


async def _set(call: Call, said: m.TopicConfig) -> None:
    shared, most = call.shared, max(said.read_queue_nums, said.write_queue_nums)
    topic = await shared.cluster.ensure(said.topic_name, most)
    if topic.partitions < most:
        await shared.enode.add_partitions(topic.name, most)
        topic = await shared.cluster.known(said.topic_name)
    await shared.settings.set_topic(topic, said)


def _as_text(attributes: dict[str, str]) -> str:
    return ",".join(f"{name if name[:1] in ('+', '-') else f'+{name}'}={value}" for name, value in attributes.items())


def _changed(before: dict[str, str], said: str) -> dict[str, str]:
    """Attributes as ``+name=value,-name`` changes them. Raises Refused."""
    found = dict(before)
    for each in filter(None, (part.strip() for part in said.split(","))):
        name, _, value = each[1:].partition("=")
        if each[0] == "+":
            _check_attribute(name, value)
            found[name] = value
        elif each[0] == "-":
            found.pop(name, None)
        else:
            raise Refused(Code.INVALID_PARAMETER, f"attributes has {each!r}: write +name=value, or -name")
    return found


def _check_attribute(name: str, value: str) -> None:
    if name != _KIND:
        raise Refused(Code.INVALID_PARAMETER, f"the attribute {name} of topics is not served here, {_KIND} is")
    if value.upper() not in _KINDS:
        raise Refused(Code.INVALID_PARAMETER, f"{_KIND} is {value!r}: there is {', '.join(sorted(_KINDS))}")


async def delete(call: Call, request: m.OfTopic) -> Reply:
    """Serve delete topic in broker; one that is not there is no error."""
    if request.topic in _SYSTEM:
        raise Refused(Code.INVALID_PARAMETER, f"The topic[{request.topic}] is conflict with system topic.")
    if is_hidden(log_name(request.topic)):
        raise Refused(Code.NO_PERMISSION, f"topic[{request.topic}] is the node's own")
    topic = await call.shared.cluster.topic(request.topic)
    if topic is not None:
        await call.shared.enode.delete_topic(topic.name)
        await call.shared.settings.forget_topic(topic)
    return Reply()


async def forget(call: Call, request: m.OfTopic) -> Reply:
    """Serve delete topic in name server, which knows what the broker does: nothing of a topic that is not there."""
    if await call.shared.cluster.topic(request.topic) is not None:
        raise Refused(
            Code.SYSTEM_ERROR,
            f"topic[{request.topic}] is still at the broker, which is the name server, too: delete it there (215)",
        )
    return Reply()


async def stats(call: Call, request: m.OfTopic) -> Reply:
    """Serve get topic stats info."""
    shared = call.shared
    topic = await shared.cluster.known(request.topic)
    partitions = [Partition(topic.name, number) for number in range(shared.settings.queues(topic).most)]
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
