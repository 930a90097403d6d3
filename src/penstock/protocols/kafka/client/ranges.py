"""Reading exactly ``[start, end)`` of one partition, as fast as one connection allows.

Where the next batch begins stands in the headers of what has arrived, so the next Fetch is on its way before the last
one is decoded; under the blocking transport that is the only overlap there is, and enough. A fetch asks for about as
many bytes as the rest of the range is estimated to have, so that a small range does not drag megabytes behind it.

The range ends where the next offset to read is ``end`` or more, which also covers what compaction took away and
transaction markers before ``end``. A log that ends below ``end`` is waited for a little (a new leader may be behind)
and is then an error: who asks for a range counts on having all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.errors import CorruptBatch, OffsetOutOfRange, PenstockError, UsageError
from penstock.model import LogRange, Node, Partition
from penstock.protocols.kafka.client.calls import Started
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.reading import KafkaFetched, fetch_request, fetched_of
from penstock.protocols.kafka.client.routing import note_error
from penstock.protocols.kafka.client.truncation import validate
from penstock.protocols.kafka.errors import OFFSET_OUT_OF_RANGE, error_for
from penstock.protocols.kafka.messages.fetch import FetchResponse
from penstock.seams.client import ReadFrom, ReadLimits
from penstock.seams.retry import Retry

if TYPE_CHECKING:
    from penstock.columnar import Messages

__all__ = ["DEFAULT_FETCH_BYTES", "KafkaRangeRead"]

DEFAULT_FETCH_BYTES = 4 * 1024 * 1024
_LANE = "fetch"
_MAX_WAIT_MS = 500
_SLACK_S = 5.0
_LEAST_FETCH_BYTES = 64 * 1024
_FIRST_GUESS = 1_024.0
_MARGIN = 1.25


class KafkaRangeRead:
    """``penstock.seams.client.RangeRead``. Call ``next`` until it returns None; ``close`` if you stop before."""

    def __init__(self, cluster: Cluster, wanted: LogRange, *, columns: Sequence[str] | None, fetch_bytes: int) -> None:
        if not 0 <= wanted.start <= wanted.end:
            raise UsageError(
                f"a range from {wanted.start} to {wanted.end}", topic=wanted.topic, partition=wanted.partition
            )
        self._cluster = cluster
        self._calls = cluster.calls
        self._partition = Partition(wanted.topic, wanted.partition)
        self._end = wanted.end
        self._columns = columns
        self._fetch_bytes = fetch_bytes or DEFAULT_FETCH_BYTES
        self._bytes_an_offset = _FIRST_GUESS
        self._offset = wanted.start
        self._ahead: tuple[Started, ReadFrom, Node] | None = None

    @property
    def offset(self) -> int:
        """Where ``next`` goes on."""
        return self._offset

    async def next(self) -> Messages | None:
        """The next records, at least one; None when the range is done.

        Raises OffsetOutOfRange where records of the range are gone, LogTruncated where those before it are not the ones
        that were read, CorruptBatch, ServerError, ConnectionLost.
        """
        retry = Retry(self._calls.channel, self._calls.options)
        patience_ms = self._calls.options.short_log_patience_ms
        short = Retry(self._calls.channel, self._calls.options, timeout_ms=patience_ms)
        while self._offset < self._end:
            try:
                fetched = await self._fetch()
            except PenstockError as error:
                note_error(self._cluster, self._partition, error)
                self.close()
                await retry.after(error)
                continue
            messages = self._take(fetched)
            if messages is not None and messages:
                return messages
            if not fetched.size:
                await short.pause(self._too_short(fetched))
        self.close()
        return None

    def close(self) -> None:
        """Give up what was asked for ahead; harmless when nothing was."""
        if self._ahead is not None:
            started, self._ahead = self._ahead[0], None
            started.abandon()

    async def _fetch(self) -> KafkaFetched:
        """The answer from ``_offset``, with the request for what follows it already sent."""
        started, read, node = self._ahead or await self._start(self._offset)
        self._ahead = None
        answer = await started.answer(FetchResponse)
        (fetched,) = fetched_of(self._cluster, answer, [read], node)
        if fetched.error is not None:
            raise fetched.error
        following = fetched.next_offset
        if read.offset < following < self._end:
            self._bytes_an_offset = fetched.size / (following - read.offset)
            self._ahead = await self._start(following)
        return fetched

    def _take(self, fetched: KafkaFetched) -> Messages | None:
        """Decode; what damage left of it moves ``_offset`` only up to the damage."""
        try:
            messages, following = fetched.decode(stop=self._end, columns=self._columns)
        except PenstockError:
            self.close()
            raise
        if self._ahead is not None and self._ahead[1].offset != following and following < self._end:
            self.close()  # the run ended early: before a damaged batch, or because it inflates to too much
        if fetched.size and following <= self._offset < fetched.next_offset:
            following = self._end  # what came begins behind the end: the rest of the range was compacted away
        elif fetched.size and following <= self._offset:
            raise CorruptBatch(
                f"{fetched.size} bytes without one whole batch",
                topic=self._partition.topic,
                partition=self._partition.id,
                offset=self._offset,
            )
        self._offset = max(following, self._offset)
        return messages

    async def _start(self, offset: int) -> tuple[Started, ReadFrom, Node]:
        node = self._cluster.leader(self._partition)
        if node is None:
            node = await self._find_leader()
        await self._check_past(node, offset)
        rest = (self._end - offset) * self._bytes_an_offset * _MARGIN
        size = max(_LEAST_FETCH_BYTES, min(self._fetch_bytes, int(rest)))
        read = ReadFrom(self._partition, offset, size)
        request, at_most = fetch_request(self._cluster, [read], ReadLimits(_MAX_WAIT_MS, 1, size))
        held_s = _MAX_WAIT_MS / 1_000
        timeout_s = max(self._calls.options.request_timeout_s, held_s + _SLACK_S)
        started = await self._calls.start(
            node.endpoint, request, lane=_LANE, timeout_s=timeout_s, held_s=held_s, at_most=at_most
        )
        return started, read, node

    async def _check_past(self, node: Node, offset: int) -> None:
        parted = await validate(self._cluster, node, [ReadFrom(self._partition, offset, 0)], _LANE)
        if (error := parted.get(self._partition)) is not None:
            raise error

    async def _find_leader(self) -> Node:
        topics = await self._cluster.topics({self._partition.topic})
        node = self._cluster.leader(self._partition)
        if node is None:
            exists = self._partition.topic in topics and self._partition.id < len(
                topics[self._partition.topic].partitions
            )
            raise error_for(
                5 if exists else 3, "reading a range failed", topic=self._partition.topic, partition=self._partition.id
            )
        return node

    def _too_short(self, fetched: KafkaFetched) -> OffsetOutOfRange:
        return OffsetOutOfRange(
            f"the log ends at {fetched.high_watermark}, before the end of the range, {self._end}",
            code=OFFSET_OUT_OF_RANGE,
            name="OFFSET_OUT_OF_RANGE",
            topic=self._partition.topic,
            partition=self._partition.id,
            offset=self._offset,
            hint="The log was cut off after the range was planned, or the range was not planned by this log's offsets.",
        )
