"""`play`: one schedule from its first step until the group has settled, or a rule is broken.

What must not live here: how schedules are drawn (`schedule`), and what must hold (`watch`, `fences`).
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from penstock.client import AsyncProducer
from penstock.client.producer.delivery import Delivery
from penstock.errors import PenstockError
from penstock.model import Partition
from tests.sim.actor import Actor, Style
from tests.sim.fences import Fences, observed
from tests.sim.loop import Stuck, passing
from tests.sim.newer import Newer
from tests.sim.newer_fences import NewerFences, newer_observed
from tests.sim.schedule import Plan, Step, plan
from tests.sim.terms import TERMS, Speaks
from tests.sim.watch import GROUP, Broken, Watch
from tests.sim.wire import HOST
from tests.sim.world import NODE, World

__all__ = ["Outcome", "play", "replay", "shrunk"]

_DIGITS = re.compile(r"\d+")
_SETTLES_S = 90.0
_ANSWERED_S = 60.0
_LAST_S = 3_600.0
_WORKS_S = 3e-6


@dataclass
class Outcome:
    """``broken``: which rule; empty if all held."""

    plan: Plan
    broken: str
    trace: list[str]
    digest: str
    counts: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        told = f"{self.plan.assignor}, flush {self.plan.flush}, partitions {self.plan.partitions}"
        steps = "\n".join(map(str, self.plan.steps))
        return f"seed {self.plan.seed}: {self.broken}\n{told}\n{steps}\n\n" + "\n".join(self.trace)


def play(seed: int, kind: str = "kafka") -> Outcome:
    """The schedule of this seed."""
    return replay(plan(seed), kind)


def replay(chosen: Plan, kind: str = "kafka") -> Outcome:
    """A schedule as it stands."""
    world = World(chosen.seed, kind=kind, shape=chosen.shape, flush=chosen.flush, last_s=_LAST_S)
    watch = Watch(world, generations=TERMS[kind].generations)
    run = _Run(chosen, world, watch)
    broken = ""
    try:
        with observed(watch, run.fences), newer_observed(watch, run.newer_fences):
            world.run(run.all())
    except (Broken, Stuck) as error:
        broken = str(error)
    return Outcome(chosen, broken, world.trace.lines, world.trace.digest, run.counts())


def shrunk(outcome: Outcome, kind: str = "kafka") -> Outcome:
    """The same break of a rule by fewer steps, if there is a way: each is left out in turn, first in halves."""
    best, size = outcome, len(outcome.plan.steps) // 2
    while size:
        at = 1
        while at < len(best.plan.steps):
            steps = best.plan.steps[:at] + best.plan.steps[at + size :]
            tried = replay(replace(best.plan, steps=steps), kind)
            if _DIGITS.sub("", tried.broken) == _DIGITS.sub("", outcome.broken):
                best = tried
            else:
                at += size
        size //= 2
    return best


class _Run:
    def __init__(self, chosen: Plan, world: World, watch: Watch) -> None:
        self._plan, self._world, self._watch = chosen, world, watch
        self.fences = Fences(watch)
        self.newer_fences = NewerFences(watch, self.fences)
        self._terms = TERMS[world.kind]
        self._dice = Random(f"run {chosen.seed}")
        self._members: dict[str, Actor | Newer] = {}
        self._ids: dict[str, bytes] = {}
        self._topics = ["today", "yesterday"][: len(chosen.partitions)]
        self._partitions = [
            Partition(topic, number)
            for topic, count in zip(self._topics, chosen.partitions, strict=True)
            for number in range(count)
        ]
        self._sent: dict[Partition, int] = dict.fromkeys(self._partitions, 0)
        self._unacknowledged = 0
        watch.in_group = self._in_group
        watch.calm = chosen.calm

    def counts(self) -> Counter[str]:
        """What was covered."""
        return Counter(
            {
                "generations": len(self._watch.rebalances),
                "fences": self._watch.fenced,
                "commits": self._watch.commits_done,
                "records": sum(map(len, self._watch.handed.values())),
                "broken connections": self._world.net.cuts,
                "crashes of the node": self._world.crashes,
                "recoveries": self._world.recoveries,
                **Counter(f"step: {step.what}" for step in self._plan.steps),
            }
        )

    def _in_group(self, member_id: str) -> bool:
        if self._world.node is None or self._world.scheme != "kafka":
            return False
        front = self._world.node._fronts[0]
        groups = front._shared.groups  # type: ignore[attr-defined]
        found = (groups.coordinator.group(GROUP), groups.newer.coordinator.group(GROUP))
        return any(group is not None and member_id in group.members for group in found)

    # The course of it.

    async def all(self) -> None:
        await self._world.start_node()
        assert self._world.node is not None
        for topic, count in zip(self._topics, self._plan.partitions, strict=True):
            made = await self._world.node.enode.create_topic(topic, count, {})
            self._ids[topic] = made.id
        writing = asyncio.ensure_future(self._write())
        for step in self._plan.steps:
            await self._until(step.at)
            self._do(step)
        await self._until(self._plan.shape.chaos_s)
        await self._settle()
        await writing
        await self._settled()

    async def _until(self, at: float) -> None:
        while (left := at - self._world.loop.time()) > 0:
            await passing(min(left, 1.0))
            self._watch.check()

    async def _settle(self) -> None:
        """From now on nothing goes wrong."""
        self._world.tell("test", "from now on nothing goes wrong")
        self._world.net.heal()
        for each in self._members.values():
            each.busy_until = 0.0
        while any(each.alive and each.leaving for each in self._members.values()):
            await self._until(self._world.loop.time() + 1)
        if not any(each.alive for each in self._members.values()):
            self._join("member-1")

    async def _settled(self) -> None:
        until = self._world.loop.time() + _SETTLES_S
        while missing := self._watch.unsettled(self._partitions):
            self._watch.check()
            if self._world.loop.time() > until:
                self._watch.broken(f"not settled {_SETTLES_S:g} s after all went well again: {missing}")
            await passing(1)
        if waits := self.fences.waits_too_long(_ANSWERED_S):
            self._watch.broken(f"{waits} was never answered")
        self._watch.check()
        for each in self._members.values():
            each.leave()
        await asyncio.gather(*(each.task for each in self._members.values() if each.task and each.alive))
        self._watch.check()

    # Records.

    async def _write(self) -> None:
        HOST.set("producer")
        shape = self._plan.shape
        async with AsyncProducer(
            self._world.address, linger_ms=5, delivery_timeout_ms=60_000, request_timeout_ms=shape.request_ms
        ) as producer:
            while self._world.loop.time() < shape.chaos_s:
                await asyncio.gather(*[self._send(producer) for _ in range(self._dice.choice(shape.writes))])
                await passing(shape.pause_s * 2 * self._dice.random())

    async def _send(self, producer: AsyncProducer[bytes, bytes]) -> None:
        partition = self._dice.choice(self._partitions)
        self._sent[partition] += 1
        terms = self._terms
        value = f"{partition}#{self._sent[partition]}".encode()
        try:
            delivery: Delivery = await producer.send(partition.topic, value, partition=partition.id)
            offset = (await delivery).offset
        except PenstockError as error:
            self._unacknowledged += 1
            self._world.tell(
                "producer", f"{value.decode()} is not acknowledged: {type(error).__name__}: {str(error)[:90]}"
            )
            return
        self._watch.stored(partition, offset // terms.unit, value)

    # Steps.

    def _do(self, step: Step) -> None:
        node = step.what == "kill the node" or (step.what == "cut off" and self._dice.random() < 0.2)
        self._world.net.after(NODE if node else step.who, step.after, lambda: self._strike(step, node=node))

    def _strike(self, step: Step, *, node: bool) -> None:
        actor = self._members.get(step.who)
        alive = actor if actor is not None and actor.alive else None
        if step.what == "join":
            if alive is None:
                self._join(step.who)
        elif step.what == "kill the node":
            # While it works on what has just come, or waits for the disk.
            self._world.loop.call_later(self._dice.random() * _WORKS_S, self._kill_node, step)
        elif node:
            self._world.tell(NODE, f"cannot be reached for {step.seconds:.1f} s")
            self._world.net.cut_off(NODE, step.seconds)
        elif alive is not None:
            self._do_to(alive, step)

    def _do_to(self, actor: Actor | Newer, step: Step) -> None:
        net = self._world.net
        if step.what == "leave":
            actor.leave()
        elif step.what == "crash":
            actor.crash()
        elif step.what == "pause":
            self._world.tell(actor.name, f"does not poll for {step.seconds:.1f} s")
            actor.busy_until = self._world.loop.time() + step.seconds
        elif step.what == "cut off":
            self._world.tell(actor.name, f"is cut off for {step.seconds:.1f} s")
            net.cut_off(actor.name, step.seconds)
        elif step.what == "slow":
            self._world.tell(actor.name, f"has slow connections for {step.seconds:.1f} s")
            net.slow(actor.name, step.seconds)
        elif step.what == "lose an answer":
            net.cut_at_next_answer(actor.name)
        else:
            count = net.cut(actor.name, answers_lost=step.what == "lose answers")
            self._world.tell(actor.name, f"loses {count} connections ({step.what})")

    def _kill_node(self, step: Step) -> None:
        if self._world.node is None:
            return
        self._world.kill_node(power=self._plan.flush == "always" and self._dice.random() < 0.5)
        self.fences.crashed()
        self._world.loop.call_later(step.seconds, lambda: asyncio.ensure_future(self._back()))

    async def _back(self) -> None:
        try:
            await self._world.start_node()
        except PenstockError as error:
            self._watch.broken(f"the node does not come back: {error}")

    def _join(self, name: str) -> None:
        options: dict[str, Any] = {"group": GROUP, **self._terms.member_options(self._plan.shape)}
        style = Style(
            commits=self._dice.choice(("sync", "sync", "async", "auto")),
            most=self._dice.choice((1, 5, 500)),
            work_s=self._dice.choice((0.0, 0.0, 1.0)),
        )
        if style.commits == "auto":
            options |= {"enable_auto_commit": True, "auto_commit_interval_ms": 1_000}
        if self._world.scheme == "kafka":
            options["assignors"] = self._plan.assignor
            if self._plan.static:
                options["group_instance_id"] = name
        speaks = self._terms.speaks
        actor: Actor | Newer
        if speaks is Speaks.NEWER or (speaks is Speaks.EITHER and self._dice.random() < 0.5):
            instance = name if self._plan.static else None
            actor = Newer(name, self._world, self._watch, self._ids, instance, style)
        else:
            actor = Actor(name, self._world, self._watch, self._topics, options, style)
        self._members[name] = actor
        self._watch.actors.append(actor)
        actor.begin()
