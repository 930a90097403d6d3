"""Checks records and tables where they are sent, and converts them for the accumulator; runs serializers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, cast

import pyarrow as pa
from msgspec import Struct

from penstock.client.arguments import TopicNames, check_partition_id, check_timestamp
from penstock.client.connecting import ClientClock
from penstock.client.intercepting import check_callable
from penstock.client.producer.accumulator import check_sizes, largest_record, payload, record_size, too_large
from penstock.config import ProducerConfig
from penstock.errors import UsageError
from penstock.records import Messages
from penstock.records.arrow import HEADERS_TYPE, TYPES
from penstock.records.encoding import HeadersLike
from penstock.records.messages import Serializer, serialized

__all__ = ["ArrowArray", "ArrowStream", "RecordValidator", "RowsLike", "Serializers", "pieces"]

# Tables from users: anything that exports Arrow, rows of a consumer included, cut into pieces.
_TYPES: Final = {"key": pa.binary(), "value": pa.binary(), "headers": HEADERS_TYPE, "topic": pa.string()}
_WITHOUT_VIEWS: Final = {"key": pa.large_binary(), "value": pa.large_binary(), "topic": pa.large_string()}
"""Large types, which hold any amount of data; a piece of a batch's size is then cast to the types above."""
_ROWS_WITHOUT_VIEWS: Final = 65_536
_SENT: Final = ("key", "value", "headers", "timestamp", "partition")
_ORIGIN: Final = frozenset({"topic", "offset", "node"})
"""Columns of rows that were read. In a table with one of these, a column partition says where a row came from."""
_INDEX: Final = "__index_level_"
"""The prefix of pandas' name for an exported index without a name."""


class ArrowStream(Protocol):
    """Rows as an Arrow PyCapsule stream: `penstock.Messages`, tables and readers of pyarrow, Polars, DuckDB, pandas."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream."""
        ...


class ArrowArray(Protocol):
    """Rows as an Arrow PyCapsule array of structs: record batches of pyarrow, nanoarrow and others."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """The schema and the array."""
        ...


RowsLike = ArrowStream | ArrowArray
"""The type of rows for ``send_batch``."""


def pieces(
    topic: str | None, given: RowsLike, most_bytes: int, check: Callable[[pa.RecordBatch | pa.Table], None]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """``given`` as batches of about ``most_bytes`` or less, each with its topic; ``check`` gets keys and values first.

    Raises UsageError for an object without rows, and for columns that cannot be sent: before anything of a table in
    memory is returned, and for a stream before anything of the offending batch.
    """
    for table in _tables(given):
        names = _obeyed(topic, table.schema)
        rows = table.select(names).replace_schema_metadata(None)
        check(rows)
        for batch in _without_views(rows):
            for piece in _slices(batch, most_bytes):
                fitting = _fitting(piece)
                if fitting is not piece:
                    check(fitting)
                if topic is not None:
                    yield topic, fitting
                else:
                    yield from _by_topic(fitting)


def _tables(given: RowsLike) -> Iterator[pa.Table]:
    """A table in memory as a whole, a stream batch by batch; at least one table, so that there is a schema to check."""
    if isinstance(given, Messages):
        yield given.to_arrow()
    elif isinstance(given, pa.Table):
        yield given
    elif isinstance(given, pa.RecordBatch):
        yield pa.Table.from_batches([given])
    elif hasattr(given, "__arrow_c_stream__"):
        with _imported(pa.RecordBatchReader.from_stream, given) as reader:
            yield reader.schema.empty_table()
            for batch in reader:
                yield pa.Table.from_batches([batch])
    elif hasattr(given, "__arrow_c_array__"):
        yield pa.Table.from_batches([_imported(pa.record_batch, given)])
    else:
        hint = "pyarrow.table() makes a table of columns; send() takes single records"
        raise UsageError(f"rows are {type(given).__name__}, wanted are Messages or an Arrow table or stream", hint=hint)


def _imported(read: Callable[[RowsLike], pa.RecordBatchReader], given: RowsLike) -> pa.RecordBatchReader:
    try:
        return read(given)
    except (pa.ArrowInvalid, TypeError) as error:
        raise UsageError(f"rows are {type(given).__name__}, which exports no table to Arrow: {error}") from None


def _obeyed(topic: str | None, schema: pa.Schema) -> list[str]:
    """The columns with what to send and where to; a consumer's other columns say where a row came from."""
    names = [name for name in schema.names if not name.startswith(_INDEX)]
    unknown = [name for name in names if name not in TYPES]
    if unknown or "value" not in names or len(set(names)) < len(names):
        raise UsageError(
            f"the table has {', '.join(names) or 'no columns'}",
            hint=f"Columns to send are {', '.join(_SENT)}, of which only value is needed; select() or rename them",
        )
    if topic is None and "topic" not in names:
        raise UsageError("no topic is named, and the rows have no column topic")
    obeyed = {*_SENT} - {name for name in names if pa.types.is_null(schema.field(name).type) and name != "value"}
    if topic is None:
        obeyed.add("topic")
    elif _ORIGIN & {*names}:
        obeyed.discard("partition")
    chosen = [name for name in names if name in obeyed]
    for name in chosen:
        _check_type(name, schema.field(name).type)
    return chosen


