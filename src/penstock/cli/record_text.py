"""Records of one partition as lines of text or JSON, column by column: no Python object per record."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from penstock.records.arrow import binary_array, integers_of, number_array, valid_of
from penstock.records.messages import Part

__all__ = [
    "NULL",
    "joined",
    "json_lines",
    "known",
    "patched",
    "payload_bytes",
    "scalar",
    "spelled_text",
    "strange_rows",
    "text_lines",
]

# Columns as JSON text: exactly the output of ``json.dumps``, at a million rows per second.
#
# Arrow writes most rows; the few that need an escape other than for quotes and backslashes are written by ``json``, one
# by one.
NULL: Final = binary_array([b"null"])[0]
_STRANGE: Final = rb"[^ -~]"
"""Control characters and non-ASCII characters, which ``json`` must escape."""


def joined(*pieces: pa.Array | bytes) -> pa.Array:
    """The pieces of each row, concatenated; a row with a null piece is null."""
    scalars = [scalar(each) if isinstance(each, bytes) else each for each in pieces]
    return compute.binary_join_element_wise(*scalars, scalar(b""))


def scalar(value: bytes) -> pa.Scalar:
    """A value for Arrow's functions. ``pa.scalar`` imports pandas, which takes 0.2 s."""
    return binary_array([value])[0]


def payload_bytes(column: pa.Array) -> npt.NDArray[np.uint8]:
    """All payloads of a binary column, one after the other, not copied."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return np.empty(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]


def strange_rows(column: pa.Array) -> pa.Array | None:
    """For each row whether JSON must escape more than quotes and backslashes; None if no row needs it."""
    payload = payload_bytes(column)
    # One pass over all bytes costs a tenth of a pattern match on every row.
    if not len(payload) or (payload.min() >= ord(" ") and payload.max() <= ord("~")):
        return None
    return known(compute.match_substring_regex(column, _STRANGE))


def known(found: pa.Array) -> pa.Array:
    """``found`` with False for null."""
    return compute.and_kleene(found, found.is_valid()) if found.null_count else found


def spelled_text(column: pa.Array) -> pa.Array:
    """Binary text as JSON strings, null as ``null``. Raises UnicodeDecodeError if it is not UTF-8."""
    payload = payload_bytes(column)
    spelled = column
    for letter in (b"\\", b'"'):
        if (payload == letter[0]).any():
            spelled = compute.replace_substring(spelled, letter, b"\\" + letter)
    spelled = joined(b'"', spelled, b'"').fill_null(NULL)
    return patched(spelled, strange_rows(column), column, lambda text: json.dumps(text.decode()).encode())


def patched(spelled: pa.Array, where: pa.Array | None, column: pa.Array, spell: Callable[[Any], bytes]) -> pa.Array:
    """``spelled``, in which the rows of ``where`` are written one by one with ``spell``."""
    if where is None:
        return spelled
    own = [spell(value) for value in column.filter(where).to_pylist()]
    return compute.replace_with_mask(spelled, where, binary_array(own))


_NOTHING: Final = scalar(b"")
_ZERO: Final = number_array(pa.int32(), 1, np.zeros(1, np.int32))[0]


def text_lines(part: Part, separator: bytes = b"") -> pa.Array:
    """Key and separator (if there is one), value, line feed: the unchanged bytes."""
    value = part.batch.column("value").fill_null(_NOTHING)
    pieces = (part.batch.column("key").fill_null(_NOTHING), separator, value) if separator else (value,)
    return joined(*pieces, b"\n")


def json_lines(part: Part) -> pa.Array:
    """Objects with all fields of a record; bytes that are not UTF-8 are in base64."""
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
    """Milliseconds since 1970; a negative one means that there is no timestamp."""
    times = np.where(valid_of(column), np.floor_divide(integers_of(column.view(pa.int64())), 1_000), -1)
    return _spelled_numbers(number_array(pa.int64(), len(times), times, times >= 0))


def _payload(name: str, column: pa.Array) -> pa.Array:
    """``, "name": "text"``, or ``, "name_base64": "…"`` if it is not text."""
    before = f', "{name}": '.encode()
    if (strange := strange_rows(column)) is None:
        return joined(before, spelled_text(column))
    # spelled_text() accepts only text, so rows that may have other bytes are written here, one by one.
    plain = spelled_text(compute.if_else(strange, pa.nulls(1, pa.binary())[0], column))
    return patched(joined(before, plain), strange, column, lambda value: f", {_text_or_base64(name, value)}".encode())


def _headers(batch: pa.RecordBatch) -> list[pa.Array]:
    """``, "headers": […]`` for records with headers."""
    at = batch.schema.get_field_index("headers")
    if at < 0 or not len(batch.column(at).flatten()):
        return []
    column = batch.column(at)
    some = known(compute.greater(compute.list_value_length(column), _ZERO))
    none = binary_array([b""] * len(column))
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
