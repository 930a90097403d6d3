"""Topics and groups of the toy: what a node knows is asked of every node, and put together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import UsageError
from penstock.interfaces import GroupDescription, GroupListing, GroupMember, NewTopic, TopicSetting
from penstock.interfaces.admin import AdminClient
from penstock.model import Committed, Partition, TopicInfo

if TYPE_CHECKING:
    from tests.toy.client import ToyClient


class ToyAdmin(AdminClient):
    """``partitions`` are of each node, as RocketMQ's queues are."""

    def __init__(self, client: ToyClient) -> None:
        self._client = client

    async def create_topics(self, topics: Sequence[NewTopic]) -> None:
        for topic in topics:
            await self._everywhere({"do": "create", "topic": topic.name, "partitions": max(1, topic.partitions)})

    async def delete_topics(self, names: Collection[str]) -> None:
        for name in names:
            await self._everywhere({"do": "delete", "topic": name})

    async def add_partitions(self, name: str, total: int) -> None:
        await self._everywhere({"do": "grow", "topic": name, "partitions": total})

    async def topics(self, names: Collection[str] | None = None, *, fresh: bool = True) -> Mapping[str, TopicInfo]:
        return await self._client.topics(names, fresh=fresh)

    async def topic_config(self, name: str) -> Mapping[str, str]:
        return {}

    async def describe_topic_config(self, name: str) -> Mapping[str, TopicSetting]:
        return {}

    async def alter_topic_config(self, name: str, settings: Mapping[str, str | None], *, dry_run: bool) -> None:
        raise UsageError("the toy has no settings")

    async def delete_records(self, before: Mapping[Partition, int]) -> Mapping[Partition, int]:
        raise UsageError("the toy deletes no records")

    async def groups(self) -> Sequence[GroupListing]:
        known = await self._groups()
        return [GroupListing(name, "Stable" if members else "Empty", "toy") for name, members in known.items()]

    async def describe_group(self, group: str) -> GroupDescription:
        known = await self._groups()
        if group not in known:
            return GroupDescription(group, "Dead", "", None, ())
        members = tuple(
            GroupMember(name, None, "", "", frozenset(Partition(*each) for each in member["owns"]))
            for name, member in known[group].items()
        )
        return GroupDescription(group, "Stable" if members else "Empty", "averagely", None, members)

    async def rebalances(self, group: str) -> None:
        """Nobody remembers them."""

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        return await self._client.committed(group, partitions)

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        await self._client.commit(group, offsets)

    async def delete_groups(self, groups: Collection[str]) -> None:
        for group in groups:
            await self._everywhere({"do": "forget", "group": group})

    async def delete_offsets(self, group: str, partitions: Collection[Partition]) -> None:
        raise UsageError("the toy forgets whole groups only")

    async def remove_members(self, group: str, instance_ids: Collection[str], *, reason: str) -> None:
        raise UsageError("the toy cannot remove members")

    async def remove_all_members(self, group: str, *, reason: str) -> None:
        raise UsageError("the toy cannot remove members")

    async def _groups(self) -> dict[str, dict[str, Any]]:
        known: dict[str, dict[str, Any]] = {}
        for answer in await self._everywhere({"do": "groups"}):
            for name, members in answer["groups"].items():
                known.setdefault(name, {}).update(members)
        return known

    async def _everywhere(self, said: dict[str, Any]) -> list[dict[str, Any]]:
        return [(await self._client.ask(node, said))[0] for node in await self._client.routes()]
