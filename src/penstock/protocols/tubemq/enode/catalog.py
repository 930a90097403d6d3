"""The cluster's topics under this node's numbers (`numbering`), and where each partition is now.

What masters told lately is believed; while none answers, what was known goes on. With journals of its own beside the
cluster (``--journals``) a node writes each number down before it tells anybody, so that it is the same after a restart
also where brokers were added or were away.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

from penstock._dataclasses import dataclass
from penstock.concurrency.locks import Locks
from penstock.errors import ConfigError, UnknownPartition, UnknownTopic
from penstock.interfaces.node import OWN_TOPICS, Ended, Entry, Journal, Journals, Noted
from penstock.model import Partition
from penstock.protocols.tubemq.client.placements import SYSTEM_TOPIC
from penstock.protocols.tubemq.config.names import check_topic
from penstock.protocols.tubemq.enode.numbering import Numbering

if TYPE_CHECKING:
    from penstock.protocols.tubemq.client.shared import Shared

__all__ = ["Catalog", "Topic", "is_topic"]

_JOURNAL: Final = f"{OWN_TOPICS}partitions"
_COMPACTED: Final = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class Topic:
    """``penstock.interfaces.enode.TopicState``. TubeMQ has no ids: the name's hash is one, also of a new topic."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> bytes:
        return hashlib.md5(f"tubemq:{self.name}".encode(), usedforsecurity=False).digest()


def is_topic(name: str) -> bool:
    """Whether a TubeMQ topic can have that name; others are never asked for."""
    try:
        return bool(check_topic(name))
    except ConfigError:
        return name == SYSTEM_TOPIC


class Catalog:
    """``journals`` None: numbers are those of this start."""

    def __init__(self, shared: Shared, journals: Journals | None, turns: Locks[str]) -> None:
        self._shared = shared
        self._turns = turns
        self._numbering = Numbering()
        self._names: dict[bytes, str] = {}
        self._absent: set[str] = set()
        self._journal: Journal | None = None
        if journals is not None:
            self._journal = journals.journal(_JOURNAL, places=1, config=_COMPACTED)

    async def load(self) -> None:
        """Read back which numbers were given. Raises StoreError, CorruptBatch."""
        if self._journal is None:
            return
        said: dict[tuple[str, int], Partition] = {}

        def follow(place: int, found: Noted | Ended) -> None:
            if isinstance(found, Noted) and found.key is not None:
                name, number = json.loads(found.key)
                said.pop((name, number), None)
                if found.value is not None:
                    node, partition_id = json.loads(found.value)
                    said[name, number] = Partition(name, partition_id, node)

        await self._journal.replay(follow)
        for (name, number), home in sorted(said.items()):
            self._numbering.give(name, number, home)

    def known(self) -> list[str]:
        """Topics that were asked for, and are there."""
        return [name for name in self._numbering.topics() if name not in self._absent]

    async def look(self, names: Sequence[str], *, fresh: bool = False) -> None:
        """Ask for those of ``names`` that are not known, ``fresh``: for all. The node does that now and then, so that
        nobody else waits for masters that are away. Raises ServerError, ConnectionLost, RequestTimeout."""
        wanted = [name for name in names if is_topic(name) and (fresh or self._topic(name) is None)]
        if not wanted:
            return
        found = await self._shared.topics.topics(wanted, fresh=True)
        for name, info in found.items():
            await self._number(name, [each.partition for each in info.partitions])
        # A topic whose brokers are all away looks like one that was deleted: its numbers are kept.
        self._absent = self._absent.difference(found) | set(wanted).difference(found)

    async def topic(self, name: str) -> Topic | None:
        """Raises as `look`."""
        await self.look([name])
        return self._topic(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """Return one of those that were asked for by name; this takes no longer where there are many."""
        if topic_id not in self._names:
            self._names = {Topic(name, 0).id: name for name in self._numbering.topics()}
        name = self._names.get(topic_id)
        return None if name is None else self._topic(name)

    def _topic(self, name: str) -> Topic | None:
        homes = () if name in self._absent else self._numbering.homes(name)
        return Topic(name, len(homes)) if homes else None

    def homes(self, topic: str) -> Sequence[Partition]:
        """By our numbers: the partitions as the cluster calls them."""
        return self._numbering.homes(topic)

    async def home(self, partition: Partition) -> Partition:
        """The partition as the cluster calls it. Raises UnknownTopic, UnknownPartition, and as `look`."""
        homes = self._numbering.homes(partition.topic)
        if not 0 <= partition.id < len(homes):
            await self.look([partition.topic])
            homes = self._numbering.homes(partition.topic)
        if not homes:
            raise UnknownTopic("the TubeMQ cluster has no such topic", topic=partition.topic)
        if not 0 <= partition.id < len(homes):
            raise UnknownPartition(
                f"the topic has {len(homes)} partitions", topic=partition.topic, partition=partition.id
            )
        return homes[partition.id]

    async def forget(self, name: str) -> None:
        """It was deleted from here, so the next one of its name is another one."""
        async with self._turns.held(name):
            gone = [(_key(name, number), None) for number in range(len(self._numbering.homes(name)))]
            if self._journal is not None and gone:
                await self._journal.append(0, lambda: gone)
            self._numbering.forget(name)

    async def _number(self, name: str, found: Sequence[Partition]) -> None:
        if not self._numbering.new(name, found):
            return
        async with self._turns.held(name):
            homes, new = self._numbering.homes(name), self._numbering.new(name, found)
            given = list(enumerate(new, len(homes)))
            if self._journal is not None and given:
                entries = [_entry(name, number, home) for number, home in given]
                await self._journal.append(0, lambda: entries)
            for number, home in given:
                self._numbering.give(name, number, home)


def _entry(name: str, number: int, home: Partition) -> Entry:
    return _key(name, number), json.dumps([home.node, home.id]).encode()


def _key(name: str, number: int) -> bytes:
    return json.dumps([name, number]).encode()
