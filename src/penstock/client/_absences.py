"""What a consumer wants to read and the servers do not have: said once that has lasted, instead of silence.

A topic may come at any time, and so may a server whose partitions go with it: their absence is a warning. A number of
a partition that its topic has not is an error.
What must not live here: asking again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from penstock.client._topics import Topics
from penstock.config.logs import ClientLog
from penstock.errors import UsageError
from penstock.model import Partition, TopicInfo

__all__ = ["Absences"]

_LOOK_AGAIN_S: Final = 1.0

_LASTING_S: Final = 2.0
"""A new topic takes as long to be known everywhere; a new partition, too."""


class Absences:
    """Looked at after each answer about topics. ``failed`` is called with what the next poll shall raise."""

    def __init__(self, log: ClientLog, failed: Callable[[BaseException], None]) -> None:
        self._log = log
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._since: dict[str | Partition, float] = {}
        self._told: set[str | Partition] = set()

    def renewed(self, topics: Topics, partitions: Collection[Partition]) -> None:
        """Topics were asked for: warn of those that are away, fail for a partition that its topic has not."""
        wrong = self._look(topics.wanted, partitions, topics.known, self._loop.time())
        if wrong is not None:
            self._failed(wrong)
        elif len(self._told) < len(self._since):
            self._loop.call_later(_LOOK_AGAIN_S, topics.refresh)

    def _look(
        self, topics: Collection[str], partitions: Collection[Partition], known: Mapping[str, TopicInfo], now: float
    ) -> UsageError | None:
        absent: set[str | Partition] = {topic for topic in topics if topic not in known}
        absent.update(each for each in partitions if each.topic in known and not _has(known[each.topic], each))
        self._since = {each: self._since.get(each, now) for each in absent}
        self._told &= absent
        lasting = sorted((each for each in absent - self._told if now - self._since[each] >= _LASTING_S), key=str)
        self._told.update(lasting)
        for topic in lasting:
            if isinstance(topic, str):
                self._log.warning("the servers know no topic %s; it will be read once it is there", topic)
            elif not _is_there(known[topic.topic], topic.node):
                self._log.warning("%s has gone; partition %s will be read once it is back", topic.node, topic)
        wrong = next(
            (each for each in lasting if isinstance(each, Partition) and _is_there(known[each.topic], each.node)), None
        )
        if wrong is None:
            return None
        last = len(known[wrong.topic].partitions) - 1
        return UsageError(
            f"there is no partition {wrong.id}",
            topic=wrong.topic,
            hint=f"The topic has partitions 0 to {last}: assign one of them",
        )


def _has(topic: TopicInfo, partition: Partition) -> bool:
    """A topic of which nothing else is known yet may have any."""
    return not topic.partitions or any(info.partition == partition for info in topic.partitions)


def _is_there(topic: TopicInfo, node: str) -> bool:
    """Whether this server has anything of the topic, where partitions have a server's name."""
    return not node or any(info.partition.node == node for info in topic.partitions)
