"""How large logs are, and what room brokers have: DescribeLogDirs, asked of each broker for all of its logs at once.

An answer is believed for a moment, because whoever asks for one size asks for all of them. Source: Kafka protocol
guide, DescribeLogDirs v1-v5; KIP-827 (room, from v4 on).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Final

from penstock._dataclasses import dataclass
from penstock.errors import PenstockError
from penstock.model import Node, Partition
from penstock.protocols.kafka.enode.asking import Asking
from penstock.protocols.kafka.enode.refusals import as_log_says
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.replicas import DescribeLogDirsRequest, DescribeLogDirsResponse
from penstock.seams.enode import Room
from penstock.seams.locks import Locks
from penstock.seams.runtime import Promise

__all__ = ["Sizes"]

_KEPT_S: Final = 2.0
_WHAT: Final = "asking for sizes failed"


@dataclass(slots=True)
class _Disk:
    """What one broker said; -1 where it does not know."""

    until: float
    total: int = 0
    usable: int = 0
    sizes: dict[Partition, int] = field(default_factory=dict)


class Sizes:
    """One an enode."""

    def __init__(self, asking: Asking, new_promise: Callable[[], Promise[Any]]) -> None:
        self._asking = asking
        self._cluster = asking.cluster
        self._disks: dict[str, _Disk] = {}
        self._turns: Locks[str] = Locks(new_promise)

    async def of(self, partition: Partition) -> int:
        """Bytes of a log, as its leader has it."""

        async def ask(node: Node) -> int | PenstockError:
            return (await self._disk(node)).sizes.get(partition, 0)

        return await self._asking.one(partition, ask, _WHAT)

    async def room(self, url: str) -> Room:
        """Of all brokers together."""
        try:
            disks = [await self._disk(node) for node in await self._cluster.nodes()]
        except PenstockError as error:
            raise as_log_says(error) from error
        known = bool(disks) and all(disk.total >= 0 and disk.usable >= 0 for disk in disks)
        if not known:
            return Room(url, -1, -1)
        return Room(url, sum(disk.total for disk in disks), sum(disk.usable for disk in disks))

    async def _disk(self, node: Node) -> _Disk:
        now = self._cluster.calls.channel.monotonic
        async with self._turns.held(node.name):
            known = self._disks.get(node.name)
            if known is None or now() >= known.until:
                known = self._disks[node.name] = await self._asked(node, now() + _KEPT_S)
        return known

    async def _asked(self, node: Node, until: float) -> _Disk:
        message = DescribeLogDirsRequest(topics=None)
        answer = await self._cluster.calls.call(node.endpoint, message, DescribeLogDirsResponse)
        if answer.error_code != NONE:
            raise error_for(answer.error_code, _WHAT, node=str(node.endpoint))
        disk = _Disk(until)
        for folder in answer.results:
            if folder.error_code != NONE:
                continue  # a directory that is offline; its logs have other leaders
            disk.total = -1 if folder.total_bytes < 0 or disk.total < 0 else disk.total + folder.total_bytes
            disk.usable = -1 if folder.usable_bytes < 0 or disk.usable < 0 else disk.usable + folder.usable_bytes
            for topic in folder.topics:
                for each in topic.partitions:
                    if not each.is_future_key:
                        disk.sizes[Partition(topic.name, each.partition_index)] = each.partition_size
        return disk
