"""What TubeMQ says in strings: brokers, partitions, subscriptions, topics, filters. Parsed strictly, formatted exactly.

Separators are ``#`` between segments, ``:`` between parts, ``,`` in lists, ``@`` before a group, ``=`` before a value;
names contain none of them. Whatever does not follow its format is a ProtocolViolation that quotes it. Source: Apache
InLong TubeMQ 2.x, ``DataConverterUtil``, ``BrokerInfo``, ``Partition``, ``SubscribeInfo``.

Partitions are ``model.Partition`` with the broker's id, in decimal, as ``node``; brokers are ``model.Node`` named so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.errors import ProtocolViolation
from penstock.model import Endpoint, Node, Partition

__all__ = [
    "BROKER_PORT",
    "BROKER_TLS_PORT",
    "BrokerIdentity",
    "Held",
    "Located",
    "Placement",
    "Published",
    "Subscribable",
    "format_broker",
    "format_failure",
    "format_held",
    "format_key",
    "format_located",
    "format_published",
    "format_required",
    "format_subscribable",
    "format_topic_filter",
    "format_topic_holdings",
    "parse_broker",
    "parse_broker_identity",
    "parse_failure",
    "parse_held",
    "parse_key",
    "parse_located",
    "parse_published",
    "parse_required",
    "parse_subscribable",
    "parse_topic_filter",
    "parse_topic_holdings",
]

BROKER_PORT: Final = 8123
BROKER_TLS_PORT: Final = 8124

_INT32: Final = (1 << 31) - 1
_INT64: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Located:
    """A partition and where its broker listens."""

    node: Node
    partition: Partition


@dataclass(frozen=True, slots=True)
class Held:
    """A partition as a consumer holds it, or is to hold it."""

    consumer: str
    group: str
    located: Located


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """A broker as it names itself to a master."""

    node: Node
    version: str


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


# ---- brokers: ``id:host:port``; in a master's lists a blank port is the default


def format_broker(node: Node, default_port: int | None = None) -> str:
    """Return ``id:host:port``; with a blank for the port where it is ``default_port``."""
    port = node.endpoint.port
    return f"{node.name}:{node.endpoint.host}:{' ' if port == default_port else port}"


def parse_broker(text: str, default_port: int = BROKER_PORT) -> Node:
    """Read ``id:host:port``; a blank or absent port is ``default_port``."""
    what = "a broker (id:host:port)"
    broker_id, colon, rest = text.partition(":")
    host, last, port = rest.rpartition(":")
    if not last:
        host, port = rest, ""
    if not colon or not host.strip():
        raise _malformed(what, text)
    number = default_port if not port.strip() else _number(port, what, text, 65_535, least=1)
    return Node(str(_number(broker_id, what, text)), Endpoint(host.strip(), number))


def parse_broker_identity(text: str) -> BrokerIdentity:
    """Read ``id:host:port:version``, a broker's client id."""
    broker, colon, version = text.rpartition(":")
    if not colon or broker.count(":") < 2:
        raise _malformed("a broker's client id (id:host:port:version)", text)
    return BrokerIdentity(parse_broker(broker), version)


# ---- partitions: ``broker#topic:id``, and ``brokerId:topic:id`` as their key


def format_located(located: Located) -> str:
    """Return ``brokerId:host:port#topic:partitionId``."""
    return f"{format_broker(located.node)}#{located.partition.topic}:{located.partition.id}"


def parse_located(text: str) -> Located:
    """Read ``brokerId:host:port#topic:partitionId``."""
    what = "a partition (brokerId:host:port#topic:partitionId)"
    broker, rest = _two(text, "#", what, text)
    topic, partition_id = _two(rest, ":", what, text)
    node = parse_broker(broker)
    return Located(node, Partition(_name(topic, what, text), _number(partition_id, what, text), node.name))


def format_key(partition: Partition) -> str:
    """Return ``brokerId:topic:partitionId``."""
    return f"{partition.node}:{partition.topic}:{partition.id}"


def parse_key(text: str) -> Partition:
    """Read ``brokerId:topic:partitionId``."""
    what = "a partition key (brokerId:topic:partitionId)"
    parts = text.split(":")
    if len(parts) != 3:
        raise _malformed(what, text)
    broker_id = str(_number(parts[0], what, text))
    return Partition(_name(parts[1], what, text), _number(parts[2], what, text), broker_id)


def format_held(held: Held) -> str:
    """Return ``consumerId@group#brokerId:host:port#topic:partitionId``."""
    return f"{held.consumer}@{held.group}#{format_located(held.located)}"


