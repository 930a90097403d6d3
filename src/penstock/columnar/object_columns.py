"""Columns of objects: keys and values as deserializers make them, for who asks for a table of those.

What must not live here: a record alone (`payloads`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.columnar.arrays import headers_of
from penstock.columnar.messages import Part, records_of
from penstock.columnar.payloads import Deserializer, Deserializers, Refused, from_utf8, is_raw, made
from penstock.errors import DeserializationError, UsageError

__all__ = ["with_objects"]

Bad: TypeAlias = dict[int, DeserializationError | None]
"""Rows that have no object, and why; None where the value is raw bytes that could not be decoded before."""


def with_objects(table: pa.Table, parts: Sequence[Part], makes: Deserializers) -> pa.Table:
    """``table``, which has the rows of ``parts``, with other columns key and value.

    Text for `from_utf8`, else of the types that Arrow infers of all objects together. Raises DeserializationError, and
    UsageError for objects that no column can hold together. Where ``makes`` says what becomes of records that are
    refused, they are left out, or are null with their header of what is wrong.
    """
    bad: Bad | None = None if makes.refused is None else {}
    for name, make in (("key", makes.key), ("value", makes.value)):
        place = table.schema.get_field_index(name)
        if place >= 0 and make is not None:
            table = table.set_column(place, name, _column(name, table.column(place), parts, make, bad))
    return table if not bad or makes.refused is None else _without(bad, table, parts, makes.refused)


def _without(bad: Bad, table: pa.Table, parts: Sequence[Part], refused: Refused) -> pa.Table:
    """``table`` without the ``bad`` rows, or with what stands for them."""
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
        column = headers_of([headers.get(row, each.headers) for row, each in enumerate(raw)])
        table = table.set_column(place, table.schema.field(place), pa.chunked_array([column]))
    return table if kept.all() else table.filter(pa.array(kept))


def _column(
    name: str, column: pa.ChunkedArray, parts: Sequence[Part], make: Deserializer[object], bad: Bad | None
) -> pa.ChunkedArray:
    if make is from_utf8:
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            pass  # the first that is no text is found below
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
    """The same; None for those that are ``bad``, by their rows, of which there are ``before`` others."""
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
