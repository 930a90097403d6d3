"""Reading without a group: polls, exact ranges, and where partitions begin and end, all by private readers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from penstock.errors import (
    ConnectionLost,
    CorruptBatch,
    OffsetOutOfRange,
    PenstockError,
    ProtocolViolation,
    RequestTimeout,
    ServerError,
    UsageError,
)
from penstock.interfaces.channel import Retry
from penstock.interfaces.client import FoundOffset, ReadFrom, ReadLimits
from penstock.model import Endpoint, LogRange, Node, Offset, OffsetSpec, Partition
from penstock.protocols.tubemq.client.batches import decoded, in_pieces
from penstock.protocols.tubemq.client.calls import Booking, Position, Started, position_of
from penstock.protocols.tubemq.errors import Code, error_of
from penstock.protocols.tubemq.wire.messages import (
    CommitOffsetRequestC2B,
    CommitOffsetResponseB2C,
    GetMessageRequestC2B,
    GetMessageResponseB2C,
)
from penstock.protocols.tubemq.wire.strings import INDEX_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.protocols.tubemq.client.cluster import Shared
    from penstock.protocols.tubemq.config import MsgTimeZone
    from penstock.protocols.tubemq.wire.record_columns import Decoded
    from penstock.protocols.tubemq.wire.records import MessageSet
    from penstock.records import Messages

__all__ = ["Batch", "Polling", "PrivateReader", "Readers", "TubeFetched", "TubeRange", "find_offsets", "next_position"]


# Where partitions begin and end: a private reader that registers at 0 learns both, because brokers clamp.
async def find_offsets(
    shared: Shared, readers: Readers, wanted: Mapping[Partition, OffsetSpec]
) -> dict[Partition, FoundOffset]:
    """The offset of each partition. Raises UsageError for times, ServerError, ConnectionLost, RequestTimeout."""
    for partition, spec in wanted.items():
        if spec.name is None:
            raise UsageError(
                "TubeMQ has no offsets by time",
                topic=partition.topic,
                partition=partition.id,
                hint="Ask for the earliest or the latest offset; or say an offset",
            )
    await shared.topics.topics({partition.topic for partition in wanted})
    outcomes = await shared.channel.gather([_ends(shared, readers, partition) for partition in wanted])
    found: dict[Partition, FoundOffset] = {}
    for (partition, spec), outcome in zip(wanted.items(), outcomes, strict=True):
        if isinstance(outcome, BaseException):
            raise outcome
        found[partition] = FoundOffset(outcome.offset if spec.name is Offset.EARLIEST else outcome.max_offset)
    await readers.trim()
    return found


async def _ends(shared: Shared, readers: Readers, partition: Partition) -> Position:
    retry = Retry(shared.channel, shared.options)
    placed = shared.placements.resolve(partition)
    while True:
        reader = readers.borrow(placed)
        try:
            found = await reader.seek(0)
        except PenstockError as error:
            shared.placements.distrust(placed)
            await retry.after(error)
        else:
            readers.give_back(reader)
            return found


# PrivateReader: one partition read from an exact offset on, under a group of our own. Readers: where they come from.
#
# Brokers read for groups only, and remember a group's place in a partition for weeks. So reading without a group
# borrows one out of a bounded set (``reader_group`` with a number behind): a number that another client holds in this
# partition is answered by 410, and the next one is tried.
#
# A batch's answer does not say where it ends. So each read is a pair of requests sent together: get the next batch, and
# confirm it; the second answer says where the group stands now, which is where the batch ends. Servers work off one
# connection's requests in the order they came, so pairs may be sent ahead; that nothing slipped in between is checked
# by comparing each batch's beginning with the end of the one before. Source: Apache InLong TubeMQ 2.x, broker methods
# 15, 17, 18 (``manualCommitOffset``).
GROUPS: Final = 64
"""How many groups of ours there may be: far more than anybody reads one partition with at once."""

_FIRST_GROUPS: Final = 16
_ALL_OF_MEMORY: Final = 303
_NOTHING_NOW: Final = frozenset({Code.NOT_FOUND})
_NOT_OURS: Final = frozenset({Code.HB_NO_NODE, Code.DUPLICATE_PARTITION, Code.UNAUTHORIZED})

Get = Started[GetMessageRequestC2B, GetMessageResponseB2C]
Commit = Started[CommitOffsetRequestC2B, CommitOffsetResponseB2C]


def next_position(offset: int) -> int:
    """The first place at or after ``offset`` where a record can begin."""
    return -(-offset // INDEX_BYTES) * INDEX_BYTES


class Batch(Struct, frozen=True):
    """One answer: ``[offset, next_offset)`` was looked at, and ``messages`` are what of it is this partition's.

    ``wait_ms`` is above 0 where the broker asks to be left alone so long.
    """

    offset: int
    next_offset: int
    max_offset: int
    messages: MessageSet
    wait_ms: int = 0


class PrivateReader:
    """For one use at a time. ``position`` is where the next batch to be asked for begins, -1 before ``seek``."""

    def __init__(self, shared: Shared, partition: Partition, *, filters: tuple[str, ...] = ()) -> None:
        self._shared = shared
        self._group = int(shared.channel.random() * _FIRST_GROUPS)
        priority = shared.options.tube.query_priority or _ALL_OF_MEMORY
        self._booking = Booking("", "", partition, filters, priority)
        self._choose()
        self._endpoint: Endpoint | None = None
        self._booked = False
        self._ahead: deque[tuple[Get, Commit]] = deque()
        self.position = -1

    @property
    def partition(self) -> Partition:
        """What it reads."""
        return self._booking.partition

    @property
    def ahead(self) -> int:
        """How many batches were asked for and not taken yet."""
        return len(self._ahead)

    async def seek(self, offset: int) -> Position:
        """Go to ``offset``, which the broker clamps to what there is: where that is, and where the log ends."""
        self.abandon()
        node = await self._shared.topics.leader(self.partition)
        self._endpoint = node.endpoint
        for attempt in range(GROUPS):
            try:
                found = await self._shared.brokers.register(node.endpoint, self._booking, start=offset)
            except ServerError as error:
                if error.code != Code.PARTITION_OCCUPIED or attempt == GROUPS - 1:
                    raise
                self._group = (self._group + 1) % GROUPS
                self._choose()
            else:
                self.position = found.offset
                self._booked = True
                return found
        raise AssertionError("there is at least one group")

    async def ask(self) -> None:
        """Ask for the batch after the last one asked for; it is taken later."""
        assert self._endpoint is not None
        brokers = self._shared.brokers
        get = await brokers.start_get(self._endpoint, self._booking, manual=True)
        self._ahead.append((get, await brokers.start_commit(self._endpoint, self._booking)))

    async def take(self) -> Batch:
        """The next batch, asking for it if that was not done. What is behind it is given up if anything is wrong.

        A booking that was lost is made again. Raises OffsetOutOfRange where records are gone, ServerError.
        """
        try:
            return await self._take()
        except PenstockError as error:
            place = self.position
            self.abandon()
            self.position = -1
            if isinstance(error, ServerError) and error.code in _NOT_OURS and place >= 0:
                # We were silent for too long, or another took the group's number: book anew where we stood.
                await self.seek_exactly(place)
                return await self._take()
            raise

    async def seek_exactly(self, offset: int) -> Position:
        """As `seek`, but raises OffsetOutOfRange if there is nothing at ``offset``."""
        wanted = next_position(offset)
        found = await self.seek(wanted)
        if found.offset != wanted:
            self.position = -1
            raise self._gone(wanted, found)
        return found

    def abandon(self) -> None:
        """Give up what was asked for ahead; harmless when nothing was."""
        if self._ahead:
            self._ahead[0][0].abandon()
            self._ahead.clear()

    async def drain(self) -> None:
        """Wait for what was asked for ahead, and forget it: kinder to others on the connection than `abandon`."""
        while self._ahead:
            self.position = -1
            get, commit = self._ahead.popleft()
            try:
                await get.payload()
                await commit.answer()
            except PenstockError:
                continue

    async def close(self) -> None:
        """Give the partition back. What fails of that the broker will do by itself when it hears no more."""
        self.abandon()
        if self._endpoint is not None and self._booked:
            self._booked = False
            try:
                await self._shared.brokers.unregister(self._endpoint, self._booking, consumed=True)
            except PenstockError:
                return

    async def _take(self) -> Batch:
        from penstock.protocols.tubemq.wire.records import read_messages

        if not self._ahead:
            await self.ask()
        get, commit = self._ahead.popleft()
        payload = await get.payload()
        committed = await commit.answer()
        messages = read_messages(payload)
        head = messages.answer
        if head.err_code == Code.SERVER_CONSUME_SPEED_LIMIT:
            wait_ms = max(head.min_limit_time, 0) or self._shared.options.tube.not_found_wait_ms
            return Batch(self.position, self.position, -1, messages, wait_ms)
        if head.err_code not in _NOTHING_NOW and head.err_code != Code.SUCCESS:
            raise self._error(head.err_code, head.err_msg)
        assert self._endpoint is not None
        after = position_of(committed, self._endpoint, self._booking)
        begun = head.curr_offset if head.err_code == Code.SUCCESS else self.position
        if begun != self.position:
            raise self._gone(self.position, Position(begun, after.max_offset))
        if not begun <= after.offset <= max(after.max_offset, begun) or after.offset % INDEX_BYTES:
            raise ProtocolViolation(
                f"a batch from {begun} to {after.offset} of a log that ends at {after.max_offset}",
                topic=self.partition.topic,
                partition=self.partition.id,
                node=str(self._endpoint),
            )
        self.position = after.offset
        return Batch(begun, after.offset, after.max_offset, messages)

    def _choose(self) -> None:
        group = f"{self._shared.options.tube.reader_group}-{self._group}"
        self._booking = self._booking.for_group(group, self._shared.identity.consumer_id(group))

    def _gone(self, wanted: int, found: Position) -> OffsetOutOfRange:
        what = "begins" if found.offset > wanted else "ends"
        return OffsetOutOfRange(
            f"there is nothing at {wanted}: the log {what} at {found.offset}",
            code=Code.MOVED,
            name="MOVED",
            topic=self.partition.topic,
            partition=self.partition.id,
            offset=wanted,
            node=str(self._endpoint),
            hint="Retention deleted it, or the broker was killed before it had written it to disk",
        )

    def _error(self, code: int, text: str) -> ServerError:
        return error_of(
            code,
            text,
            topic=self.partition.topic,
            partition=self.partition.id,
            offset=self.position,
            node=str(self._endpoint),
        )


# Reading without a group: one poll of some partitions of one broker, each by a private reader of its own.
#
# Brokers answer at once, also when there is nothing; so waiting is done here: all partitions are asked, and if none of
# them has anything, again after a pause, until the time the caller gives is over.
class TubeFetched:
    """What one poll brought for one partition; ``penstock.interfaces.client.Fetched``."""

    __slots__ = (
        "_batch",
        "_filters",
        "_zone",
        "error",
        "high_watermark",
        "log_start_offset",
        "next_offset",
        "offset",
        "partition",
    )

    def __init__(
        self,
        asked: ReadFrom,
        batch: Batch | None,
        error: PenstockError | None,
        filters: tuple[str, ...],
        zone: MsgTimeZone | None = None,
    ) -> None:
        self.partition = asked.partition
        self.offset = asked.offset
        self.error = error
        self.high_watermark = -1 if batch is None else batch.max_offset
        self.log_start_offset = -1
        self.next_offset = asked.offset if batch is None else max(asked.offset, batch.next_offset)
        self._batch = batch
        self._filters = filters
        self._zone = zone

    @property
    def size(self) -> int:
        """Bytes held; 1 for an answer without messages that moved on: what moves the position is not nothing."""
        if self._batch is None:
            return 0
        if not self._batch.messages.count:
            return int(self.next_offset > self.offset)
        return self._batch.messages.size

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]:
        """The records in ``[offset, stop)`` and the offset to read next. Raises CorruptBatch, or ``error`` if set.

        ``stop`` is kept to where records' own offsets are known: in a store with one partition, without filters.
        """
        from penstock.records import Messages

        if self.error is not None:
            raise self.error
        if self._batch is None or not self._batch.messages.count:
            return Messages(), self.next_offset if stop is None else min(self.next_offset, stop)
        messages, offset = self._batch.messages, self._batch.offset
        rows = decoded(messages, offset, self.partition, columns, self._filters, self._zone).batch
        following = self.next_offset
        if stop is not None and following > stop:
            rows = rows.slice(0, max(0, (next_position(stop) - self._batch.offset) // INDEX_BYTES))
            following = stop
        return Messages.of(self.partition, rows, following), following

    @property
    def topic_id(self) -> None:
        """TubeMQ's topics have none."""

    def pieces(
        self, *, stop: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Messages | CorruptBatch]:
        """``penstock.interfaces.client.DecodesInPieces``: message by message where one is damaged."""
        from penstock.protocols.tubemq.wire.records import part_of, places
        from penstock.records import Messages

        if self._batch is None:
            return
        batch = self._batch

        def made(found: Decoded, following: int) -> Messages:
            return Messages.of(self.partition, found.batch, following)

        messages, end = batch.messages, self.next_offset
        if stop is not None and end > stop:
            wanted = max(0, (next_position(stop) - batch.offset) // INDEX_BYTES)
            messages, end = part_of(messages, places(messages), 0, wanted), stop
        yield from in_pieces(messages, batch.offset, end, self.partition, columns, self._filters, self._zone, made)


class Polling:
    """The private readers behind ``LogClient.read``: one a partition and lane, where its last poll left it."""

    def __init__(self, shared: Shared, readers: Readers) -> None:
        self._shared = shared
        self._readers = readers
        self._zone = shared.options.zone
        self._polled: dict[tuple[Partition, str], PrivateReader] = {}

    async def read(self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str) -> Sequence[TubeFetched]:
        """One poll. Per-partition trouble is in ``TubeFetched.error``; a broken connection is raised."""
        channel, pause_s = self._shared.channel, self._shared.options.tube.not_found_wait_ms / 1_000
        deadline = channel.monotonic() + limits.max_wait_ms / 1_000
        while True:
            outcomes = await channel.gather([self._poll(each, lane) for each in reads])
            found, wait_s = self._fetched(node, reads, outcomes, lane)
            left_s = deadline - channel.monotonic()
            if left_s <= 0 or any(each.error is not None or each.next_offset != each.offset for each in found):
                return found
            await channel.sleep(min(left_s, max(wait_s, pause_s)))

    async def _poll(self, read: ReadFrom, lane: str) -> Batch:
        reader = self._polled.get((read.partition, lane))
        if reader is None:
            reader = self._polled[read.partition, lane] = self._readers.borrow(read.partition)
            reader.position = -1
        if reader.position != next_position(read.offset):
            await reader.seek_exactly(read.offset)
        return await reader.take()

    def _fetched(
        self, node: Node, reads: Sequence[ReadFrom], outcomes: Sequence[Batch | BaseException], lane: str
    ) -> tuple[list[TubeFetched], float]:
        """The answers in order, and how long the broker wants to be left alone."""
        found: list[TubeFetched] = []
        wait_ms = 0
        for read, outcome in zip(reads, outcomes, strict=True):
            filters = self._shared.options.filters_of(read.partition.topic)
            if isinstance(outcome, Batch):
                wait_ms = max(wait_ms, outcome.wait_ms)
                found.append(TubeFetched(read, outcome, None, filters, self._zone))
                continue
            self._shared.placements.distrust(read.partition)
            self._polled.pop((read.partition, lane), None)
            if not isinstance(outcome, PenstockError) or isinstance(outcome, ConnectionLost | RequestTimeout):
                raise outcome
            outcome.node = outcome.node or str(node.endpoint)
            found.append(TubeFetched(read, None, outcome, filters))
        return found, wait_ms / 1_000

    async def close(self) -> None:
        """Give all partitions back."""
        polled, self._polled = self._polled, {}
        for reader in polled.values():
            await reader.close()


# A range's reads: several batches ahead, by a private reader, which needs no offset to ask for the next one.
#
# A batch says which offsets it covers, its messages do not say which is theirs: offsets are places in the index of a
# store, and other partitions of the store have places between ours. So where a batch reaches beyond the end of the
# range:
#
# - if the store has only this partition, nothing is filtered and no message is missing, the n-th message is n places
#   behind the batch's first one, and the cut is arithmetic;
# - else a second reader is put at the end, and its first message is the first one not wanted. Message ids are compared
#   for being equal, never by size: they do not grow.
#
# In stores with several partitions a row's offset is a lower bound of its place: it grows from row to row, and reading
# from there finds the row. Order, end and attempts are the range reader's (`penstock.interfaces.RangeSource`).
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
        from penstock.protocols.tubemq.wire.record_columns import decode

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


# Readers: private readers that are kept for the next use, so that reading on in a partition costs one request less.
#
# What is kept is bounded; the oldest is given back to its broker.
_MOST_KEPT: Final = 256


class Readers:
    """Private readers of one client."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._kept: list[PrivateReader] = []

    def borrow(self, partition: Partition) -> PrivateReader:
        """A reader of ``partition`` for this caller alone; give it back, or close it."""
        for reader in self._kept:
            if reader.partition == partition:
                self._kept.remove(reader)
                return reader
        return PrivateReader(self._shared, partition, filters=self._shared.options.filters_of(partition.topic))

    def give_back(self, reader: PrivateReader) -> None:
        """It is not used any more; without anything asked for ahead."""
        reader.abandon()
        self._kept.append(reader)

    async def trim(self) -> None:
        """Close those that are kept beyond the bound."""
        while len(self._kept) > _MOST_KEPT:
            await self._kept.pop(0).close()

    async def close(self) -> None:
        """Close all that are kept."""
        kept, self._kept = self._kept, []
        for reader in kept:
            await reader.close()
