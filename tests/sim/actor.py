"""Actor: a member of the group, alive or not: the real consumer, and an application that polls, works and commits."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from penstock.client import AsyncConsumer, RebalanceListener
from penstock.client.consumer.membership import State
from penstock.errors import PenstockError
from penstock.model import Partition
from tests.sim.loop import passing
from tests.sim.terms import TERMS
from tests.sim.wire import HOST

if TYPE_CHECKING:
    from tests.sim.watch import Watch
    from tests.sim.world import World

__all__ = ["Actor", "Style", "ids"]


@dataclass(frozen=True, slots=True)
class Style:
    """How an application works: who commits, how many records it takes at once, how long it is busy with them."""

    commits: str
    most: int
    work_s: float


class Actor(RebalanceListener):
    """One incarnation of a member. ``alive`` ends with its process; what it believes to own, and since when."""

    def __init__(
        self, name: str, world: World, watch: Watch, topics: list[str], options: dict[str, Any], style: Style
    ) -> None:
        self._terms = TERMS[world.kind]
        self.name = name
        self.alive = True
        self.leaving = False
        self.owned: set[Partition] = set()
        self.generation = -1
        self.busy_until = 0.0
        self.handed: dict[Partition, int] = {}
        self.style = style
        self._world, self._watch, self._topics, self._options = world, watch, topics, options
        self._dice = Random(f"{name} {world.dice.random()}")
        self.consumer: AsyncConsumer[bytes, bytes] | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def member_id(self) -> str:
        return self._joined[1]

    @property
    def _joined(self) -> tuple[int, str]:
        engine = self.consumer._engine if self.consumer else None
        return engine.last_joined if engine else (-1, "")

    @property
    def away(self) -> bool:
        """Whether it stopped because no poll came, and said nothing, as static members do: its group keeps its place
        until the session ends, and meanwhile shares out without it, as Kafka does when a join phase ends."""
        engine = self.consumer._engine if self.consumer else None
        gone = engine is not None and engine.rebalancing.member.state is State.GONE
        return gone and self._options.get("group_instance_id") is not None

    # Its life.

    def begin(self) -> None:
        self._world.net.revive(self.name)
        self.task = self._world.loop.create_task(self._live(), name=f"{self.name} lives")
        self.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._watch.broken(f"{self.name} ends with {error!r}")

    async def _live(self) -> None:
        HOST.set(self.name)
        self._tell("starts")
        self.consumer = AsyncConsumer(self._world.address, **self._options)
        await self.consumer.subscribe(self._topics, self)
        while self.alive and not self.leaving:
            await self._turn(self.consumer)
        if self.alive:
            await self._close(self.consumer)

    async def _turn(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        try:
            records = await consumer.poll(1.0, max_records=self.style.most)
            if not self.alive:
                return
            for record in records:
                partition = Partition(record.topic, record.partition // self._terms.partitions)
                offset = record.offset // self._terms.unit
                self.handed[partition] = offset + 1
                self._watch.handed_out(self, partition, offset, record.value or b"")
            if records:
                await self._work()
                if self.alive:
                    await self._commit(consumer)
        except PenstockError as error:
            if self.alive:
                self._tell(f"hears {type(error).__name__}: {str(error)[:90]}")
                self._watch.heard(self, error)
                await passing(0.2)
        busy = self.busy_until - self._world.loop.time()
        if busy > 0:
            await passing(busy)

    async def _work(self) -> None:
        if self.style.work_s:
            await passing(self.style.work_s * self._dice.random())

    async def _commit(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        if self.style.commits == "sync":
            said = {one: self.handed[one] for one in sorted(self.owned) if one in self.handed}
            await consumer.commit()
            self._watch.committed(self, said if self._terms.by_record else {})
        elif self.style.commits == "async":
            await consumer.commit_async()

    async def _close(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        try:
            await consumer.close(5)
        except PenstockError as error:
            self._tell(f"closes with {type(error).__name__}")
        self.alive = False
        self._watch.gone(self)
        self._tell("has left")

    def leave(self) -> None:
        """After the poll that is under way."""
        self.leaving = True

    def crash(self) -> None:
        """The process dies: nothing it does from now on is seen by anybody."""
        self.alive = False
        self._tell("dies")
        self._world.net.kill(self.name)
        self._watch.gone(self)
        self._world.loop.create_task(self._clear_up(), name=f"{self.name} is cleared up")

    async def _clear_up(self) -> None:
        HOST.set(self.name)
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        if self.consumer is not None:
            await asyncio.gather(self.consumer.close(0.01), return_exceptions=True)

    # What the consumer calls.

    def assigned(self, partitions: Collection[Partition]) -> None:
        if self.alive:
            new = self._ours(partitions)
            self.owned |= new
            self.generation = self._joined[0]
            self._tell(f"generation {self.generation}: takes {ids(new)}, owns {ids(self.owned)}")
            self._watch.assigned(self, new)

    def revoked(self, partitions: Collection[Partition]) -> None:
        if self.alive:
            self._tell(f"gives up {ids(self._ours(partitions))}")
            self._give_up(self._ours(partitions))

    def lost(self, partitions: Collection[Partition]) -> None:
        if self.alive:
            self._tell(f"has lost {ids(self._ours(partitions))}")
            self._watch.fenced += 1
            self._give_up(self._ours(partitions))

    def _ours(self, partitions: Collection[Partition]) -> set[Partition]:
        """Of the topics that were subscribed, whatever a log adds, and however it says where they are."""
        return {
            Partition(each.topic, each.id // self._terms.partitions)
            for each in partitions
            if each.topic in self._topics
        }

    def _give_up(self, partitions: set[Partition]) -> None:
        self.owned -= partitions
        for partition in partitions:
            self.handed.pop(partition, None)

    def _tell(self, what: str) -> None:
        self._world.tell(self.name, what)


def ids(partitions: Collection[Partition]) -> str:
    """Partitions in a trace."""
    return " ".join(f"{each.topic[0]}{each.id}" for each in sorted(partitions)) or "nothing"
