"""Messages, the records that a consumer returns, and functions that convert keys and values. Arrow is used inside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, overload

from msgspec import Struct

from penstock.errors import CorruptBatch, DeserializationError, ProtocolViolation, UsageError
from penstock.model import K, Partition, Record, TimestampType, V

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.records.message_columns import Packed

__all__ = [
    "ERROR_HEADER",
    "RECORDS_HEADER",
    "Deserializer",
    "Deserializers",
    "Messages",
    "Part",
    "Refused",
    "Serializer",
    "from_json",
    "from_utf8",
    "halved",
    "is_raw",
    "made",
    "records_of",
    "serialized",
    "to_json",
    "to_utf8",
    "with_deserializers",
]

K2 = TypeVar("K2")
V2 = TypeVar("V2")

_AT_ONCE: Final = 1024
_TIMESTAMP_TYPES: Final = {int(kind): kind for kind in TimestampType}
_UNKNOWN: Final = -1


class Part:
    """Rows of one partition: record columns, the offset to read next, and what the protocol needs to confirm them.

    ``context`` confirms the whole batch that these rows end; it is "" if they do not end one, or if offsets are
    committed instead. A few rows come as ``records``, which become columns on demand.
    """

    __slots__ = ("_batch", "context", "next_offset", "num_rows", "partition", "records", "topic_id")

    def __init__(
        self,
        partition: Partition,
        batch: pa.RecordBatch | None,
        next_offset: int,
        context: str = "",
        records: Sequence[Record] | None = None,
        topic_id: bytes | None = None,
    ) -> None:
        self.partition = partition
        self.next_offset = next_offset
        self.context = context
        self.records = records
        self.topic_id = topic_id
        if batch is not None:
            self.num_rows: int = batch.num_rows
        else:
            self.num_rows = 0 if records is None else len(records)
        self._batch = batch

    @property
    def batch(self) -> pa.RecordBatch:
        """The record columns."""
        if self._batch is None:
            from penstock.records.message_columns import batch_of

            self._batch = batch_of(self.records or ())
        return self._batch

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Part):
            return NotImplemented
        mine = (self.partition, self.next_offset, self.context)
        return mine == (other.partition, other.next_offset, other.context) and bool(self.batch.equals(other.batch))

    __hash__ = None  # type: ignore[assignment] # Arrow data has no hash

    def __repr__(self) -> str:
        return f"<Part of {self.partition}: {self.num_rows} rows, next {self.next_offset}>"

    def __reduce__(self) -> tuple[object, ...]:
        from penstock.records.message_columns import packed

        return _part, (self.partition, packed([self.batch]), self.next_offset, self.context, self.topic_id)


class Messages(Generic[K, V]):
    """An immutable sequence of records of one or several partitions.

    Iterate for `penstock.Record` objects, created one by one. Or take the columns: `to_arrow`, `column`, or pass the
    object to anything that reads the Arrow PyCapsule stream (Polars, DuckDB, pandas), or to ``Producer.send_batch``.
    Slices share the memory; a pickle contains only its own rows.
    >>> table = messages.to_arrow()                        # doctest: +SKIP
    >>> frame = polars.from_arrow(messages)                # doctest: +SKIP
    >>> [message.value for message in messages[:10]]       # doctest: +SKIP
    """

    __slots__ = ("_makes", "_named_nodes", "_parts", "_rows")

    def __init__(self, parts: Iterable[Part] = (), *, named_nodes: bool = False) -> None:
        """``named_nodes``: partitions belong to named brokers, even if there are no ``parts`` to show it. A table
        without rows then has the same columns as one with rows."""
        self._parts = tuple(parts)
        self._named_nodes = named_nodes
        self._makes: Deserializers | None = None
        rows = 0
        for part in self._parts:
            rows += part.num_rows
        self._rows: int = rows

    @staticmethod
    def of(
        partition: Partition,
        batch: pa.RecordBatch,
        next_offset: int,
        context: str = "",
        topic_id: bytes | None = None,
    ) -> Messages:
        """Return the rows of one partition; ``batch`` has record columns (see `penstock.records.arrow`)."""
        return Messages((Part(partition, batch, next_offset, context, None, topic_id),))

    @staticmethod
    def of_records(
        partition: Partition, records: Sequence[Record], next_offset: int, topic_id: bytes | None = None
    ) -> Messages:
        """Return a handful of records of one partition, without making columns."""
        few = Messages.__new__(Messages)  # __init__ would be slower, and most polls of a service bring one record
        few._parts = (Part(partition, None, next_offset, "", records, topic_id),)
        few._makes = None
        few._named_nodes = False
        few._rows = len(records)
        return few

    @staticmethod
    def concat(runs: Iterable[Messages[K, V]]) -> Messages[K, V]:
        """Return all rows of ``runs``, in order, with the deserializers of the first; nothing is copied."""
        all_runs = tuple(runs)
        parts = (part for run in all_runs for part in run._parts)
        makes = all_runs[0]._makes if all_runs else None
        return _making(parts, makes, named_nodes=any(run._named_nodes for run in all_runs))

    @property
    def parts(self) -> tuple[Part, ...]:
        """The rows by partition."""
        return self._parts

    @property
    def partitions(self) -> frozenset[Partition]:
        """The partitions of these records, also those in which only invisible records were passed."""
        return frozenset(part.partition for part in self._parts)

    @property
    def next_offsets(self) -> Mapping[Partition, int]:
        """For each partition the offset after these records: commit it once they are processed.

        Where several of TubeMQ's partitions share a store, a group's member learns the end of a batch only by
        committing it. Until then, this is the smallest possible offset, and reading from there may repeat the last
        records; after the commit it is exact. Raises UsageError for a slice of records that were read without the
        column ``offset``.
        """
        found: dict[Partition, int] = {}
        for part in self._parts:
            if part.next_offset == _UNKNOWN:
                raise _without_offsets(part.partition)
            found[part.partition] = max(part.next_offset, found.get(part.partition, 0))
        return found

    @property
    def first_offsets(self) -> Mapping[Partition, int]:
        """For each partition the offset of its first record here: seek there to read these records again.

        Raises UsageError for records that were read without the column ``offset``.
        """
        found: dict[Partition, int] = {}
        for part in self._parts:
            if not part.num_rows:
                continue
            if part.records is not None:
                first = part.records[0].offset
                found[part.partition] = min(first, found.get(part.partition, first))
                continue
            if part.batch.schema.get_field_index("offset") < 0:
                raise _without_offsets(part.partition)
            first = part.batch.column("offset")[0].as_py()
            found[part.partition] = min(first, found.get(part.partition, first))
        return found

    @property
    def offsets(self) -> Mapping[Partition, list[int]]:
        """For each partition the offsets of its records here, in order.

        Raises UsageError for records that were read without the column ``offset``.
        """
        found: dict[Partition, list[int]] = {}
        for part in self._parts:
            if part.num_rows and part.records is None and part.batch.schema.get_field_index("offset") < 0:
                raise _without_offsets(part.partition)
            if part.num_rows:
                few = part.records
                there = part.batch.column("offset").to_pylist() if few is None else [each.offset for each in few]
                found.setdefault(part.partition, []).extend(there)
        return found

    def __len__(self) -> int:
        return self._rows

    def __bool__(self) -> bool:
        return self._rows > 0

    def __repr__(self) -> str:
        where = ", ".join(sorted(str(partition) for partition in self.partitions))
        return f"<Messages: {self._rows} from {where or 'nowhere'}>"

    def __iter__(self) -> Iterator[Record[K, V]]:
        few = self._parts[0].records if len(self._parts) == 1 else None
        records = self._raw() if few is None else iter(few)
        if self._makes is None:
            return records  # type: ignore[return-value] # K and V are bytes then
        return self._makes.records(records)

    def _raw(self) -> Iterator[Record]:
        for part in self._parts:
            yield from records_of(part)

    @overload
    def __getitem__(self, index: int) -> Record[K, V]: ...
    @overload
    def __getitem__(self, index: slice) -> Messages[K, V]: ...
    def __getitem__(self, index: int | slice) -> Record[K, V] | Messages[K, V]:
        if isinstance(index, slice):
            first, last, step = index.indices(self._rows)
            if step != 1:
                raise UsageError("messages can be sliced in steps of 1 only")
            return self._slice(first, max(first, last))
        if not -self._rows <= index < self._rows:
            raise IndexError(index)
        return next(iter(self._slice(index % self._rows, index % self._rows + 1)))

    def _slice(self, first: int, last: int) -> Messages[K, V]:
        if (first, last) == (0, self._rows):
            return self  # keeps parts without rows, which still move a position
        parts: list[Part] = []
        begin = 0
        for part in self._parts:
            end = begin + part.num_rows
            if max(first, begin) < min(last, end):
                parts.append(_cut(part, max(first - begin, 0), min(last, end) - begin))
            begin = end
        return _making(parts, self._makes, named_nodes=self._has_nodes)

    @overload
    def deserialized(self, *, key: Deserializer[K2], value: Deserializer[V2]) -> Messages[K2, V2]: ...
    @overload
    def deserialized(self, *, key: Deserializer[K2], value: None = None) -> Messages[K2]: ...
    @overload
    def deserialized(self, *, key: None = None, value: Deserializer[V2]) -> Messages[bytes, V2]: ...
    @overload
    def deserialized(self, *, key: None = None, value: None = None) -> Messages: ...
    def deserialized(
        self, *, key: Deserializer[Any] | None = None, value: Deserializer[Any] | None = None
    ) -> Messages[Any, Any]:
        """Return the same records, with keys and values converted to objects on iteration.

        Columns stay bytes, and a null key or value stays None. Without both functions, records have bytes again.
        Iterating raises DeserializationError for a payload that cannot be converted; for a batch from a consumer,
        its ``on_bad_record`` decides what happens to such a record.
        >>> [message.value["delay"] for message in messages.deserialized(value=penstock.from_json)]   # doctest: +SKIP
        """

        refused = None if self._makes is None else self._makes.refused
        makes = None if key is None and value is None else Deserializers(key, value, refused)
        return _making(self._parts, makes, named_nodes=self._named_nodes)

    def to_arrow(self, columns: Sequence[str] | None = None, *, deserialized: bool = False) -> pa.Table:
        """Return the rows as a table, one chunk per part, without copying payloads; ``columns`` in the given order.

        None means every column that was read, with topic and partition, in the order of Spark's Kafka source. The
        column node, the partition's broker, follows where partitions belong to brokers (TubeMQ, RocketMQ); elsewhere it
        is null, and only there if asked for. Keys and values are bytes. With ``deserialized`` they are columns of the
        deserializers' results, one Python object per row except for `penstock.from_utf8`. Raises DeserializationError
        then, and UsageError for objects that do not form a column.
        """
        import pyarrow as pa

        from penstock.records.arrow import assemble, check_columns, schema

        names = self._names() if columns is None else check_columns(columns)
        chunks = [
            assemble(part.batch, part.partition.topic, part.partition.id, names, part.partition.node)
            for part in self._parts
        ]
        table = pa.Table.from_batches(chunks, schema=schema(names))
        if self._makes is None or not deserialized:
            return table
        from penstock.records.message_columns import with_objects

        return with_objects(table, self._parts, self._makes)

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column over all parts."""
        return self.to_arrow([name]).column(0)

    @property
    def key(self) -> pa.ChunkedArray:
        """Keys (binary)."""
        return self.column("key")

    @property
    def value(self) -> pa.ChunkedArray:
        """Values (binary)."""
        return self.column("value")

    @property
    def offset(self) -> pa.ChunkedArray:
        """Offsets (int64)."""
        return self.column("offset")

    @property
    def timestamp(self) -> pa.ChunkedArray:
        """Timestamps (microseconds, UTC)."""
        return self.column("timestamp")

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export as an Arrow PyCapsule stream."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Export the schema as an Arrow PyCapsule."""
        from penstock.records.arrow import schema

        return schema(self._names()).__arrow_c_schema__()

    def __reduce__(self) -> tuple[object, ...]:
        from penstock.records.message_columns import packed

        places = tuple((part.partition, part.next_offset, part.context, part.topic_id) for part in self._parts)
        return _rebuilt, (places, packed([part.batch for part in self._parts]), self._makes, self._named_nodes)

    @property
    def _has_nodes(self) -> bool:
        return self._named_nodes or any(part.partition.node for part in self._parts)

    def _names(self) -> Sequence[str]:
        """The columns that every part has."""
        from penstock.records.arrow import COLUMNS, CONSTANT_COLUMNS

        there = [set(part.batch.schema.names) for part in self._parts] or [set(COLUMNS)]
        common = set.intersection(*there) | {*CONSTANT_COLUMNS}
        return [name for name in COLUMNS if name in common] + (["node"] if self._has_nodes else [])


