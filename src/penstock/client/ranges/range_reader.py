"""Exact ranges of partitions over a blocking socket: no group, no thread, no event loop.

RangeReader is the public class; Spark's tasks and command-line tools read with it. RangeRead reads one range of one
partition of any protocol. ``peek`` reads a little from the start of ranges, for estimates.
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from penstock import kernels
from penstock.client.arguments import beginning_offsets, check_partitions, end_offsets, offsets_for_times, public_topics
from penstock.client.bad_records import BadRecords
from penstock.client.connecting import open_blocking, protocol_of, split_options
from penstock.client.runtime.closing import BlockingCalls, Handle, shown_address
from penstock.client.runtime.imports import compile_in_background
from penstock.config import OptionValue, reader_settings
from penstock.config.client import client_log
from penstock.errors import FirstContactTimeout, LogTruncated, PenstockError, UsageError
from penstock.interfaces import Fetched, FoundOffset, LogClient, Retry
from penstock.interfaces.client import not_whole
from penstock.model import Committed, LogRange, OffsetSpec, Partition, PartitionLike, TopicInfo, Value
from penstock.records import Messages

__all__ = ["Peek", "RangeRead", "RangeReader", "peek"]

# Waits for a log that ends before the range does: a new leader may be behind for a moment.
_FIRST_WAIT_S: Final = 0.02
_LONGEST_WAIT_S: Final = 0.4


class RangeRead:
    """Reads exactly ``[start, end)`` of one partition.

    Call ``next`` until it returns None, or ``close`` to stop early. ``offset`` is where ``next`` continues. ``columns``
    are those to decode (None: all). ``fetch_bytes`` 0 leaves the size of requests to the protocol.

    The start of the next batch is known before an answer is decoded, so the next request is sent first. With the
    blocking transport this is the only overlap, and it is enough.

    The range ends when the next offset to read reaches its end; that covers compacted records and transaction markers
    before the end. A log that ends sooner gets a short time to catch up. After that it is an error, because the caller
    counts on the whole range.
    """

    def __init__(
        self,
        client: LogClient,
        wanted: LogRange,
        *,
        columns: Sequence[str] | None = None,
        fetch_bytes: int = 0,
        bad_records: BadRecords | None = None,
    ) -> None:
        if not 0 <= wanted.start <= wanted.end:
            raise UsageError(
                f"a range from {wanted.start} to {wanted.end}", topic=wanted.topic, partition=wanted.partition
            )
        self._source = client.ranges(wanted, fetch_bytes=fetch_bytes)
        self._moved = client.moved
        self._partition = Partition.of(wanted)
        self._columns = columns
        self._bad_records = bad_records or BadRecords()
        self._end = self._source.end
        self._answered = 0
        self.offset = self._source.start

    async def next(self) -> Messages | None:
        """The next records, at least one; None when the range is done.

        Raises OffsetOutOfRange if records of the range were deleted or do not exist yet, LogTruncated if the records
        before it are not the ones that were read, CorruptBatch, ServerError, ConnectionLost.
        """
        source = self._source
        retry = Retry(source.channel, source.limits)
        short: Retry | None = None
        while self.offset < self._end:
            try:
                fetched = await self._fetch()
            except PenstockError as error:
                if self._moved(self._partition):
                    source.close()
                    continue
                source.note(error)
                source.close()
                await retry.after(error)
                continue
            if fetched.size:
                if messages := self._take(fetched):
                    return messages
                continue
            short = short or Retry(source.channel, source.limits, timeout_ms=source.limits.short_log_patience_ms)
            await self._wait_for_more(fetched, short)
        await source.finish()
        return None

    def close(self) -> None:
        """Drop requests that were sent ahead; harmless when there are none."""
        self._source.close()

    async def _fetch(self) -> Fetched:
        """The answer from ``offset`` on. The request for the records after it has already been sent."""
        source = self._source
        while source.ahead < source.depth:
            await source.ask(self.offset)
        fetched = await source.take()
        if fetched.error is not None:
            raise fetched.error
        self._answered = fetched.next_offset
        if fetched.offset < self._answered < self._end and not source.ahead:
            await source.ask(self._answered)
        return fetched

    def _take(self, fetched: Fetched) -> Messages:
        """Decode; with damaged records, ``offset`` moves only up to the damage."""
        try:
            messages, following, _ = self._bad_records.decode(fetched, stop=self._end, columns=self._columns)
        except PenstockError:
            self._source.close()
            raise
        if following != self._answered and following < self._end:
            self._source.close()  # the run ended early: at a damaged batch, or because it decompresses to too much
        if following <= self.offset:
            if self._answered <= self.offset:
                return self._take_around(fetched)
            following = self._end  # the answer begins after the end: the rest of the range was compacted away
        self.offset = following
        return messages

    def _take_around(self, fetched: Fetched) -> Messages:
        """As `_take`, for an answer that contains no complete batch."""
        self._source.close()
        messages, self.offset, _ = self._bad_records.decode_around(
            fetched, not_whole(fetched), stop=self._end, columns=self._columns
        )
        return messages

    async def _wait_for_more(self, fetched: Fetched, short: Retry) -> None:
        text = f"the log ends at {fetched.high_watermark}, before the end of the range, {self._end}"
        seconds = min(_FIRST_WAIT_S * 2.0**short.attempts, _LONGEST_WAIT_S)
        await short.pause(self._source.gone(text, self.offset), seconds=seconds)


# Enough for an estimate: lag in seconds, or batches of so many bytes.
_LOOKED_AT = ("key", "value", "timestamp", "headers")


class Peek(Value, frozen=True):
    """A sample of a range's start: keys, values and headers of its first ``offsets`` take ``size_bytes`` uncompressed.

    ``timestamp_ms`` (since 1970 UTC) is that of the first record, None if it has none.
    """

    size_bytes: int
    offsets: int
    timestamp_ms: int | None


async def peek(client: LogClient, wanted: Collection[LogRange], max_bytes: int) -> dict[Partition, Peek]:
    """A sample of the first ``max_bytes`` of each range; a partition that cannot be read now is absent."""
    found: dict[Partition, Peek] = {}
    for each in wanted:
        read = RangeRead(client, each, columns=_LOOKED_AT, fetch_bytes=max_bytes)
        try:
            messages = await read.next()
        except FirstContactTimeout:
            raise
        except PenstockError:
            continue  # an estimate: the next call asks again
        finally:
            read.close()
        if messages:
            timestamp_ms = messages[0].timestamp_ms
            found[Partition.of(each)] = Peek(
                sum(part.batch.nbytes for part in messages.parts),
                read.offset - each.start,
                timestamp_ms if timestamp_ms >= 0 else None,
            )
    return found


T = TypeVar("T")


class RangeReader(Handle):
    """Reads exactly the ranges that you ask for. Use it from one thread at a time, except ``close``.

    Address and options as for `penstock.AsyncConsumer`; groups and commits do not apply. Raises ConfigError. It
    connects on first use.

    >>> with penstock.RangeReader("kafka://127.0.0.1:9092") as reader:       # doctest: +SKIP
    ...     for batch in reader.read(penstock.LogRange("flights", 0, start=0, end=1_000)):
    ...         print(batch.to_arrow().num_rows)
    """

    def __init__(self, address: str, **options: OptionValue) -> None:
        plain, keywords, file = split_options(address, options, "reader")
        protocol = protocol_of(plain)
        settings = reader_settings(plain, keywords, file=file, protocol=protocol.config)
        self._address = settings.address
        self._fetch_bytes = settings.config.max_partition_fetch_bytes
        self._calls = BlockingCalls("reader", self._hang_up)
        self._bad_records = BadRecords(
            settings.config.on_bad_record,
            skips=protocol.skips_bad_records,
            log=client_log("consumer", settings.config),
        )
        self._client = open_blocking(protocol, settings, self._calls.stop)
        kernels.compile_beside(compile_in_background)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(
        self, wanted: LogRange | PartitionLike, columns: Sequence[str] | None = None, batch_rows: int | None = None
    ) -> Iterator[Messages]:
        """The records of ``[wanted.start, wanted.end)`` in order, or all that a partition holds now.

        While you handle a batch, the next request is under way. ``columns`` are those to decode (None: all); fewer are
        faster. ``batch_rows`` None yields the records of each answer; a number yields batches of exactly that many
        rows, the last one smaller. Raises OffsetOutOfRange if some of the range was deleted or is not written yet,
        LogTruncated if it continues records that this reader has read and the log was truncated before them,
        CorruptBatch, ServerError, ConnectionLost.
        """
        if batch_rows is not None and batch_rows < 1:
            raise UsageError(f"batch_rows must be 1 or more, got {batch_rows}")
        self._calls.check()
        runs = self._read(wanted if isinstance(wanted, LogRange) else self._whole(wanted), columns)
        return runs if batch_rows is None else _cut(runs, batch_rows)

    @property
    def bad_records_total(self) -> int:
        """How many records could not be decoded and were skipped or passed on raw (``on_bad_record``)."""
        return self._bad_records.total

    def topics(self, names: Collection[str] | None = None, *, internal: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name; missing topics are absent. None: all topics, internal ones only with ``internal``."""
        return public_topics(self._run(self._client.topics(names, fresh=True)), names, internal=internal)

    def offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, FoundOffset]:
        """Offsets by name or by time."""
        return self._run(self._client.offsets(wanted))

    def beginning_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The first offset of each partition."""
        return self._run(beginning_offsets(self._client, partitions))

    def end_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The offset that the next record written to each partition will get."""
        return self._run(end_offsets(self._client, partitions))

    def offsets_for_times(self, times_ms: Mapping[Partition, int]) -> Mapping[Partition, FoundOffset | None]:
        """The first record at or after a time (ms since 1970 UTC); None where there is no such record."""
        return self._run(offsets_for_times(self._client, times_ms))

    def committed(self, group: str, partitions: Collection[PartitionLike]) -> Mapping[Partition, Committed]:
        """A group's committed offsets; partitions without a commit are absent."""
        return self._run(self._client.committed(group, check_partitions(partitions)))

    def truncated(self, positions: Mapping[Partition, tuple[int, int]]) -> Mapping[Partition, LogTruncated]:
        """Which of these positions the log no longer has.

        A position is an offset and the ``leader_epoch`` that ``offsets`` found with it. The error says from which
        offset on the log has other records, or none. Logs without leader epochs return nothing.
        """
        return self._run(self._client.truncated(positions)) if positions else {}

    def peek(self, wanted: Collection[LogRange], max_bytes: int = 64 * 1024) -> Mapping[Partition, Peek]:
        """A sample of the start of each range: bytes, offsets, first timestamp; absent where unreadable."""
        return self._run(peek(self._client, wanted, max_bytes))

    def close(self) -> None:
        """Close the connections. Calling it again does nothing.

        A call that waits in another task or thread, or that is interrupted by a signal handler that closes, ends at
        once with Closed. Only the resolution of a host name cannot be interrupted.
        """
        self._calls.close()

    def _whole(self, given: PartitionLike) -> LogRange:
        (partition,) = check_partitions([given])
        starts, ends = self.beginning_offsets([partition]), self.end_offsets([partition])
        return LogRange.of(partition, starts[partition], ends[partition])

    def _read(self, wanted: LogRange, columns: Sequence[str] | None) -> Iterator[Messages]:
        read = RangeRead(
            self._client, wanted, columns=columns, fetch_bytes=self._fetch_bytes, bad_records=self._bad_records
        )
        try:
            while (messages := self._run(read.next())) is not None:
                yield messages
        finally:
            read.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._calls.run(work)

    async def _hang_up(self) -> None:
        await self._client.close()

    def _described(self) -> str:
        return f"{shown_address(self._address)}, {'closed' if self._calls.closed else 'open'}"


def _cut(runs: Iterator[Messages], rows: int) -> Iterator[Messages]:
    """The same records in batches of exactly ``rows``, except the last; nothing is copied."""
    waiting: list[Messages] = []
    count = 0
    for run_of_messages in runs:
        waiting.append(run_of_messages)
        count += len(run_of_messages)
        if count < rows:
            continue
        joined = Messages.concat(waiting)
        whole = count - count % rows
        for first in range(0, whole, rows):
            yield joined[first : first + rows]
        count -= whole
        waiting = [joined[whole:]] if count else []
    if count:
        yield Messages.concat(waiting)
