"""The catalog of a store: its identity, its epoch and its topics, in one file, ``store.json``.

The file is replaced as a whole and synced at each change, so a crash leaves the old catalog or the new one.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
from msgspec import Struct

from penstock.errors import InvalidPartitionCount, InvalidTopicName, TopicExists, UnknownTopic
from penstock.store.errors import StoreDamaged
from penstock.store.filesystem import Directory

__all__ = ["CATALOG", "MAX_PARTITIONS", "Catalog", "TopicState", "check_topic_name"]

MAX_PARTITIONS: Final = 10_000
"""Maximum partitions of one topic: each one that is written to has a directory and files."""

CATALOG: Final = "store.json"
_VERSION: Final = 1
_STALE: Final = 1_000
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic: ``id`` is 16 bytes, ``partitions`` how many it has, ``config`` only the options that were set."""

    name: str
    id: bytes
    partitions: int
    config: Mapping[str, str]
    row: str = field(init=False, repr=False, compare=False)
    """Its part of the catalog's file. It is made once, since each change writes the whole file."""

    def __post_init__(self) -> None:
        facts = {"id": self.id.hex(), "partitions": self.partitions, "config": dict(self.config)}
        object.__setattr__(self, "row", f"{json.dumps(self.name)}: {json.dumps(facts)}")


def check_topic_name(name: str) -> None:
    """1 to 249 of ``[a-zA-Z0-9._-]``, not "." or ".." (Kafka's rule; the name becomes part of a directory's)."""
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        raise InvalidTopicName(
            f"{name[:300]!r} cannot be a topic's name", hint="Use 1 to 249 letters, digits, dots, underscores, hyphens"
        )


def _fold(name: str) -> str:
    return name.replace(".", "_")


def _check_count(partitions: int, at_least: int, topic: str) -> None:
    if not at_least <= partitions <= MAX_PARTITIONS:
        raise InvalidPartitionCount(
            f"a topic cannot have {partitions} partitions; {at_least} to {MAX_PARTITIONS} are possible", topic=topic
        )


class Catalog(Struct):
    """Identity, epoch and topics; call `save` after a change. ``cluster_id`` has 22 characters, as Kafka's.

    ``deleting`` are topics (name by id) whose directories may still exist because their deletion was interrupted.
    ``defaults`` are options of topics that do not set them; ``node_options`` are kept for the owner, by scope.
    """

    cluster_id: str
    node_id: int
    epoch: int = 0
    topics: dict[str, TopicState] = msgspec.field(default_factory=dict)
    deleting: dict[bytes, str] = msgspec.field(default_factory=dict)
    defaults: dict[str, str] = msgspec.field(default_factory=dict)
    node_options: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    _names: dict[bytes, str] = msgspec.field(default_factory=dict)
    """Names by id. It may contain deleted topics, which are removed now and then, so a lookup compares."""
    _folded: dict[str, str] = msgspec.field(default_factory=dict)
    """The same, by names with dots replaced by underscores."""

    def __post_init__(self) -> None:
        self._index()

    def _index(self) -> None:
        self._names = {topic.id: topic.name for topic in self.topics.values()}
        self._folded = {_fold(name): name for name in self.topics}

    @classmethod
    def create(cls, node_id: int) -> Catalog:
        """The catalog of a new store, with a new cluster id."""
        return cls(base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="), node_id)

    @classmethod
    def load(cls, directory: Directory) -> Catalog | None:
        """None if the directory has no store yet. Raises StoreDamaged."""
        text = directory.load(CATALOG)
        if text is None:
            return None
        try:
            facts = json.loads(text)
            if facts["version"] != _VERSION:
                raise ValueError(f"version {facts['version']} is unknown")
            topics = {
                name: TopicState(name, bytes.fromhex(row["id"]), int(row["partitions"]), dict(row["config"]))
                for name, row in facts["topics"].items()
            }
            deleting = {bytes.fromhex(topic_id): str(name) for topic_id, name in facts["deleting"].items()}
            defaults = dict(facts.get("defaults", {}))  # older stores have none
            said = {scope: dict(options) for scope, options in facts.get("node_options", {}).items()}
            identity = (str(facts["cluster_id"]), int(facts["node_id"]), int(facts["epoch"]))
            return cls(*identity, topics, deleting, defaults, said)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreDamaged(
                f"this is not a store's catalog ({type(error).__name__}: {error})",
                file=f"{directory.path}/{CATALOG}",
                position=0,
                hint="Restore the file: only it says which topics there are",
            ) from error

    def save(self, directory: Directory) -> None:
        """Durable when it returns. Raises OSError."""
        topics = ", ".join([topic.row for topic in self.topics.values()])
        facts = {
            "version": _VERSION,
            "cluster_id": self.cluster_id,
            "node_id": self.node_id,
            "epoch": self.epoch,
            "deleting": {topic_id.hex(): name for topic_id, name in self.deleting.items()},
            "defaults": self.defaults,
            "node_options": self.node_options,
        }
        text = f'{json.dumps(facts)[:-1]}, "topics": {{{topics}}}}}'
        directory.replace(CATALOG, text.encode(), durable=True)

    def by_id(self, topic_id: bytes) -> TopicState | None:
        """The topic with that id, in constant time."""
        if len(self._names) > 2 * len(self.topics) + _STALE:
            self._index()
        found = self.topics.get(self._names.get(topic_id, ""))
        return found if found is not None and found.id == topic_id else None

    def topic(self, name: str) -> TopicState:
        """Raises UnknownTopic."""
        try:
            return self.topics[name]
        except KeyError:
            raise UnknownTopic("there is no such topic", topic=name) from None

    def add(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        """A new topic with a new id. Raises InvalidTopicName, TopicExists, InvalidPartitionCount."""
        check_topic_name(name)
        if name in self.topics:
            raise TopicExists("the topic already exists", topic=name)
        other = self._folded.get(_fold(name))
        if other in self.topics:
            raise InvalidTopicName(f"the name collides with {other}: metrics cannot tell . from _", topic=name)
        _check_count(partitions, 1, name)
        topic = TopicState(name, uuid.uuid4().bytes, partitions, dict(config))
        self.topics[name] = topic
        self._names[topic.id] = self._folded[_fold(name)] = name
        return topic

    def grow(self, name: str, total: int) -> TopicState:
        """Give a topic more partitions. Raises UnknownTopic, InvalidPartitionCount."""
        topic = self.topic(name)
        _check_count(total, topic.partitions + 1, name)
        self.topics[name] = replace(topic, partitions=total)
        return self.topics[name]

    def remove(self, name: str) -> TopicState:
        """Move a topic to ``deleting``. Raises UnknownTopic."""
        topic = self.topic(name)
        del self.topics[name]
        self.deleting[topic.id] = name
        return topic

    def configure(self, name: str, config: Mapping[str, str]) -> TopicState:
        """Replace a topic's options. Raises UnknownTopic."""
        self.topics[name] = replace(self.topic(name), config=dict(config))
        return self.topics[name]
