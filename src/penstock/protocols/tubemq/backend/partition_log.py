"""One partition of the cluster as a log with one offset a record, for any number of readers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from penstock.concurrency.locks import Locks
from penstock.errors import LogOffsetOutOfRange, OffsetOutOfRange, UpstreamLost
from penstock.model import Partition
from penstock.protocols.tubemq.client.batches import wrong
from penstock.protocols.tubemq.client.reading import Batch, PrivateReader
from penstock.protocols.tubemq.wire.strings import INDEX_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.protocols.tubemq.client.cluster import Shared

__all__ = ["WINDOW", "Chunk", "Chunks", "Ends", "PartitionLog", "Piece", "Spot", "Spots", "window_of"]

# Offsets of a TubeMQ partition as a node counts them: one a record, ascending, the same for everybody who reads.
#
# TubeMQ's offsets are places in the index of a *store*, 28 bytes each; here they are counted in records. All partitions
# of a store share one index, and an answer does not say which places its messages have. So:
#
# - Where a store has one partition, a record's offset is its place.
# - Elsewhere the index is cut into *windows* of `WINDOW` places, and the n-th message of a partition in window k has
#   the offset ``k * WINDOW + n``. That follows from what is in the log, not from how it is read, so it is the same at
#   every node and after every restart. It is never above the message's own place, and where a store has one partition
#   both rules say the same: a topic that grows from one to several keeps its offsets.
#
# Retention deletes at any place. In the window in which the log begins then, counting begins with the first place that
# is left, at the offset of that place: what was not read yet has offsets that are not below what they were, so a reader
# that comes back misses nothing; it may see records of that one window twice.
WINDOW: Final = 4_096
"""Places. Never to be changed: offsets that clients keep would mean other records.

The first reader of an offset has to count from its window's start: this many messages at most.
Each window's end is looked up by one more request, so much smaller ones would cost more than reading.
"""

_MOST: Final = 256


class Spot(Struct, frozen=True):
    """Messages before place ``at`` have offsets below ``next``; the first one from there on, in its window, gets it."""

    next: int
    at: int

    @property
    def edge(self) -> int:
        """Where the window ends: the first place of the next one."""
        return window_of(self.at) + WINDOW

    def after(self, count: int, at: int) -> Spot:
        """``count`` messages further, all of this window, when everything before ``at`` was looked at."""
        if at >= self.edge:
            return Spot(window_of(at), at)
        return Spot(self.next + count, at)


def window_of(place: int) -> int:
    """The first place of its window, which is also the offset at which the window begins."""
    return place - place % WINDOW


class Spots:
    """From which place readers go on, by the offset that they ask for; the ones used last."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, Spot] = OrderedDict()

    def at(self, offset: int) -> Spot | None:
        """Where to look for the record at ``offset`` or the first one behind it."""
        spot = self._known.get(offset)
        if spot is not None:
            self._known.move_to_end(offset)
        return spot

    def note(self, offset: int, spot: Spot) -> None:
        """Nothing is between ``offset`` and ``spot.next``."""
        for key in {offset, spot.next}:
            self._known[key] = spot
            self._known.move_to_end(key)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)

    def nearest(self, place: int) -> Spot | None:
        """The last one known of ``place``'s window that is not behind it."""
        first = window_of(place)
        fit = [spot for spot in self._known.values() if first <= spot.at <= place]
        return max(fit, key=lambda spot: spot.at, default=None)

    def clear(self) -> None:
        self._known.clear()


# Chunks: records that were read lately, so that readers who come one behind the other cost the cluster one read.
_MOST_BYTES: Final = 64 << 20


class Chunk(Struct, frozen=True):
    """Records ``[first, last]`` in a row, and no other below ``until``, where reading goes on."""

    first: int
    until: int
    rows: pa.RecordBatch
    size: int

    @property
    def last(self) -> int:
        rows: int = self.rows.num_rows
        return self.first + rows - 1