def _check_type(name: str, kind: pa.DataType) -> None:
    """Raise UsageError for a column type that cannot be sent, whatever its values."""
    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    types = pa.types
    is_text = any(test(kind) for test in (types.is_string, types.is_large_string, types.is_string_view))
    is_bytes = any(test(kind) for test in (types.is_binary, types.is_large_binary, types.is_binary_view))
    match name:
        case "topic":
            fits, wanted = is_text, "string"
        case "key" | "value":
            fits, wanted = (
                is_text or is_bytes or types.is_fixed_size_binary(kind) or types.is_null(kind),
                ("binary or string"),
            )
        case "timestamp":
            fits, wanted = types.is_timestamp(kind) or types.is_integer(kind), "timestamps, or integers of milliseconds"
        case "partition":
            fits, wanted = types.is_integer(kind) or types.is_floating(kind), "integers"
        case _:
            fits, wanted = _casts(kind, HEADERS_TYPE), "a list of key and value"
    if not fits:
        raise UsageError(f"column {name} is {kind}, wanted is {wanted}")


def _casts(kind: pa.DataType, to: pa.DataType) -> bool:
    try:
        pa.array([], kind).cast(to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _without_views(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """``rows`` in types whose size in bytes is known.

    Views (text of Polars) share their buffers with rows outside of a slice. pyarrow 22 and later counts all of them for
    each slice, and earlier versions raise. So views are copied, some at a time; other columns stay unchanged.
    """
    viewed = [name for name in _TYPES if name in rows.schema.names and _has_views(rows.schema.field(name).type)]
    for batch in rows.to_batches(max_chunksize=_ROWS_WITHOUT_VIEWS if viewed else None):
        for name in viewed:
            column = _cast(name, batch.column(name), _WITHOUT_VIEWS.get(name, HEADERS_TYPE))
            batch = batch.set_column(batch.schema.get_field_index(name), name, column)
        yield batch


def _has_views(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.DictionaryType):
        return _has_views(kind.value_type)
    is_view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return is_view or any(_has_views(kind.field(number).type) for number in range(kind.num_fields))


def _slices(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    count = max(1, -(-batch.nbytes // most_bytes))
    rows = max(1, -(-batch.num_rows // count))
    for first in range(0, batch.num_rows, rows):
        yield batch.slice(first, rows)


def _fitting(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in the types that senders pack; columns that already have them are not copied."""
    if all(batch.schema.field(name).type == kind for name, kind in _TYPES.items() if name in batch.schema.names):
        return batch
    columns = {
        name: column if (kind := _TYPES.get(name)) is None else _cast(name, column, kind)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return pa.RecordBatch.from_pydict(columns)


def _cast(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        if isinstance(column, pa.DictionaryArray):  # Arrow cannot take values of every type
            column = pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(kind))
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f"column {name} is {column.type}, which cannot be sent: {error}") from None


def _by_topic(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, in order; topics in the order of their first rows."""
    index = batch.schema.get_field_index("topic")
    topics, rows = batch.column(index), batch.remove_column(index)
    if topics.null_count:
        raise UsageError("a row has no topic", hint="Name a topic for all rows, or give each its own")
    codes = topics.dictionary_encode()
    names: Sequence[str] = codes.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], rows
        return
    numbers = codes.indices.to_numpy(zero_copy_only=False)
    for number, name in enumerate(names):
        yield name, rows.filter(pa.array(numbers == number))


RecordToPut: TypeAlias = "tuple[str, bytes | None, bytes | None, HeadersLike | None, int | None, int, int]"
"""Topic, key, value, headers, partition, timestamp in ms, size: the arguments of ``RecordAccumulator.put``."""

TableToPut: TypeAlias = tuple[str, pa.RecordBatch, int]
"""Topic, rows, size: the arguments of ``RecordAccumulator.put_table``."""


class RecordValidator:
    """The checks of one producer."""

    def __init__(self, names: TopicNames, config: ProducerConfig, surroundings: ClientClock) -> None:
        self._names = names
        self._config = config
        self._now_ns = surroundings.now_ns
        self._largest_record = largest_record(config)

    def record(
        self,
        topic: str,
        value: object,
        key: object,
        headers: HeadersLike | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> RecordToPut:
        """A checked record for the accumulator. Raises UsageError for a record that can never be sent."""
        if topic.__class__ is not str or topic not in self._names.known:
            topic = self._names.one(topic)
        if key is not None and key.__class__ is not bytes:
            key = payload("key", key)
        if value.__class__ is not bytes:
            value = payload("value", value)
        size = record_size(key, value, headers)
        if size > self._largest_record:
            raise too_large(size, self._config)
        if partition is not None:
            partition = check_partition_id(partition, topic)
        timestamp_ms = self._now_ns() // 1_000_000 if timestamp_ms is None else check_timestamp(timestamp_ms)
        return topic, key, value, headers, partition, timestamp_ms, size

    def tables(self, topic: str | None, rows: RowsLike) -> Iterator[TableToPut]:
        """Rows for the accumulator, piece by piece. Raises UsageError for columns that cannot be sent."""
        if topic is not None:
            topic = self._names.one(topic)
        # Pieces are large enough to fill batches of many partitions, and small enough to bound memory.
        most_bytes = max(1, min(16 * self._config.batch_size_bytes, self._config.buffer_memory_bytes // 4))
        check = partial(check_sizes, config=self._config)
        found = pieces(topic, rows, most_bytes, check)
        return ((self._names.one(name), batch, max(batch.nbytes, 1)) for name, batch in found)


# Serializers run where a record is sent, in the sender's thread and traceback.
class Serializers(Struct, frozen=True):
    """The functions that turn keys and values into bytes; None for bytes."""

    key: Serializer[Any] | None
    value: Serializer[Any] | None

    @classmethod
    def of(cls, key: object, value: object) -> Serializers | None:
        """Both serializers; None if there are none. Raises ConfigError for one that is not callable."""
        for name, given in (("key_serializer", key), ("value_serializer", value)):
            check_callable(name, given, "For JSON it is penstock.to_json, for text penstock.to_utf8")
        if key is None and value is None:
            return None
        return cls(cast("Serializer[Any] | None", key), cast("Serializer[Any] | None", value))

    def record(
        self,
        put: Callable[..., RecordToPut],
        topic: str,
        value: object,
        key: object,
        headers: HeadersLike | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> RecordToPut:
        """Call ``put`` with the serialized key and value. Raises UsageError."""
        if self.key is not None:
            key = serialized("key", self.key, key, topic)
        if self.value is not None:
            value = serialized("value", self.value, value, topic)
        return put(topic, value, key, headers, partition, timestamp_ms)
