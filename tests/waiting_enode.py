"""The embedded log as one that is far away: a test says which of its calls wait, and for what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.seams.enode import Appended, Budget, Extent, Fetched, FetchPart, TopicState
from penstock.seams.framing import Buffer
from penstock.seams.runtime import Runtime
from penstock.snode.enodes.local import LocalEnode
from penstock.store import Store

__all__ = ["WaitingEnode"]


async def _nobody(call: str) -> None:
    return


class WaitingEnode(LocalEnode):
    """``before`` and ``after`` are awaited around each call, with its name."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        super().__init__(store, runtime)
        self.before: Callable[[str], Awaitable[None]] = _nobody
        self.after: Callable[[str], Awaitable[None]] = _nobody

    async def topic(self, name: str) -> TopicState | None:
        await self.before("topic")
        return await super().topic(name)

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        await self.before("create_topic")
        return await super().create_topic(name, partitions, config)

    async def set_config(self, name: str, config: Mapping[str, str]) -> None:
        await self.before("set_config")
        await super().set_config(name, config)

    async def append(self, partition: Partition, batch: Buffer) -> Appended:
        await self.before("append")
        appended = await super().append(partition, batch)
        await self.after("append")
        return appended

    async def append_all(self, batches: Sequence[tuple[Partition, Buffer]]) -> list[Appended | PenstockError]:
        await self.before("append_all")
        return await super().append_all(batches)

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        await self.before("fetch")
        found = await super().fetch(parts, budget)
        await self.after("fetch")
        return found

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        await self.before("extents")
        return await super().extents(partitions)