def with_deserializers(messages: Messages, makes: Deserializers) -> Messages[Any, Any]:
    """As ``deserialized``, for clients: ``makes`` also says what happens to records that are rejected."""
    return _making(messages.parts, makes, named_nodes=messages._named_nodes)


def records_of(part: Part) -> Iterator[Record]:
    """The part's rows as records, with keys and values as bytes."""
    if part.records is not None:
        yield from part.records
        return
    for first in range(0, part.num_rows, _AT_ONCE):
        yield from _records(part.partition, part.batch.slice(first, _AT_ONCE))


def _part(
    partition: Partition, streams: Sequence[Packed], next_offset: int, context: str, topic_id: bytes | None = None
) -> Part:
    from penstock.records.message_columns import unpacked

    return Part(partition, next(unpacked(streams)), next_offset, context, None, topic_id)


def _rebuilt(
    places: Sequence[tuple[Partition, int, str, bytes | None]],
    streams: Sequence[Packed],
    makes: Deserializers | None,
    named_nodes: bool = False,
) -> Messages[Any, Any]:
    from penstock.records.message_columns import unpacked

    parts = (
        Part(partition, batch, next_offset, context, None, topic_id)
        for (partition, next_offset, context, topic_id), batch in zip(places, unpacked(streams), strict=True)
    )
    return _making(parts, makes, named_nodes=named_nodes)


