"""Records of one partition as lines of text or JSON, column by column: no Python object per record.

What must not live here: where lines go.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import compute

from penstock.cli.json_text import NULL, joined, known, patched, scalar, spelled_text, strange_rows
from penstock.columnar.arrays import binary_of, numbers
from penstock.columnar.inputs import integers_of, valid_of
from penstock.columnar.messages import Part

__all__ = ["json_lines", "text_lines"]

_NOTHING: Final = scalar(b"")
_ZERO: Final = numbers(pa.int32(), 1, np.zeros(1, np.int32))[0]


def text_lines(part: Part, separator: bytes = b"") -> pa.Array:
    """Key and separator if there is one, value, line feed: the bytes as they are."""
    value = part.batch.column("value").fill_null(_NOTHING)
    pieces = (part.batch.column("key").fill_null(_NOTHING), separator, value) if separator else (value,)
    return joined(*pieces, b"\n")


def json_lines(part: Part) -> pa.Array:
    """Objects with all there is of a record; bytes that are not UTF-8 are in base64."""
    batch, partition = part.batch, part.partition
    node = f'"node": {json.dumps(partition.node)}, ' if partition.node else ""
    same = f'{{"topic": {json.dumps(partition.topic)}, {node}"partition": {partition.id}, "offset": '
    return joined(
        same.encode(),
        _spelled_numbers(batch.column("offset")),
        b', "timestamp": ',
        _spelled_times(batch.column("timestamp")),
        _payload("key", batch.column("key")),
        _payload("value", batch.column("value")),
        *_headers(batch),
        b"}\n",
    )


def _spelled_numbers(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()).cast(pa.binary()).fill_null(NULL)


def _spelled_times(column: pa.Array) -> pa.Array:
    """Milliseconds; those before 1970 mean that there is no timestamp."""
    times = np.where(valid_of(column), np.floor_divide(integers_of(column.view(pa.int64())), 1_000), -1)
    return _spelled_numbers(numbers(pa.int64(), len(times), times, times >= 0))


def _payload(name: str, column: pa.Array) -> pa.Array:
    """``, "name": "text"``, or ``, "name_base64": "…"`` where it is not text."""
    before = f', "{name}": '.encode()
    if (strange := strange_rows(column)) is None:
        return joined(before, spelled_text(column))
    # spelled_text() takes text only: rows that may hold other bytes are written here, one by one.
    plain = spelled_text(compute.if_else(strange, pa.nulls(1, pa.binary())[0], column))
    return patched(joined(before, plain), strange, column, lambda value: f", {_text_or_base64(name, value)}".encode())


def _headers(batch: pa.RecordBatch) -> list[pa.Array]:
    """``, "headers": […]`` for the records that have some."""
    at = batch.schema.get_field_index("headers")
    if at < 0 or not len(batch.column(at).flatten()):
        return []
    column = batch.column(at)
    some = known(compute.greater(compute.list_value_length(column), _ZERO))
    none = binary_of([b""] * len(column))
    return [patched(none, some, column, _header_list)]


def _header_list(pairs: list[dict[str, Any]]) -> bytes:
    shown = [f'{{"key": {json.dumps(pair["key"])}, {_text_or_base64("value", pair["value"])}}}' for pair in pairs]
    return f', "headers": [{", ".join(shown)}]'.encode()


def _text_or_base64(name: str, value: bytes | None) -> str:
    if value is None:
        return f'"{name}": null'
    try:
        return f'"{name}": {json.dumps(value.decode())}'
    except UnicodeDecodeError:
        return f'"{name}_base64": "{base64.b64encode(value).decode()}"'
