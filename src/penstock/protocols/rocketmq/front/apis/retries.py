"""What a consumer could not consume: delivered again later, to its group only, and in the end a dead letter. 36.

Source: Apache RocketMQ 4.9 and 5.x, ``AbstractSendMessageProcessor.consumerSendMsgBack``.
"""

from __future__ import annotations

from typing import Final

from penstock.columnar.plain_records import Stored
from penstock.model import Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.config.names import DEAD_LETTER, RETRY
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.apis.groups import made_group
from penstock.protocols.rocketmq.front.broker.messages import number_of
from penstock.protocols.rocketmq.front.broker.own_topic import record_at
from penstock.protocols.rocketmq.front.broker.settings import WRITE
from penstock.protocols.rocketmq.front.call import Call, Reply
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.naming import rocket_name
from penstock.protocols.rocketmq.records.beside import RECONSUMED
from penstock.protocols.rocketmq.records.ids import offset_id

__all__ = ["send_back"]

_FIRST_LEVEL: Final = 3
_SAYS_HOW_OFTEN_FROM: Final = 121


async def send_back(call: Call, request: m.SendBack) -> Reply:
    """Serve consumer send message back."""
    shared = call.shared
    made_group(call, request.group)
    if not shared.settings.perm & WRITE:
        raise Refused(Code.NO_PERMISSION, f"the broker[{shared.cluster.broker}] sending message is forbidden")
    queues = shared.settings.retry_queues(request.group)
    if not queues:  # as with brokers: who set that wants nothing to be delivered again
        return Reply()
    found = await shared.places.find(request.offset)
    record = None if found is None else await record_at(shared.enode, *found)
    if found is None or record is None:
        raise Refused(Code.SYSTEM_ERROR, f"look message by offset failed, {request.offset}")
    before = number_of(record, RECONSUMED)
    most = request.max_reconsume_times if call.asked.version >= _SAYS_HOW_OFTEN_FROM else None
    dead = before >= (shared.retries(request.group) if most is None else most) or request.delay_level < 0
    again = _again(call, record, found[0], request.offset, before + 1)
    if dead:
        await shared.cluster.ensure(f"{DEAD_LETTER}{request.group}", 1)
        await shared.writing.deliver(f"{DEAD_LETTER}{request.group}", 0, again)
    else:
        retry = f"{RETRY}{request.group}"
        topic = await shared.cluster.ensure(retry, queues)
        queue = request.offset % min(queues, topic.partitions)
        await shared.delays.park(request.delay_level or _FIRST_LEVEL + before, retry, queue, again)
    return Reply()


def _again(call: Call, record: Stored, partition: Partition, place: int, times: int) -> Stored:
    """The record as it is delivered the next time."""
    headers = [pair for pair in record.headers if pair[0] not in {RECONSUMED, "DELAY", "REAL_TOPIC", "REAL_QID"}]
    names = {name for name, _ in headers}
    if "RETRY_TOPIC" not in names:
        headers.append(("RETRY_TOPIC", rocket_name(partition.topic).encode()))
    if "ORIGIN_MESSAGE_ID" not in names:
        headers.append(("ORIGIN_MESSAGE_ID", offset_id(call.shared.cluster.host, place).encode()))
    headers.append((RECONSUMED, b"%d" % times))
    return record._replace(headers=tuple(headers))
