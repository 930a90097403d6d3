"""The AdminClient of a FakeLog."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING

from penstock.errors import ErrorKind, ServerError, UsageError
from penstock.interfaces import GroupDescription, GroupListing, GroupMember, NewTopic, TopicSetting
from penstock.interfaces.admin import AdminClient
from penstock.model import Committed, Partition, TopicInfo
from tests.conformance.fake_group import FakeGroup

if TYPE_CHECKING:
    from tests.conformance.fake_log import FakeClient


class FakeAdmin(AdminClient):
    """``penstock.interfaces.AdminClient``."""

    def __init__(
        self, client: FakeClient, topics: MutableMapping[str, int], groups: MutableMapping[str, FakeGroup]
    ) -> None:
        self._client = client
        self._topics = topics
        self._groups = groups

    async def create_topics(self, topics: Sequence[NewTopic]) -> None:
        for topic in topics:
            if topic.name in self._topics:
                raise ServerError("there already", code=36, name="X", kind=ErrorKind.TOPIC_EXISTS, topic=topic.name)
            self._topics[topic.name] = max(topic.partitions, 1)

    async def delete_topics(self, names: Collection[str]) -> None:
        for name in names:
            self._find(name)
            del self._topics[name]

    async def add_partitions(self, name: str, total: int) -> None:
        self._find(name)
        self._topics[name] = total

    async def topics(self, names: Collection[str] | None = None, *, fresh: bool = True) -> Mapping[str, TopicInfo]:
        return await self._client.topics(names, fresh=fresh)

    async def topic_config(self, name: str) -> Mapping[str, str]:
        self._find(name)
        return {}

    async def describe_topic_config(self, name: str) -> Mapping[str, TopicSetting]:
        raise NotImplementedError

    async def alter_topic_config(self, name: str, settings: Mapping[str, str | None], *, dry_run: bool) -> None:
        raise NotImplementedError

    async def delete_records(self, before: Mapping[Partition, int]) -> Mapping[Partition, int]:
        return dict(before)

    async def groups(self) -> Sequence[GroupListing]:
        return [GroupListing(name, _state(group), "consumer") for name, group in self._groups.items()]

    async def describe_group(self, group: str) -> GroupDescription:
        if group not in self._groups:
            return GroupDescription(group, "Dead", "", None, ())
        found = self._groups[group]
        members = [GroupMember(name, None, "", "", owned) for name, owned in found.members.items()]
        return GroupDescription(group, _state(found), "fake", None, tuple(members))

    async def rebalances(self, group: str) -> None:
        """Nobody remembers them."""

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        return await self._client.committed(group, partitions)

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        await self._client.commit(group, offsets)

    async def delete_groups(self, groups: Collection[str]) -> None:
        for group in groups:
            if self._groups[group].members:
                raise ServerError("it has members", code=68, name="NON_EMPTY_GROUP")
            del self._groups[group]

    async def delete_offsets(self, group: str, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._groups[group].committed.pop(partition, None)

    async def remove_members(self, group: str, instance_ids: Collection[str], *, reason: str) -> None:
        raise UsageError("this log cannot remove members")

    async def remove_all_members(self, group: str, *, reason: str) -> None:
        raise UsageError("this log cannot remove members")

    def _find(self, name: str) -> None:
        if name not in self._topics:
            raise ServerError("no such topic", code=3, name="UNKNOWN_TOPIC_OR_PARTITION", topic=name)


def _state(group: FakeGroup) -> str:
    return "Stable" if group.members else "Empty"
