"""What is read: topics by name, topics by pattern, or single partitions. Pure; topics come in as an argument.

What must not live here: from where to where (``_starts``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping

from penstock._dataclasses import dataclass
from penstock.errors import ConfigError, UsageError
from penstock.model import Partition, TopicInfo
from penstock.spark._offsets import partition_of

__all__ = ["Subscription", "parse_subscription"]

_WAYS = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Subscription:
    """Exactly one of the three is not empty."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: frozenset[Partition] = frozenset()

    @property
    def names(self) -> Collection[str] | None:
        """Topics to ask a log about; None: all."""
        return None if self.pattern else self.topics or sorted({partition.topic for partition in self.assigned})

    def leaders(self, found: Mapping[str, TopicInfo]) -> dict[Partition, str]:
        """Of the topics ``found`` the partitions to read, with the name of each one's leader ("" while there is none).

        A pattern matches no internal topic, as in Kafka's consumer.
        """
        pattern = re.compile(self.pattern)
        topics = (each for each in found.values() if not self.pattern or _matches(pattern, each))
        return {
            info.partition: info.leader.name if info.leader else ""
            for topic in topics
            for info in topic.partitions
            if not self.assigned or info.partition in self.assigned
        }

    def wants(self, partition: Partition) -> bool:
        """Whether it would be read if it existed."""
        if self.pattern:
            return re.compile(self.pattern).fullmatch(partition.topic) is not None
        return partition in self.assigned if self.assigned else partition.topic in self.topics

    def check_all_exist(self, found: Collection[Partition]) -> None:
        """Raise UsageError for a topic or partition that is named but does not exist."""
        absent = sorted(set(self.topics) - {partition.topic for partition in found})
        gone = sorted(set(self.assigned) - set(found))
        if absent or gone:
            what = f"topic {absent[0]}" if absent else f"partition {gone[0]}"
            raise UsageError(f"{what} does not exist", hint="Create it first, or correct the name")

    def __str__(self) -> str:
        return self.pattern or ",".join(self.topics) or ",".join(map(str, sorted(self.assigned)))


def parse_subscription(options: Mapping[str, str], in_address: tuple[str, ...]) -> Subscription:
    """From the options and the topics of the address. Raises ConfigError unless exactly one of them names topics."""
    given = [name for name in _WAYS if options.get(name)] + (["the address's topics"] if in_address else [])
    if len(given) > 1:
        raise ConfigError(f"topics are named twice: {' and '.join(given)}", hint="Keep one of them")
    if not given:
        raise ConfigError(
            "no topic is named",
            hint="Put it into the address (kafka://host:port/topic), or set subscribe, subscribePattern or assign",
        )
    if options.get("assign"):
        return Subscription(assigned=_assigned(options["assign"]))
    if options.get("subscribePattern"):
        return Subscription(pattern=_pattern(options["subscribePattern"]))
    topics = in_address or tuple(filter(None, (name.strip() for name in options["subscribe"].split(","))))
    if not topics:
        raise ConfigError(f"subscribe = '{options['subscribe']}' names no topic")
    return Subscription(topics=tuple(dict.fromkeys(topics)))


def _matches(pattern: re.Pattern[str], topic: TopicInfo) -> bool:
    return not topic.internal and pattern.fullmatch(topic.name) is not None


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(
            f"subscribePattern = {text[:120]} is not a regular expression: {error}",
            hint="Use Python's syntax, which is Java's except for classes like \\p{Alpha}",
        ) from None
    return text


def _assigned(text: str) -> frozenset[Partition]:
    """Parse ``{"topicA": [0, 1], "topicB": [2]}``."""
    try:
        tree = json.loads(text)
        found = {partition_of(topic, str(number)) for topic, numbers in tree.items() for number in numbers}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ConfigError(f"assign = {text[:120]} is not understood: {error}", hint='Write {"topic": [0, 1]}') from None
    if not found:
        raise ConfigError("assign names no partition", hint='Write {"topic": [0, 1]}')
    return frozenset(found)
