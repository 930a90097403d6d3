"""JSON to columns: exact types, one bad value never takes a good one with it, and nothing odd kills Arrow's reader."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark._ddl import arrow_type, parse_ddl
from penstock.spark._decode_json import JsonDecoder, decode_row

EVERYTHING = (
    "i int, l bigint, y tinyint, f double, b boolean, s string, d date, t timestamp, n timestamp_ntz,"
    " m decimal(10,2), a array<int>, o struct<x: int, d: date, q: array<struct<d: date>>>"
)


def decode(ddl: str, *values: bytes | None) -> tuple[list[Any], dict[int, str]]:
    column, errors = JsonDecoder(parse_ddl(ddl)).decode(pa.array(values, pa.binary()))
    assert column.type == arrow_type(parse_ddl(ddl))
    column.validate(full=True)
    assert len(column) == len(values)
    assert all(column[row].as_py() is None for row in errors)
    return column.to_pylist(), dict(errors)


ROW = (
    b'{"i": -1, "l": 9223372036854775807, "y": 127, "f": 1, "b": true, "s": "\\u00e9}x", "d": "2024-02-29",'
    b' "t": "2024-01-02T03:04:05.000006+01:00", "n": "2024-01-02 03:04:05", "m": 1.25, "a": [1, null],'
    b' "o": {"x": 1, "d": "2024-01-01", "q": [{"d": "2023-01-01"}, null], "other": [{"deep": 1}]}, "more": {}}'
)
DECODED = {
    "i": -1,
    "l": 2**63 - 1,
    "y": 127,
    "f": 1.0,
    "b": True,
    "s": "é}x",
    "d": date(2024, 2, 29),
    "t": datetime(2024, 1, 2, 2, 4, 5, 6, tzinfo=UTC),
    "n": datetime(2024, 1, 2, 3, 4, 5),  # noqa: DTZ001 - a wall clock
    "m": Decimal("1.25"),
    "a": [1, None],
    "o": {"x": 1, "d": date(2024, 1, 1), "q": [{"d": date(2023, 1, 1)}, None]},
}


def test_every_type() -> None:
    nothing = dict.fromkeys(DECODED)
    assert decode(EVERYTHING, ROW, b"{}", b'{"o": null}') == ([DECODED, nothing, nothing], {})


def test_value_by_value_decoder_agrees() -> None:
    found = decode_row(ROW, parse_ddl(EVERYTHING))
    assert pa.array([found], arrow_type(parse_ddl(EVERYTHING))).to_pylist() == [DECODED]


def test_maps_and_binary() -> None:
    rows, errors = decode(
        "m map<string, array<int>>, b binary", b'{"m": {"x": [1], "y": null}, "b": "AP8="}', b'{"b": "?"}'
    )
    assert rows == [{"m": [("x", [1]), ("y", None)], "b": b"\x00\xff"}, None]
    assert "b is not base64" in errors[1]


def test_null_and_tombstones_are_no_errors() -> None:
    assert decode("i int", None, b"null", b" null ", b'{"i":1}') == ([None, None, None, {"i": 1}], {})


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"[1]", "it is not an object"),
        (b"3", "it is not an object"),
        (b'{"i":1}{"i":2}', "it is not JSON: Extra data"),
        (b'{"i":1} null {"i":2}', "it is not JSON: Extra data"),
        (b'{"i":1}\n{"i":2}', "it is not JSON: Extra data"),
        (b'{"i":', "it is not JSON"),
        (b'{"i":1', "it is not JSON"),
        (b'{"s":"a" "b"}', "not JSON: Expecting ','"),
        (b'{"i":1},"j":{}', "The document is empty|not JSON"),
        (b'{"i":1,}', "Missing a name|not JSON"),
        (b'{"i":1.0}', "couldn't parse:1.0|expected a whole number"),
        (b'{"i":"1"}', "i is string, expected number"),
        (b'{"i":true}', "i is boolean, expected number"),
        (b'{"i":2147483648}', "couldn't parse|too large"),
        (b'{"a":[1,"x"]}', r"a\.\[\] is string, expected number"),
        (b'{"o":{"x":[]}}', r"o\.x is array, expected number"),
        (b'{"o":[]}', "o is array, expected object"),
        (b'{"m":1.255}', "1.255"),
        (b'{"m":123456789.00}', "123456789|precision"),
        (b'{"d":"2024-02-30"}', "2024-02-30"),
        (b'{"t":"yesterday"}', "yesterday"),
        (b'{"t":1700000000}', "t is number, expected string"),
        (b'{"s":"\xff"}', "no UTF-8|utf-8"),
        (b'{"z":"\xff"}', "no UTF-8|utf-8"),
        (b'{"s":"a\x01b"}', "Invalid encoding|control character"),
        (b'{"s":"\\ud83d"}', "surrogate"),
        (b'\xef\xbb\xbf{"i":1}', "BOM"),
        (b"{'i':1}", "Missing a name|not JSON"),
        (b'{"i":1 /* one */}', "Missing a comma|not JSON"),
    ],
)
def test_bad_value_is_told_and_takes_no_other_with_it(value: bytes, told: str) -> None:
    good = b'{"i":7}'
    rows, errors = decode(
        "i int, s string, a array<int>, o struct<x:int>, m decimal(10,2), d date, t timestamp", good, value, good
    )
    assert [row and row["i"] for row in rows] == [7, None, 7]
    assert errors.keys() == {1}
    assert re.search(told, errors[1]), errors[1]


def test_newlines_inside_a_value_are_blanks() -> None:
    pretty = json.dumps({"i": 1, "o": {"x": 2}}, indent=2).encode()
    rows, errors = decode("i int, o struct<x:int>", pretty, b'{"i":2}', pretty + b"\r\n")
    assert [row["i"] for row in rows] == [1, 2, 1]
    assert errors == {}


def test_text_with_braces_is_no_second_value() -> None:
    assert decode("s string", b'{"s":"{user} logged in } {"}') == ([{"s": "{user} logged in } {"}], {})


def test_deep_nesting_ends_with_an_error_or_a_row() -> None:
    deep = b'{"z":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    rows, _ = decode("i int", deep, b"x" + deep, b'{"i":1}')
    assert rows[2] == {"i": 1}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ilsfbo"), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
SCHEMA = "i int, l bigint, s string, f double, b boolean, o struct<i:int,s:string>"


@given(st.lists(st.tuples(JSON, st.sampled_from(["", " ", "}", "{", "null", "\n", ',"x":{}'])), max_size=8))
def test_neighbours_do_not_matter(values: list[tuple[Any, str]]) -> None:
    texts = [(json.dumps(tree) + tail).encode() for tree, tail in values]
    rows, errors = decode(SCHEMA, *texts)
    for number, text in enumerate(texts):
        ([alone], error) = decode(SCHEMA, text)
        assert (alone, error.get(0)) == (rows[number], errors.get(number)), text


@given(JSON)
def test_both_decoders_agree_on_what_is_good(tree: Any) -> None:
    text = json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ([found], errors) = decode(SCHEMA, text)
    try:
        expected = decode_row(text, parse_ddl(SCHEMA))
    except ValueError:
        assert errors
    else:
        assert (found, errors) == (expected, {})


TEXTS = st.text(st.sampled_from("0123456789-:.+TZ eE"), max_size=12) | st.sampled_from(
    [
        "2024-02-29", "2024-02-30", "0000-01-01", "0001-01-01", "9999-12-31", "2024-01-02T03", "2024-01-02T03:04",
        "2024-01-02 03:04:05", "2024-01-02T03:04:05Z", "2024-01-02T03:04:05.1", "2024-01-02T03:04:05.1234567",
        "2024-01-02T03:04:05.123456+0130", "2024-01-02T03:04:05-11", "2024-01-02T24:00:00", "2024-01-02T23:59:60",
        "20240102", "2024-W01-1", "2024-01-02T03:04:05,5", "2024-01-02T03:04:05+25:00", "2024-01-02Z", "1e2", "1.5",
        "0.005", "1.50", "-0", "99999999.99", "100000000", "1e-3", "Infinity", "NaN", ".5", "+1", "1_0", "٣",
        "9999-12-31T23:00-05:00",
    ]
)  # fmt: skip


@pytest.mark.parametrize("value", [b'{"t":"9999-12-31T23:00:00-05:00"}', b'{"t":"0001-01-01T00:00:00+05:00"}'])
@pytest.mark.parametrize("neighbour", [[], [b"{}"], [b"?", b"{}"]])
@pytest.mark.parametrize("ddl", ["t timestamp", "t timestamp_ntz", "t timestamp, m map<string,int>"])
def test_time_that_utc_puts_into_another_millennium_is_bad_and_not_the_end(
    value: bytes, neighbour: list[bytes], ddl: str
) -> None:
    rows, errors = decode(ddl, value, *neighbour)
    assert rows[0] is None
    assert re.search("year", errors[0])
    assert errors.keys() == {0, 1} - ({1} if b"?" not in neighbour else set())


@pytest.mark.parametrize(
    "type_", ["date", "timestamp", "timestamp_ntz", "decimal(10,2)", "decimal(38,0)", "double", "int"]
)
@given(text=TEXTS, quoted=st.booleans())
def test_both_decoders_agree_on_texts_and_numbers(type_: str, text: str, quoted: bool) -> None:
    value = f'{{"x":{json.dumps(text, ensure_ascii=False) if quoted else text}}}'.encode()
    ([found], errors) = decode(f"x {type_}", value)
    try:
        expected = pa.array(
            [decode_row(value, parse_ddl(f"x {type_}"))], arrow_type(parse_ddl(f"x {type_}"))
        ).to_pylist()
    except ValueError:
        expected = None
    assert bool(errors) == (expected is None)
    assert expected is None or str([found]) == str(expected)


def test_name_that_is_there_twice_is_an_error_if_it_is_wanted() -> None:
    rows, errors = decode("i int", b'{"i":1,"i":2}', b'{"j":1,"j":2,"i":3}', b'{"i":3}')
    assert rows == [None, {"i": 3}, {"i": 3}]
    assert errors == {0: "i appears twice"}


@given(st.lists(st.binary(max_size=30)))
def test_any_bytes_bring_a_row_or_an_error(values: list[bytes]) -> None:
    rows, errors = decode(SCHEMA, *values)
    assert len(rows) == len(values)
    assert all(row in errors or value.strip() == b"null" for row, value in enumerate(values) if rows[row] is None)
