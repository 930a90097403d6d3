"""A partition as bodies of requests and answers name it, and back: topic, broker's name, number."""

from __future__ import annotations

from penstock.model import Partition
from penstock.protocols.rocketmq.messages import MessageQueue

__all__ = ["partition_of", "queue_of"]


def queue_of(partition: Partition) -> MessageQueue:
    """The queue that is this partition."""
    return MessageQueue(topic=partition.topic, broker_name=partition.node, queue_id=partition.id)


def partition_of(queue: MessageQueue) -> Partition:
    """The partition that is this queue."""
    return Partition(queue.topic, queue.queue_id, queue.broker_name)