class Chunks:
    """Of all partitions, ``most_bytes`` in all; the oldest go."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[tuple[Partition, int], Chunk] = OrderedDict()
        self._of: dict[Partition, dict[int, Chunk]] = {}

    def add(self, partition: Partition, chunk: Chunk) -> None:
        """Keep it in place of what began there."""
        self._drop(partition, chunk.first)
        self._kept[partition, chunk.first] = chunk
        self._of.setdefault(partition, {})[chunk.first] = chunk
        self._bytes += chunk.size
        while self._bytes > self._most and len(self._kept) > 1:
            self._drop(*next(iter(self._kept)))

    def find(self, partition: Partition, offset: int) -> Chunk | None:
        """The one that covers ``offset``, with records from there on or without."""
        for chunk in self._of.get(partition, {}).values():
            if chunk.first <= offset < chunk.until:
                return chunk
        return None

    def forget(self, partition: Partition) -> None:
        """What is known of its records may be wrong."""
        for first in list(self._of.get(partition, ())):
            self._drop(partition, first)

    def _drop(self, partition: Partition, first: int) -> None:
        chunk = self._kept.pop((partition, first), None)
        if chunk is not None:
            self._bytes -= chunk.size
            of = self._of[partition]
            del of[first]
            if not of:
                del self._of[partition]


# One partition of the cluster as a log with one offset a record (`Spots`), for any number of readers.
#
# Brokers read for groups only, and give a group one place in a partition. A private reader of the client's is that
# group here: it is moved to wherever the next reader wants to go on, which takes one request more than reading on. One
# request is under way at a time; everybody who asks meanwhile waits, and mostly finds what was read for the one before.
#
# A broker that is killed loses what it had not flushed, and gives the places away again. So whenever reading fails,
# whatever was known of the log is forgotten. Source: Apache InLong TubeMQ 2.x, broker methods 15, 17, 18.
_STEPS_A_READ: Final = 32
"""Batches without a record of ours that one read goes over; the next one goes on behind them."""
_LOOKS: Final = 50
"""How often what is written, but cannot be read yet, is asked for."""


class Ends(NamedTuple):
    """The log's first offset and its next one."""

    start: int
    end: int


class Piece(NamedTuple):
    """Records in a row, none where there are none now; where to read on; how far the log goes, at least.

    ``is_end``: nothing more was there, and ``end`` is exact.
    """

    rows: pa.RecordBatch | None
    until: int
    end: int
    is_end: bool


