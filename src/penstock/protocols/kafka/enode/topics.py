"""Topics of the cluster as the enode shows them: names, ids, how many partitions, and the options that were set.

What is known is kept for as long as the client's metadata, so that a produce costs no question. What others do to a
topic is seen after that time, or sooner, where a request fails for it. What must not live here: records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from penstock._dataclasses import dataclass
from penstock.errors import PenstockError, TopicExists, UnknownTopic
from penstock.model import TopicInfo
from penstock.protocols.kafka.client import topic_admin
from penstock.protocols.kafka.enode.asking import Asking
from penstock.protocols.kafka.enode.options import TopicOptions
from penstock.protocols.kafka.enode.refusals import as_log_says
from penstock.seams.admin import NewTopic
from penstock.seams.enode import Place

__all__ = ["Topic", "Topics"]

_ABSENT_S: Final = 0.5
"""A name that is not there is not asked for again so soon: whoever asks for it may ask very often."""
_MOST_ABSENT: Final = 10_000
_LONGEST: Final = 249


@dataclass(frozen=True, slots=True)
class Topic:
    """``penstock.seams.enode.TopicState``; the same object as long as nothing changes."""

    name: str
    id: bytes
    partitions: int
    config: Mapping[str, str]


class Topics:
    """All that clients may see, which is what the cluster has."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._cluster = asking.cluster
        self._now = asking.cluster.calls.channel.monotonic
        self._options = TopicOptions(asking.cluster)
        self._states: dict[str, tuple[TopicInfo, Mapping[str, str], Topic]] = {}
        self._absent: dict[str, float] = {}

    async def find(self, name: str) -> Topic | None:
        """Raises UpstreamLost."""
        info = self._cluster.at_hand(name)
        if info is None:
            if not 0 < len(name) <= _LONGEST or self._now() < self._absent.get(name, 0.0):
                return None
            info = await self._asked(name)
        return None if info is None else await self._shown(info)

    async def by_id(self, topic_id: bytes) -> Topic | None:
        """Raises UpstreamLost."""
        name = self._cluster.topic_name(topic_id)
        if name is None:
            await self.all()
            name = self._cluster.topic_name(topic_id)
        found = None if name is None else await self.find(name)
        return found if found is not None and found.id == topic_id else None

    async def all(self) -> list[Topic]:
        """Raises UpstreamLost."""
        try:
            await self._asking.look_at_all()
            known = await self._cluster.topics(None)
            await self._options.learn(known)
        except PenstockError as error:
            raise as_log_says(error) from error
        self._states = {name: state for name, state in self._states.items() if name in known}
        return [self._state(info) for info in known.values()]

    async def places(self, name: str) -> Sequence[Place]:
        """Raises UpstreamLost."""
        if await self.find(name) is None:
            return ()
        info = self._cluster.at_hand(name)
        return [
            Place(each.leader_epoch, each.partition.id, None if each.leader is None else each.leader.name)
            for each in (() if info is None else info.partitions)
        ]

    # Changes.

    async def create(self, name: str, partitions: int, config: Mapping[str, str]) -> Topic:
        """With as many replicas as the cluster gives topics that do not say. Raises TopicExists and its kin."""
        if await self._asked(name) is not None:
            raise TopicExists("the topic already exists", topic=name)
        try:
            await topic_admin.create_topics(self._cluster, [NewTopic(name, partitions, config=config)])
        except PenstockError as error:
            raise _about(name, error) from error
        self._absent.pop(name, None)
        self._options.put(name, config)
        found = await self.find(name)
        if found is None:
            raise UnknownTopic("the topic was made, and is gone again", topic=name)
        return found

    async def delete(self, name: str) -> None:
        """Raises UnknownTopic, UpstreamLost."""
        try:
            await topic_admin.delete_topics(self._cluster, [name])
        except PenstockError as error:
            raise _about(name, error) from error
        self._options.forget(name)
        self._states.pop(name, None)

    async def grow(self, name: str, total: int) -> None:
        """Raises InvalidPartitionCount, UnknownTopic, UpstreamLost."""
        try:
            await topic_admin.add_partitions(self._cluster, name, total)
        except PenstockError as error:
            raise _about(name, error) from error

    async def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Raises InvalidTopicConfig, UnknownTopic, UpstreamLost."""
        try:
            await self._options.replace(name, config)
        except PenstockError as error:
            raise _about(name, error) from error

    # Inside.

    async def _asked(self, name: str) -> TopicInfo | None:
        try:
            await self._asking.look((name,))
        except PenstockError as error:
            raise as_log_says(error) from error
        info = self._cluster.at_hand(name)
        if info is None:
            if len(self._absent) >= _MOST_ABSENT:
                self._absent.clear()
            self._absent[name] = self._now() + _ABSENT_S
        return info

    async def _shown(self, info: TopicInfo) -> Topic:
        if not self._options.knows(info.name):
            try:
                await self._options.learn((info.name,))
            except PenstockError as error:
                if not self._options.has(info.name):
                    raise as_log_says(error) from error
        return self._state(info)

    def _state(self, info: TopicInfo) -> Topic:
        known, config = self._states.get(info.name), self._options.of(info.name)
        if known is not None and known[0] is info and known[1] is config:
            return known[2]
        topic_id = info.id or hashlib.md5(info.name.encode(), usedforsecurity=False).digest()
        made = Topic(info.name, topic_id, len(info.partitions), config)
        if known is not None and known[2] == made:
            made = known[2]
        self._states[info.name] = (info, config, made)
        return made


def _about(name: str, error: PenstockError) -> PenstockError:
    found = as_log_says(error)
    found.topic = name
    return found
