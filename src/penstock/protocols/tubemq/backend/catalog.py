"""The cluster's topics under this node's numbers, where each partition is now, and changes of topics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from penstock.concurrency.locks import Locks
from penstock.errors import (
    ConfigError,
    ErrorKind,
    InvalidPartitionCount,
    InvalidTopicConfig,
    InvalidTopicName,
    PenstockError,
    ServerError,
    TopicExists,
    UnknownPartition,
    UnknownTopic,
    Unsupported,
    UsageError,
)
from penstock.interfaces.admin import NewTopic
from penstock.interfaces.node import OWN_TOPICS, Ended, Entry, Journal, Journals, Noted
from penstock.model import Partition
from penstock.protocols.tubemq.client.cluster import SYSTEM_TOPIC
from penstock.protocols.tubemq.config import check_topic

if TYPE_CHECKING:
    from penstock.protocols.tubemq.client.admin import TubeAdmin
    from penstock.protocols.tubemq.client.cluster import Shared

__all__ = ["Catalog", "Numbering", "Topic", "TopicChanges", "is_topic"]


# Which partition of the cluster has which number at this node: kept while brokers come and go. Pure.
#
# A partition of TubeMQ is a broker and a number that is unique there; fronts count a topic's partitions from 0 without
# a hole, and clients keep offsets by these numbers. So a number, once given, stays.
class Numbering:
    """A topic's partitions are numbered in the order in which they were heard of: by broker, then by their own number.

    Nothing is ever taken back: a broker that masters no longer list keeps its numbers.
    """

    def __init__(self) -> None:
        self._homes: dict[str, list[Partition]] = {}

    def topics(self) -> list[str]:
        """All that were heard of."""
        return sorted(self._homes)

    def homes(self, topic: str) -> Sequence[Partition]:
        """By our numbers: the partitions as the cluster calls them."""
        return self._homes.get(topic, ())

    def new(self, topic: str, found: Iterable[Partition]) -> list[Partition]:
        """Those of ``found`` that have no number yet, in the order in which they are to get one."""
        return sorted(set(found).difference(self.homes(topic)), key=lambda each: (int(each.node), each.id))

    def give(self, topic: str, number: int, home: Partition) -> None:
        """A number that was decided on; one that is given already stays what it is."""
        homes = self._homes.setdefault(topic, [])
        if number == len(homes) and home not in homes:
            homes.append(home)

    def forget(self, topic: str) -> None:
        """It was deleted."""
        self._homes.pop(topic, None)


# The cluster's topics under this node's numbers (`Numbering`), and where each partition is now.
#
# The masters' last answers are used, also while no master answers. With journals outside the cluster (``--journals``) a
# node writes each number down before it shows it to a client. So numbers are the same after a restart, even if brokers
# were added or unreachable meanwhile.
_JOURNAL: Final = f"{OWN_TOPICS}partitions"
_COMPACTED: Final = {"cleanup.policy": "compact"}


class Topic(Struct, frozen=True):
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
        """Ask for those of ``names`` that are not known, ``fresh``: for all. The node does that periodically, so that
        no request waits for unreachable masters. Raises ServerError, ConnectionLost, RequestTimeout."""
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


# Making, growing and deleting topics, which takes the masters' web API (``admin_address``).
#
# What is made here has one partition a store, for there offsets are places and nothing has to be counted.
_RETENTION: Final = "retention.ms"
_MOST_HOURS: Final = 168
_HOUR_MS, _SECOND_MS = 3_600_000, 1_000


class TopicChanges:
    """What Kafka's and other fronts may ask for of topics, done by ``admin``."""

    def __init__(self, admin: TubeAdmin, catalog: Catalog) -> None:
        self._admin = admin
        self._catalog = catalog

    async def create(self, name: str, partitions: int, config: Mapping[str, str]) -> Topic:
        """Raises TopicExists, InvalidTopicName, InvalidTopicConfig, Unsupported, ServerError, ConnectionLost."""
        if name.startswith(OWN_TOPICS):
            raise Unsupported(
                "a TubeMQ cluster keeps nothing for longer than a week, so groups' offsets would be lost in it: "
                "start the node with --journals file:DIRECTORY, where it keeps them"
            )
        if not is_topic(name):
            raise InvalidTopicName(
                f"{name!r} cannot be a TubeMQ topic's name: a letter, then 1 to 63 letters, digits or '_'", topic=name
            )
        settings = _settings(config)
        if await self._catalog.topic(name) is not None:
            raise TopicExists(f"there is a topic {name}", topic=name)
        try:
            await self._admin.create_topics([NewTopic(name, partitions, config={**settings, "numPartitions": "1"})])
        except ServerError as error:
            if await self._there(name):
                raise TopicExists(f"there is a topic {name}", topic=name) from error
            raise
        await self._catalog.look([name], fresh=True)
        return Topic(name, len(self._catalog.homes(name)))

    async def delete(self, name: str) -> None:
        """Raises UnknownTopic, ServerError, ConnectionLost."""
        try:
            await self._admin.delete_topics([name])
        except ServerError as error:
            if error.kind is ErrorKind.UNKNOWN_TOPIC:
                raise UnknownTopic("the TubeMQ cluster has no such topic", topic=name) from error
            raise
        await self._catalog.forget(name)

    async def grow(self, name: str, total: int) -> None:
        """Raises InvalidPartitionCount where the cluster's stores cannot share that number."""
        try:
            await self._admin.add_partitions(name, total)
        except UsageError as error:
            raise InvalidPartitionCount(error.message, topic=name, hint=error.hint) from error
        await self._catalog.look([name], fresh=True)

    async def _there(self, name: str) -> bool:
        try:
            await self._catalog.look([name], fresh=True)
        except PenstockError:
            return False
        return bool(self._catalog.homes(name))


def _settings(config: Mapping[str, str]) -> dict[str, str]:
    """TubeMQ's words for a topic's options. Raises InvalidTopicConfig for what it has no word for."""
    for name in config:
        if name != _RETENTION:
            raise InvalidTopicConfig(f"a TubeMQ topic has no option {name}: there is {_RETENTION} only")
    if _RETENTION not in config:
        return {}
    kept_ms = int(config[_RETENTION])
    if not _SECOND_MS <= kept_ms <= _MOST_HOURS * _HOUR_MS:
        raise InvalidTopicConfig(f"{_RETENTION} is {kept_ms}: TubeMQ keeps messages for 1 s to {_MOST_HOURS} hours")
    whole = kept_ms % _HOUR_MS == 0
    return {"deletePolicy": f"delete,{kept_ms // _HOUR_MS}h" if whole else f"delete,{kept_ms // _SECOND_MS}s"}
