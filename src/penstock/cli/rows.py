"""Rows of CSV and Parquet files as columns to send: a JSON object a row, or the record columns as they are."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from datetime import date, datetime, time
from io import BytesIO
from typing import BinaryIO, Final

import pyarrow as pa
from pyarrow import csv, parquet

from penstock.columnar.schema import COLUMNS
from penstock.errors import UsageError

_ROWS: Final = 32_768
_SENT: Final = ("key", "value", "headers", "timestamp", "partition")


def csv_tables(stream: BinaryIO, key: str) -> Iterator[pa.Table]:
    """Numbers and times are recognised by the first block; the key column's text stays as it is written."""
    columns = csv.ConvertOptions(column_types={key: pa.string()} if key else {})
    for batch in csv.open_csv(stream, convert_options=columns):
        yield _as_json(pa.Table.from_batches([batch]), key)


def parquet_tables(stream: BinaryIO, key: str) -> Iterator[pa.Table]:
    """A file with a binary column value and otherwise only columns that records have is sent as it is."""
    # Parquet is read from its end, which a pipe does not have.
    file = parquet.ParquetFile(stream if stream.seekable() else BytesIO(stream.read()))
    as_it_is = not key and _has_records(file.schema_arrow)
    for batch in file.iter_batches(batch_size=_ROWS):
        table = pa.Table.from_batches([batch])
        yield table.select([name for name in _SENT if name in table.column_names]) if as_it_is else _as_json(table, key)


def _has_records(schema: pa.Schema) -> bool:
    if "value" not in schema.names or not set(schema.names) <= set(COLUMNS):
        return False
    kind = schema.field("value").type
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _as_json(table: pa.Table, key: str) -> pa.Table:
    values = [json.dumps(_plain(row)).encode() for row in table.to_pylist()]
    columns = {"value": pa.array(values, pa.binary())}
    if key:
        if key not in table.column_names:
            raise UsageError(f"no column '{key}' in the file", hint=f"it has {', '.join(table.column_names)}")
        keys = table[key].to_pylist()
        columns["key"] = pa.array([None if each is None else _text(each) for each in keys], pa.binary())
    return pa.table(columns)


def _text(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return str(_plain(value)).encode()


def _plain(value: object) -> object:
    """A cell as JSON can say it: times in ISO 8601, bytes as text or else base64, NaN as null."""
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
