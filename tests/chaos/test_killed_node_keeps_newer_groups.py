"""A node killed with SIGKILL after each step of a rebalance: its newer groups are what members were told they are.

Members are requests over sockets, of both protocols in one group (KIP-848); the node is a process, its log in files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.protocols.kafka.wire.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from penstock.protocols.kafka.wire.consumer_protocol import read_assignment
from penstock.protocols.kafka.wire.groups import ConsumerGroupDescribeRequest
from penstock.protocols.kafka.wire.topics import CreateTopicsRequest, CreateTopicsRequestTopic
from penstock.testing import NodeProcess
from tests.interop.group_answers.asking import Asking, Member, asking
from tests.interop.group_answers.beaters import Beater
from tests.interop.group_answers.migrating import ALL, PARTITIONS, alone, rejoin
from tests.interop.wire import wired

pytestmark = pytest.mark.slow

Step = Callable[["Group"], Awaitable[None]]


class Group:
    """One node, one group: what its members hold, and how to ask for it after the node was killed."""

    def __init__(self, node: NodeProcess, topic: tuple[str, bytes]) -> None:
        self.node = node
        self.topic = topic
        self.newer: dict[str, int] = {}
        self.older: Member | None = None
        self.name = ""
        self.kills = 0

    def asked(self) -> Any:
        return asking(self.node.bootstrap, *self.topic)

    async def described(self) -> Any:
        async with wired(self.node.bootstrap) as wire:
            group = (await wire.ask(ConsumerGroupDescribeRequest(group_ids=[self.name]), 1)).groups[0]
        assert group.error_code == 0, group
        members = sorted(map(repr, group.members))
        return group.group_state, group.group_epoch, group.assignment_epoch, members

    async def kill(self) -> None:
        """The group is the same, and members go on in their epochs and in no other."""
        before = await self.described()
        await asyncio.to_thread(self._again)
        self.kills += 1
        assert await self.described() == before
        async with self.asked() as asked:
            asked.group = self.name
            for name, epoch in self.newer.items():
                await self._commits(Beater(asked, await asked.wire(), name, epoch=epoch), epoch)
            if self.older is not None:
                self.older = await asked.again(self.older)
                await self._commits(self.older, self.older.generation)
                assert (await self.older.heartbeat()).error_code in (0, 27)

    def _again(self) -> None:
        self.node.kill()
        self.node.start()

    async def _commits(self, who: Member | Beater, epoch: int) -> None:
        for given, accepted in ((epoch, True), (epoch + 1, False)):
            answer = await who.commit(100 * self.kills + epoch, 9, generation_id_or_member_epoch=given)
            code = answer.topics[0].partitions[0].error_code
            assert (code == 0) == accepted, (who.__class__, given, code)


def beats(name: str, owned: Sequence[int] | None = None, *, joins: bool = False, expect: Sequence[int] | None) -> Step:
    """A newer member's heartbeat, and the share it is told (None: as it was)."""

    async def step(group: Group) -> None:
        async with group.asked() as asked:
            asked.group = group.name
            one = Beater(asked, await asked.wire(), name, epoch=group.newer.get(name, 0))
            answer = await (one.join() if joins else one.beat(owned))
            assert answer.error_code == 0, answer
            told = answer.assignment and [n for part in answer.assignment.topic_partitions for n in part.partitions]
            assert told == (None if expect is None else [*expect])
            group.newer[name] = one.epoch

    return step


def older_joins(owned: Sequence[int], expect: Sequence[int]) -> Step:
    """The older member joins again, with what it still owns, and asks for its share."""

    async def step(group: Group) -> None:
        assert group.older is not None
        async with group.asked() as asked:
            asked.group = group.name
            group.older = await asked.again(group.older)
            assert (await rejoin(group.older, owned)).error_code == 0
            synced = await group.older.sync()
            assert synced.error_code == 0
            parts = read_assignment(synced.assignment).assigned_partitions
            assert [number for part in parts for number in part.partitions] == [*expect]

    return step


STEPS: Sequence[Step] = (
    beats("c", joins=True, expect=[]),
    older_joins(ALL, (0, 1, 2)),
    older_joins((0, 1, 2), (0, 1, 2)),
    beats("c", [], expect=(3, 4, 5)),
    beats("d", joins=True, expect=[]),
    beats("c", [3, 4, 5], expect=(3, 4)),
    beats("c", [3, 4], expect=None),
    beats("d", [], expect=(5,)),
    older_joins((0, 1, 2), (0, 1)),
    older_joins((0, 1), (0, 1)),
    beats("d", [5], expect=(2, 5)),
)


def test_members_go_on_in_the_epochs_that_they_were_told(tmp_path: Path) -> None:
    async def test(node: NodeProcess) -> None:
        group = Group(node, await _topic(node))
        async with group.asked() as asked:
            group.name = asked.group
            group.older = await alone(asked)
            await _give_options(asked)
        for step in STEPS:
            await step(group)
            await group.kill()
        assert (await group.described())[:3] == ("Stable", 3, 3)
        assert group.kills == len(STEPS)
        async with group.asked() as asked:
            asked.group = group.name
            answer = await Beater(asked, await asked.wire(), "c", epoch=group.newer["c"]).beat()
            assert answer.heartbeat_interval_ms == 7_000

    with NodeProcess(tmp_path, flush="os") as node:
        asyncio.run(asyncio.wait_for(test(node), 100))


async def _topic(node: NodeProcess) -> tuple[str, bytes]:
    wanted = CreateTopicsRequestTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
    async with wired(node.bootstrap) as wire:
        made = await wire.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=9_000), 7)
    return "t", bytes(made.topics[0].topic_id)


async def _give_options(asked: Asking) -> None:
    interval = IncrementalAlterConfigsRequestConfig(
        name="consumer.heartbeat.interval.ms", config_operation=0, value="7000"
    )
    resource = IncrementalAlterConfigsRequestResource(resource_type=32, resource_name=asked.group, configs=[interval])
    answer = await (await asked.wire()).ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0
