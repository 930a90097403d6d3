"""What members of groups tell of themselves: the bodies of the answers to 307 and 221.

Source: Apache RocketMQ 4.9 and 5.4, ``ConsumerRunningInfo``, ``GetConsumerStatusBody``.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from penstock._dataclasses import dataclass
from penstock.protocols.rocketmq.messages.declare import Int32, Int64, named
from penstock.protocols.rocketmq.messages.membership import MessageQueue, SubscriptionData

__all__ = ["ConsumeStatus", "ConsumerRunningInfo", "ConsumerStatus", "GetConsumerStatus", "ProcessQueueInfo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerStatus:
    """221, which a broker asks members: where they are in a topic."""

    topic: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatus:
    """The body of the answer to 221: where a member is."""

    message_queue_table: dict[MessageQueue, Int64] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessQueueInfo:
    """One queue of a member's: what it has committed last, and what it holds."""

    commit_offset: Int64 = 0
    cached_msg_count: Int32 = 0
    locked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStatus:
    """How fast a member reads a topic: milliseconds, and messages a second."""

    pull_rt: Annotated[Int64, named("pullRT")] = 0
    pull_tps: Annotated[Int64, named("pullTPS")] = 0
    consume_rt: Annotated[Int64, named("consumeRT")] = 0
    consume_ok_tps: Annotated[Int64, named("consumeOKTPS")] = 0
    consume_failed_tps: Annotated[Int64, named("consumeFailedTPS")] = 0
    consume_failed_msgs: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRunningInfo:
    """The body of the answer to 307: how a member is."""

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: tuple[SubscriptionData, ...] = ()
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
