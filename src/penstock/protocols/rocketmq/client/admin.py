"""Administration of topics and groups; every broker is asked, and the results are combined.

A topic's ``partitions`` are its queues at all brokers together, spread evenly; without a number each broker gets four.
Of groups without members, brokers keep committed offsets and settings.
Source: Apache RocketMQ 4.9 and 5.4, ``DefaultMQAdminExtImpl``, ``AdminBrokerProcessor``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.errors import ErrorKind, ServerError, UsageError
from penstock.interfaces.admin import (
    AdminClient,
    GroupDescription,
    GroupListing,
    GroupListings,
    GroupMember,
    NewTopic,
    TopicSetting,
)
from penstock.interfaces.channel import Retry
from penstock.model import Committed, Node, Partition, TopicInfo
from penstock.protocols.rocketmq.client.membership import rule_of
from penstock.protocols.rocketmq.client.offsets import commit_for, committed
from penstock.protocols.rocketmq.config import RETRY, check_topic
from penstock.protocols.rocketmq.errors import Code, error_of
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import MAX_FRAME_BYTES
from penstock.protocols.rocketmq.wire.rpc import (
    DELETE_SUBSCRIPTIONGROUP,
    DELETE_TOPIC_IN_BROKER,
    DELETE_TOPIC_IN_NAMESRV,
    GET_ALL_CONSUMER_OFFSET,
    GET_CONSUMER_CONNECTION_LIST,
    UPDATE_AND_CREATE_TOPIC,
)

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.shared import Shared

__all__ = ["RocketAdmin"]

_QUEUES: Final = 4
_SEEN_WITHIN_MS: Final = 10_000


class RocketAdmin(AdminClient):
    """RocketMQ's administration (``penstock.interfaces.admin.AdminClient``)."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create topics with queues spread over all masters. Existing topics are an error, though brokers allow it."""
        for topic in topics:
            check_topic(topic.name)
            if topic.config:
                raise UsageError("topics of RocketMQ are not configured when they are made", topic=topic.name)
            if await self.topics([topic.name]):
                raise error_of(Code.TOPIC_EXIST_ALREADY, topic=topic.name)
        for topic in topics:
            await self._deal(topic.name, topic.partitions, {})

    async def delete_topics(self, names: Collection[str]) -> None:
        """Delete topics at every broker and every name server."""
        nodes = await self._shared.topics.brokers()
        for name in names:
            if not await self.topics([name]):
                raise error_of(Code.TOPIC_NOT_EXIST, "no name server knows it", topic=name)
            header = m.OfTopic(topic=name)
            calls = self._shared.calls
            await self._shared.together([calls.call(node.endpoint, DELETE_TOPIC_IN_BROKER, header) for node in nodes])
            servers = self._shared.names.all
            await self._shared.together([calls.call(each, DELETE_TOPIC_IN_NAMESRV, header) for each in servers])
            self._shared.topics.routes.note(name, None)

    async def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to ``total`` queues at all brokers together; the brokers with the fewest get more."""
        route = (await self.topics([name])).get(name)
        if route is None:
            raise error_of(Code.TOPIC_NOT_EXIST, "no name server knows it", topic=name)
        has = Counter(each.partition.node for each in route.partitions)
        if total <= has.total():
            raise UsageError(f"the topic has {has.total()} queues already", topic=name)
        await self._deal(name, total, has)

    async def topics(self, names: Collection[str] | None = None, *, fresh: bool = True) -> Mapping[str, TopicInfo]:
        """Topics as name servers know them."""
        return await self._shared.topics.topics(names, fresh=fresh)

    async def topic_config(self, name: str) -> Mapping[str, str]:
        """How many queues of the topic each broker has."""
        info = (await self.topics([name])).get(name)
        if info is None:
            raise error_of(Code.TOPIC_NOT_EXIST, "no name server knows it", topic=name)
        found: dict[str, int] = {}
        for each in info.partitions:
            found[each.partition.node] = found.get(each.partition.node, 0) + 1
        return {f"queues.{node}": str(count) for node, count in found.items()}

    async def describe_topic_config(self, name: str) -> Mapping[str, TopicSetting]:
        """As `topic_config`: brokers report neither defaults nor where a value comes from."""
        return {setting: TopicSetting(value) for setting, value in (await self.topic_config(name)).items()}

    async def alter_topic_config(self, name: str, settings: Mapping[str, str | None], *, dry_run: bool) -> None:
        """Raises UsageError: topics have only queues and permissions."""
        del settings, dry_run
        raise UsageError(
            "RocketMQ's topics have no settings but queues and permissions",
            topic=name,
            hint="`penstock topics grow` adds queues; `mqadmin updateTopicPerm` changes permissions",
        )

    async def delete_records(self, before: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """Raises UsageError: brokers delete by age only."""
        del before
        raise UsageError("RocketMQ deletes no records on request", hint="Its brokers delete by age: fileReservedTime")

    async def groups(self) -> Sequence[GroupListing]:
        """All groups with committed offsets."""
        nodes = await self._shared.topics.brokers()
        calls = self._shared.calls
        asked = [calls.call(node.endpoint, GET_ALL_CONSUMER_OFFSET, m.NoFields(), within_s=3.0) for node in nodes]
        names: set[str] = set()
        unreachable: list[Node] = []
        for node, outcome in zip(nodes, await self._shared.channel.gather(asked), strict=True):
            if isinstance(outcome, BaseException):
                unreachable.append(node)
                continue
            table = m.read_body(m.ConsumerOffsets, outcome.body, max_bytes=MAX_FRAME_BYTES).offset_table
            names |= {name.partition("@")[2] for name in table}
        listed = [GroupListing(name, (await self.describe_group(name)).state, "consumer") for name in sorted(names)]
        return GroupListings(listed, unreachable)

    async def rebalances(self, group: str) -> None:
        """None: brokers keep no history of rebalances."""

    async def describe_group(self, group: str) -> GroupDescription:
        """A group's members, as brokers know them. Which queues a member has, only members know; the result is computed
        from the list of members with this client's ``allocation``."""
        header = m.OfGroup(consumer_group=group)
        members: dict[str, str] = {}
        topics: set[str] = set()
        for node in await self._shared.topics.brokers():
            answer = await self._shared.calls.call(
                node.endpoint, GET_CONSUMER_CONNECTION_LIST, header, accept=(Code.SUCCESS, Code.CONSUMER_NOT_ONLINE)
            )
            if answer.code == Code.SUCCESS:
                said = m.read_body(m.ConsumerConnection, answer.body)
                members |= {each.client_id: each.client_addr or "" for each in said.connection_set}
                topics |= {topic for topic in said.subscription_table if not topic.startswith(RETRY)}
        if not members:
            known = await committed(self._shared, group, None)
            return GroupDescription(group, "Empty" if known else "Dead", "", None, ())
        shares = await self._shares(sorted(members), topics)
        described = (GroupMember(name, None, name, members[name], shares[name]) for name in sorted(members))
        return GroupDescription(group, "Stable", self._shared.options.rocket.allocation.value, None, tuple(described))

    async def _shares(self, members: Sequence[str], topics: Collection[str]) -> Mapping[str, frozenset[Partition]]:
        rule = rule_of(self._shared.options.rocket.allocation, self._shared.options.rocket.rooms)
        infos = (await self.topics(topics)).values() if topics else ()
        queues = [[each.partition for each in info.partitions] for info in infos]
        return {name: frozenset(each for those in queues for each in rule(name, members, those)) for name in members}

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        """A group's committed offsets."""
        return await committed(self._shared, group, partitions)

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        """Commit for a group; running members continue where they are."""
        await commit_for(self._shared, group, offsets)

    async def delete_groups(self, groups: Collection[str]) -> None:
        """Delete groups with their offsets. Raises ServerError for a group that has members or does not exist."""
        nodes = await self._shared.topics.brokers()
        for group in groups:
            described = await self.describe_group(group)
            if described.members:
                raise ServerError(
                    f"group {group} has members", code=1, name="GROUP_HAS_MEMBERS", hint="Stop them first"
                )
            if described.state == "Dead":
                raise error_of(Code.SUBSCRIPTION_GROUP_NOT_EXIST, f"no broker knows group {group}")
            header = m.DeleteGroup(group_name=group, clean_offset=True, remove_offset=True)
            calls = self._shared.calls
            await self._shared.together([calls.call(node.endpoint, DELETE_SUBSCRIPTIONGROUP, header) for node in nodes])

    async def delete_offsets(self, group: str, partitions: Collection[Partition]) -> None:
        """Raises UsageError: brokers can only delete a whole group."""
        raise UsageError(
            f"RocketMQ's brokers forget nothing less than all offsets of group {group}",
            hint="Delete the group, or reset its offsets in these queues",
        )

    async def remove_members(self, group: str, instance_ids: Collection[str], *, reason: str) -> None:
        """Raises UsageError: brokers cannot remove members."""
        raise _cannot_remove(group)

    async def remove_all_members(self, group: str, *, reason: str) -> None:
        """Raises UsageError: brokers cannot remove members."""
        raise _cannot_remove(group)

    async def _deal(self, topic: str, total: int, has: Mapping[str, int]) -> None:
        """Spread ``total`` queues of a topic over the brokers, which have ``has``; wait until a name server knows."""
        nodes = {node.name: node for node in await self._shared.topics.brokers()}
        wanted = Counter(has)
        if total < 1:
            wanted = Counter(dict.fromkeys(nodes, _QUEUES))
        while wanted.total() < total and nodes:
            wanted[min(nodes, key=lambda name: (wanted[name], name))] += 1
        await self._shared.together(
            [
                self._put(node, topic, wanted[name])
                for name, node in nodes.items()
                if wanted[name] > has.get(name, 0)
            ]
        )  # fmt: skip
        retry = Retry(self._shared.channel, self._shared.options, timeout_ms=_SEEN_WITHIN_MS)
        while True:
            info = (await self.topics([topic])).get(topic)
            if info is not None and len(info.partitions) >= wanted.total():
                return
            error = ServerError(
                "brokers have the topic, but not all name servers", code=Code.TOPIC_NOT_EXIST, name="TOPIC_NOT_EXIST",
                kind=ErrorKind.UNKNOWN_TOPIC, retriable=True, topic=topic,
            )  # fmt: skip
            await retry.after(error)

    async def _put(self, node: Node, topic: str, queues: int) -> None:
        """Create queues at one broker. The request names it, or else a Snode would forward it to all brokers."""
        header = m.CreateTopic(topic=topic, read_queue_nums=queues, write_queue_nums=queues, broker_name=node.name)
        await self._shared.calls.call(node.endpoint, UPDATE_AND_CREATE_TOPIC, header)


def _cannot_remove(group: str) -> UsageError:
    return UsageError(
        f"RocketMQ's brokers cannot remove members from group {group}",
        hint="Stop the members' processes: brokers forget a silent one after two minutes",
    )
