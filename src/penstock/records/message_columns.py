"""Columns of `Messages` that are made on demand: of objects, of a few records, and for another process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.errors import DeserializationError, UsageError
from penstock.model import Record
from penstock.records.arrow import RECORD_COLUMNS, TYPES, binary_array, headers_array, number_array, schema
from penstock.records.messages import Deserializer, Deserializers, Part, Refused, from_utf8, is_raw, made, records_of

__all__ = ["Packed", "batch_of", "packed", "unpacked", "with_objects"]

Bad: TypeAlias = dict[int, DeserializationError | None]
"""Rows without an object, and the error; None if the value is raw bytes that could not be decoded before."""


def with_objects(table: pa.Table, parts: Sequence[Part], makes: Deserializers) -> pa.Table:
    """Return ``table``, which has the rows of ``parts``, with keys and values converted.

    Columns are text for `from_utf8`; otherwise Arrow infers the type of all objects together. Raises
    DeserializationError, and UsageError for objects that no single column can hold. If ``makes`` handles rejected
    records, these are left out, or are null with a header that names the error.
    """
    bad: Bad | None = None if makes.refused is None else {}
    for name, make in (("key", makes.key), ("value", makes.value)):
        place = table.schema.get_field_index(name)
        if place >= 0 and make is not None:
            table = table.set_column(place, name, _column(name, table.column(place), parts, make, bad))
    return table if not bad or makes.refused is None else _without(bad, table, parts, makes.refused)


def _without(bad: Bad, table: pa.Table, parts: Sequence[Part], refused: Refused) -> pa.Table:
    """``table`` without the ``bad`` rows, or with replacements for them."""
    kept = np.ones(table.num_rows, bool)
    headers: dict[int, tuple[tuple[str, bytes | None], ...]] = {}
    raw = [*chain.from_iterable(map(records_of, parts))]
    for row, error in sorted(bad.items()):
        if error is None:
            continue  # its bytes were raw before
        if (instead := refused(error, raw[row])) is None:
            kept[row] = False
        else:
            headers[row] = instead.headers
    place = table.schema.get_field_index("headers")
    if headers and place >= 0:
        column = headers_array([headers.get(row, each.headers) for row, each in enumerate(raw)])
        table = table.set_column(place, table.schema.field(place), pa.chunked_array([column]))
    return table if kept.all() else table.filter(pa.array(kept))


def _column(
    name: str, column: pa.ChunkedArray, parts: Sequence[Part], make: Deserializer[object], bad: Bad | None
) -> pa.ChunkedArray:
    if make is from_utf8:
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            pass  # the first value that is not text is found below
    objects: list[object] = []
    for part in parts:
        if bad is None:
            objects += _objects(name, part, make)
        else:
            objects += _objects_that_can(name, part, make, bad, len(objects))
    try:
        return pa.chunked_array([pa.array(objects)])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        hint = "Take the bytes, and make the column yourself"
        raise UsageError(f"the objects of column {name} are no column of Arrow's: {error}", hint=hint) from None


def _objects(name: str, part: Part, make: Deserializer[object]) -> list[object]:
    batch, place, node = part.batch, part.partition, part.partition.node or None
    known = batch.schema.get_field_index("offset") >= 0
    offsets = batch.column("offset").to_pylist() if known else [-1] * batch.num_rows
    payloads = batch.column(name).to_pylist()
    return [made(name, make, raw, place.topic, place.id, at, node) for raw, at in zip(payloads, offsets, strict=True)]


def _objects_that_can(name: str, part: Part, make: Deserializer[object], bad: Bad, before: int) -> Iterator[object]:
    """As `_objects`, but None for rows that fail, which are added to ``bad``; ``before`` rows came earlier."""
    for row, raw in enumerate(records_of(part), before):
        if is_raw(raw):
            bad[row] = None
            yield None
            continue
        try:
            yield made(name, make, getattr(raw, name), raw.topic, raw.partition, raw.offset, raw.node)
        except DeserializationError as error:
            bad.setdefault(row, error)
            yield None


# A few records that were read in plain Python, as columns.
def batch_of(records: Sequence[Record]) -> pa.RecordBatch:
    """Return all record columns of these records."""
    count = len(records)
    arrays = [
        binary_array([record.key for record in records]),
        binary_array([record.value for record in records]),
        number_array(TYPES["offset"], count, np.array([record.offset for record in records], np.int64)),
        number_array(TYPES["timestamp"], count, np.array([record.timestamp_ms * 1000 for record in records], np.int64)),
        number_array(
            TYPES["timestampType"], count, np.array([int(record.timestamp_type) for record in records], np.int32)
        ),
        headers_array([record.headers for record in records]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema(RECORD_COLUMNS))


# Messages for another process, in Arrow's stream format, which contains the rows and no more.
#
# A slice shares the buffers of everything it was cut from; pickling those would send a whole fetch with ten rows.
Packed = tuple[pa.Buffer, tuple[int, ...]]
"""A stream, and the number of rows in each of its batches."""

_SMALL_BYTES: Final = 1 << 16
"""Batches smaller than this are sent as one, because each has a kilobyte of metadata."""


def packed(batches: Sequence[pa.RecordBatch]) -> list[Packed]:
    """Serialize batches; adjacent ones with the same columns share a stream."""
    return [_packed(list(run)) for _, run in groupby(batches, key=lambda batch: batch.schema)]


def unpacked(streams: Sequence[Packed]) -> Iterator[pa.RecordBatch]:
    """Restore the batches without copying."""
    for stream, counts in streams:
        with pa.ipc.open_stream(stream) as reader:
            found = list(reader)
        if len(found) == len(counts):
            yield from found
            continue
        first = 0
        for rows in counts:
            yield found[0].slice(first, rows)
            first += rows


def _packed(batches: Sequence[pa.RecordBatch]) -> Packed:
    sink = pa.BufferOutputStream()
    small = len(batches) > 1 and sum(batch.nbytes for batch in batches) < _SMALL_BYTES * len(batches)
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in [pa.concat_batches(batches)] if small else batches:
            writer.write_batch(batch)
    return sink.getvalue(), tuple(batch.num_rows for batch in batches)
