"""Members of ours and the coordinator of our node, by seeds: requests and answers get lost, members come, go and die.

Whatever happens, no member holds what the coordinator does not count as its own, so that nobody else has it; and when
trouble is over, everything is held by somebody. Both machines are the real ones; an engine is played by a few lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
from typing import Any

import pytest

from penstock.errors import PenstockError, ProtocolViolation
from penstock.interfaces import GroupOptions, Verdict
from penstock.interfaces.client import Dropped
from penstock.model import Partition
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.connecting import TransportOptions
from penstock.protocols.kafka.client.client import KafkaClient, open_client
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.client.consumer_member import KafkaEpochMembership, State
from penstock.protocols.kafka.client.coordinator import Coordinator
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import Leaver
from penstock.protocols.kafka.groups.classic_transitions import Moment
from penstock.protocols.kafka.groups.consumer_coordinator import ConsumerCoordinator
from penstock.protocols.kafka.groups.consumer_group import Beat, ConsumerGroupSettings, Topic
from penstock.protocols.kafka.wire.groups import ConsumerGroupHeartbeatResponse
from tests.unit.kafka_client.scripted import Stage, go, metadata, stage
from tests.unit.kafka_client.scripted_newer import ID, NewerCoordinator, places

SEEDS = int(os.environ.get("PENSTOCK_FAR_SEEDS", "20"))
QUICK = KafkaOptions(retry_backoff_ms=1, retry_backoff_max_ms=1, unknown_topic_patience_ms=1)
PARTITIONS = 5
STEPS = 150
NOW = Moment(0.0, 0)


class Engine:
    """One process: what it holds, and a membership that tells it."""

    def __init__(self, it: Stage, name: str, instance_id: str | None) -> None:
        self._name, self._births = name, itertools.count(1)
        quick = TransportOptions(reconnect_backoff_ms=0, reconnect_backoff_max_ms=0)
        self._client: KafkaClient = open_client(
            lambda dialect: AsyncioChannel(dialect, network=it.network, options=quick), [it.endpoint], QUICK
        )
        self._options = GroupOptions("group", protocol="consumer", instance_id=instance_id)
        self.holds: frozenset[Partition] = frozenset()
        self._asked_to_join = True
        self.born()

    def born(self) -> None:
        coordinator = Coordinator(self._client._cluster, "group")
        member_id = f"{self._name}-{next(self._births)}"  # no dice but the seed's
        self.membership = KafkaEpochMembership(coordinator, self._options, member_id)
        self.holds, self._asked_to_join = frozenset(), True

    async def turn(self, dice: random.Random) -> None:
        """It polls, or beats because no poll comes."""
        if self._asked_to_join and dice.random() < 0.6:
            await self._join()
        elif self.membership.state in (State.STABLE, State.RECONCILING):
            try:
                verdict = (await self.membership.heartbeat()).verdict
            except PenstockError:
                return
            self._asked_to_join |= verdict is not Verdict.STEADY
            self.holds = frozenset() if verdict is Verdict.LOST else self.holds

    async def _join(self) -> None:
        self.holds -= self.membership.must_revoke(self.holds)
        try:
            self.holds = (await self.membership.join(["events"], self.holds, "")).partitions
        except Dropped:
            self.holds = frozenset()
        except PenstockError:
            pass  # the next poll tries again
        else:
            self._asked_to_join = False

    async def go(self) -> None:
        self.holds, self._asked_to_join = frozenset(), True
        with contextlib.suppress(PenstockError):
            await self.membership.leave("")

    async def close(self) -> None:
        await self._client.close()


class World:
    def __init__(self, it: Stage, seed: int) -> None:
        self.dice, self.losing = random.Random(seed), True
        NewerCoordinator(it)
        self.partitions = PARTITIONS
        self.it = it
        self.coordinator = ConsumerCoordinator(ConsumerGroupSettings())
        self.grow(PARTITIONS)
        it.broker.answers["ConsumerGroupHeartbeat"] = self.answer
        self.engines = [Engine(it, name, name if name > "m" else None) for name in ("a", "b", "static", "static too")]

    def grow(self, partitions: int) -> None:
        self.partitions = partitions
        leaders = {"events": dict.fromkeys(range(partitions), (1, 0))}
        self.it.broker.answers["Metadata"] = metadata({1: self.it.endpoint}, leaders, {"events": ID})

    def answer(self, request: Any, version: int) -> object:
        fate = self.dice.random() if self.losing else 1.0
        if fate < 0.1:
            raise ProtocolViolation("the request got lost")
        if fate < 0.15:
            return ConsumerGroupHeartbeatResponse(error_code=self.dice.choice((14, 16)))
        answer = self.coordinator.beat(_beat(request), {"events": Topic(ID, self.partitions)}, NOW)
        if fate < 0.3:
            raise ProtocolViolation("the answer got lost")
        assigned = None if answer.assigned is None else places(sorted(number for _, number in answer.assigned))
        return ConsumerGroupHeartbeatResponse(
            error_code=answer.error,
            error_message=answer.message,
            member_id=answer.member_id,
            member_epoch=answer.epoch,
            heartbeat_interval_ms=answer.interval_ms,
            assignment=assigned,
        )

    async def step(self) -> None:
        engine = self.dice.choice(self.engines)
        chance = self.dice.random()
        if chance < 0.03:
            await engine.go()
        elif chance < 0.06:
            self.forget(engine)
            engine.born()
        elif chance < 0.08:
            self.forget(engine)  # it was not heard of for too long, and does not know that yet
        elif chance < 0.09:
            self.grow(self.partitions + 1)
        else:
            await engine.turn(self.dice)

    def forget(self, engine: Engine) -> None:
        """As when its session ends."""
        self.coordinator.leave("group", [Leaver(engine.membership.member_id, None)], NOW)

    def check(self) -> None:
        """Of those that the coordinator counts as members; others hear with their next heartbeat that they are none."""
        group = self.coordinator.group("group")
        for engine in self.engines:
            member = group.members.get(engine.membership.member_id) if group is not None else None
            if member is not None and engine.membership.epoch >= 0:
                theirs = {number for _, number in member.owned}
                assert {each.id for each in engine.holds} <= theirs, (engine.holds, member)

    async def settle(self) -> None:
        """Trouble is over."""
        self.losing = False
        for _ in range(30):
            for engine in self.engines:
                await engine.turn(self.dice)
                self.check()
        held = [each.id for engine in self.engines for each in engine.holds]
        assert sorted(held) == [*range(self.partitions)]
        group = self.coordinator.group("group")
        assert group is not None
        assert (group.state, len(group.members)) == ("Stable", len(self.engines))
        assert {engine.membership.state for engine in self.engines} == {State.STABLE}


def _beat(request: Any) -> Beat:
    owns, names = request.topic_partitions, request.subscribed_topic_names
    return Beat(
        group=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        names=None if names is None else tuple(names),
        owned=None if owns is None else frozenset((bytes(it.topic_id), each) for it in owns for each in it.partitions),
    )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nobody_holds_what_is_anothers_and_in_the_end_everything_is_held(seed: int) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            world = World(it, seed)
            try:
                for _ in range(STEPS):
                    await world.step()
                    world.check()
                await world.settle()
            finally:
                await asyncio.gather(*(engine.close() for engine in world.engines))

    go(body())


def test_the_codes_that_members_are_fenced_with_are_met() -> None:
    """Else the seeds above would play in good weather only."""
    met: set[int] = set()

    async def body(seed: int) -> None:
        async with stage(QUICK) as it:
            world = World(it, seed)
            answer = world.answer

            def noting(request: Any, version: int) -> object:
                told = answer(request, version)
                met.add(getattr(told, "error_code", 0))
                return told

            it.broker.answers["ConsumerGroupHeartbeat"] = noting
            for _ in range(STEPS):
                await world.step()
            await asyncio.gather(*(engine.close() for engine in world.engines))

    for seed in range(4):
        go(body(seed))
    assert met >= {0, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNRELEASED_INSTANCE_ID}, met
