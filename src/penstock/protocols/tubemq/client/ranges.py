"""Reading exactly ``[start, end)`` of one partition, with the next batches on their way before the last one is decoded.

A batch says which offsets it covers, its messages do not say which is theirs: offsets are places in the index of a
store, and other partitions of the store have places between ours. So where a batch reaches beyond the end of the range:

- if the store has only this partition, nothing is filtered and no message is missing, the n-th message is n places
  behind the batch's first one, and the cut is arithmetic;
- else a second reader is put at ``end``, and its first message is the first one not wanted. Message ids are compared
  for being equal, never by size: they do not grow.

The range is done when everything below ``end`` was looked at. A log that ends before is waited for a little, and is
then an error: who asks for a range counts on having all of it. In stores with several partitions a row's offset is a
lower bound of its place: it grows from row to row, and reading from there finds the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.errors import OffsetOutOfRange, PenstockError, UsageError
from penstock.model import LogRange, Partition
from penstock.protocols.tubemq.client.private_reader import Batch, PrivateReader, next_position
from penstock.protocols.tubemq.client.reading import decoded
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.partition_ids import INDEX_BYTES
from penstock.seams.retry import Retry

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.columnar import Messages
    from penstock.protocols.tubemq.client.readers import Readers
    from penstock.protocols.tubemq.client.shared import Shared

__all__ = ["TubeRangeRead"]

_MOST_AHEAD = 2
_SMALL_BYTES = 64 * 1024
_FIRST_WAIT_S = 0.02


class TubeRangeRead:
    """``penstock.seams.client.RangeRead``. Call ``next`` until it returns None; ``close`` if you stop before."""

    def __init__(
        self, shared: Shared, readers: Readers, wanted: LogRange, *, columns: Sequence[str] | None = None
    ) -> None:
        if not 0 <= wanted.start <= wanted.end:
            raise UsageError(
                f"a range from {wanted.start} to {wanted.end}", topic=wanted.topic, partition=wanted.partition
            )
        self._shared = shared
        self._readers = readers
        self._partition = Partition.of(wanted)
        self._columns = columns
        self._filters = shared.options.filters_of(wanted.topic)
        self._offset = next_position(wanted.start)
        self._end = next_position(wanted.end)
        self._reader: PrivateReader | None = None
        self._batch_span = self._batch_bytes = 0
        self._max_offset = -1

    @property
    def offset(self) -> int:
        """Where ``next`` goes on."""
        return self._offset

    async def next(self) -> Messages | None:
        """The next records, at least one; None when the range is done.

        Raises OffsetOutOfRange where records of the range are gone, CorruptBatch, ServerError, ConnectionLost.
        """
        retry = Retry(self._shared.channel, self._shared.options)
        short = Retry(self._shared.channel, self._shared.options, timeout_ms=self._shared.options.short_log_patience_ms)
        while self._offset < self._end:
            try:
                batch = await self._read()
            except PenstockError as error:
                self._note(error)
                await retry.after(error)
                continue
            if batch.wait_ms:
                await self._shared.channel.sleep(batch.wait_ms / 1_000)
                continue
            messages = await self._take(batch)
            if messages is not None:
                return messages
            if batch.next_offset == batch.offset and self._offset < self._end:
                await short.pause(self._too_short(), seconds=min(_FIRST_WAIT_S * 2**short.attempts, 0.4))
        if self._reader is not None:
            await self._reader.drain()
        self.close()
        await self._readers.trim()
        return None

    def close(self) -> None:
        """Give up what was asked for ahead; harmless when nothing was."""
        if self._reader is not None:
            reader, self._reader = self._reader, None
            self._readers.give_back(reader)

    async def _read(self) -> Batch:
        """The batch at ``_offset``, with those behind it already asked for."""
        if self._reader is None:
            await self._shared.topics.topics([self._partition.topic])
            self._partition = self._shared.placements.resolve(self._partition)
            self._reader = self._readers.borrow(self._partition)
            found = await self._reader.seek_exactly(self._offset)
            self._max_offset = found.max_offset
        while self._reader.ahead < self._wanted_ahead():
            await self._reader.ask()
        batch = await self._reader.take()
        self._batch_span, self._batch_bytes = batch.next_offset - batch.offset, batch.messages.size
        self._max_offset = max(self._max_offset, batch.max_offset)
        # The next request goes out before this batch is decoded.
        if batch.next_offset < self._end and self._batch_span and not self._reader.ahead:
            await self._reader.ask()
        return batch

    def _wanted_ahead(self) -> int:
        """One batch, and more while what they would bring is wanted; or small, as towards the end of a file, where
        brokers look through half of what is left at a time."""
        if 0 < 2 * self._batch_span <= self._end - self._offset:
            return _MOST_AHEAD
        return _MOST_AHEAD + 1 if 0 < self._batch_bytes < _SMALL_BYTES else 1

    async def _take(self, batch: Batch) -> Messages | None:
        """Decode; None if there is nothing of this partition in the batch."""
        from penstock.columnar import Messages

        following = min(batch.next_offset, self._end)
        if not batch.messages.count:
            self._offset = following
            return None
        found = decoded(batch, self._partition, self._columns, self._filters)
        rows = found.batch
        if batch.next_offset > self._end:
            if self._counts(batch):
                rows = rows.slice(0, (self._end - batch.offset) // INDEX_BYTES)
            else:
                rows = rows.slice(0, await self._first_at_end(batch, found.message_ids))
        self._offset = following
        return Messages.of(self._partition, rows, following) if rows.num_rows else None

    def _counts(self, batch: Batch) -> bool:
        """Whether each message's own offset can be counted from the batch's."""
        whole = batch.messages.count * INDEX_BYTES == batch.next_offset - batch.offset
        return whole and not self._filters and self._shared.placements.alone_in_store(self._partition)

    async def _first_at_end(self, batch: Batch, message_ids: pa.Array) -> int:
        """The row of the batch that is the first one at or behind the end of the range; all rows are before it if none
        is. A reader of its own looks."""
        reader = PrivateReader(self._shared, self._partition, filters=self._filters)
        try:
            await reader.seek_exactly(self._end)
            while reader.position < batch.next_offset:
                beyond = await reader.take()
                if beyond.wait_ms:
                    await self._shared.channel.sleep(beyond.wait_ms / 1_000)
                    continue
                ids = decoded(beyond, self._partition, ["offset"], self._filters).message_ids
                if len(ids):
                    place = message_ids.index(ids[0]).as_py()
                    return len(message_ids) if place < 0 else int(place)
                if beyond.next_offset == beyond.offset:
                    break
            return len(message_ids)
        finally:
            await reader.close()

    def _note(self, error: PenstockError) -> None:
        """An attempt failed: begin anew where the range stands, and ask a master again who has the partition."""
        if error.retriable:
            self._shared.placements.distrust(self._partition)
        self.close()

    def _too_short(self) -> OffsetOutOfRange:
        return OffsetOutOfRange(
            f"the log ends at {self._max_offset}, before the end of the range, {self._end}",
            code=Code.MOVED,
            name="MOVED",
            topic=self._partition.topic,
            partition=self._partition.id,
            offset=self._offset,
            node=self._partition.node,
            hint="The end was not this log's when the range was planned, or its broker was killed and lost its tail",
        )
