"""Messages into the log: single sends of many connections become few batches, each answered when it is durable.

While one round of batches is being written (and synced, where the policy asks for that), the next messages gather. Per
partition, order of arrival is order of offsets. Who is the only one that sends, and waits for each answer, waits for no
others' messages. What must not live here: what a message means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.concurrency.runtime import Runtime
from penstock.errors import PenstockError
from penstock.interfaces.enode import Appended, Batch, Enode
from penstock.model import Partition
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.faults import Refused
from penstock.records.scalar_codec import Stored, encode_batch, encode_single
from penstock.records.validation import Checked, Target, recompressed

__all__ = ["Writing"]

_BATCH_RECORDS = 2_000
_BATCH_BYTES = 512 << 10


class _Waiting(NamedTuple):
    record: Stored
    size: int
    codec: Target | None
    written: Callable[[int | PenstockError], None]


class Writing:
    """``most_bytes``: messages that wait at once; above it senders are refused (SERVER_RECEIVE_OVERFLOW)."""

    def __init__(self, enode: Enode, runtime: Runtime, most_bytes: int) -> None:
        self._enode = enode
        self._runtime = runtime
        self._most_bytes = most_bytes
        self._bytes = 0
        self._running = False
        self._waiting: dict[Partition, list[_Waiting]] = {}
        self._last: object = None

    def is_last(self, sender: object) -> bool:
        """Whether nobody else has sent since the last message of the one that sends now."""
        last, self._last = self._last, sender
        return last is sender

    @property
    def idle(self) -> bool:
        """Whether nothing is being written, nor waits for that."""
        return not self._running

    def put(
        self,
        partition: Partition,
        record: Stored,
        size: int,
        codec: Target | None,
        written: Callable[[int | PenstockError], None],
    ) -> None:
        """Have a message of about ``size`` bytes stored after all that were put before. Raises Refused.

        ``codec``: what the topic wants its batches in, if it wants any. ``written`` is called with its offset (-1: not
        known), or with what went wrong; it raises nothing.
        """
        if self._bytes + size > self._most_bytes:
            raise _overflow()
        self._bytes += size
        self._waiting.setdefault(partition, []).append(_Waiting(record, size, codec, written))
        if not self._running:
            self._running = True
            # Not at once: whatever else has arrived by now comes first, and goes into the same batches.
            self._runtime.call_later(0, self._begin)

    async def write_alone(self, partition: Partition, record: Stored, size: int) -> int:
        """Store a message of about ``size`` bytes now: its offset (-1: not known). Raises Refused, and what went wrong.

        Only while ``idle``. A round of one message; those that come while it waits for the disk have the next one.
        """
        if self._bytes + size > self._most_bytes:
            raise _overflow()
        self._bytes += size
        self._running = True
        try:
            return (await self._enode.append(partition, encode_single(record))).base_offset
        finally:
            self._bytes -= size
            self._running = bool(self._waiting)
            if self._running:
                self._runtime.call_later(0, self._begin)

    def _begin(self) -> None:
        start = self._runtime.begin if self._enode.near else self._runtime.spawn
        start(self._run(), "write messages")

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._write_round()
        finally:
            self._running = False

    async def _write_round(self) -> None:
        """One batch of each partition that has something to write."""
        waiting, self._waiting = self._waiting, {}
        rounds = [(partition, self._taken(partition, line)) for partition, line in waiting.items()]
        batches = [(partition, _batch_of(taken), taken[-1].codec) for partition, taken in rounds]
        results = await self._append(batches)
        for (_, taken), result in zip(rounds, results, strict=True):
            for row, each in enumerate(taken):
                self._bytes -= each.size
                each.written(result if isinstance(result, PenstockError) else _offset_of(result, row))

    async def _append(
        self, batches: Sequence[tuple[Partition, Batch, Target | None]]
    ) -> list[Appended | PenstockError]:
        packed: list[tuple[Partition, Batch]] = []
        faults: dict[int, PenstockError] = {}
        for row, (partition, batch, codec) in enumerate(batches):
            try:
                packed.append((partition, batch if codec is None else await self._packed(batch, codec)))
            except PenstockError as error:
                faults[row] = error
        results = await self._enode.append_all(packed)
        if not faults:
            return results
        appended = iter(results)
        return [faults[row] if row in faults else next(appended) for row in range(len(batches))]

    async def _packed(self, batch: Batch, codec: Target) -> Batch:
        plain = batch.data if isinstance(batch, Checked) else batch
        if codec.meets(plain):
            return batch
        return await self._runtime.in_thread(lambda: Checked(recompressed(plain, codec, len(plain))))

    def _taken(self, partition: Partition, waiting: list[_Waiting]) -> list[_Waiting]:
        """What goes into one batch; the rest waits on."""
        if len(waiting) == 1:
            return waiting
        count = size = 0
        timed = waiting[0].record.timed
        for each in waiting[:_BATCH_RECORDS]:
            if count and (size + each.size > _BATCH_BYTES or each.record.timed != timed):
                break
            size += each.size
            count += 1
        if count < len(waiting):
            self._waiting[partition] = waiting[count:]
        return waiting[:count]


def _overflow() -> Refused:
    return Refused(Code.SERVER_RECEIVE_OVERFLOW, "Put message failed, too many messages are being written")


def _batch_of(taken: Sequence[_Waiting]) -> Batch:
    return encode_single(taken[0].record) if len(taken) == 1 else Checked(encode_batch([each.record for each in taken]))


def _offset_of(stored: Appended, row: int) -> int:
    """Where a row went; -1 where the enode does not know."""
    return stored.base_offset + row if stored.base_offset >= 0 else -1
