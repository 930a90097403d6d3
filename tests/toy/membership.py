"""A member of a toy group: it tells every node that it is there, and works out by itself what it reads.

It looks anew when a node sends a notice that members came or went, and every ``SHARE_EVERY_S``: notices get lost.
Until both have looked, two members may read one partition, as with RocketMQ: nobody hands partitions out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.interfaces import Beat, GroupOptions, Verdict
from penstock.interfaces.client import Membership
from penstock.model import Assignment, Committed, Node, Partition
from tests.toy.dialect import Said
from tests.toy.sharing import share_of

if TYPE_CHECKING:
    from tests.toy.client import ToyClient

SHARE_EVERY_S = 0.5


class ToyMembership(Membership):
    heartbeat_interval_s = 0.05
    member_id: str = ""

    def __init__(self, client: ToyClient, options: GroupOptions) -> None:
        self._client = client
        if options.instance_id is not None:
            raise ConfigError("group_instance_id is set, but a toy's members have no names of their own")
        self._group = options.group
        self.member_id = f"toy-{client.channel.random()}"
        self._topics: list[str] = []
        self._owns: frozenset[Partition] = frozenset()
        self._looked_at = 0.0

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        return frozenset()

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        self._topics = sorted(topics)
        self._owns = await self._share(await self._beat())
        return Assignment(1, self._owns)

    async def heartbeat(self) -> Beat:
        members = await self._beat()
        noticed = self._group in self._client.dialect.noticed
        if not noticed and self._client.channel.monotonic() < self._looked_at + SHARE_EVERY_S:
            return Beat(Verdict.STEADY)
        before, self._owns = self._owns, await self._share(members)
        return Beat(Verdict.STEADY, revoked=before - self._owns, assigned=self._owns - before)

    async def stale(self, topics: Collection[str]) -> bool:
        return False

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        await self._client.commit(self._group, offsets)

    async def leave(self, reason: str) -> None:
        said = {"do": "leave", "group": self._group, "member": self.member_id}
        await self._client.channel.gather([self._client.ask(node, said, lane="group") for node in self._client.nodes])

    async def _beat(self) -> Mapping[str, Collection[str]]:
        """The members that the nodes know, and their topics. Raises what went wrong where no node answered."""
        nodes = self._client.nodes or await self._client.routes()
        owns = [[at.topic, at.id, at.node] for at in sorted(self._owns)]
        said = {"do": "beat", "group": self._group, "member": self.member_id, "topics": self._topics, "owns": owns}

        async def one(node: Node) -> Said:
            link = await self._client.channel.reach(node.endpoint, "group", within_s=1.0)
            del link  # a node that is away must not keep the heartbeats from the others
            answer, _ = await self._client.ask(node, said, lane="group")
            return answer

        members: dict[str, Collection[str]] = {self.member_id: self._topics}
        answers = await self._client.channel.gather([one(node) for node in nodes])
        for answer in answers:
            if isinstance(answer, dict):
                members |= {name: member["topics"] for name, member in answer["members"].items()}
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        if failures and len(failures) == len(nodes):
            raise failures[0]
        return members

    async def _share(self, members: Mapping[str, Collection[str]]) -> frozenset[Partition]:
        self._client.dialect.noticed.discard(self._group)
        self._looked_at = self._client.channel.monotonic()
        topics = await self._client.topics(self._topics, fresh=True)
        partitions = [info.partition for topic in topics.values() for info in topic.partitions]
        return share_of(self.member_id, members, partitions)
