"""Partitions as strings: where they are (``broker#topic:id``), their keys (``brokerId:topic:id``), who holds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock._dataclasses import dataclass
from penstock.model import Node, Partition
from penstock.protocols.tubemq.strings.brokers import format_broker, parse_broker
from penstock.protocols.tubemq.strings.parts import INT64, items_of, malformed, name_of, number_of, pair_of

__all__ = [
    "Held",
    "Located",
    "format_failure",
    "format_held",
    "format_key",
    "format_located",
    "format_required",
    "format_topic_holdings",
    "parse_failure",
    "parse_held",
    "parse_key",
    "parse_located",
    "parse_required",
    "parse_topic_holdings",
]


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