def _making(parts: Iterable[Part], makes: Deserializers | None, *, named_nodes: bool) -> Messages[Any, Any]:
    found: Messages[Any, Any] = Messages(parts, named_nodes=named_nodes)
    found._makes = makes
    return found


def _without_offsets(partition: Partition) -> UsageError:
    return UsageError(
        "these records were read without their offsets",
        topic=partition.topic,
        partition=partition.id,
        hint="Add 'offset' to the columns to commit parts of a batch",
    )


def _cut(part: Part, first: int, last: int) -> Part:
    if part.records is not None:
        records = part.records[first:last]
        if last == part.num_rows:
            return Part(part.partition, None, part.next_offset, part.context, records, part.topic_id)
        return Part(part.partition, None, records[-1].offset + 1, "", records, part.topic_id)
    batch = part.batch.slice(first, last - first)
    if last == part.num_rows:
        return Part(part.partition, batch, part.next_offset, part.context, None, part.topic_id)
    index = batch.schema.get_field_index("offset")
    next_offset = _UNKNOWN if index < 0 else batch.column(index)[-1].as_py() + 1
    # The context that confirms the whole batch stays with its last row only.
    return Part(part.partition, batch, next_offset, topic_id=part.topic_id)


def _records(partition: Partition, batch: pa.RecordBatch) -> Iterator[Record]:
    import pyarrow as pa

    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    rows = batch.num_rows
    stamps = columns.get("timestamp")
    headers = columns.get("headers")
    none = [None] * rows
    topic, number, node = partition.topic, partition.id, partition.node or None
    for key, value, offset, microseconds, kind, pairs in zip(
        columns["key"].to_pylist() if "key" in columns else none,
        columns["value"].to_pylist() if "value" in columns else none,
        columns["offset"].to_pylist() if "offset" in columns else [-1] * rows,
        stamps.view(pa.int64()).to_pylist() if stamps is not None else [-1000] * rows,
        columns["timestampType"].to_pylist() if "timestampType" in columns else [0] * rows,
        headers.to_pylist() if headers is not None and len(headers.flatten()) else none,
        strict=True,
    ):
        yield Record(
            topic, number, offset, microseconds // 1000, key, value,
            tuple((pair["key"], pair["value"]) for pair in pairs) if pairs else (), _TIMESTAMP_TYPES[kind], node=node,
        )  # fmt: skip


