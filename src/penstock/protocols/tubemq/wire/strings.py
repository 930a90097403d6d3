"""What TubeMQ says in strings: brokers, partitions, subscriptions, topics, filters; names, ids and hashes in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from penstock.errors import ProtocolViolation, UsageError
from penstock.model import Endpoint, Node, Partition

__all__ = [
    "BROKER_PORT",
    "BROKER_TLS_PORT",
    "HEADER_ALLOWANCE_BYTES",
    "INDEX_BYTES",
    "INT32",
    "INT64",
    "MAX_FILTER_ITEMS",
    "MAX_MESSAGE_BYTES",
    "STORE_BASE",
    "BrokerIdentity",
    "Held",
    "Located",
    "Placement",
    "Published",
    "Subscribable",
    "aligned",
    "check_client_id",
    "check_filters",
    "check_group",
    "check_host",
    "check_topic",
    "check_topics",
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
    "items_of",
    "java_hash",
    "malformed",
    "name_of",
    "number_of",
    "numbers_of",
    "pair_of",
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
    "partition_ids",
    "store_of",
    "within_store",
]

# The parts of TubeMQ's strings: pairs, lists, names and numbers, each checked.
INT32: Final = (1 << 31) - 1
INT64: Final = (1 << 63) - 1


def malformed(what: str, text: str) -> ProtocolViolation:
    """Return the error for a text that is not ``what``."""
    return ProtocolViolation(f"{text[:200]!r} is not {what}")


def pair_of(text: str, separator: str, what: str, whole: str) -> tuple[str, str]:
    """Return what stands before and behind the one separator."""
    first, found, second = text.partition(separator)
    if not found or separator in second:
        raise malformed(what, whole)
    return first, second


def items_of(text: str) -> list[str]:
    """Return the elements of a list; blank ones are none."""
    return [item for item in text.split(",") if item.strip()]


def name_of(text: str, what: str, whole: str) -> str:
    """Return a name, trimmed: it is not empty and has no separators."""
    text = text.strip()
    if not text or any(separator in text for separator in "#:,@="):
        raise malformed(what, whole)
    return text


def number_of(text: str, what: str, whole: str, most: int = INT32, *, least: int = 0) -> int:
    """Return a decimal number from ``least`` to ``most``."""
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise malformed(what, whole)
    return int(text)


def numbers_of(text: str, count: int, what: str, whole: str) -> list[int]:
    """Return ``count`` numbers between colons."""
    parts = text.split(":")
    if len(parts) != count:
        raise malformed(what, whole)
    return [number_of(part, what, whole) for part in parts]


# Brokers as strings: ``id:host:port``; in a master's lists a blank port is the default.
BROKER_PORT: Final = 8123
BROKER_TLS_PORT: Final = 8124


class BrokerIdentity(Struct, frozen=True):
    """A broker as it names itself to a master."""

    node: Node
    version: str


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
        raise malformed(what, text)
    number = default_port if not port.strip() else number_of(port, what, text, 65_535, least=1)
    return Node(str(number_of(broker_id, what, text)), Endpoint(host.strip(), number))


def parse_broker_identity(text: str) -> BrokerIdentity:
    """Read ``id:host:port:version``, a broker's client id."""
    broker, colon, version = text.rpartition(":")
    if not colon or broker.count(":") < 2:
        raise malformed("a broker's client id (id:host:port:version)", text)
    return BrokerIdentity(parse_broker(broker), version)


# Partitions as strings: where they are (``broker#topic:id``), their keys (``brokerId:topic:id``), who holds them.
class Located(Struct, frozen=True):
    """A partition and where its broker listens."""

    node: Node
    partition: Partition


class Held(Struct, frozen=True):
    """A partition as a consumer holds it, or is to hold it."""

    consumer: str
    group: str
    located: Located


def format_located(located: Located) -> str:
    """Return ``brokerId:host:port#topic:partitionId``."""
    return f"{format_broker(located.node)}#{located.partition.topic}:{located.partition.id}"


def parse_located(text: str) -> Located:
    """Read ``brokerId:host:port#topic:partitionId``."""
    what = "a partition (brokerId:host:port#topic:partitionId)"
    broker, rest = pair_of(text, "#", what, text)
    topic, partition_id = pair_of(rest, ":", what, text)
    node = parse_broker(broker)
    return Located(node, Partition(name_of(topic, what, text), number_of(partition_id, what, text), node.name))


def format_key(partition: Partition) -> str:
    """Return ``brokerId:topic:partitionId``."""
    return f"{partition.node}:{partition.topic}:{partition.id}"


