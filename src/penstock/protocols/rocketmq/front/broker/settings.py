"""What operators set: topics, groups and the broker itself. It is kept over a restart, and obeyed where it is read.

A topic that was never set has as many queues for readers and for writers as it has partitions, and may be read and
written. Settings go by the topic's id: a topic that is made anew has none. A group that was never set has the defaults
of `SubscriptionGroupConfig`. Source: Apache RocketMQ 4.9 and 5.x, ``TopicConfigManager``,
``SubscriptionGroupManager``, ``PermName``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.front.ledger import Ledger
from penstock.protocols.rocketmq.front.naming import rocket_name
from penstock.seams.enode import TopicState

__all__ = ["READ", "WRITE", "Queues", "Settings"]

READ: Final = int(m.Perm.READ)
WRITE: Final = int(m.Perm.WRITE)

_READ_WRITE: Final = READ | WRITE
_TOPIC: Final = "topic"
_GROUP: Final = "group"
_BROKER: Final = "broker"
_VERSION: Final = "version"
_PERM: Final = "brokerPermission"
_WIPED: Final = "writePermWiped"
_UNSET: Final[Mapping[str, Any]] = {}


class Queues(NamedTuple):
    """How many queues of a topic are read and written, and what may be done with it: bits of `Perm`."""

    read: int
    write: int
    perm: int

    @property
    def most(self) -> int:
        """Numbers of queues are below this."""
        return max(self.read, self.write)


class Settings:
    """Of one front; reading them costs next to nothing, since sends and pulls do so. What is set raises StoreError."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._topics = ledger.of(_TOPIC)
        self._groups = ledger.of(_GROUP)
        self._broker = ledger.of(_BROKER)

    # The broker.

    @property
    def perm(self) -> int:
        """What the broker lets everyone do, whatever a topic says."""
        return int(self._broker.get(_PERM, _READ_WRITE)) if self._broker else _READ_WRITE

    async def set_perm(self, perm: int) -> None:
        """Set it."""
        await self._ledger.put(_BROKER, _PERM, perm)

    @property
    def route_perm(self) -> int:
        """The same as the name server says it, where an operator may have taken the right to write away."""
        return self.perm & ~WRITE if self._broker.get(_WIPED) else self.perm

    async def wipe(self, *, wiped: bool) -> None:
        """Have the name server say that the broker cannot be written to, or say no more than the broker does."""
        await self._ledger.put(_BROKER, _WIPED, wiped or None)

    # Topics.

    def is_set(self, topic: TopicState) -> bool:
        """Whether an operator has set anything of it."""
        return bool(self._topics) and topic.id.hex() in self._topics

    def queues(self, topic: TopicState) -> Queues:
        """How many queues it has, and what may be done with them."""
        kept = self._topics.get(topic.id.hex()) if self._topics else None
        if kept is None:
            return Queues(topic.partitions, topic.partitions, _READ_WRITE)
        return Queues(kept["readQueueNums"], kept["writeQueueNums"], kept["perm"])

    def topic(self, topic: TopicState) -> m.TopicConfig:
        """All of its settings."""
        kept = self._topics.get(topic.id.hex())
        if kept is None:
            return _plain(topic)
        said: m.TopicConfig = _read(m.TopicConfig, kept)
        return replace(said, topic_name=rocket_name(topic.name))

    async def set_topic(self, topic: TopicState, said: m.TopicConfig) -> None:
        """Replace its settings. Those that are every topic's are not kept: partitions may be added elsewhere."""
        kept = None if said == _plain(topic) else _written(said)
        if kept != self._topics.get(topic.id.hex()):
            await self._ledger.put(_TOPIC, topic.id.hex(), kept)

    async def forget_topic(self, topic: TopicState) -> None:
        """It is gone."""
        if self.is_set(topic):
            await self._ledger.put(_TOPIC, topic.id.hex(), None)

    # Groups.

    def group(self, name: str) -> m.SubscriptionGroupConfig | None:
        """All settings of a group that was set."""
        kept = self._groups.get(name)
        return None if kept is None else _read(m.SubscriptionGroupConfig, kept)

    def groups(self) -> list[str]:
        """Those that were set."""
        return list(self._groups)

    async def set_group(self, said: m.SubscriptionGroupConfig) -> None:
        """Replace a group's settings."""
        await self._ledger.put(_GROUP, said.group_name, _written(said))

    async def forget_group(self, name: str) -> bool:
        """Take them away; whether there were any."""
        if name not in self._groups:
            return False
        await self._ledger.put(_GROUP, name, None)
        return True

    def has_group(self, name: str) -> bool:
        """Whether an operator has set the group."""
        return name in self._groups

    def may_consume(self, group: str) -> bool:
        """Whether its members may pull."""
        return bool(self._of(group).get("consumeEnable", True))

    def may_broadcast(self, group: str) -> bool:
        """Whether each of its members may read everything."""
        return bool(self._of(group).get("consumeBroadcastEnable", True))

    def notifies(self, group: str) -> bool:
        """Whether its members hear who comes and goes."""
        return bool(self._of(group).get("notifyConsumerIdsChangedEnable", True))

    def retry_queues(self, group: str) -> int:
        """How many queues its retry topic has; 0: what it could not consume is not delivered again."""
        return max(0, int(self._of(group).get("retryQueueNums", 1)))

    def retries(self, group: str, default: int) -> int:
        """How often a message is delivered to it again before it is a dead letter."""
        return int(self._of(group).get("retryMaxTimes", default))

    def _of(self, group: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._groups.get(group, _UNSET) if self._groups else _UNSET
        return found

    # Which state of a table it is.

    async def version(self, table: str, rows: Iterable[bytes], now_ms: int) -> m.DataVersion:
        """Of a table with these rows: counted up when it is not the one that was asked for before, whoever changed it.

        Other protocols make and delete topics, too.
        """
        digest = hashlib.blake2b(b"\0".join(rows), digest_size=16).hexdigest()

        def counted() -> list[Any]:
            before = self._ledger.get(_VERSION, table) or ["", 0, 0]
            return list(before) if before[0] == digest else [digest, before[1] + 1, now_ms]

        known = self._ledger.get(_VERSION, table)
        if known is None or known[0] != digest:
            known = await self._ledger.compose(_VERSION, table, counted)
        return m.DataVersion(counter=known[1], timestamp=known[2])


def _plain(topic: TopicState) -> m.TopicConfig:
    return m.TopicConfig(
        topic_name=rocket_name(topic.name), read_queue_nums=topic.partitions, write_queue_nums=topic.partitions
    )


def _written(said: object) -> Any:
    return json.loads(m.write_body(said))


def _read(kind: type[Any], kept: object) -> Any:
    return m.read_body(kind, json.dumps(kept).encode())
