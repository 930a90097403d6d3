"""``penstock.read`` and ``penstock.scan``: the present content of topics as Arrow, in one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from penstock.client.arguments import OffsetLike, check_offset, check_offsets
from penstock.client.ranges.range_reader import RangeReader
from penstock.config import OptionValue
from penstock.errors import ConfigError, LogTruncated, OffsetOutOfRange, TopicRecreated, UsageError
from penstock.model import LogRange, Partition
from penstock.protocols import address_of, protocol
from penstock.records.arrow import COLUMNS, schema

__all__ = ["Bound", "read", "scan"]

Bound = int | datetime | Mapping[Partition, OffsetLike]
"""A limit of reading: an offset for every partition, a time, or an offset for each named partition."""


def read(
    address: str,
    columns: Sequence[str] | None = None,
    *,
    start: Bound | None = None,
    end: Bound | None = None,
    **options: OptionValue,
) -> pa.Table:
    """All records that the address's topics hold now, as one table: partition after partition, in order of offsets.

    ``columns`` are those to decode, in this order (None: key, value, topic, partition, offset, timestamp,
    timestampType, headers; for TubeMQ and RocketMQ also node); fewer are faster. ``start`` is the first offset to read,
    ``end`` the one after the last. Each is a number for every partition, or a mapping with an offset for some of them;
    the others are not bounded. A datetime stands for the first record written at or after it, as ``offsets_for_times``
    finds it; single records are not compared with it. ``options`` as for `penstock.RangeReader`. Use `penstock.scan`
    for topics larger than memory.

    Raises UsageError for a topic that does not exist, for a time where the log cannot search by time (TubeMQ), and for
    a start after the end of the log; OffsetOutOfRange for a start that was deleted; ConfigError, ConnectionLost,
    ServerError, CorruptBatch. An ``end`` after the end of the log means the end of the log.

    >>> table = penstock.read("kafka://127.0.0.1:9092/flights", ["key", "value"])                  # doctest: +SKIP
    >>> new = penstock.read("kafka://127.0.0.1:9092/flights", start=datetime(2026, 7, 1, tzinfo=UTC))   # doctest: +SKIP
    """
    with _opened(address, columns, start, end, None, options) as batches:
        return batches.read_all()


def scan(
    address: str,
    columns: Sequence[str] | None = None,
    *,
    start: Bound | None = None,
    end: Bound | None = None,
    batch_rows: int | None = None,
    **options: OptionValue,
) -> pa.RecordBatchReader:
    """As `penstock.read`, batch by batch: the reader never holds more than a few answers.

    Iterate over it, or pass it to anything that takes an Arrow stream: DuckDB, Polars,
    ``pyarrow.dataset.write_dataset``, ``Producer.send_batch``. The call fixes the range to read; ``batch_rows`` is as
    for ``RangeReader.read``. ``close()``, the end of a ``with`` block, or the last batch closes the connections. Raises
    as `penstock.read`, in the call and while you read.

    >>> with penstock.scan("kafka://127.0.0.1:9092/flights", ["value"]) as batches:      # doctest: +SKIP
    ...     rows = sum(batch.num_rows for batch in batches)
    """
    return _opened(address, columns, start, end, batch_rows, options)


def _opened(
    address: str,
    columns: Sequence[str] | None,
    start: Bound | None,
    end: Bound | None,
    batch_rows: int | None,
    options: Mapping[str, OptionValue],
) -> pa.RecordBatchReader:
    if columns is None:
        named_nodes = protocol(address_of(address).scheme).named_nodes
        columns = [*COLUMNS, "node"] if named_nodes else COLUMNS
    kind = schema(columns)
    batches = _batches(address, kind, start, end, batch_rows, options)
    next(batches)  # connects and fixes the ranges to read
    return pa.RecordBatchReader.from_batches(kind, batches)


def _batches(
    address: str,
    kind: pa.Schema,
    start: Bound | None,
    end: Bound | None,
    batch_rows: int | None,
    options: Mapping[str, OptionValue],
) -> Iterator[pa.RecordBatch | None]:
    topics = address_of(address).topics
    if not topics:
        raise ConfigError(f"the address '{address}' names no topic", hint="for example kafka://127.0.0.1:9092/flights")
    with RangeReader(address, **options) as reader:
        spans = list(_spans(reader, topics, start, end))
        yield None
        for span in spans:
            for table in _records(reader, span, kind.names, batch_rows, exact=start is not None):
                yield from (table if batch_rows is None else table.combine_chunks()).to_batches()


def _records(
    reader: RangeReader, span: LogRange, columns: Sequence[str], batch_rows: int | None, *, exact: bool
) -> Iterator[pa.Table]:
    """The records of a range; if no start was given, records that retention deletes in the meantime are left out."""
    partition, position = Partition.of(span), span.start
    decoded = dict.fromkeys([*columns, "offset"])  # the offset is needed to know where a part of a batch ends
    while position < span.end:
        try:
            wanted = LogRange.of(partition, position, span.end, span.topic_id)
            for messages in reader.read(wanted, [*decoded], batch_rows):
                position = messages.next_offsets.get(partition, position)
                yield messages.to_arrow(columns)
            return
        except OffsetOutOfRange as error:
            first = reader.beginning_offsets([partition])[partition]
            if exact or isinstance(error, LogTruncated | TopicRecreated) or first <= position:
                raise
            position = first


def _spans(reader: RangeReader, topics: Sequence[str], start: Bound | None, end: Bound | None) -> Iterator[LogRange]:
    found = reader.topics(topics)
    for topic in topics:
        if topic not in found:
            raise UsageError("there is no such topic", topic=topic, hint="Admin.topics() lists what there is")
    partitions = [info.partition for topic in topics for info in found[topic].partitions]
    firsts, lasts = reader.beginning_offsets(partitions), reader.end_offsets(partitions)
    starts = {**firsts, **_places("start", reader, start, lasts)}
    ends = {**lasts, **_places("end", reader, end, lasts)}
    for partition in partitions:
        if starts[partition] > lasts[partition]:
            raise UsageError(
                f"start {starts[partition]} is after the end of the log, {lasts[partition]}",
                topic=partition.topic,
                partition=partition.id,
            )
        topic_id = found[partition.topic].id
        yield LogRange.of(partition, starts[partition], min(ends[partition], lasts[partition]), topic_id)


def _places(
    name: str, reader: RangeReader, bound: Bound | None, lasts: Mapping[Partition, int]
) -> Mapping[Partition, int]:
    """The offset that a bound means, for each partition that it covers. Raises UsageError."""
    if bound is None:
        return {}
    if isinstance(bound, datetime):
        if bound.tzinfo is None:
            raise UsageError(f"{name} is {bound}, which has no time zone", hint="Say which: datetime(…, tzinfo=UTC)")
        found = reader.offsets_for_times(dict.fromkeys(lasts, int(bound.timestamp() * 1_000)))
        return {partition: lasts[partition] if place is None else place.offset for partition, place in found.items()}
    if isinstance(bound, Mapping):
        places = check_offsets(bound)
        for partition in places:
            if partition not in lasts:
                raise UsageError(
                    f"{name} names a partition that is not there", topic=partition.topic, partition=partition.id
                )
        return places
    return {partition: check_offset(partition, bound) for partition in lasts}
