"""The embedded log as one that is far away: a test says which of its calls wait, and for what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from penstock.concurrency.runtime import Runtime
from penstock.errors import PenstockError
from penstock.interfaces.enode import (
    Abilities,
    Appended,
    Batch,
    Budget,
    DiskSpace,
    Extent,
    Fetched,
    FetchPart,
    TopicState,
    Writer,
)
from penstock.model import Partition
from penstock.snode.local_enode import LocalEnode
from penstock.store import Store

__all__ = ["WaitingEnode"]


async def _nobody(call: str) -> None:
    return


class WaitingEnode(LocalEnode):
    """``before`` and ``after`` are awaited around each call, with its name; ``abilities`` are believed to be all."""

    def __init__(self, store: Store, runtime: Runtime, abilities: Abilities | None = None) -> None:
        super().__init__(store, runtime)
        self._able = abilities or Abilities()
        self.before: Callable[[str], Awaitable[None]] = _nobody
        self.after: Callable[[str], Awaitable[None]] = _nobody

    @property
    def abilities(self) -> Abilities:
        return self._able

    def _can(self, ability: str) -> None:
        assert not self._able.lacks(frozenset({ability})), f"asked for what needs {ability}"

    async def topic(self, name: str) -> TopicState | None:
        await self.before("topic")
        return await super().topic(name)

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        if not name.startswith("__"):  # the node's own are kept where it can
            self._can("topics")
            assert self._able.compaction or "compact" not in config.get("cleanup.policy", "")
        await self.before("create_topic")
        return await super().create_topic(name, partitions, config)

    async def set_config(self, name: str, config: Mapping[str, str]) -> None:
        self._can("options")
        await self.before("set_config")
        await super().set_config(name, config)

    async def append(self, partition: Partition, batch: Batch) -> Appended:
        await self.before("append")
        appended = await super().append(partition, batch)
        await self.after("append")
        return appended

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        await self.before("append_all")
        return await super().append_all(batches)

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        await self.before("fetch")
        for part in parts:
            if part.leader_epoch >= 0 or part.last_epoch >= 0:
                self._can("epochs")
        found = await super().fetch(parts, budget)
        await self.after("fetch")
        return found

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        await self.before("extents")
        return await super().extents(partitions)

    # What not every log can do.

    async def delete_topic(self, name: str) -> None:
        self._can("topics")
        await super().delete_topic(name)

    async def add_partitions(self, name: str, total: int) -> None:
        self._can("topics")
        await super().add_partitions(name, total)

    async def set_defaults(self, defaults: Mapping[str, str], said: Mapping[str, Mapping[str, str]]) -> None:
        self._can("options")
        await super().set_defaults(defaults, said)

    async def delete_records(self, partition: Partition, before: int) -> int:
        self._can("deletion")
        return await super().delete_records(partition, before)

    async def epoch_end(self, partition: Partition, epoch: int, *, leader_epoch: int = -1) -> tuple[int, int]:
        self._can("epochs")
        return await super().epoch_end(partition, epoch, leader_epoch=leader_epoch)

    async def offset_for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        self._can("times")
        return await super().offset_for_time(partition, timestamp_ms)

    async def max_timestamp(self, partition: Partition) -> tuple[int, int] | None:
        self._can("times")
        return await super().max_timestamp(partition)

    async def writers(self, partition: Partition) -> list[Writer]:
        self._can("sequences")
        return await super().writers(partition)

    async def size(self, partition: Partition) -> int:
        self._can("sizes")
        return await super().size(partition)

    async def room(self) -> DiskSpace:
        self._can("sizes")
        return await super().room()