def parse_key(text: str) -> Partition:
    """Read ``brokerId:topic:partitionId``."""
    what = "a partition key (brokerId:topic:partitionId)"
    parts = text.split(":")
    if len(parts) != 3:
        raise malformed(what, text)
    broker_id = str(number_of(parts[0], what, text))
    return Partition(name_of(parts[1], what, text), number_of(parts[2], what, text), broker_id)


def format_held(held: Held) -> str:
    """Return ``consumerId@group#brokerId:host:port#topic:partitionId``."""
    return f"{held.consumer}@{held.group}#{format_located(held.located)}"


def parse_held(text: str) -> Held:
    """Read ``consumerId@group#brokerId:host:port#topic:partitionId``."""
    what = "a subscription (consumer@group#broker#topic:partition)"
    who, hash_mark, rest = text.partition("#")
    consumer, group = pair_of(who, "@", what, text)
    if not hash_mark:
        raise malformed(what, text)
    return Held(name_of(consumer, what, text), name_of(group, what, text), parse_located(rest))


def format_failure(code: int, located: Located) -> str:
    """Return ``errCode:brokerId:host:port#topic:partitionId``."""
    return f"{code}:{format_located(located)}"


def parse_failure(text: str) -> tuple[int, Located]:
    """Read ``errCode:brokerId:host:port#topic:partitionId``."""
    code, colon, rest = text.partition(":")
    if not colon:
        raise malformed("a failed partition (errCode:broker#topic:partition)", text)
    return number_of(code, "a failed partition", text), parse_located(rest)


def format_required(offsets: Mapping[Partition, int]) -> str:
    """Return ``brokerId:topic:partitionId=offset,…``."""
    return ",".join(f"{format_key(partition)}={offset}" for partition, offset in offsets.items())


def parse_required(text: str) -> dict[Partition, int]:
    """Read ``brokerId:topic:partitionId=offset,…``; blank is empty."""
    what = "required partitions (key=offset,…)"
    found = {}
    for item in items_of(text):
        key, offset = pair_of(item, "=", what, text)
        found[parse_key(key.strip())] = number_of(offset, what, text, INT64)
    return found


def format_topic_holdings(topic: str, partitions: Iterable[Partition]) -> str:
    """Return ``topic#brokerId:partitionId,…``."""
    return f"{topic}#{','.join(f'{partition.node}:{partition.id}' for partition in partitions)}"


def parse_topic_holdings(text: str) -> list[Partition]:
    """Read ``topic#brokerId:partitionId,…``."""
    what = "held partitions (topic#brokerId:partitionId,…)"
    topic, rest = pair_of(text, "#", what, text)
    topic = name_of(topic, what, text)
    pairs = [pair_of(item, ":", what, text) for item in items_of(rest)]
    return [Partition(topic, number_of(number, what, text), str(number_of(node, what, text))) for node, number in pairs]


# Topics as strings: where they can be written, where they can be read, and with which filter.
class Placement(Struct, frozen=True):
    """How many stores a topic has on a broker, and partitions in each. ``status`` 1 may be read, 0 not; V2 only."""

    broker_id: int
    stores: int
    partitions: int
    status: int = 1


class Published(Struct, frozen=True):
    """Where a topic can be written; ``max_message_bytes`` None where the cluster's limit holds."""

    topic: str
    placements: tuple[Placement, ...]
    max_message_bytes: int | None = None


class Subscribable(Struct, frozen=True):
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


# What TubeMQ says in strings: brokers, partitions, subscriptions, topics, filters. Parsed strictly, formatted exactly.
#
# Separators are ``#`` between segments, ``:`` between parts, ``,`` in lists, ``@`` before a group, ``=`` before a
# value; names contain none of them. Whatever does not follow its format is a ProtocolViolation that quotes it. Source:
# Apache InLong TubeMQ 2.x, ``DataConverterUtil``, ``BrokerInfo``, ``Partition``, ``SubscribeInfo``.
#
# Partitions are ``model.Partition`` with the broker's id, in decimal, as ``node``; brokers are ``model.Node`` named so.

# What names may look like, and the sizes a message may have. Names are trimmed, as the servers do.
#
# Source: Apache InLong TubeMQ 2.x, ``TBaseConstants`` and ``PBParameterUtils``.
MAX_MESSAGE_BYTES: Final = 1 << 20
"""The clusters' default limit of body and attributes together; a topic's own limit may be up to 20 MiB."""

HEADER_ALLOWANCE_BYTES: Final = 10_240
"""A broker takes a payload that is this much larger than the limit."""

