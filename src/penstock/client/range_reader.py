"""RangeReader: exact ranges of partitions over a blocking socket. No group, no thread, no event loop.

What Spark's tasks and tools read with. What must not live here: how a range is read ahead (`_range_read`).
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock import kernels
from penstock.client._arguments import check_partitions
from penstock.client._bad_records import BadRecords
from penstock.client._blocking_calls import BlockingCalls
from penstock.client._compiling import compile_beside
from penstock.client._connect import open_blocking, protocol_of
from penstock.client._handle import Handle, shown_address
from penstock.client._offsets import beginning_offsets, end_offsets, offsets_for_times
from penstock.client._peeking import Peek, peek
from penstock.client._public_topics import public_topics
from penstock.client._range_read import RangeRead
from penstock.client._settings import split_options
from penstock.columnar import Messages
from penstock.config import OptionValue, reader_settings
from penstock.config.logs import client_log
from penstock.errors import LogTruncated, UsageError
from penstock.model import Committed, LogRange, OffsetSpec, Partition, PartitionLike, TopicInfo
from penstock.seams import FoundOffset, TellsTruncation

__all__ = ["Peek", "RangeReader"]

T = TypeVar("T")


class RangeReader(Handle):
    """Reads what you ask for, all of it and nothing else. For one thread at a time, except ``close``.

    Address and options as for `penstock.AsyncConsumer`; groups and commits mean nothing here. Raises ConfigError.
    Connects when it is first asked for something.

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
        kernels.compile_beside(compile_beside)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(
        self, wanted: LogRange | PartitionLike, columns: Sequence[str] | None = None, batch_rows: int | None = None
    ) -> Iterator[Messages]:
        """The records of ``[wanted.start, wanted.end)``, in order, with the next request under way meanwhile.

        Of a partition all that is there now.

        ``columns`` are those to decode (None: all); fewer are faster. ``batch_rows`` None hands over what each answer
        brought; a number collects, and cuts, into batches of so many rows, the last one smaller.
        Raises OffsetOutOfRange if some of it was deleted or is not written yet, LogTruncated if it follows on what this
        reader has read and the log has another past meanwhile, CorruptBatch, ServerError,
        ConnectionLost.
        """
        if batch_rows is not None and batch_rows < 1:
            raise UsageError(f"batch_rows is {batch_rows}, allowed is 1 and more")
        self._calls.check()
        runs = self._read(wanted if isinstance(wanted, LogRange) else self._whole(wanted), columns)
        return runs if batch_rows is None else _cut(runs, batch_rows)

    @property
    def bad_records_total(self) -> int:
        """How many records could not be decoded, and were skipped or passed on raw, as ``on_bad_record`` says."""
        return self._bad_records.total

    def topics(self, names: Collection[str] | None = None, *, internal: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name; one that does not exist is absent. None: all, the log's own only with ``internal``."""
        return public_topics(self._run(self._client.topics(names, fresh=True)), names, internal=internal)

    def offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, FoundOffset]:
        """Offsets by name or time."""
        return self._run(self._client.offsets(wanted))

    def beginning_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The first offset of each partition."""
        return self._run(beginning_offsets(self._client, partitions))

    def end_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The offset that the next record written to each partition will get."""
        return self._run(end_offsets(self._client, partitions))

    def offsets_for_times(self, times_ms: Mapping[Partition, int]) -> Mapping[Partition, FoundOffset | None]:
        """The first record at or after a time (ms since 1970 UTC); None where there is none so young."""
        return self._run(offsets_for_times(self._client, times_ms))

    def committed(self, group: str, partitions: Collection[PartitionLike]) -> Mapping[Partition, Committed]:
        """What a group has committed; partitions without a commit are absent."""
        return self._run(self._client.committed(group, check_partitions(partitions)))

    def truncated(self, positions: Mapping[Partition, tuple[int, int]]) -> Mapping[Partition, LogTruncated]:
        """Which places in the log are gone; each is an offset, and the ``leader_epoch`` that ``offsets`` found with it.

        The error says from which offset on other records stand there, or none. Nothing for logs without such epochs.
        """
        client = self._client
        if not positions or not isinstance(client, TellsTruncation):
            return {}
        return self._run(client.truncated(positions))

    def peek(self, wanted: Collection[LogRange], max_bytes: int = 64 * 1024) -> Mapping[Partition, Peek]:
        """What lies at the start of ranges: bytes an offset, and when it was written; absent if it cannot be told."""
        return self._run(peek(self._client, wanted, max_bytes))

    def close(self) -> None:
        """Hang up. Calling it again does nothing.

        What waits in another task or thread, or under a signal's handler that closes, ends by Closed: at once, but for
        the resolution of a name, which nothing can interrupt.
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
    """The same records in batches of exactly ``rows``, but for the last; nothing is copied."""
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