class PartitionLog:
    """Called by readers and by `Arriving`; ``chunks`` and ``turns`` are those of all partitions."""

    def __init__(self, shared: Shared, partition: Partition, chunks: Chunks, turns: Locks[Partition]) -> None:
        self.partition = partition
        self._shared = shared
        self._chunks = chunks
        self._turns = turns
        self._spots = Spots()
        self._reader = PrivateReader(shared, partition)
        self._scout = PrivateReader(shared, partition)
        self._kept: tuple[int, Batch] | None = None
        self._front: Spot | None = None
        self._start = -1

    @property
    def start(self) -> int:
        """The first offset at the last request for it; -1: not asked yet."""
        return self._start

    @property
    def grown_to(self) -> int:
        """The next offset when the end was last seen; -1: it was not."""
        return -1 if self._front is None else self._front.next

    async def ends(self) -> Ends:
        """Where it begins and ends. Raises ServerError, ConnectionLost, RequestTimeout, UpstreamLost."""
        async with self._turn():
            return await self._ends()

    async def read(self, offset: int, most_bytes: int) -> Piece:
        """Records from ``offset`` on, about ``most_bytes`` of them. Raises LogOffsetOutOfRange, and as `ends`."""
        async with self._turn():
            try:
                return await self._read(offset, most_bytes)
            except OffsetOutOfRange:
                # The broker says so of the place where the reader stood. Of the offset only its ends can tell.
                self._forget()
                return await self._nothing_at(offset)

    async def grows(self) -> bool:
        """Whether there is anything behind what was the end; True also if the end is unknown. Raises as `ends`."""
        async with self._turn():
            if self._front is None:
                return True
            chunk, self._front = await self._step(self._front)
            return chunk is not None

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One caller at a time. A caller that fails or is cancelled discards everything that may be inconsistent."""
        async with self._turns.held(self.partition):
            try:
                yield
            except LogOffsetOutOfRange:
                raise
            except BaseException:
                self._shared.placements.distrust(self.partition)
                self._forget()
                raise

    async def close(self) -> None:
        """Give the partition back."""
        await self._reader.close()
        await self._scout.close()

    # Under the partition's lock.

    async def _ends(self) -> Ends:
        found = await self._scout.seek(0)
        start, top = found.offset // INDEX_BYTES, max(found.max_offset, found.offset) // INDEX_BYTES
        if start != self._start and self._start >= 0:
            self._spots.clear()  # counting begins elsewhere
        self._start = start
        return Ends(start, top if self._alone else await self._count_to(start, top))

    async def _count_to(self, start: int, top: int) -> int:
        """The offset that the first message at or behind place ``top`` gets."""
        first = max(window_of(top), start)
        spot = self._spots.nearest(top) or Spot(first, first)
        looks = 0
        while spot.at < top:
            _, after = await self._step(spot)
            looks = looks + 1 if after == spot else 0
            if looks:
                await self._pause(looks, "its end cannot be read yet")
            spot = after
        return spot.next

    async def _read(self, offset: int, most_bytes: int) -> Piece:
        at = offset
        while (chunk := self._chunks.find(self.partition, at)) is not None:
            if at <= chunk.last:
                return self._piece(chunk, at, most_bytes)
            at = chunk.until
        spot = self._spots.at(at) or await self._from(at)
        for _ in range(_STEPS_A_READ):
            chunk, after = await self._step(spot)
            if chunk is not None and offset <= chunk.last:
                return self._piece(chunk, max(offset, chunk.first), most_bytes)
            stands = after == spot
            spot = after
            if spot.next >= offset:
                self._spots.note(offset, spot)
            if stands:
                if offset > spot.next:
                    return await self._nothing_at(offset)
                self._front = spot
                return Piece(None, max(offset, spot.next), spot.next, is_end=True)
        return Piece(None, offset, max(offset, spot.next), is_end=False)

    async def _from(self, offset: int) -> Spot:
        """Where to begin counting for a record that was not read recently. Raises LogOffsetOutOfRange."""
        place = offset if self._alone else window_of(offset)
        found = await self._reader.seek(place * INDEX_BYTES)
        begins = found.offset // INDEX_BYTES
        if place <= begins <= offset:
            return Spot(begins, begins)
        await self._nothing_at(offset)
        raise UpstreamLost(f"the log moved while {offset} was looked for", topic=self.partition.topic)

    async def _step(self, spot: Spot) -> tuple[Chunk | None, Spot]:
        """One batch on: its records of the spot's window, and the spot behind them; the same spot: nothing is there."""
        batch = await self._batch(spot.at)
        behind = batch.next_offset // INDEX_BYTES
        if self._alone:
            after, rows = Spot(behind, behind), self._rows(batch, spot.at)
        elif not batch.messages.count or behind <= spot.edge:
            after, rows = spot.after(batch.messages.count, behind), self._rows(batch, spot.next)
        else:
            rows = await self._cut(batch, spot)
            after = Spot(spot.edge, spot.edge)
        if rows is None or not rows.num_rows:
            self._spots.note(spot.next, after)
            return None, after
        first = rows.column("offset")[0].as_py()
        chunk = Chunk(first, max(after.next, first + rows.num_rows), rows, rows.nbytes)
        self._chunks.add(self.partition, chunk)
        self._spots.note(first + rows.num_rows, after)
        return chunk, after

    async def _batch(self, place: int) -> Batch:
        kept, self._kept = self._kept, None
        if kept is not None and kept[0] == place:
            return kept[1]
        if self._reader.position != place * INDEX_BYTES:
            await self._reader.seek_exactly(place * INDEX_BYTES)
        return await self._take()

    async def _take(self) -> Batch:
        """The next batch, when the broker's flow control lets us have it."""
        looks = 0
        while (batch := await self._reader.take()).wait_ms:
            looks += 1
            await self._pause(looks, "its broker keeps readers waiting", batch.wait_ms)
        return batch

    def _rows(self, batch: Batch, offset: int) -> pa.RecordBatch | None:
        """With offsets that begin at ``offset``. Raises CorruptBatch, ProtocolViolation."""
        from penstock.protocols.tubemq.wire.record_columns import decode, keeping_as_sent

        if not batch.messages.count:
            return None
        found = decode(batch.messages, offset=offset, step=1)
        if found.corrupt:
            at = batch.offset + INDEX_BYTES * found.first_corrupt
            raise wrong(found.corrupt, batch.messages.count, at, self.partition)
        return keeping_as_sent(batch.messages, found)

    async def _cut(self, batch: Batch, spot: Spot) -> pa.RecordBatch | None:
        """The rows of a batch that are of the spot's window. The first message of the next one, which is looked for
        with a read of its own, is kept for the next step; ids are compared for being equal, since they do not grow."""
        from penstock.protocols.tubemq.wire.record_columns import decode

        rows = self._rows(batch, spot.next)
        beyond = await self._first_from(spot.edge, batch.next_offset)
        if beyond is None or rows is None:
            return rows
        ids = decode(batch.messages, offset=0, step=1, columns=["offset"]).message_ids
        first = decode(beyond.messages, offset=0, step=1, columns=["offset"]).message_ids[0]
        place = ids.index(first).as_py()
        return rows if place < 0 else rows.slice(0, place)

    async def _first_from(self, place: int, until: int) -> Batch | None:
        """The first batch with a message from ``place`` on, None if there is none before index offset ``until``."""
        await self._reader.seek_exactly(place * INDEX_BYTES)
        looks = 0
        while self._reader.position < until:
            batch = await self._take()
            if batch.messages.count:
                self._kept = place, replace(batch, offset=place * INDEX_BYTES)
                return batch
            looks = looks + 1 if batch.next_offset == batch.offset else 0
            if looks:
                await self._pause(looks, "a message that was read is not there a second time")
        return None

    def _piece(self, chunk: Chunk, offset: int, most_bytes: int) -> Piece:
        begin = offset - chunk.first
        count = chunk.rows.num_rows - begin
        most = max(1, chunk.rows.num_rows * most_bytes // max(chunk.size, 1))
        rows = chunk.rows.slice(begin, min(count, most))
        until = offset + rows.num_rows if most < count else chunk.until
        return Piece(rows, until, max(until, self.grown_to), is_end=False)

    @property
    def _alone(self) -> bool:
        return self._shared.placements.alone_in_store(self.partition)

    async def _pause(self, looks: int, why: str, wait_ms: int = 0) -> None:
        if looks > _LOOKS:
            raise UpstreamLost(why, topic=self.partition.topic, partition=self.partition.id, node=self.partition.node)
        await self._shared.channel.sleep(max(wait_ms, 20) / 1_000)

    async def _nothing_at(self, offset: int) -> Piece:
        """What there is to say where nothing can be read now. Raises LogOffsetOutOfRange where nothing ever will."""
        start, end = await self._ends()
        if start <= offset <= end:
            return Piece(None, offset, end, is_end=False)
        error = LogOffsetOutOfRange(
            "TubeMQ's retention deleted it, or a broker was killed before it had flushed it",
            offset=offset,
            start=start,
            end=end,
        )
        error.topic, error.partition, error.node = self.partition.topic, self.partition.id, self.partition.node
        raise error

    def _forget(self) -> None:
        self._spots.clear()
        self._chunks.forget(self.partition)
        self._kept = self._front = None
        self._reader.abandon()
        self._reader.position = -1
