"""Newer: a member that speaks KIP-848, and an application that reads, works and commits: an `Actor` of its own.

It does what the KIP asks of clients: gives up before it says so, takes what is free, loses everything when it is told
to, or, if it is careful, when its session may be over. What must not live here: what the coordinator promises
(`newer_fences`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from penstock.client import AsyncConsumer
from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.wire.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartition,
)
from penstock.protocols.kafka.wire.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from tests.sim.actor import Style, ids
from tests.sim.calling import Caller, Unanswered
from tests.sim.loop import passing
from tests.sim.watch import GROUP
from tests.sim.wire import HOST

if TYPE_CHECKING:
    from tests.sim.watch import Watch
    from tests.sim.world import World

__all__ = ["Newer"]

_SOON_S = 0.5
_FULL_EVERY = 5
"""A join that comes late, when its sender has joined again, is answered with a share that nobody hears of; a heartbeat
that says nothing new is not answered with it, at no coordinator. So one in so many says all there is to say."""
_JOIN, _LEAVE = 0, -1
_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


class Newer:
    """One incarnation of a member, with the face of an `Actor`. ``topics``: their ids by name."""

    def __init__(
        self, name: str, world: World, watch: Watch, topics: Mapping[str, bytes], instance: str | None, style: Style
    ) -> None:
        self.name = name
        self.alive = True
        self.leaving = False
        self.away = False
        self.owned: set[Partition] = set()
        self.generation = 0
        self.busy_until = 0.0
        self.handed: dict[Partition, int] = {}
        self.task: asyncio.Task[None] | None = None
        self.style = style
        self._world, self._watch, self._topics, self._instance = world, watch, topics, instance
        self._shape = world.shape
        self._names = {id_: name for name, id_ in topics.items()}
        self._dice = Random(f"{name} {world.dice.random()}")
        self._careful = self._dice.random() < 0.5
        """Whether it looks at its own clock; others go on until they are told."""
        self.member_id = f"{name}-{self._dice.randrange(10**9)}"
        self._caller = Caller(world.loop, world.port, world.shape.request_ms / 1_000)
        self._wanted: set[Partition] = set()
        self._places: dict[Partition, int] = {}
        self._unsure = False
        self._says = False
        self._heard_at = 0.0
        self._next_beat = 0.0
        self._beats = 0
        self._consumer: AsyncConsumer[bytes, bytes] | None = None

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
        self._tell("starts, and speaks the newer protocol")
        self._consumer = AsyncConsumer(
            self._world.address, request_timeout_ms=self._shape.request_ms, fetch_max_wait_ms=self._shape.wait_ms
        )
        while self.alive and not self.leaving:
            await self._turn(self._consumer)
        if self.alive:
            await self._close(self._consumer)

    async def _turn(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        now = self._world.loop.time()
        if self._careful and self.generation and now - self._heard_at >= self._shape.session_ms / 1_000:
            self._lose("its session may be over")
        if self._says or now >= self._next_beat:
            await self._beat()
        if self.alive and self._wanted - self.owned:
            await self._take(consumer)
        if self.alive and self.owned:
            await self._read(consumer)
        else:
            await passing(_SOON_S / 2)
        busy = self.busy_until - self._world.loop.time()
        if busy > 0:
            await passing(busy)

    def leave(self) -> None:
        """After what is under way."""
        self.leaving = True

    async def _close(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        try:
            await self._caller.ask(self._heartbeat(member_epoch=_LEAVE), 1)
        except Unanswered:
            self._tell("does not hear whether it has left")
        await asyncio.gather(consumer.close(1), return_exceptions=True)
        self._caller.close()
        self.alive = False
        self._watch.gone(self)
        self._tell("has left")

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
        if self._consumer is not None:
            await asyncio.gather(self._consumer.close(0.01), return_exceptions=True)

    # Heartbeats.

    def _heartbeat(self, **given: Any) -> ConsumerGroupHeartbeatRequest:
        wanted = {"member_id": self.member_id, "instance_id": self._instance, "member_epoch": self.generation, **given}
        return ConsumerGroupHeartbeatRequest(group_id=GROUP, **wanted)

    async def _beat(self) -> None:
        given: dict[str, Any] = {}
        self._beats += 1
        if not self.generation or self._unsure or self._beats % _FULL_EVERY == 0:
            given = {"rebalance_timeout_ms": self._shape.rebalance_ms, "subscribed_topic_names": list(self._topics)}
        if given or self._says:
            given["topic_partitions"] = self._owned_by_topic() if self.generation else []
        sent = self._world.loop.time()
        self._next_beat = sent + self._shape.heartbeat_ms / 1_000
        try:
            answer = await self._caller.ask(self._heartbeat(**given), 1)
        except Unanswered:
            self._unsure = True
            self._next_beat = self._world.loop.time() + _SOON_S
            return
        if self.alive:
            self._says = self._unsure = False
            await self._answered(answer, sent)

    def _owned_by_topic(self) -> list[ConsumerGroupHeartbeatRequestTopicPartition]:
        return [
            ConsumerGroupHeartbeatRequestTopicPartition(
                topic_id=id_, partitions=sorted(each.id for each in self.owned if each.topic == name)
            )
            for name, id_ in self._topics.items()
            if any(each.topic == name for each in self.owned)
        ]

    async def _answered(self, answer: Any, sent: float) -> None:
        if answer.error_code in _LOST:
            self._watch.fenced += 1
            self._lose(f"is told {ErrorCode(answer.error_code).name}")
            self._next_beat = 0.0 if answer.error_code != ErrorCode.GROUP_ID_NOT_FOUND else sent + _SOON_S
        elif answer.error_code:
            self._tell(f"is told {ErrorCode(answer.error_code).name}: {(answer.error_message or '')[:90]}")
            self._unsure = True
            self._next_beat = self._world.loop.time() + _SOON_S
        else:
            self._heard_at, self.generation = sent, answer.member_epoch
            if answer.assignment is not None:
                parts = answer.assignment.topic_partitions
                self._wanted = {
                    Partition(self._names[bytes(each.topic_id)], number) for each in parts for number in each.partitions
                }
                await self._give_up(self.owned - self._wanted)

    async def _give_up(self, leaving: set[Partition]) -> None:
        if leaving:
            await self._commit()
            if self.alive:
                self._tell(f"epoch {self.generation}: gives up {ids(leaving)}")
                self._forget(leaving)
                await self._follow()
        self._says = True

    def _lose(self, why: str) -> None:
        self._tell(f"{why}, loses {ids(self.owned)}")
        self._forget(set(self.owned))
        self._wanted, self.generation, self._unsure, self._says = set(), _JOIN, False, False

    def _forget(self, partitions: Collection[Partition]) -> None:
        self.owned -= set(partitions)
        for each in partitions:
            self.handed.pop(each, None)
            self._places.pop(each, None)

    # Records and offsets.

    async def _take(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        """Where others got to with what is new; what cannot be asked for now is taken with a later turn."""
        epoch, new = self.generation, self._wanted - self.owned
        topics = [
            OffsetFetchRequestGroupTopic(
                name=name, partition_indexes=sorted(each.id for each in new if each.topic == name)
            )
            for name in self._topics
        ]
        group = OffsetFetchRequestGroup(group_id=GROUP, member_id=self.member_id, member_epoch=epoch, topics=topics)
        try:
            answer = (await self._caller.ask(OffsetFetchRequest(groups=[group]), 9)).groups[0]
        except Unanswered:
            return
        if answer.error_code or not self.alive or self.generation != epoch:
            return
        for topic in answer.topics:
            for part in topic.partitions:
                if not part.error_code:
                    self._places[Partition(topic.name, part.partition_index)] = max(0, part.committed_offset)
        new &= self._places.keys()
        self.owned |= new
        self._tell(f"epoch {epoch}: takes {ids(new)}, owns {ids(self.owned)}")
        self._watch.assigned(self, new)
        self._says = True
        await self._follow()

    async def _follow(self) -> None:
        assert self._consumer is not None
        await self._consumer.assign({each: self._places[each] for each in sorted(self.owned)})

    async def _read(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        try:
            records = await consumer.poll(_SOON_S, max_records=self.style.most)
        except PenstockError as error:
            if self.alive:
                self._watch.heard(self, error)
                await passing(0.2)
            return
        if not self.alive:
            return
        for record in records:
            partition = Partition(record.topic, record.partition)
            if partition in self.owned:
                self._places[partition] = self.handed[partition] = record.offset + 1
                self._watch.handed_out(self, partition, record.offset, record.value or b"")
        if records:
            await passing(self.style.work_s * self._dice.random())
            if self.alive:
                await self._commit()

    async def _commit(self) -> None:
        said = {one: self.handed[one] for one in sorted(self.owned) if one in self.handed}
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=each.id, committed_offset=offset)
                    for each, offset in said.items()
                    if each.topic == name
                ],
            )
            for name in self._topics
        ]
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=self.member_id,
            group_instance_id=self._instance,
            generation_id_or_member_epoch=self.generation,
            topics=[each for each in topics if each.partitions],
        )
        if not said:
            return
        try:
            answer = await self._caller.ask(request, 9)
        except Unanswered:
            return
        codes = {part.error_code for topic in answer.topics for part in topic.partitions}
        if codes == {0}:
            self._watch.committed(self, said)
        else:
            self._tell(f"may not commit in epoch {self.generation}: {sorted(ErrorCode(code).name for code in codes)}")

    def _tell(self, what: str) -> None:
        self._world.tell(self.name, what)
