"""Reading without a group: one poll of some partitions of one broker, each by a private reader of its own.

Brokers answer at once, also when there is nothing; so waiting is done here: all partitions are asked, and if none of
them has anything, again after a pause, until the time the caller gives is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.errors import ConnectionLost, CorruptBatch, PenstockError, RequestTimeout
from penstock.interfaces.client import ReadFrom, ReadLimits
from penstock.model import Node, Partition
from penstock.protocols.tubemq.client.damaged import decoded, in_pieces
from penstock.protocols.tubemq.client.private_reader import Batch, PrivateReader, next_position
from penstock.protocols.tubemq.partition_ids import INDEX_BYTES

if TYPE_CHECKING:
    from penstock.protocols.tubemq.client.readers import Readers
    from penstock.protocols.tubemq.client.shared import Shared
    from penstock.protocols.tubemq.msg_time import MsgTimeZone
    from penstock.protocols.tubemq.records import Decoded
    from penstock.records import Messages

__all__ = ["Polling", "TubeFetched"]


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
        from penstock.protocols.tubemq.records import part_of, places
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