def parse_held(text: str) -> Held:
    """Read ``consumerId@group#brokerId:host:port#topic:partitionId``."""
    what = "a subscription (consumer@group#broker#topic:partition)"
    who, hash_mark, rest = text.partition("#")
    consumer, group = _two(who, "@", what, text)
    if not hash_mark:
        raise _malformed(what, text)
    return Held(_name(consumer, what, text), _name(group, what, text), parse_located(rest))


def format_failure(code: int, located: Located) -> str:
    """Return ``errCode:brokerId:host:port#topic:partitionId``."""
    return f"{code}:{format_located(located)}"


def parse_failure(text: str) -> tuple[int, Located]:
    """Read ``errCode:brokerId:host:port#topic:partitionId``."""
    code, colon, rest = text.partition(":")
    if not colon:
        raise _malformed("a failed partition (errCode:broker#topic:partition)", text)
    return _number(code, "a failed partition", text), parse_located(rest)


def format_required(offsets: Mapping[Partition, int]) -> str:
    """Return ``brokerId:topic:partitionId=offset,…``."""
    return ",".join(f"{format_key(partition)}={offset}" for partition, offset in offsets.items())


def parse_required(text: str) -> dict[Partition, int]:
    """Read ``brokerId:topic:partitionId=offset,…``; blank is empty."""
    what = "required partitions (key=offset,…)"
    found = {}
    for item in _items(text):
        key, offset = _two(item, "=", what, text)
        found[parse_key(key.strip())] = _number(offset, what, text, _INT64)
    return found


def format_topic_holdings(topic: str, partitions: Iterable[Partition]) -> str:
    """Return ``topic#brokerId:partitionId,…``."""
    return f"{topic}#{','.join(f'{partition.node}:{partition.id}' for partition in partitions)}"


def parse_topic_holdings(text: str) -> list[Partition]:
    """Read ``topic#brokerId:partitionId,…``."""
    what = "held partitions (topic#brokerId:partitionId,…)"
    topic, rest = _two(text, "#", what, text)
    topic = _name(topic, what, text)
    pairs = [_two(item, ":", what, text) for item in _items(rest)]
    return [Partition(topic, _number(number, what, text), str(_number(node, what, text))) for node, number in pairs]


# ---- topics


def format_topic_filter(topic: str, items: Iterable[str]) -> str:
    """Return ``topic#item,…``; only for topics with filters: Java's master fails on a bare ``topic#``."""
    return f"{topic}#{','.join(items)}"


def parse_topic_filter(text: str) -> tuple[str, tuple[str, ...]]:
    """Read ``topic#item,…``."""
    what = "a topic's filter (topic#item,…)"
    topic, rest = _two(text, "#", what, text)
    items = tuple(item.strip() for item in _items(rest))
    if not items:
        raise _malformed(what, text)
    return _name(topic, what, text), items


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
        raise _malformed(what, text)
    places = [_numbers(item, 3, what, text) for item in _items(parts[1])]
    limit = _number(parts[2], what, text) if parts[2:] and parts[2].strip() else None
    placements = tuple(Placement(broker, stores, partitions) for broker, partitions, stores in places)
    return Published(_name(parts[0], what, text), placements, limit)


def format_subscribable(subscribable: Subscribable) -> str:
    """Return ``topic#brokerId:stores:partitions:status,…``."""
    places = (
        f"{place.broker_id}:{place.stores}:{place.partitions}:{place.status}" for place in subscribable.placements
    )
    return f"{subscribable.topic}#{','.join(places)}"


def parse_subscribable(text: str) -> Subscribable:
    """Read ``topic#brokerId:stores:partitions:status,…``; counts stand in the other order than for publishing."""
    what = "a topic's partitions (topic#brokerId:stores:partitions:status,…)"
    topic, rest = _two(text, "#", what, text)
    placements = tuple(Placement(*_numbers(item, 4, what, text)) for item in _items(rest))
    return Subscribable(_name(topic, what, text), placements)


# ---- parts


def _malformed(what: str, text: str) -> ProtocolViolation:
    return ProtocolViolation(f"{text[:200]!r} is not {what}")


def _two(text: str, separator: str, what: str, whole: str) -> tuple[str, str]:
    first, found, second = text.partition(separator)
    if not found or separator in second:
        raise _malformed(what, whole)
    return first, second


def _items(text: str) -> list[str]:
    return [item for item in text.split(",") if item.strip()]


def _name(text: str, what: str, whole: str) -> str:
    text = text.strip()
    if not text or any(separator in text for separator in "#:,@="):
        raise _malformed(what, whole)
    return text


def _number(text: str, what: str, whole: str, most: int = _INT32, *, least: int = 0) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise _malformed(what, whole)
    return int(text)


def _numbers(text: str, count: int, what: str, whole: str) -> list[int]:
    parts = text.split(":")
    if len(parts) != count:
        raise _malformed(what, whole)
    return [_number(part, what, whole) for part in parts]
