"""Topics as strings: where they can be written, where they can be read, and with which filter."""

from __future__ import annotations

from collections.abc import Iterable

from penstock._dataclasses import dataclass
from penstock.protocols.tubemq.strings.parts import items_of, malformed, name_of, number_of, numbers_of, pair_of

__all__ = [
    "Placement",
    "Published",
    "Subscribable",
    "format_published",
    "format_subscribable",
    "format_topic_filter",
    "parse_published",
    "parse_subscribable",
    "parse_topic_filter",
]


@dataclass(frozen=True, slots=True)
class Placement:
    """How many stores a topic has on a broker, and partitions in each. ``status`` 1 may be read, 0 not; V2 only."""

    broker_id: int
    stores: int
    partitions: int
    status: int = 1


@dataclass(frozen=True, slots=True)
class Published:
    """Where a topic can be written; ``max_message_bytes`` None where the cluster's limit holds."""

    topic: str
    placements: tuple[Placement, ...]
    max_message_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Subscribable:
    """Where a topic is, for client-balanced consumers."""

    topic: str
    placements: tuple[Placement, ...]


def format_topic_filter(topic: str, items: Iterable[str]) -> str:
    """Return ``topic#item,…``; only for topics with filters: Java's master fails on a bare ``topic#``."""
    return f"{topic}#{','.join(items)}"


def parse_topic_filter(text: str) -> tuple[str, tuple[str, ...]]:
    """Read ``topic#item,…``."""
    what = "a topic's filter (topic#item,…)"
    topic, rest = pair_of(text, "#", what, text)
    items = tuple(item.strip() for item in items_of(rest))
    if not items:
        raise malformed(what, text)
    return name_of(topic, what, text), items


def format_published(published: Published) -> str:
    """Return ``topic#brokerId:partitions:stores,…#[maxMsgSizeInBytes]``."""
    places = ",".join(f"{place.broker_id}:{place.partitions}:{place.stores}" for place in published.placements)
    limit = "" if published.max_message_bytes is None else published.max_message_bytes
    return f"{published.topic}#{places}#{limit}"


def parse_published(text: str) -> Published:
    """Read ``topic#brokerId:partitions:stores,…#[maxMsgSizeInBytes]``; the last part may be missing."""
    what = "a topic to publish (topic#brokerId:partitions:stores,…#maxSize)"
    parts = text.split("#")
    if len(parts) not in {2, 3}:
        raise malformed(what, text)
    places = [numbers_of(item, 3, what, text) for item in items_of(parts[1])]
    limit = number_of(parts[2], what, text) if parts[2:] and parts[2].strip() else None
    placements = tuple(Placement(broker, stores, partitions) for broker, partitions, stores in places)
    return Published(name_of(parts[0], what, text), placements, limit)


def format_subscribable(subscribable: Subscribable) -> str:
    """Return ``topic#brokerId:stores:partitions:status,…``."""
    places = (
        f"{place.broker_id}:{place.stores}:{place.partitions}:{place.status}" for place in subscribable.placements
    )
    return f"{subscribable.topic}#{','.join(places)}"


def parse_subscribable(text: str) -> Subscribable:
    """Read ``topic#brokerId:stores:partitions:status,…``; counts stand in the other order than for publishing."""
    what = "a topic's partitions (topic#brokerId:stores:partitions:status,…)"
    topic, rest = pair_of(text, "#", what, text)
    placements = tuple(Placement(*numbers_of(item, 4, what, text)) for item in items_of(rest))
    return Subscribable(name_of(topic, what, text), placements)