# Keys and values as objects: conversion from and to bytes, on iteration or when single records are sent. Columns stay
# bytes unless objects are asked for.
T = TypeVar("T")
Deserializer: TypeAlias = Callable[[bytes], T]
"""Makes an object of a key or a value. Null stays None, without a call."""
Serializer: TypeAlias = Callable[[T], bytes | None]
"""Makes bytes of a key or a value. None stays null, without a call."""

Refused: TypeAlias = Callable[[DeserializationError, Record[Any, Any]], Record[Any, Any] | None]
"""Returns a replacement for a record that a deserializer rejected; None leaves it out. The record has bytes."""

ERROR_HEADER: Final = "penstock.error"
"""The last header of a record with raw bytes as its value, because it could not be decoded: says what is wrong."""

RECORDS_HEADER: Final = "penstock.error.records"
"""A header of such a record: roughly how many records the bytes contain, if more than one."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def from_json(payload: bytes) -> Any:
    """Parse JSON in UTF-8, as ``json.loads`` does.

    >>> from_json(b'{"delay": 12}')
    {'delay': 12}
    """
    return json.loads(payload)


def to_json(value: object) -> bytes:
    """Make JSON in UTF-8, without blanks. Raises TypeError and ValueError for values that JSON lacks, such as NaN.

    >>> to_json({"delay": 12})
    b'{"delay":12}'
    """
    return _ENCODER.encode(value).encode()


def from_utf8(payload: bytes) -> str:
    """Decode UTF-8. Raises UnicodeDecodeError for other bytes.

    >>> from_utf8(b"AA1")
    'AA1'
    """
    return payload.decode()


def to_utf8(value: str) -> bytes:
    """Encode text as UTF-8.

    >>> to_utf8("AA1")
    b'AA1'
    """
    return value.encode()


class Deserializers(Struct, frozen=True):
    """The functions for keys and for values; None leaves bytes. With ``refused`` None, their errors are raised."""

    key: Deserializer[Any] | None = None
    value: Deserializer[Any] | None = None
    refused: Refused | None = None

    def records(self, raw: Iterable[Record]) -> Iterator[Record[Any, Any]]:
        """Convert records. Raises DeserializationError, unless ``refused`` decides otherwise."""
        return map(self.record, raw) if self.refused is None else self._those_that_can(raw, self.refused)

    def _those_that_can(self, raw: Iterable[Record], refused: Refused) -> Iterator[Record[Any, Any]]:
        for each in raw:
            if is_raw(each):
                yield each
                continue
            try:
                yield self.record(each)
            except DeserializationError as error:
                if (instead := refused(error, each)) is not None:
                    yield instead

    def record(self, raw: Record) -> Record[Any, Any]:
        """Convert one record. Raises DeserializationError."""
        return Record(
            raw.topic,
            raw.partition,
            raw.offset,
            raw.timestamp_ms,
            made("key", self.key, raw.key, raw.topic, raw.partition, raw.offset, raw.node),
            made("value", self.value, raw.value, raw.topic, raw.partition, raw.offset, raw.node),
            raw.headers,
            raw.timestamp_type,
            raw.extra,
            raw.node,
        )


def is_raw(record: Record[Any, Any]) -> bool:
    """Whether the value is raw bytes that could not be decoded."""
    return bool(record.headers) and record.headers[-1][0] == ERROR_HEADER


def made(
    what: str,
    make: Deserializer[Any] | None,
    raw: bytes | None,
    topic: str,
    partition: int,
    offset: int,
    node: str | None = None,
) -> object:
    """Convert a key or a value with ``make``; ``offset`` is -1 if unknown. Raises DeserializationError."""
    if make is None or raw is None:
        return raw
    try:
        return make(raw)
    except Exception as error:
        name = getattr(make, "__qualname__", repr(make))
        raise DeserializationError(
            f"a {what} could not be deserialized by {name}: {error!r:.200}; it is {raw[:60]!r}",
            topic=topic,
            partition=partition,
            offset=None if offset < 0 else offset,
            node=node,
            hint="seek() behind the offset, set on_bad_record to skip or raw, or have the deserializer return what"
            " stands for such records; columns hold the bytes in any case",
        ) from error


def serialized(what: str, make: Serializer[Any], given: object, topic: object) -> bytes | None:
    """Convert a key or a value to bytes, or None. Raises UsageError if ``make`` rejects it."""
    if given is None:
        return None
    try:
        return make(given)
    except Exception as error:
        name = getattr(make, "__qualname__", repr(make))
        raise UsageError(
            f"a {what} could not be serialized by {name}: {error!r:.200}; it is {type(given).__name__}",
            topic=topic if isinstance(topic, str) else None,
            hint="Nothing was put in",
        ) from error


# Decoding around damaged messages, for protocols whose answers are lists of framed messages. A run that cannot be
# decoded is halved until the damaged message is alone: a few calls for each damaged one, and large runs for the others.
Run = TypeVar("Run")


def halved(
    count: int, decode: Callable[[int, int], Run]
) -> Iterator[tuple[int, int, Run | CorruptBatch | ProtocolViolation]]:
    """Yield (first, last, result of ``decode`` for these messages), in order, for all ``count`` messages.

    ``decode(first, last)`` raises CorruptBatch or ProtocolViolation; for a single message that error is yielded.
    """
    waiting = [(0, count)] if count else []
    while waiting:
        first, last = waiting.pop()
        try:
            yield first, last, decode(first, last)
        except (CorruptBatch, ProtocolViolation) as error:
            if last - first == 1:
                yield first, last, error
                continue
            middle = (first + last) // 2
            waiting += [(middle, last), (first, middle)]
