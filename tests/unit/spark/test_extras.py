"""Headers as columns of their own: found by name in any slice, null where there is none, the last one of two."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.interfaces import WireProtocol
from penstock.protocols import register
from penstock.records.arrow import HEADERS_TYPE, schema
from penstock.spark._columns import Extra, none_as_null, physical, with_extras
from penstock.spark._options import parse_options
from tests.toy import registration

ROWS: list[list[tuple[str, bytes | None]] | None] = [
    [("a", b"1"), ("b", b"x"), ("a", b"2")],
    [],
    None,
    [("b", b"\xff")],
    [("a", None)],
    [("aa", b"no"), ("a", b"3")],
]
A: list[bytes | None] = [b"2", None, None, None, None, b"3"]
EXTRAS = {"a": Extra("a", "binary"), "b": Extra("b", "string")}


def batch() -> pa.RecordBatch:
    headers = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in ROWS]
    columns = [pa.array(range(len(ROWS)), pa.int64()), pa.array(headers, HEADERS_TYPE)]
    return pa.RecordBatch.from_arrays(columns, schema=schema(["offset", "headers"]))


@pytest.mark.parametrize("first", range(7))
@pytest.mark.parametrize("rows", [0, 1, 2, 6])
@pytest.mark.parametrize("nulls", [True, False])
def test_values_of_a_header_in_any_slice(first: int, rows: int, nulls: bool) -> None:
    given = batch().slice(first, rows)
    made = with_extras(none_as_null(given) if nulls else given, ["a", "offset"], EXTRAS)
    assert made.schema == pa.schema({"a": pa.binary(), "offset": pa.int64()})
    assert made.column("a").to_pylist() == A[first : first + rows]
    assert made.column("offset").to_pylist() == list(range(len(ROWS)))[first : first + rows]


def test_text_that_is_none_is_replaced_not_refused() -> None:
    made = with_extras(batch(), ["b"], EXTRAS)
    assert made.column("b").to_pylist() == ["x", None, None, "\ufffd", None, None]
    assert with_extras(batch().slice(0, 3), ["b"], EXTRAS).schema == made.schema == pa.schema({"b": pa.string()})


@pytest.mark.parametrize(
    ("columns", "read"),
    [
        (["a"], ("headers",)),
        (["value", "a"], ("value", "headers")),
        (["headers", "a"], ("headers",)),
        (["key"], ("key",)),
    ],
)
def test_headers_are_read_for_them(columns: list[str], read: tuple[str, ...]) -> None:
    assert physical(columns, EXTRAS) == read


def test_columns_of_a_protocol_and_of_any_header() -> None:
    register(WireProtocol("tagged", registration.client, registration.front, columns={"tag": "toy.tag"}))
    options = parse_options({"path": "tagged://h:1/t", "columns": "value,TAG,header:trace-id"})
    assert options.columns == ("value", "tag", "trace-id")
    assert options.extras == {"tag": Extra("toy.tag", "string"), "trace-id": Extra("trace-id", "binary")}


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("tag", "which is none of key, value"),
        ("header:", "columns names 'header:'"),
        ("header:key", "header key has the name of another column"),
        ("header:x,header:x", "columns names x twice"),
    ],
)
def test_what_is_no_column_is_told(columns: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options({"path": "kafka://h:1/t", "columns": columns})
    assert told in str(caught.value)
