"""Good JSON values, damaged in ways that happen: what is found wrong, and how many have to be looked at one by one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark import _decode_json
from penstock.spark._ddl import arrow_type, parse_ddl
from penstock.spark._decode_json import JsonDecoder, decode_row, shape

FIELDS = {
    "i": ("int", st.integers(-(2**31), 2**31 - 1)),
    "l": ("bigint", st.integers(-(2**63), 2**63 - 1)),
    "y": ("tinyint", st.integers(-128, 127)),
    "h": ("smallint", st.integers(-(2**15), 2**15 - 1)),
    "f": ("double", st.floats(allow_nan=False, allow_infinity=False)),
    "r": ("float", st.floats(-1e6, 1e6, width=32)),
    "b": ("boolean", st.booleans()),
    "s": ("string", st.text(max_size=6)),
    "d": ("date", st.dates().map(str)),
    "t": ("timestamp", st.datetimes().map(lambda moment: moment.isoformat() + "Z")),
    "n": ("timestamp_ntz", st.datetimes().map(str)),
    "m": ("decimal(10,2)", st.decimals(-(10**7), 10**7, places=2).map(float)),
    "a": ("array<int>", st.lists(st.integers(-99, 99) | st.none(), max_size=3)),
    "o": ("struct<x: int, d: date>", st.fixed_dictionaries({"x": st.integers(0, 9), "d": st.dates().map(str)})),
    "größe": ("int", st.integers(0, 9)),
    "in": ("string", st.sampled_from(["😀", 'a"}{\\', "\u2028"])),
    "ins": ("boolean", st.none()),
}
DDL = ", ".join(f"`{name}` {type_}" for name, (type_, _) in FIELDS.items())
SCHEMA = parse_ddl(DDL)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
GOOD = st.fixed_dictionaries({}, optional={name: st.none() | values for name, (_, values) in FIELDS.items()})
PIECES = [b"", b'"', b",", b"}", b"{", b"[", b"]", b":", b"1", b"null", b"\n", b"\0", b"\xff", b"\xed\xa0\x80", b"\\"]


@st.composite
def damaged(draw: st.DrawFn) -> bytes | None:
    """A value, most often a good one that something happened to."""
    tree: Any = draw(GOOD)
    wrong = draw(st.sampled_from(["nothing", "nothing", "type", "other", "splice", "cut", "twice", "two", "none"]))
    if wrong == "type":
        tree[draw(st.sampled_from([*FIELDS]))] = draw(ANYTHING | st.just(10**30))
    if wrong == "other":
        tree[draw(st.text(max_size=3).filter(lambda name: name not in FIELDS))] = draw(ANYTHING)
    text = json.dumps(tree, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
    value = text.encode("utf-8", "surrogatepass")
    place = draw(st.integers(0, len(value)))
    if wrong == "splice":
        return value[:place] + draw(st.sampled_from(PIECES)) + value[place + draw(st.integers(0, 2)) :]
    if wrong == "twice":
        return value[:-1].rstrip() + (b"," if tree else b"") + b'"i":1,"i":2}'
    if wrong == "two":
        return value + draw(st.sampled_from([b"", b" ", b","])) + draw(st.sampled_from([value, b"{}", b"null"]))
    return {"cut": value[:place], "none": draw(st.sampled_from([None, b"", b" ", b"null"]))}.get(wrong, value)


def decode(values: list[bytes | None], ddl: str = DDL) -> tuple[list[Any], dict[int, str]]:
    column, errors = JsonDecoder(parse_ddl(ddl)).decode(pa.array(values, pa.binary()))
    return column.to_pylist(), dict(errors)


@given(st.lists(damaged(), max_size=8), st.sampled_from([1, 1, 150]))
def test_what_is_wrong_is_what_the_decoder_of_single_values_says(values: list[bytes | None], times: int) -> None:
    rows, errors = decode(values * times)
    for number, value in enumerate(values):
        row, wrong = (None, None) if value is None else alone(value)
        for place in range(number, len(values) * times, len(values)):
            assert (repr(rows[place]), place in errors) == (repr(row), wrong is not None), value
            # Of what already looks odd only that it is not JSON is told.
            assert wrong is None or errors[place] == wrong or "it is no" in errors[place], value


def alone(value: bytes) -> tuple[Any, str | None]:
    try:
        (row,) = pa.array([decode_row(value, SCHEMA)], arrow_type(SCHEMA)).to_pylist()
    except ValueError as error:
        return None, str(error)
    return row, None


@given(GOOD, st.booleans())
def test_good_values_pass_the_sieve(tree: dict[str, Any], ascii_only: bool) -> None:
    # Numbers near the end of their range, years of three digits and the like need not.
    usual = {
        name: value
        for name, value in tree.items()
        if name in ("b", "s", "a", "größe", "in", "ins") or (name in "dtn" and str(value)[0] != "0")
    }
    usual = {name: value for name, value in usual.items() if "-02-29" not in str(value)}
    if ascii_only:
        usual.pop("größe", None)
    value = json.dumps({**usual, "other": [tree, {"x": [1.5, "}"]}]}, ensure_ascii=ascii_only).encode()
    assert passes(DDL, value), value


def passes(ddl: str, *values: bytes) -> bool:
    return bool(pc.all(pc.match_substring_regex(pa.array(values, pa.binary()), shape(parse_ddl(ddl)))).as_py())


@pytest.mark.parametrize(
    "value",
    [
        b'{"i":"1"}', b'{"i":1.0}', b'{"i":2147483648}', b'{"o":[]}', b'{"o":{"x":"1"}}', b'{"a":[true]}', b'{"s":1}',
        b'{"d":"2023-02-30"}', b'{"t":"2023-04-31T00:00:00Z"}', b'{"m":1.255}', b'{"b":"true"}', b'{"s":"\xff"}',
        b'{"s":"\\ud83d"}', b'{"i":1,}', b'{"i" 1}', b'{"i":1 "l":2}', '{"größe":"1"}'.encode(), b'{"ins":"1"}',
    ],
)  # fmt: skip
def test_what_usually_goes_wrong_stays_in_the_sieve(value: bytes) -> None:
    assert not passes(DDL, value)


def test_bad_values_of_many_are_found_without_looking_at_the_good_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[bytes] = []

    def noting(value: bytes, schema: Any) -> Any:
        looked_at.append(value)
        return decode_row(value, schema)

    monkeypatch.setattr(_decode_json, "decode_row", noting)
    bad = [b'{"i":"x"}', b'{"s":"\xff"}', b'{"d":"2024-02-31"}', b'{"i":99999999999}', b'{"a":[1,"2"],"b":true}']
    values = [
        bad[n % 5] if n % 100 == 50 else b'{"i":%d,"s":"text","d":"2024-01-31","b":true}' % n for n in range(5_000)
    ]
    rows, errors = decode(list(values))
    assert sorted(looked_at) == sorted(values[50::100])
    assert [*sorted(errors)] == [*range(50, 5_000, 100)]
    assert rows[49]["i"] == 49


def test_schemas_for_which_the_sieve_would_be_too_large_work_without() -> None:
    ddl = ", ".join(f"some_field_{number} string" for number in range(1_000))
    assert shape(parse_ddl(ddl)) == ""
    rows, errors = decode([b'{"some_field_7":"x"}', b'{"some_field_7":7}'] * 300, ddl)
    assert [row and row["some_field_7"] for row in rows] == ["x", None] * 300
    assert errors == dict.fromkeys(range(1, 600, 2), "some_field_7 is number, expected string")


def test_longest_name_has_a_sieve() -> None:
    name = "n" * 3_000
    assert passes(f"`{name}` int, i int", b'{"%s":1,"i":2}' % name.encode())
    rows, errors = decode([b'{"%s":"1"}' % name.encode(), b'{"i":2}'], f"`{name}` int, i int")
    assert (rows[1]["i"], [*errors]) == (2, [0])


def test_order_of_rows_is_kept_when_some_are_taken_out() -> None:
    values = [b"?" if n % 7 == 0 else b"null" if n % 7 == 1 else b'{"i":%d}' % n for n in range(2_000)]
    rows, _ = decode(list(values), "i int")
    assert [row and row["i"] for row in rows] == [None if n % 7 < 2 else n for n in range(2_000)]
    assert np.count_nonzero([row is not None for row in rows]) == sum(n % 7 > 1 for n in range(2_000))
