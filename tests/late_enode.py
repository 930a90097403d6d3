"""An enode that is far away, as a plan with a seed says: answers come late and in another order, and some never.

Any `Enode` can be behind it. What is promised of one holds here, too: appends to a partition take effect in the order
in which they were called, what was begun is finished whatever becomes of the caller, and what cannot be done of many
parts stands in their places. Of the rest nothing does: what is told may be over by the time it is heard, and what was
never answered may have been done.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.concurrency.runtime import Promise, Runtime
from penstock.errors import PenstockError, UpstreamLost
from penstock.interfaces.enode import (
    Appended,
    Batch,
    Budget,
    DiskSpace,
    Enode,
    Extent,
    Fetched,
    FetchPart,
    PartitionLocation,
    TopicState,
    Writer,
    bytes_of,
)
from penstock.model import Partition
from penstock.records.validation import ValidatedBatch

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """``lost_answers``, ``lost_requests``: how many calls in a hundred.

    Clients send a batch without sequence numbers again when they hear of no answer, and may have it twice then. With
    ``doubles`` that happens; without, such appends lose requests where they would lose answers.
    """

    seed: int
    latest_s: float = 0.05
    lost_answers: int = 0
    lost_requests: int = 0
    doubles: bool = False


_SEQUENCE = struct.Struct(">i")
_SEQUENCE_AT = 53

_plans: list[Plan] = []


@contextmanager
def planned(plan: Plan) -> Iterator[None]:
    """What `far` does in the block."""
    _plans.append(plan)
    try:
        yield
    finally:
        _plans.pop()


def far(enode: Enode, runtime: Runtime) -> Enode:
    """The enode as services and fronts see it: far away if a plan says so, else itself."""
    return LateEnode(enode, runtime, _plans[-1]) if _plans else enode


def lost_by(enode: Enode) -> int:
    """How many calls of an enode were lost until now."""
    return enode.lost if isinstance(enode, LateEnode) else 0


class LateEnode:
    """``lost`` counts the calls whose callers were told that nobody knows what became of them."""

    def __init__(self, enode: Enode, runtime: Runtime, plan: Plan) -> None:
        self._enode = enode
        self._runtime = runtime
        self._plan = plan
        self._dice = random.Random(plan.seed)
        self._last: dict[Partition, Promise[None]] = {}
        self._waiting: dict[Promise[None], Promise[None]] = {}
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        """What a node asks of its own enode only (upkeep): at once."""
        return getattr(self._enode, name)

    # Topics.

    async def topics(self) -> Sequence[TopicState]:
        return await self._far(self._enode.topics)

    async def topic(self, name: str) -> TopicState | None:
        return await self._far(lambda: self._enode.topic(name))

    async def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        return await self._far(lambda: self._enode.topic_by_id(topic_id))

    async def places(self, topic: str) -> Sequence[PartitionLocation]:
        return await self._far(lambda: self._enode.places(topic))

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        return await self._far(lambda: self._enode.create_topic(name, partitions, config))

    async def delete_topic(self, name: str) -> None:
        await self._far(lambda: self._enode.delete_topic(name))

    async def add_partitions(self, name: str, total: int) -> None:
        await self._far(lambda: self._enode.add_partitions(name, total))

    async def set_config(self, name: str, config: Mapping[str, str]) -> None:
        await self._far(lambda: self._enode.set_config(name, config))

    async def defaults(self) -> Mapping[str, str]:
        return await self._far(self._enode.defaults)

    async def node_options(self) -> Mapping[str, Mapping[str, str]]:
        return await self._far(self._enode.node_options)

    async def set_defaults(self, defaults: Mapping[str, str], said: Mapping[str, Mapping[str, str]]) -> None:
        await self._far(lambda: self._enode.set_defaults(defaults, said))

    # Writing.

    async def append(self, partition: Partition, batch: Batch) -> Appended:
        kept = _copied(batch)  # what was called with is the caller's again as soon as he is cancelled
        return await self._far(lambda: self._enode.append(partition, kept), [partition])

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        kept = [(partition, _copied(batch)) for partition, batch in batches]
        again = self._plan.doubles or all(
            _SEQUENCE.unpack_from(bytes_of(batch), _SEQUENCE_AT)[0] >= 0 for _, batch in kept
        )
        places = [partition for partition, _ in batches]
        return await self._each(self._far(lambda: self._enode.append_all(kept), places, again=again), len(kept))

    async def delete_records(self, partition: Partition, before: int) -> int:
        return await self._far(lambda: self._enode.delete_records(partition, before))

    # Reading.

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        return await self._each(self._far(lambda: self._enode.fetch(parts, budget)), len(parts))

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        return await self._each(self._far(lambda: self._enode.extents(partitions)), len(partitions))

    async def epoch_end(self, partition: Partition, epoch: int, *, leader_epoch: int = -1) -> tuple[int, int]:
        return await self._far(lambda: self._enode.epoch_end(partition, epoch, leader_epoch=leader_epoch))

    async def offset_for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        return await self._far(lambda: self._enode.offset_for_time(partition, timestamp_ms))

    async def max_timestamp(self, partition: Partition) -> tuple[int, int] | None:
        return await self._far(lambda: self._enode.max_timestamp(partition))

    async def writers(self, partition: Partition) -> Sequence[Writer]:
        return await self._far(lambda: self._enode.writers(partition))

    async def size(self, partition: Partition) -> int:
        return await self._far(lambda: self._enode.size(partition))

    async def room(self) -> DiskSpace:
        return await self._far(self._enode.room)

    # Waiting.

    def arrival(self, known: Mapping[Partition, int]) -> Promise[None]:
        told: Promise[None] = self._runtime.promise()
        self._runtime.spawn(self._arrive(dict(known), told), "a held pull")
        return told

    async def _arrive(self, known: Mapping[Partition, int], told: Promise[None]) -> None:
        await self._pass()
        if told.done:
            return
        inner = self._waiting[told] = self._enode.arrival(known)
        await inner
        self._waiting.pop(told, None)
        await self._pass()
        told.set(None)

    def forget_arrival(self, promise: Promise[None]) -> None:
        promise.set(None)
        inner = self._waiting.pop(promise, None)
        if inner is not None:
            self._enode.forget_arrival(inner)
            inner.set(None)

    # Far away.

    @staticmethod
    async def _each(call: Awaitable[list[T | PenstockError]], count: int) -> list[T | PenstockError]:
        """Its results; where it was lost, that in each place."""
        try:
            return await call
        except UpstreamLost as error:
            return [error] * count

    async def _far(
        self, work: Callable[[], Awaitable[T]], places: Sequence[Partition] = (), *, again: bool = True
    ) -> T:
        """Do it, later, and tell of it, later still; at each of ``places`` after what was called before.

        ``again``: it may be done twice, by a caller who did not hear of the first time.
        """
        before = [self._last[place] for place in places if place in self._last]
        through: Promise[None] = self._runtime.promise()
        self._last |= dict.fromkeys(places, through)
        told: Promise[tuple[T | None, BaseException | None]] = self._runtime.promise()
        self._runtime.spawn(self._carry(work, before, through, told, self._fate(again)), "a call of an enode far away")
        result, error = await told
        if error is not None:
            raise error
        return result  # type: ignore[return-value]

    async def _carry(
        self,
        work: Callable[[], Awaitable[T]],
        before: Sequence[Promise[None]],
        through: Promise[None],
        told: Promise[tuple[T | None, BaseException | None]],
        lost: tuple[bool, bool],
    ) -> None:
        lost_request, lost_answer = lost
        result: T | None = None
        error: BaseException | None = None
        try:
            await self._pass()
            for each in before:
                await each
            if not lost_request:
                result = await work()
        except Exception as failure:
            error = failure
        finally:
            through.set(None)
        await self._pass()
        if lost_request or lost_answer:
            self.lost += 1
            result, error = None, UpstreamLost("the connection to the enode broke")
        told.set((result, error))

    def _fate(self, again: bool) -> tuple[bool, bool]:
        """Whether the request is lost, and whether the answer is."""
        fate, requests = self._dice.randrange(100), self._plan.lost_requests
        lost = fate < requests + self._plan.lost_answers
        return lost and (fate < requests or not again), lost and fate >= requests and again

    def _pass(self) -> Coroutine[Any, Any, None]:
        # Twice a call: there and back.
        return self._runtime.sleep(self._dice.random() * self._plan.latest_s / 2)


def _copied(batch: Batch) -> Batch:
    data = bytearray(bytes_of(batch))
    if isinstance(batch, ValidatedBatch):
        return ValidatedBatch.known(data, batch.header, transaction_v2=batch.transaction_v2)
    return data
