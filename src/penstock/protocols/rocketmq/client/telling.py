"""What a member tells an operator of itself, when a broker hands the question on: 307, 221, 309.

A member of ours polls, so there is no code of its application's to be handed a single message (309): it says so, where
Java would have called it. Source: Apache RocketMQ 4.9 and 5.4, ``ConsumerRunningInfo``, ``ClientRemotingProcessor``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.client.queues import queue_of
from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.methods import (
    CONSUME_MESSAGE_DIRECTLY,
    GET_CONSUMER_RUNNING_INFO,
    GET_CONSUMER_STATUS_FROM_CLIENT,
)
from penstock.protocols.rocketmq.rpc import read_request

__all__ = ["Telling", "Tells"]

_VERSION_NAME: Final = "V4_9_8"
_DIRECTLY: Final = "this member polls, so nothing can be handed to it directly: it reads the message from its queue"


class Tells(Protocol):
    """A member of a group."""

    @property
    def subscriptions(self) -> Collection[m.SubscriptionData]: ...

    @property
    def positions(self) -> Mapping[Partition, int]:
        """The queues that it has, and what it has committed last there; -1: nothing yet."""
        ...

    @property
    def orderly(self) -> bool: ...

    @property
    def began_ms(self) -> int: ...


class Telling:
    """Of one client, whose groups are known by name."""

    def __init__(self) -> None:
        self.members: dict[str, Tells] = {}

    def answer(self, asked: RemotingCommand) -> RemotingCommand | None:
        """The answer to a question of these; None for any other request."""
        try:
            if asked.code == GET_CONSUMER_RUNNING_INFO.code:
                return self._of(read_request(GET_CONSUMER_RUNNING_INFO, asked).consumer_group, _running)
            if asked.code == GET_CONSUMER_STATUS_FROM_CLIENT.code:
                return self._of(read_request(GET_CONSUMER_STATUS_FROM_CLIENT, asked).group, _status)
            if asked.code == CONSUME_MESSAGE_DIRECTLY.code:
                return RemotingCommand(Code.SYSTEM_ERROR, remark=_DIRECTLY)
        except PenstockError as error:
            return RemotingCommand(Code.SYSTEM_ERROR, remark=str(error))
        return None

    def _of(self, group: str, told: Said) -> RemotingCommand:
        member = self.members.get(group)
        if member is None:
            return RemotingCommand(Code.SYSTEM_ERROR, remark=f"The Consumer Group <{group}> not exist in this consumer")
        return RemotingCommand(Code.SUCCESS, body=m.write_body(told(member)))


class Said(Protocol):
    def __call__(self, member: Tells) -> object: ...


def _running(member: Tells) -> m.ConsumerRunningInfo:
    return m.ConsumerRunningInfo(
        properties={
            "PROP_CLIENT_VERSION": _VERSION_NAME,
            "PROP_CONSUMEORDERLY": str(member.orderly).lower(),
            "PROP_CONSUMER_START_TIMESTAMP": str(member.began_ms),
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        },
        subscription_set=tuple(member.subscriptions),
        mq_table={
            queue_of(partition): m.ProcessQueueInfo(commit_offset=offset, locked=member.orderly)
            for partition, offset in member.positions.items()
        },
        status_table={each.topic: m.ConsumeStatus() for each in member.subscriptions},
    )


def _status(member: Tells) -> m.ConsumerStatus:
    return m.ConsumerStatus(
        message_queue_table={queue_of(partition): offset for partition, offset in member.positions.items()}
    )
