"""Heartbeats of a member of a newer group: what is written into them, and what their answers want the member to own.

A heartbeat says what has changed since the coordinator last answered one, and everything after any trouble.
What must not live here: when to send one, and what an answer means to the member's state.
Source: KIP-848, ConsumerGroupHeartbeat v0-v1.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from penstock.errors import UsageError
from penstock.model import Partition
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartition,
    ConsumerGroupHeartbeatResponseAssignment,
)
from penstock.seams.membership import GroupOptions

__all__ = ["JOIN_EPOCH", "Owned", "Target", "Telling", "Wanted", "in_version", "new_member_id"]

JOIN_EPOCH: Final = 0
_LEAVE_EPOCH: Final = -1
_AWAY_EPOCH: Final = -2
_FIRST_WITH_PATTERNS: Final = 1
_NO_PATTERN: Final = ""
"""Takes back the one that the coordinator has; None would leave it."""

Owned: TypeAlias = Mapping[Partition, bytes]
"""Partitions, and the id of the topic that each is of: one of the same name may be another topic by now."""


class Wanted(NamedTuple):
    """What a member wants to read: topics by name, and those that the coordinator finds by a pattern."""

    names: frozenset[str] = frozenset()
    pattern: str | None = None

    def includes(self, topic: str) -> bool:
        """Whether the coordinator may give it; what fits the pattern, it alone knows."""
        return self.pattern is not None or topic in self.names


class Telling:
    """What the coordinator has been told by one member, whose id is ``member_id``.

    ``_patterned``: it may have a pattern of this member, even if it does not want any now.
    """

    def __init__(self, options: GroupOptions, rack: str, member_id: str) -> None:
        self._options = options
        self._rack = rack
        self._told: tuple[Wanted, Owned | None] | None = None
        self._patterned = False
        self.member_id = member_id

    def beat(self, epoch: int, wanted: Wanted, owned: Owned) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat in this epoch; after `forget`, and with epoch 0, one that says everything."""
        whole = epoch == JOIN_EPOCH or self._told is None
        told, told_owned = self._told or (Wanted(), None)
        options = self._options
        return ConsumerGroupHeartbeatRequest(
            group_id=options.group,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=options.instance_id,
            rack_id=self._rack or None if whole else None,
            rebalance_timeout_ms=options.rebalance_timeout_ms if whole else -1,
            subscribed_topic_names=sorted(wanted.names) if whole or wanted.names != told.names else None,
            subscribed_topic_regex=self._pattern(epoch, wanted) if whole or wanted.pattern != told.pattern else None,
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

    def _pattern(self, epoch: int, wanted: Wanted) -> str | None:
        if wanted.pattern is not None:
            self._patterned = True
            return wanted.pattern
        # Who had this instance id before may have had one, and who takes its place inherits it.
        inherits = epoch == JOIN_EPOCH and self._options.instance_id is not None
        return _NO_PATTERN if self._patterned or inherits else None

    def heard(self, wanted: Wanted, owned: Owned, *, another_target: bool) -> None:
        """A heartbeat with these was answered without an error.

        Where the answer has another target than before, the coordinator waits for what is owned now even if that is
        what it was: of what the target had for a moment only, it does not know otherwise that nobody took it.
        """
        self._told = (wanted, None if another_target else owned)

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

    @property
    def nameless(self) -> bool:
        """Whether brokers did not know of all its topics yet, so that they are to be asked again."""
        return not {topic_id for topic_id, _ in self._places} <= self._names.keys()

    def clear(self) -> None:
        """Nothing: the member is none any more."""
        self._places = frozenset()

    async def name(self, wanted: Wanted) -> None:
        """Find out what the topics are called, as far as brokers know. Raises as `Cluster.topics`."""
        ids = {topic_id for topic_id, _ in self._places}
        # A name once known stays, so that a broker that does not know the topic yet takes nothing away.
        self._names = {each: name for each, name in self._names.items() if each in ids}
        if self._look(ids):
            if wanted.pattern is None:
                await self._cluster.topics(wanted.names, fresh=True)
            else:
                await self._cluster.topics_by_id(ids - self._names.keys())
            self._look(ids)

    def _look(self, ids: Set[bytes]) -> bool:
        """Whether some are still unknown."""
        for topic_id in ids - self._names.keys():
            if (name := self._cluster.topic_name(topic_id)) is not None:
                self._names[topic_id] = name
        return len(self._names) < len(ids)

    def of(self, wanted: Wanted) -> Owned:
        """Its partitions of wanted topics; one whose topic nobody could name is not among them yet."""
        named = ((self._names.get(topic_id), number, topic_id) for topic_id, number in self._places)
        return {Partition(name, number): topic_id for name, number, topic_id in named if name and wanted.includes(name)}


def in_version(message: ConsumerGroupHeartbeatRequest, version: int) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat as brokers that have nothing newer take it. Raises UsageError where they match no patterns."""
    if version >= _FIRST_WITH_PATTERNS or message.subscribed_topic_regex is None:
        return message
    if message.subscribed_topic_regex != _NO_PATTERN:
        raise UsageError(
            "a SubscriptionPattern needs brokers of 4.0 or later, which match it",
            hint="Give the pattern as text or re.compile(…): then the consumer looks the topics up itself",
        )
    return replace(message, subscribed_topic_regex=None)


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
