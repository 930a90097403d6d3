"""What Kafka's clients make a node keep, and how much of it one address and one connection may have.

A real broker has no such totals. Requests and answers of many entries are limited by `session` and `Pace`, and fetch
sessions by `fetch_sessions`. What must not live here: what is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError, UpstreamLost
from penstock.protocols.kafka.coordinator.held import HeldByMembers, KeptGroups, held_by_members, kept_groups
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import is_internal
from penstock.protocols.kafka.front.faults import Refused, code_of
from penstock.protocols.kafka.front.options import KafkaFrontOptions
from penstock.seams.enode import Enode
from penstock.seams.memory import Memory
from penstock.seams.shares import Shares

if TYPE_CHECKING:
    from penstock.protocols.kafka.front.call import Line

__all__ = ["MORE_ROOM", "NO_ROOM", "Limits", "Room", "no_room"]

MORE_ROOM: Final = "raise the option in brackets, or use fewer"
"""What to do about a refusal of `Shares`, whose text names the share and the option."""
_REQUEST_BYTES, _PARTITION_OF_REQUEST_BYTES = 2_000, 400
_TRANSACTION_BYTES, _PARTITION_OF_TRANSACTION_BYTES = 800, 200
_PARTITION_BYTES = 1_600
"""What an empty partition takes in the embedded log: measured."""
NO_ROOM: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""For what a real broker has no limit of: clients back off and try again, and by then others may have gone."""
_LOOK_AGAIN_S = 1.0
"""A request may ask for thousands of topics that are all refused."""
_PART = 8
"""Held requests, and partitions, may take such a part of the memory each."""


def no_room(why: PenstockError) -> ErrorCode:
    """The code of a refusal by a coordinator; the log gets its text."""
    return ErrorCode(code_of(Refused(NO_ROOM, why.message, hint=MORE_ROOM)))


class Limits:
    """One front's. ``ids``: transactional ids with their transactions; ``members``: what members of groups bring;
    ``groups``: with members or without; ``room``: for partitions of topics.
    """

    def __init__(self, options: KafkaFrontOptions, memory: Memory, room: Room) -> None:
        percent = options.address_share_percent
        self._held: Shares[Line] = Shares("held requests", "max_held", options.max_held, memory, percent, _PART)
        self.ids: Shares[str] = Shares(
            "transactional ids", "max_transactional_ids", options.max_transactional_ids, memory, percent
        )
        self.members: HeldByMembers = held_by_members(memory, percent)
        self.groups: KeptGroups = kept_groups(options.max_groups, memory, percent)
        self.room = room

    def hold(self, line: Line, partitions: int = 0) -> str | None:
        """A connection's request is about to wait: why it may not, or None, and then `let_go` ends that."""
        return self._held.put(line, line, _REQUEST_BYTES + partitions * _PARTITION_OF_REQUEST_BYTES)

    def let_go(self, line: Line) -> None:
        """The request waits no more."""
        self._held.drop(line)

    @property
    def held(self) -> int:
        """Requests that wait now."""
        return len(self._held)

    @staticmethod
    def size_of_transaction(partitions: int) -> int:
        """Bytes that a transactional id takes with the partitions of its transaction."""
        return _TRANSACTION_BYTES + partitions * _PARTITION_OF_TRANSACTION_BYTES


class Room:
    """For partitions of topics in the embedded log: all count, and those that a client made count as its address's.

    Topics that were there when the node started, or that another front made, have no owner. A cluster behind the node
    has its own limits.
    """

    def __init__(self, options: KafkaFrontOptions, memory: Memory, enode: Enode, now: Callable[[], float]) -> None:
        self._enode = enode
        self._now = now
        self._looked_at = -math.inf
        self._shares: Shares[str] = Shares(
            "partitions of topics",
            "max_topic_partitions",
            options.max_topic_partitions,
            memory,
            options.address_share_percent,
            _PART,
        )

    def __len__(self) -> int:
        return len(self._shares)

    async def look(self) -> None:
        """Count what there is: topics come and go by other fronts, too."""
        if not self._enode.near:
            return
        self._looked_at = self._now()
        try:
            there = {
                topic.name: topic.partitions for topic in await self._enode.topics() if not is_internal(topic.name)
            }
        except UpstreamLost:
            return  # next time
        for name in [each for each in self._shares if each not in there]:
            self._shares.drop(name)
        for name, partitions in there.items():
            if name not in self._shares:
                self._shares.take(name, None, 0, partitions)

    async def take(self, topic: str, partitions: int, host: str) -> None:
        """A client at ``host`` is about to make a topic of so many. Raises Refused (POLICY_VIOLATION)."""
        if not self._enode.near:
            return
        why = self._shares.put(topic, host, partitions * _PARTITION_BYTES, partitions)
        if why is not None and self._now() - self._looked_at >= _LOOK_AGAIN_S:
            await self.look()  # some may have gone
            why = self._shares.put(topic, host, partitions * _PARTITION_BYTES, partitions)
        if why is not None:
            raise Refused(ErrorCode.POLICY_VIOLATION, why, hint=MORE_ROOM)

    async def correct(self, topic: str) -> None:
        """The topic was not made, or is deleted: if it is not there, it counts no more."""
        with suppress(UpstreamLost):  # the next look will tell
            if self._enode.near and await self._enode.topic(topic) is None:
                self._shares.drop(topic)
