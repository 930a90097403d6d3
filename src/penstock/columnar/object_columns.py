"""Columns of objects: keys and values as deserializers make them, for who asks for a table of those.

What must not live here: a record alone (`payloads`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.columnar.messages import Part
from penstock.columnar.payloads import Deserializer, Deserializers, from_utf8, made
from penstock.errors import UsageError

__all__ = ["with_objects"]


def with_objects(table: pa.Table, parts: Sequence[Part], makes: Deserializers) -> pa.Table:
    """``table``, which has the rows of ``parts``, with other columns key and value.

    Text for `from_utf8`, else of the types that Arrow infers of all objects together. Raises DeserializationError, and
    UsageError for objects that no column can hold together.
    """
    for name, make in (("key", makes.key), ("value", makes.value)):
        place = table.schema.get_field_index(name)
        if place >= 0 and make is not None:
            table = table.set_column(place, name, _column(name, table.column(place), parts, make))
    return table


def _column(name: str, column: pa.ChunkedArray, parts: Sequence[Part], make: Deserializer[object]) -> pa.ChunkedArray:
    if make is from_utf8:
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            pass  # the first that is no text is found below
    objects = [each for part in parts for each in _objects(name, part, make)]
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
