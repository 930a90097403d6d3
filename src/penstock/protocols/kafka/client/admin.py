"""KafkaAdmin: topics and groups as operators see them. It only puts the parts together.

What changes groups is imported when it is first used: who lists topics does not wait for its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from penstock.model import Committed, Partition, TopicInfo
from penstock.protocols.kafka.client import group_admin, group_descriptions, topic_admin
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.committing import commit, committed
from penstock.protocols.kafka.client.coordinator import Coordinator
from penstock.seams.admin import GroupDescription, GroupDescriptions, GroupListing, NewTopic, TopicSetting
from penstock.seams.rebalances import Rebalance

__all__ = ["KafkaAdmin"]


class KafkaAdmin:
    """``penstock.seams.admin.AdminClient``. Everything raises ServerError, ConnectionLost, RequestTimeout."""

    def __init__(self, cluster: Cluster, coordinator_of: Callable[[str], Coordinator]) -> None:
        self._cluster = cluster
        self._coordinator_of = coordinator_of

    async def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create all; returns when they can be written to."""
        await topic_admin.create_topics(self._cluster, topics)

    async def delete_topics(self, names: Collection[str]) -> None:
        """Delete all, with their records."""
        await topic_admin.delete_topics(self._cluster, names)

    async def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to ``total`` partitions."""
        await topic_admin.add_partitions(self._cluster, name, total)

    async def topics(self, names: Collection[str] | None = None, *, fresh: bool = True) -> Mapping[str, TopicInfo]:
        """Topics by name; None: all."""
        return await self._cluster.topics(names, fresh=fresh)

    async def topic_config(self, name: str) -> Mapping[str, str]:
        """Every setting of a topic."""
        return await topic_admin.topic_config(self._cluster, name)

    async def describe_topic_config(self, name: str) -> Mapping[str, TopicSetting]:
        """Every setting of a topic, with its default and its source."""
        return await topic_admin.describe_topic_config(self._cluster, name)

    async def alter_topic_config(self, name: str, settings: Mapping[str, str | None], *, dry_run: bool) -> None:
        """Change some settings; brokers before Kafka 2.3 cannot."""
        await topic_admin.alter_topic_config(self._cluster, name, settings, dry_run=dry_run)

    async def delete_records(self, before: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """Delete records below an offset; returns where each log begins then."""
        return await topic_admin.delete_records(self._cluster, before)

    async def groups(self) -> Sequence[GroupListing]:
        """All groups of the cluster."""
        return await group_admin.list_groups(self._cluster)

    async def describe_group(self, group: str) -> GroupDescription:
        """One group and its members."""
        return await group_descriptions.describe_group(self._cluster, group)

    async def describe_groups(self, groups: Collection[str]) -> GroupDescriptions:
        """Many groups, by one request or two for each two hundred of a coordinator's."""
        return await group_descriptions.describe_groups(self._cluster, groups)

    async def rebalances(self, group: str) -> Sequence[Rebalance] | None:
        """What a node of ours remembers of the group; None from any other broker."""
        return await group_admin.rebalances(self._coordinator_of(group))

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        """Committed offsets of some partitions; None: of all."""
        return await committed(self._coordinator_of(group), partitions)

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        """Set a group's offsets; refused while it has members."""
        await commit(self._coordinator_of(group), offsets)

    async def delete_groups(self, groups: Collection[str]) -> None:
        """Delete groups without members; stops at the first that cannot be."""
        from penstock.protocols.kafka.client import group_changes

        for group in groups:
            await group_changes.delete_group(self._coordinator_of(group))

    async def delete_offsets(self, group: str, partitions: Collection[Partition]) -> None:
        """Forget committed offsets, but for topics that members read."""
        from penstock.protocols.kafka.client import group_changes

        await group_changes.delete_offsets(self._coordinator_of(group), partitions)

    async def remove_members(self, group: str, instance_ids: Collection[str], *, reason: str) -> None:
        """Throw static members out."""
        from penstock.protocols.kafka.client import group_changes

        await group_changes.remove_members(self._coordinator_of(group), instance_ids, reason)

    async def remove_all_members(self, group: str, *, reason: str) -> None:
        """Throw out who is there."""
        from penstock.protocols.kafka.client import group_changes

        await group_changes.remove_all_members(self._coordinator_of(group), reason)
