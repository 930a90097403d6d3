"""Sending back: records that a group could not consume are delivered to it once more, later, and the others go on.

A broker finds a message by its place in the commit log, which a record does not tell: each is read once more. What it
makes of it lies in the group's retry topic after a while, or among its dead letters once there were as many attempts as
the group is allowed.
Source: Apache RocketMQ 4.9 and 5.4, ``DefaultMQPushConsumerImpl.sendMessageBack``, ``SendMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError, UsageError
from penstock.model import Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.client.pulls import gone, pull, take
from penstock.protocols.rocketmq.methods import CONSUMER_SEND_MSG_BACK, PULL_MESSAGE
from penstock.seams.framing import Buffer
from penstock.seams.retry import Retry

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.shared import Shared
    from penstock.protocols.rocketmq.records import StoredMessage

__all__ = ["send_back"]

_AT_ONCE: Final = 32
_PATIENCE_MS: Final = 10_000
_LEVELS: Final = range(-1, 19)


async def send_back(shared: Shared, group: str, offsets: Mapping[Partition, Sequence[int]], level: int) -> None:
    """Give them back, those of one queue in their order. Raises UsageError for a level that there is not,
    OffsetOutOfRange for what is not there any more, ServerError."""
    if level not in _LEVELS:
        raise UsageError(
            f"the delay is {level}, RocketMQ has levels 1 to 18, 0 for a longer one each time, -1 for no other attempt"
        )
    for partition, those in offsets.items():
        for begin in range(0, len(those), _AT_ONCE):
            await _some(shared, group, partition, those[begin : begin + _AT_ONCE], level)


async def _some(shared: Shared, group: str, partition: Partition, offsets: Sequence[int], level: int) -> None:
    left = list(offsets)
    retry = Retry(shared.channel, shared.options, timeout_ms=min(_PATIENCE_MS, shared.options.api_timeout_ms))
    while left:
        try:
            node = await shared.topics.leader(partition)
            requests = [pull(shared.calls, partition, each, 1, held=False, everything=True) for each in left]
            started = await shared.calls.start(node.endpoint, PULL_MESSAGE, requests)
            found = [
                _message((await take(each, partition, offset)).body, partition, offset)
                for offset, each in zip(left, started, strict=True)
            ]
            for message in found:
                header = _header(shared, group, partition, message, level)
                await shared.calls.call(node.endpoint, CONSUMER_SEND_MSG_BACK, header, of=partition)
                left.pop(0)
        except PenstockError as error:
            if error.retriable:
                shared.topics.routing.distrust(partition)
            await retry.after(error)


def _message(body: Buffer, partition: Partition, offset: int) -> StoredMessage:
    from penstock.protocols.rocketmq.records import read_stored

    found = next((each for each in read_stored(body, check_crcs=False) if each.queue_offset == offset), None)
    if found is None:
        raise gone(partition, f"there is no message at {offset} any more", offset, "Retention deleted it")
    return found


def _header(shared: Shared, group: str, partition: Partition, message: StoredMessage, level: int) -> m.SendBack:
    properties = message.property_map
    most = shared.options.rocket.max_reconsume_times
    return m.SendBack(
        offset=message.physical_offset,
        group=group,
        delay_level=level,
        origin_msg_id=properties.get("UNIQ_KEY"),
        origin_topic=properties.get("RETRY_TOPIC", message.topic),
        unit_mode=False,
        max_reconsume_times=most if most >= 0 else None,
        broker_name=partition.node,
    )
