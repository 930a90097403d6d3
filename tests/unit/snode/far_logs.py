"""Clusters that are logs in memory: a test says when one is away, and looks into it.

Those of scheme ``keeper`` keep a node's journals for good, those of ``far`` do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from penstock.concurrency.runtime import Runtime
from penstock.errors import UpstreamLost
from penstock.interfaces.enode import Abilities, PartitionLocation, TopicState
from penstock.interfaces.node import BackendContext, EnodeIdentity, OpenedEnode
from penstock.model import Partition
from penstock.protocols import _registered, protocol, register
from penstock.store import Store, open_store
from tests.waiting_enode import WaitingEnode

__all__ = ["Far", "Fars", "far_clusters"]

ABLE = Abilities(transactions=False)


class Far(WaitingEnode):
    """As a Kafka cluster: everything but transactions."""

    near = False  # type: ignore[assignment]

    def __init__(self, store: Store, runtime: Runtime, url: str, fars: Fars) -> None:
        super().__init__(store, runtime, fars.able)
        self.url = url
        self._fars = fars
        self.before = self._lost_or_not

    async def _lost_or_not(self, call: str) -> None:
        if self.url in self._fars.away:
            self._fars.refused.append(call)
            raise UpstreamLost(f"{call} got no answer")

    @property
    def identity(self) -> EnodeIdentity:
        return replace(super().identity, shared=True)

    async def places(self, topic: str) -> list[PartitionLocation]:
        await self.before("places")
        return await super().places(topic)

    async def size(self, partition: Partition) -> int:
        await self.before("size")
        return await super().size(partition)

    async def start(self) -> list[str]:
        await self._lost_or_not("start")
        return await super().start()

    async def unreachable(self) -> str | None:
        await self._lost_or_not("unreachable")
        return None

    async def topics(self) -> Sequence[TopicState]:
        await self.before("topics")
        return await super().topics()

    async def close(self, within_s: float) -> None:
        """The cluster is there when a node is gone."""


class Fars:
    """All of them, by address; ``away``: those that do not answer, ``refused``: what they were asked all the same."""

    def __init__(self) -> None:
        self.stores: dict[str, Store] = {}
        self.away: set[str] = set()
        self.refused: list[str] = []
        self.able = ABLE

    def store(self, url: str) -> Store:
        """What a cluster keeps."""
        return self.stores.setdefault(url, open_store("memory:"))

    def opened(self, url: str, around: BackendContext) -> OpenedEnode:
        return Far(self.store(url), around.runtime, url, self)


@contextmanager
def far_clusters() -> Iterator[Fars]:
    """Until the end of the block."""
    fars = Fars()
    for scheme in ("far", "keeper"):
        register(replace(protocol("kafka"), scheme=scheme, enode=fars.opened, keeps_journals=scheme == "keeper"))
    try:
        yield fars
    finally:
        for scheme in ("far", "keeper"):
            del _registered[scheme]
        for store in fars.stores.values():
            store.close()
