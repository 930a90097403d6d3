"""The senders of a FakeLog: one producer's identity and numbering, and transactions as far as a producer sees them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa

from penstock.errors import FencedError, PenstockError, ServerError
from penstock.interfaces import Packed, Sent
from penstock.interfaces.client import Heard, Sender, TransactionalSender
from penstock.model import Codec, Committed, GroupMetadata, Node, Partition, PreparedTransaction
from penstock.records.batch import Producing
from penstock.records.encoding import encode_v2
from penstock.records.scalar_writer import Rows, columns_of

if TYPE_CHECKING:
    from tests.conformance.fake_log import FakeLog

T = TypeVar("T")


def tell_later(work: Coroutine[Any, Any, T], heard: Callable[[T | Exception], None]) -> asyncio.Task[T]:
    """Tell what it returns or raises; nothing, if it is cancelled."""

    def tell(task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            error = task.exception()
            heard(task.result() if error is None else cast("Exception", error))

    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(tell)
    return task


@dataclass(slots=True)
class FakePacked:
    """A batch to encode; ``producer`` and ``sequence`` are -1 without idempotence, and may change until stored."""

    partition: Partition
    rows: pa.RecordBatch
    codec: Codec
    producer: int
    sequence: int

    @property
    def records(self) -> int:
        return int(self.rows.num_rows)

    @property
    def size(self) -> int:
        return int(self.rows.nbytes)

    def encoded(self) -> memoryview:
        producing = Producing(self.producer, 0, self.sequence) if self.producer >= 0 else Producing()
        return encode_v2(self.rows, codec=self.codec, producing=producing, timestamp_ms=2_000)


class FakeSender(Sender):
    """One producer; its sequences count batches. After a batch was given up, those behind it are numbered anew."""

    numbered: bool = False

    def __init__(self, log: FakeLog, idempotent: bool) -> None:
        self._log = log
        self._idempotent = self.numbered = idempotent
        self._producers: dict[Partition, int] = {}
        self._waiting: dict[Partition, list[FakePacked]] = defaultdict(list)
        self._next: dict[Partition, int] = defaultdict(int)

    async def open(self) -> None:
        self._log.fault("open")

    def partition_for(self, key: bytes, partitions: int) -> int:
        return sum(key) % partitions

    def pack(self, partition: Partition, rows: Rows, codec: Codec) -> Packed:
        packed = FakePacked(partition, columns_of(rows), codec, -1, -1)
        if self._idempotent:
            if partition not in self._producers:
                self._restart(partition)
            self._number(packed)
            self._waiting[partition].append(packed)
        return packed

    async def send(self, node: Node, batches: Sequence[Packed], *, acks: int, timeout_s: float) -> Sequence[Sent]:
        del node, timeout_s
        self._log.calls.append(("send", [(packed.partition, packed.records) for packed in batches]))
        await self._log.delay()
        try:
            self._log.fault("send")
        except PenstockError as error:
            return [Sent(packed, -1, -1, error) for packed in batches]
        return [self._store(packed, acks) for packed in batches]

    def send_at_once(self, node: Node, batches: Sequence[Packed], heard: Heard, *, acks: int, timeout_s: float) -> bool:
        """As ``send``, unless the log wants to be waited for."""
        if not self._log.takes_at_once:
            return False
        tell_later(self.send(node, batches, acks=acks, timeout_s=timeout_s), heard)
        return True

    async def recover(self, packed: Packed, error: PenstockError) -> Packed | None:
        if error.retriable or (isinstance(error, ServerError) and error.name == "OUT_OF_ORDER"):
            return packed
        await self.abandon(packed)
        return None

    async def abandon(self, packed: Packed) -> None:
        self._log.calls.append(("abandon", packed.partition))
        if any(each is packed for each in self._waiting[packed.partition]):
            self._done(packed)
            self._restart(packed.partition)

    def _store(self, packed: Packed, acks: int) -> Sent:
        assert isinstance(packed, FakePacked)
        try:
            base = self._log.append(packed.partition, packed.encoded())
            self._log.fault("acknowledge")
        except PenstockError as error:
            return Sent(packed, -1, -1, error)
        self._done(packed)
        return Sent(packed, -1 if acks == 0 else base, -1, None)

    def _restart(self, partition: Partition) -> None:
        self._log.senders += 1
        self._producers[partition] = self._log.senders
        self._next[partition] = 0
        for packed in self._waiting[partition]:
            self._number(packed)

    def _number(self, packed: FakePacked) -> None:
        packed.producer = self._producers[packed.partition]
        packed.sequence = self._next[packed.partition]
        self._next[packed.partition] += 1

    def _done(self, packed: Packed) -> None:
        waiting = self._waiting[packed.partition]
        waiting[:] = [each for each in waiting if each is not packed]


class FakeTransactionalSender(FakeSender, TransactionalSender):
    """Notes when transactions begin and end; the log shows everything. A fault named "fenced" is final."""

    fatal: PenstockError | None = None

    def __init__(self, log: FakeLog, transactional_id: str) -> None:
        super().__init__(log, idempotent=True)
        self.transactional_id = transactional_id

    def begin(self) -> None:
        self._log.calls.append(("begin", self.transactional_id))

    async def recover(self, packed: Packed, error: PenstockError) -> Packed | None:
        if not error.retriable:
            self._note(error)
        return await super().recover(packed, error)

    async def add_offsets(self, offsets: Mapping[Partition, Committed], group: GroupMetadata) -> None:
        self._log.calls.append(("offsets", (dict(offsets), group)))
        self._ask("offsets")

    def prepared(self) -> PreparedTransaction:
        return PreparedTransaction(self.transactional_id, 7, 1)

    async def end(self, *, commit: bool) -> None:
        self._log.calls.append(("end", commit))
        await self._log.delay()
        self._ask("end")

    def _ask(self, what: str) -> None:
        try:
            self._log.fault(what)
        except PenstockError as error:
            self._note(error)
            raise

    def _note(self, error: PenstockError) -> None:
        if isinstance(error, FencedError):
            self.fatal = error
