"""Messages into the log: single sends of many connections become few batches, each answered when it is durable.

While one round of batches is being written (and synced, where the policy asks for that), the next messages gather. Per
partition, order of arrival is order of offsets. What must not live here: what a message means.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.columnar.recompress import recompressed, target_of
from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.broker.batches import Stored, encode_batch
from penstock.protocols.tubemq.front.faults import Refused, refusal
from penstock.seams.framing import Buffer
from penstock.seams.node import Enode
from penstock.seams.runtime import Promise, Runtime

__all__ = ["Writing"]

_BATCH_RECORDS = 2_000
_BATCH_BYTES = 512 << 10


class _Waiting(NamedTuple):
    record: Stored
    size: int
    written: Promise[int | PenstockError]


class Writing:
    """``most_bytes``: messages that wait at once; above it senders are refused (SERVER_RECEIVE_OVERFLOW)."""

    def __init__(self, enode: Enode, runtime: Runtime, most_bytes: int) -> None:
        self._enode = enode
        self._runtime = runtime
        self._most_bytes = most_bytes
        self._bytes = 0
        self._running = False
        self._waiting: dict[Partition, list[_Waiting]] = {}

    async def write(self, partition: Partition, record: Stored, size: int) -> int:
        """Store a message of about ``size`` bytes; its offset. Raises Refused."""
        if self._bytes + size > self._most_bytes:
            raise Refused(Code.SERVER_RECEIVE_OVERFLOW, "Put message failed, too many messages are being written")
        written: Promise[int | PenstockError] = self._runtime.promise()
        self._waiting.setdefault(partition, []).append(_Waiting(record, size, written))
        self._bytes += size
        if not self._running:
            self._running = True
            # Not at once: whatever else has arrived by now comes first, and goes into the same batches.
            self._runtime.call_later(0, lambda: self._runtime.spawn(self._run(), "write messages"))
        result = await written
        if isinstance(result, PenstockError):
            raise refusal(result)
        return result

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._write_round()
        finally:
            self._running = False

    async def _write_round(self) -> None:
        """One batch of each partition that has something to write."""
        rounds = [(partition, self._take(partition)) for partition in list(self._waiting)]
        batches = [
            await self._packed(partition, encode_batch([each.record for each in taken])) for partition, taken in rounds
        ]
        results = await self._enode.append_all(batches)
        for (_, taken), result in zip(rounds, results, strict=True):
            for row, each in enumerate(taken):
                self._bytes -= each.size
                each.written.set(result if isinstance(result, PenstockError) else result.base_offset + row)

    async def _packed(self, partition: Partition, batch: Buffer) -> tuple[Partition, Buffer]:
        """In the codec that the topic wants, if it wants one."""
        topic = self._enode.topic(partition.topic)
        target = target_of(topic.config) if topic is not None else None
        if target is None or target.meets(batch):
            return partition, batch
        return partition, await self._runtime.in_thread(lambda: recompressed(batch, target, len(batch)))

    def _take(self, partition: Partition) -> list[_Waiting]:
        waiting = self._waiting[partition]
        count = size = 0
        timed = waiting[0].record.timed
        for each in waiting[:_BATCH_RECORDS]:
            if count and (size + each.size > _BATCH_BYTES or each.record.timed != timed):
                break
            size += each.size
            count += 1
        taken = waiting[:count]
        if count == len(waiting):
            del self._waiting[partition]
        else:
            del waiting[:count]
        return taken
