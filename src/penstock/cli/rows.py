"""Rows of CSV and Parquet files as columns to send: a JSON object per row, or the record columns as they are."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import BinaryIO, Final

import pyarrow as pa
from pyarrow import compute, csv, parquet

from penstock.cli.record_text import NULL, joined, spelled_text
from penstock.errors import UsageError
from penstock.records.arrow import TYPES, binary_array

_ROWS: Final = 32_768
_AT_ONCE: Final = (pa.float64(), pa.float32(), pa.bool_())
_NO_CELLS: Final = pa.nulls(0, pa.binary())
_SENT: Final = ("key", "value", "headers", "timestamp", "partition")


def csv_tables(stream: BinaryIO, key: str) -> Iterator[pa.Table]:
    """The tables of a CSV file. Arrow infers numbers and times from the first block; the key column stays text."""
    columns = csv.ConvertOptions(column_types={key: pa.string()} if key else {})
    for batch in csv.open_csv(stream, convert_options=columns):
        yield _as_json(pa.Table.from_batches([batch]), key)


def parquet_tables(stream: BinaryIO, key: str) -> Iterator[pa.Table]:
    """The tables of a Parquet file; one with a binary column value and only a record's columns is sent as it is."""
    file = parquet.ParquetFile(stream)
    as_it_is = not key and _has_records(file.schema_arrow)
    for batch in file.iter_batches(batch_size=_ROWS):
        table = pa.Table.from_batches([batch])
        yield table.select([name for name in _SENT if name in table.column_names]) if as_it_is else _as_json(table, key)


def partitions_named(stream: BinaryIO) -> set[int]:
    """The partitions in the rows of a Parquet file of records."""
    file = parquet.ParquetFile(stream)
    if not _has_records(file.schema_arrow) or "partition" not in file.schema_arrow.names:
        return set()
    batches = file.iter_batches(batch_size=_ROWS, columns=["partition"])
    return {each for batch in batches for each in compute.unique(batch.column(0)).to_pylist() if each is not None}


def _has_records(schema: pa.Schema) -> bool:
    if "value" not in schema.names or not set(schema.names) <= set(TYPES):
        return False
    kind = schema.field("value").type
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _as_json(table: pa.Table, key: str) -> pa.Table:
    columns = {"value": _objects(table)}
    if key:
        if key not in table.column_names:
            raise UsageError(f"no column '{key}' in the file", hint=f"it has {', '.join(table.column_names)}")
        columns["key"] = _keys(table[key].combine_chunks())
    return pa.table(columns)


def _objects(table: pa.Table) -> pa.Array:
    """A JSON object per row, written column by column."""
    pieces: list[pa.Array | bytes] = []
    # Of several columns with the same name, the last one counts, at the position of the first.
    for name, at in {name: at for at, name in enumerate(table.column_names)}.items():
        begin = f"{', ' if pieces else '{'}{json.dumps(name)}: ".encode()
        pieces += [begin, _spelled(table.column(at).combine_chunks())]
    return joined(*pieces, b"}") if pieces else pa.array([b"{}"] * table.num_rows, pa.binary())


def _spelled(column: pa.Array) -> pa.Array:
    """A column's cells as JSON; cells that Arrow would write differently from ``json`` are written one by one."""
    kind = column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.string()).cast(pa.binary()).fill_null(NULL)
    if pa.types.is_string(kind):
        return spelled_text(column.cast(pa.binary()))
    if pa.types.is_binary(kind) and _is_text(column):
        return spelled_text(column)
    if kind in _AT_ONCE:
        return _at_once(column)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        codes = column.dictionary_encode("encode")  # many rows have the same day or hour
        return pa.array(_one_by_one(codes.dictionary), pa.binary()).take(codes.indices)
    return pa.array(_one_by_one(column), pa.binary())


def _is_text(column: pa.Array) -> bool:
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _at_once(column: pa.Array) -> pa.Array:
    """Numbers and booleans as JSON, by one call of ``json``, since none of them has a comma."""
    if pa.types.is_floating(column.type):
        column = compute.if_else(compute.is_finite(column), column, pa.nulls(1, column.type)[0])
    return binary_array(json.dumps(column.to_pylist())[1:-1].encode().split(b", ")) if len(column) else _NO_CELLS


def _one_by_one(column: pa.Array) -> list[bytes]:
    return [json.dumps(_plain(cell)).encode() for cell in column.to_pylist()]


def _keys(column: pa.Array) -> pa.Array:
    if pa.types.is_integer(column.type) or pa.types.is_string(column.type):
        return column.cast(pa.string()).cast(pa.binary())
    return pa.array([None if each is None else _text(each) for each in column.to_pylist()], pa.binary())


def _text(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return str(_plain(value)).encode()


def _plain(value: object) -> object:
    """A cell for JSON: times in ISO 8601, bytes as text or else base64, NaN as null."""
    match value:
        case dict():
            return {str(name): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return base64.b64encode(value).decode()
        case _:
            return str(value)
