"""A group coordinator in memory: all members join each round. Partitions are dealt out in order; or, where the group is
``cooperative``, by Kafka's cooperative assignor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from penstock.errors import FencedError, ServerError
from penstock.groups.assignors import Subscriber
from penstock.groups.sticky_assignors import CooperativeStickyAssignor
from penstock.interfaces import Beat, Dropped, GroupOptions, Verdict
from penstock.interfaces.client import Membership
from penstock.model import Assignment, Committed, Partition


@dataclass(slots=True)
class FakeGroup:
    """``waiting`` are the members that have joined the round in progress."""

    committed: dict[Partition, Committed] = field(default_factory=dict)
    members: dict[str, frozenset[Partition]] = field(default_factory=dict)
    waiting: dict[str, tuple[frozenset[Partition], asyncio.Future[Assignment]]] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    generation: int = 0
    rebalancing: bool = False
    joins: int = 0
    cooperative: bool = False
    kept: dict[str, frozenset[Partition]] = field(default_factory=dict)

    def finish_round(self) -> None:
        """Deal out once every known member is waiting."""
        if not self.waiting or set(self.members) - set(self.waiting):
            return
        self.generation += 1
        names = sorted(self.waiting)
        everything = sorted(frozenset[Partition]().union(*(wanted for wanted, _ in self.waiting.values())))
        shares = {name: everything[place :: len(names)] for place, name in enumerate(names)}
        if self.cooperative:
            shares = self._shared(names, everything)
        for name in names:
            mine = frozenset(shares[name])
            self.members[name] = mine
            future = self.waiting[name][1]
            if not future.done():
                future.set_result(Assignment(self.generation, mine))
        self.waiting.clear()
        self.rebalancing = False

    def _shared(self, names: list[str], everything: list[Partition]) -> dict[str, list[Partition]]:
        topics = {each.topic: [other for other in everything if other.topic == each.topic] for each in everything}
        members = [
            Subscriber(name, frozenset(topics), owned=self.kept.get(name, frozenset()), generation=self.generation)
            for name in names
        ]
        return CooperativeStickyAssignor().assign(members, topics, {})


class FakeMembership(Membership):
    """``penstock.interfaces.Membership`` of a FakeGroup."""

    member_id: str = ""

    def __init__(
        self,
        group: FakeGroup,
        options: GroupOptions,
        partitions: Callable[[Collection[str]], Awaitable[frozenset[Partition]]],
        fault: Callable[[str], None],
    ) -> None:
        self._group = group
        self._options = options
        self._partitions = partitions
        self._fault = fault
        self._seen: frozenset[Partition] = frozenset()
        self.generation = -1

    @property
    def heartbeat_interval_s(self) -> float:
        return self._options.heartbeat_interval_ms / 1_000

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        return frozenset() if self._group.cooperative else frozenset(owned)

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        assert self._group.cooperative or not owned, "an eager member gives everything up first"
        self._fault("join")
        if owned and self.member_id not in self._group.members:
            self.member_id = ""
            raise Dropped("unknown member")
        if not self.member_id:
            self._group.joins += 1
            self.member_id = f"member-{self._group.joins}"
            if self._options.instance_id:
                self._group.members.pop(self._group.instances.get(self._options.instance_id, ""), None)
                self._group.instances[self._options.instance_id] = self.member_id
        self._seen = await self._partitions(topics)
        self._group.rebalancing = True
        self._group.members.setdefault(self.member_id, frozenset())
        future: asyncio.Future[Assignment] = asyncio.get_running_loop().create_future()
        self._group.kept[self.member_id] = frozenset(owned)
        self._group.waiting[self.member_id] = (self._seen, future)
        self._group.finish_round()
        assignment = await future
        self.generation = assignment.generation
        return assignment

    async def heartbeat(self) -> Beat:
        self._fault("heartbeat")
        self._check_identity()
        if self.member_id not in self._group.members:
            self.member_id = ""
            return Beat(Verdict.LOST, reason="unknown member")
        if self._group.rebalancing or self.generation != self._group.generation:
            return Beat(Verdict.REJOIN, reason="a member joined or left")
        return Beat(Verdict.STEADY)

    async def stale(self, topics: Collection[str]) -> bool:
        return await self._partitions(topics) != self._seen

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        self._fault("commit")
        self._check_identity()
        if self.member_id not in self._group.members or self.generation != self._group.generation:
            raise ServerError("not in this generation", code=22, name="ILLEGAL_GENERATION")
        self._group.committed.update(offsets)

    async def leave(self, reason: str) -> None:
        self._fault("leave")
        self._group.waiting.pop(self.member_id, None)
        if self._group.members.pop(self.member_id, None) is not None:
            self._group.rebalancing = True
        self.member_id = ""
        if self._group.members:
            self._group.finish_round()
        else:
            self._group.rebalancing = False

    def _check_identity(self) -> None:
        instance = self._options.instance_id
        if instance and self.member_id and self._group.instances[instance] != self.member_id:
            raise FencedError("another process has this instance id", code=82, name="FENCED_INSTANCE_ID")
