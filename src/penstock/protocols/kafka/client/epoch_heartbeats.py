"""Heartbeats of a member of a newer group: what is written into them, and what their answers want the member to own.

A heartbeat says what has changed since the coordinator last answered one, and everything after any trouble.
What must not live here: when to send one, and what an answer means to the member's state.
Source: KIP-848, ConsumerGroupHeartbeat v0-v1.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Set
from typing import Final, TypeAlias

from penstock.model import Partition
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartition,
    ConsumerGroupHeartbeatResponseAssignment,
)
from penstock.seams.membership import GroupOptions

__all__ = ["JOIN_EPOCH", "Owned", "Target", "Telling", "new_member_id"]

JOIN_EPOCH: Final = 0
_LEAVE_EPOCH: Final = -1
_AWAY_EPOCH: Final = -2

Owned: TypeAlias = Mapping[Partition, bytes]
"""Partitions, and the id of the topic that each is of: one of the same name may be another topic by now."""


class Telling:
    """What the coordinator has been told by one member, whose id is ``member_id``."""

    def __init__(self, options: GroupOptions, rack: str, member_id: str) -> None:
        self._options = options
        self._rack = rack
        self._told: tuple[frozenset[str], Owned | None] | None = None
        self.member_id = member_id

    def beat(self, epoch: int, topics: frozenset[str], owned: Owned) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat in this epoch; after `forget`, and with epoch 0, one that says everything."""
        whole = epoch == JOIN_EPOCH or self._told is None
        told_topics, told_owned = self._told or (frozenset[str](), None)
        options = self._options
        return ConsumerGroupHeartbeatRequest(
            group_id=options.group,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=options.instance_id,
            rack_id=self._rack or None if whole else None,
            rebalance_timeout_ms=options.rebalance_timeout_ms if whole else -1,
            subscribed_topic_names=sorted(topics) if whole or topics != told_topics else None,
            server_assignor=options.remote_assignor if whole else None,
            topic_partitions=_by_id(owned) if whole or owned != told_owned else None,
        )

    def goodbye(self) -> ConsumerGroupHeartbeatRequest:
        """The last one: a static member says that it will be back."""
        epoch = _LEAVE_EPOCH if self._options.instance_id is None else _AWAY_EPOCH
        return ConsumerGroupHeartbeatRequest(
            group_id=self._options.group,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self._options.instance_id,
        )

    def heard(self, topics: frozenset[str], owned: Owned, *, another_target: bool) -> None:
        """A heartbeat with these was answered without an error.

        Where the answer has another target than before, the coordinator waits for what is owned now even if that is
        what it was: of what the target had for a moment only, it does not know otherwise that nobody took it.
        """
        self._told = (topics, None if another_target else owned)

    def forget(self) -> None:
        """What the coordinator knows is not certain any more."""
        self._told = None

    def knows(self, owned: Owned) -> bool:
        """Whether the coordinator has heard that the member owns this, and nothing else."""
        return self._told is not None and self._told[1] == owned


class Target:
    """What the coordinator wants the member to own, as it said last, by topic ids; and what these are called."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._places: frozenset[tuple[bytes, int]] = frozenset()
        self._names: dict[bytes, str] = {}

    def set(self, told: ConsumerGroupHeartbeatResponseAssignment | None) -> bool:
        """An answer has come, None leaves the target as it is; whether it is another one now."""
        before = self._places
        if told is not None:
            self._places = frozenset((each.topic_id, n) for each in told.topic_partitions for n in each.partitions)
        return self._places != before

    def clear(self) -> None:
        """Nothing: the member is none any more."""
        self._places = frozenset()

    async def name(self, topics: Collection[str]) -> None:
        """Find out what the topics are called, as far as brokers know; ``topics`` are those that it can be.

        Raises as `Cluster.topics`.
        """
        ids = {topic_id for topic_id, _ in self._places}
        # A name once known stays, so that a broker that does not know the topic yet takes nothing away.
        self._names = {each: name for each, name in self._names.items() if each in ids}
        if self._look(ids):
            await self._cluster.topics(topics, fresh=True)
            self._look(ids)

    def _look(self, ids: Set[bytes]) -> bool:
        """Whether some are still unknown."""
        for topic_id in ids - self._names.keys():
            if (name := self._cluster.topic_name(topic_id)) is not None:
                self._names[topic_id] = name
        return len(self._names) < len(ids)

    def of(self, topics: Collection[str]) -> Owned:
        """Its partitions of these topics; one whose topic nobody could name is not among them yet."""
        named = ((self._names.get(topic_id), number, topic_id) for topic_id, number in self._places)
        return {Partition(name, number): topic_id for name, number, topic_id in named if name in topics and name}


def new_member_id(random: Callable[[], float]) -> str:
    """A name that nobody else has: 128 bits of ``random`` (uniform in [0, 1)), written as Java writes its ids."""
    bits = b"".join(int(random() * 2**32).to_bytes(4, "big") for _ in range(4))
    return base64.urlsafe_b64encode(bits).rstrip(b"=").decode()


def _by_id(owned: Owned) -> list[ConsumerGroupHeartbeatRequestTopicPartition]:
    numbers: dict[bytes, list[int]] = {}
    for partition, topic_id in sorted(owned.items()):
        numbers.setdefault(topic_id, []).append(partition.id)
    return [
        ConsumerGroupHeartbeatRequestTopicPartition(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in numbers.items()
    ]
