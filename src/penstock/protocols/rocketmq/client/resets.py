"""Resets: an operator put a group elsewhere (mqadmin resetOffsetByTime) while its members read.

A broker tells members where each queue goes on (220), or, of 5.x, answers a pull with the new place and forgets it. It
writes nothing itself in the first case, and in both whatever a member commits would undo it. So the member commits the
new place, drops the queue without committing where it was, and gets it anew in the next round: until it has asked where
to begin, its commits of that queue are for the place before and are not passed on.
Source: Apache RocketMQ 4.9 and 5.4, ``MQClientInstance.resetOffset``, ``PullMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, TypeVar

from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.client.queues import partition_of
from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.methods import RESET_CONSUMER_CLIENT_OFFSET
from penstock.protocols.rocketmq.rpc import read_request

__all__ = ["Resets"]

T = TypeVar("T")

_MOST: Final = 100_000


class Resets:
    """Of one client, whose groups are known by name."""

    def __init__(self) -> None:
        self._due: dict[tuple[str, Partition], int] = {}
        self._gone: set[tuple[str, Partition]] = set()

    def told(self, asked: RemotingCommand) -> None:
        """A broker's 220. What cannot be read is none."""
        try:
            header = read_request(RESET_CONSUMER_CLIENT_OFFSET, asked)
            table = m.read_body(m.ResetOffset, asked.body).offset_table
        except PenstockError:
            return
        for queue, offset in table.items():
            self.note(header.group, partition_of(queue), offset)

    def note(self, group: str, partition: Partition, offset: int) -> None:
        """The group goes on at ``offset``."""
        if len(self._due) < _MOST:
            self._due[group, partition] = offset

    def due(self, group: str, owned: Collection[Partition]) -> dict[Partition, int]:
        """Where the group is to go on, of what this member has; others see to the rest."""
        if not self._due:
            return {}
        mine = {partition: offset for (name, partition), offset in self._due.items() if name == group}
        for partition in mine.keys() - owned:
            del self._due[group, partition]
        return {partition: offset for partition, offset in mine.items() if partition in owned}

    def done(self, group: str, partitions: Collection[Partition]) -> None:
        """The new places are committed; what is committed of these from now on is of before."""
        for partition in partitions:
            self._due.pop((group, partition), None)
            self._gone.add((group, partition))

    def begins(self, group: str, partitions: Collection[Partition]) -> None:
        """Somebody asks where the group stands, to begin there."""
        if self._gone:
            self._gone -= {(group, partition) for partition in partitions}

    def standing(self, group: str, offsets: Mapping[Partition, T]) -> Mapping[Partition, T]:
        """What of these commits is not of before."""
        if not self._gone:
            return offsets
        return {partition: each for partition, each in offsets.items() if (group, partition) not in self._gone}
