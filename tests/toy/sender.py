"""The toy's sender: a write a batch, each under a number of its own: so it is stored once, however often it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.interfaces import Packed, Sent
from penstock.interfaces.client import Sender
from penstock.model import Codec, Node, Partition
from penstock.records.compression import compress
from penstock.records.scalar_writer import Rows, columns_of
from tests.toy.records import encode

if TYPE_CHECKING:
    from tests.toy.client import ToyClient


@dataclass(frozen=True, slots=True)
class ToyPacked:
    partition: Partition
    records: int
    data: bytes | memoryview
    codec: Codec
    once: tuple[int, int, int] | None

    @property
    def size(self) -> int:
        return len(self.data)


class ToySender(Sender):
    numbered = False

    def __init__(self, client: ToyClient, *, once: bool) -> None:
        self._client = client
        self._once = once

    async def open(self) -> None:
        return

    def partition_for(self, key: bytes, partitions: int) -> int:
        return sum(key) % partitions

    def pack(self, partition: Partition, rows: Rows, codec: Codec) -> ToyPacked:
        messages = encode(columns_of(rows), self._client.channel.now_ms())
        once = (int(self._client.channel.random() * 2**62), 0, 0) if self._once else None
        return ToyPacked(partition, rows.num_rows, compress(codec, messages) if codec else messages, codec, once)

    async def send(self, node: Node, batches: Sequence[Packed], *, acks: int, timeout_s: float) -> Sequence[Sent]:
        return [await self._send(node, packed, timeout_s) for packed in batches]

    async def _send(self, node: Node, packed: Packed, timeout_s: float) -> Sent:
        assert isinstance(packed, ToyPacked)
        said = {"do": "write", "topic": packed.partition.topic, "partition": packed.partition.id}
        said |= {"codec": int(packed.codec), "once": packed.once}
        try:
            answer, _ = await self._client.ask(node, said, packed.data, lane="write", timeout_s=timeout_s)
        except PenstockError as error:
            return Sent(packed, -1, -1, error)
        return Sent(packed, answer["offset"], -1, None)

    async def recover(self, packed: Packed, error: PenstockError) -> Packed | None:
        return packed if error.retriable else None

    async def abandon(self, packed: Packed) -> None:
        return
