"""A range's reads: several batches ahead, by a private reader, which needs no offset to ask for the next one.

A batch says which offsets it covers, its messages do not say which is theirs: offsets are places in the index of a
store, and other partitions of the store have places between ours. So where a batch reaches beyond the end of the range:

- if the store has only this partition, nothing is filtered and no message is missing, the n-th message is n places
  behind the batch's first one, and the cut is arithmetic;
- else a second reader is put at the end, and its first message is the first one not wanted. Message ids are compared
  for being equal, never by size: they do not grow.

In stores with several partitions a row's offset is a lower bound of its place: it grows from row to row, and reading
from there finds the row. Order, end and attempts are the range reader's (`penstock.interfaces.RangeSource`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.errors import CorruptBatch, OffsetOutOfRange, PenstockError
from penstock.interfaces.client import ReadFrom
from penstock.model import LogRange, Partition
from penstock.protocols.tubemq.client.damaged import decoded, in_pieces
from penstock.protocols.tubemq.client.private_reader import Batch, PrivateReader, next_position
from penstock.protocols.tubemq.client.reading import TubeFetched
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.partition_ids import INDEX_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.protocols.tubemq.client.readers import Readers
    from penstock.protocols.tubemq.client.shared import Shared
    from penstock.protocols.tubemq.msg_time import MsgTimeZone
    from penstock.protocols.tubemq.records import Decoded
    from penstock.records import Messages

__all__ = ["TubeRange"]

_MOST_AHEAD = 2
_SMALL_BYTES = 64 * 1024


class _CutAt(TubeFetched):
    """A batch that reaches beyond the end, to be cut before the message that is the first one there (None: there is
    none, and all of it is before)."""

    __slots__ = ("_beyond",)

    def __init__(
        self, read: ReadFrom, batch: Batch, filters: tuple[str, ...], zone: MsgTimeZone | None, beyond: int | None
    ) -> None:
        super().__init__(read, batch, None, filters, zone)
        self._beyond = beyond

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]:
        """What lies before the end."""
        from penstock.records import Messages

        assert self._batch is not None
        assert stop is not None
        messages, offset = self._batch.messages, self._batch.offset
        found = decoded(messages, offset, self.partition, columns, self._filters, self._zone)
        return Messages.of(self.partition, self._before(found), stop), stop

    def pieces(
        self, *, stop: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Messages | CorruptBatch]:
        """The same, message by message where one is damaged."""
        from penstock.records import Messages

        assert self._batch is not None
        assert stop is not None
        batch, over = self._batch, False

        def made(found: Decoded, following: int) -> Messages:
            nonlocal over
            rows = self._before(found)
            over = rows.num_rows < found.batch.num_rows
            return Messages.of(self.partition, rows, stop if over else min(following, stop))

        filters, zone = self._filters, self._zone
        for piece in in_pieces(batch.messages, batch.offset, stop, self.partition, columns, filters, zone, made):
            yield piece
            if over:
                return

    def _before(self, found: Decoded) -> pa.RecordBatch:
        """The rows before the end."""
        place = -1 if self._beyond is None else found.message_ids.index(self._beyond).as_py()
        return found.batch if place < 0 else found.batch.slice(0, place)


class TubeRange:
    """``penstock.interfaces.RangeSource``. ``depth`` is one batch, and more while what they would bring is wanted; or
    small, as towards the end of a file, where brokers look through half of what is left at a time."""

    def __init__(self, shared: Shared, readers: Readers, wanted: LogRange) -> None:
        self.channel = shared.channel
        self.limits = shared.options
        self.start = next_position(wanted.start)
        self.end = next_position(wanted.end)
        self.ahead = 0
        self.depth = 1
        self._shared = shared
        self._readers = readers
        self._partition = Partition.of(wanted)
        self._filters = shared.options.filters_of(wanted.topic)
        self._zone = shared.options.zone
        self._reader: PrivateReader | None = None

    async def ask(self, offset: int) -> None:
        """Ask for one more batch, after putting a reader at ``offset`` if there is none."""
        if self._reader is None:
            await self._put_reader(offset)
        assert self._reader is not None
        await self._reader.ask()
        self.ahead = self._reader.ahead

    async def take(self) -> TubeFetched:
        """The next batch; a broker that wants to be left alone is."""
        assert self._reader is not None
        batch = await self._reader.take()
        while batch.wait_ms:
            await self._shared.channel.sleep(batch.wait_ms / 1_000)
            batch = await self._reader.take()
        self.ahead = self._reader.ahead
        self.depth = self._worth_having(batch)
        read = ReadFrom(self._partition, batch.offset, 0)
        if batch.next_offset > self.end and batch.messages.count and not self._counts(batch):
            return _CutAt(read, batch, self._filters, self._zone, await self._first_at_end(batch))
        return TubeFetched(read, batch, None, self._filters, self._zone)

    def note(self, error: PenstockError) -> None:
        """Ask a master again who has the partition, before the next attempt."""
        if error.retriable:
            self._shared.placements.distrust(self._partition)

    def gone(self, text: str, offset: int) -> OffsetOutOfRange:
        """301, as a broker would say it."""
        return OffsetOutOfRange(
            text,
            code=Code.MOVED,
            name="MOVED",
            topic=self._partition.topic,
            partition=self._partition.id,
            offset=offset,
            node=self._partition.node,
            hint="The end was not this log's when the range was planned, or its broker was killed and lost its tail",
        )

    def close(self) -> None:
        """Give the reader back; a connection with an answer on its way is hung up."""
        self.ahead = 0
        if self._reader is not None:
            reader, self._reader = self._reader, None
            self._readers.give_back(reader)

    async def finish(self) -> None:
        """Wait for what is on its way before the reader is given back."""
        if self._reader is not None:
            await self._reader.drain()
        self.close()
        await self._readers.trim()

    async def _put_reader(self, offset: int) -> None:
        await self._shared.topics.topics([self._partition.topic])
        self._partition = self._shared.placements.resolve(self._partition)
        self._reader = self._readers.borrow(self._partition)
        await self._reader.seek_exactly(offset)

    def _worth_having(self, batch: Batch) -> int:
        if 0 < 2 * (batch.next_offset - batch.offset) <= self.end - batch.next_offset:
            return _MOST_AHEAD
        return _MOST_AHEAD + 1 if 0 < batch.messages.size < _SMALL_BYTES else 1

    def _counts(self, batch: Batch) -> bool:
        """Whether each message's own offset can be counted from the batch's."""
        whole = batch.messages.count * INDEX_BYTES == batch.next_offset - batch.offset
        return whole and not self._filters and self._shared.placements.alone_in_store(self._partition)

    async def _first_at_end(self, batch: Batch) -> int | None:
        """The id of the first message at or behind the end, as far as the batch goes. A reader of its own looks."""
        from penstock.protocols.tubemq.records import decode

        reader = PrivateReader(self._shared, self._partition, filters=self._filters)
        try:
            await reader.seek_exactly(self.end)
            while reader.position < batch.next_offset:
                beyond = await reader.take()
                if beyond.wait_ms:
                    await self._shared.channel.sleep(beyond.wait_ms / 1_000)
                    continue
                # A damaged one there is counted on both sides of the end: it has no id that could be believed.
                ids = decode(beyond.messages, columns=["offset"], filters=self._filters).message_ids
                if len(ids):
                    first: int = ids[0].as_py()
                    return first
                if beyond.next_offset == beyond.offset:
                    break
            return None
        finally:
            await reader.close()