MAX_FILTER_ITEMS: Final = 500

_MAX_CLIENT_ID: Final = 1024
_MAX_GROUP: Final = 1024
_MAX_HOST: Final = 256
_MAX_TOPIC: Final = 64
_MAX_TOPICS: Final = 1024
_MAX_FILTER_ITEM: Final = 256

_TOPIC: Final = re.compile(r"[a-zA-Z]\w+", re.ASCII)
_GROUP: Final = re.compile(r"[a-zA-Z][\w-]+", re.ASCII)
_SEPARATORS: Final = re.compile(r"[#:,@=|;!]")


def check_topic(name: str) -> str:
    """Return a topic's name, trimmed. Raises UsageError."""
    name = _sized("topic", name, _MAX_TOPIC)
    if not _TOPIC.fullmatch(name):
        raise UsageError(f"topic {name!r} is no name", topic=name, hint="A letter, then letters, digits and _")
    return name


def check_topics(names: list[str]) -> list[str]:
    """Return the topics of one client, each once, in order. Raises UsageError."""
    topics = list(dict.fromkeys(map(check_topic, names)))
    if len(topics) > _MAX_TOPICS:
        raise UsageError(f"{len(topics)} topics; a client may have {_MAX_TOPICS}")
    return topics


def check_group(name: str) -> str:
    """Return a group's name, trimmed. Raises UsageError."""
    name = _sized("group", name, _MAX_GROUP)
    if not _GROUP.fullmatch(name):
        raise UsageError(f"group {name!r} is no name", hint="A letter, then letters, digits, _ and -")
    return name


def check_client_id(name: str) -> str:
    """Return a client's id, trimmed: it stands in strings before an @, so it has none of their separators."""
    name = _sized("client id", name, _MAX_CLIENT_ID)
    if found := _SEPARATORS.search(name):
        raise UsageError(f"client id {name!r} contains {found[0]!r}")
    return name


def check_host(name: str) -> str:
    """Return a client's host name, trimmed. Raises UsageError."""
    return _sized("host name", name, _MAX_HOST)


def check_filters(items: list[str]) -> list[str]:
    """Return a topic's filter items, trimmed, sorted, each once. Raises UsageError."""
    found = sorted({_sized("filter item", item, _MAX_FILTER_ITEM) for item in items})
    if len(found) > MAX_FILTER_ITEMS:
        raise UsageError(f"{len(found)} filter items; a topic may have {MAX_FILTER_ITEMS}")
    for item in found:
        if wrong := re.search("[#,=]", item):
            raise UsageError(f"filter item {item!r} contains {wrong[0]!r}")
    return found


def _sized(what: str, name: str, most: int) -> str:
    name = name.strip()
    if not name:
        raise UsageError(f"the {what} is empty")
    if len(name) > most:
        raise UsageError(f"the {what} has {len(name)} characters; {most} are allowed", hint=name[:80])
    return name


# How a topic's partitions on one broker are numbered: store number times 10,000, plus the number within the store.
#
# Source: Apache InLong TubeMQ 2.x, ``TBaseConstants.META_STORE_INS_BASE``. All partitions of a store share one sequence
# of offsets, 28 bytes of index a record.
STORE_BASE: Final = 10_000
INDEX_BYTES: Final = 28
"""What one record takes in its store's index: the step of offsets."""


def partition_ids(stores: int, partitions: int) -> list[int]:
    """Return the ids of ``stores`` stores with ``partitions`` each, in order.

    >>> partition_ids(2, 3)
    [0, 1, 2, 10000, 10001, 10002]
    """
    return [store * STORE_BASE + number for store in range(stores) for number in range(partitions)]


def store_of(partition_id: int) -> int:
    """Return the number of the store that holds a partition."""
    return partition_id // STORE_BASE


def within_store(partition_id: int) -> int:
    """Return a partition's number within its store."""
    return partition_id % STORE_BASE


def aligned(offset: int) -> int:
    """Return the largest offset up to ``offset`` at which an index record can begin."""
    return offset - offset % INDEX_BYTES


# Java's hash code of a text: filters are compared by it, and members share partitions out by it.
#
# Source: Java Language, ``String.hashCode``.
_INT32: Final = 0xFFFF_FFFF


def java_hash(text: str) -> int:
    """``String.hashCode`` as 32 unsigned bits.

    >>> java_hash("hello")
    99162322
    """
    found = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        found = (31 * found + (units[at] << 8 | units[at + 1])) & _INT32
    return found
