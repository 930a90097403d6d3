"""Columns that users have, columns that cannot be sent, and the single-record builder."""

import datetime as dt

import pyarrow as pa
import pytest

from penstock.errors import UsageError
from penstock.model import Codec
from penstock.records import BatchBuilder, Producing, decode_v2, encode_v2
from penstock.records.batch import parse_header

NOW_MS = 1_700_000_000_123


def read(data: memoryview) -> list[dict[str, object]]:
    found: list[dict[str, object]] = decode_v2(data).batch.to_pylist()
    return found


def batch_of(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.large_binary(), pa.binary_view(), pa.string_view()]
)
def test_text_and_the_other_binary_types_are_sent_as_bytes(kind: pa.DataType) -> None:
    rows = batch_of(value=pa.array(["a", None, "", "längst"], kind))
    assert [row["value"] for row in read(encode_v2(rows))] == [b"a", None, b"", "längst".encode()]


def test_a_missing_key_is_null_and_a_missing_time_is_the_default() -> None:
    data = encode_v2(batch_of(value=pa.array([b"a", b"b"])), timestamp_ms=NOW_MS)
    assert [row["key"] for row in read(data)] == [None, None]
    header = parse_header(data)
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS)
    assert parse_header(encode_v2(batch_of(value=pa.array([b"a"])))).max_timestamp == -1


def test_null_times_get_the_default() -> None:
    times = pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC"))
    found = read(encode_v2(batch_of(timestamp=times, value=pa.array([b"a", b"b"])), timestamp_ms=NOW_MS))
    assert found[1]["timestamp"] == dt.datetime.fromtimestamp(NOW_MS / 1000, dt.UTC)


def test_integer_times_are_milliseconds() -> None:
    rows = batch_of(timestamp=pa.array([NOW_MS, NOW_MS + 5], pa.int64()), value=pa.array([b"a", b"b"]))
    header = parse_header(encode_v2(rows))
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS + 5)


def test_headers_may_be_a_map_a_list_or_null() -> None:
    pairs = [[("a", b"1"), ("b", None)], None, []]
    expected = [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], [], []]
    as_map = pa.array(pairs, pa.map_(pa.string(), pa.binary()))
    as_list = pa.array(
        [None if row is None else [{"key": key, "value": value} for key, value in row] for row in pairs],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    values = pa.array([b"x", b"y", b"z"])
    for headers in (as_map, as_list):
        assert [row["headers"] for row in read(encode_v2(batch_of(value=values, headers=headers)))] == expected
        sliced = batch_of(value=values, headers=headers).slice(1, 2)
        assert [row["headers"] for row in read(encode_v2(sliced))] == expected[1:]
        again = pa.concat_arrays([headers, headers]).slice(2, 3)
        assert [row["headers"] for row in read(encode_v2(batch_of(value=values, headers=again)))] == [
            [], expected[0], [],
        ]  # fmt: skip


def test_columns_full_of_nulls_of_the_null_type_are_sent() -> None:
    rows = batch_of(key=pa.nulls(2), value=pa.nulls(2), headers=pa.nulls(2))
    assert [(row["key"], row["value"], row["headers"]) for row in read(encode_v2(rows))] == [(None, None, [])] * 2


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"value": pa.array([1.5])}, "column 'value' is double"),
        ({"key": pa.array([[b"a"]]), "value": pa.array([b"a"])}, "column 'key' is list"),
        ({"value": pa.array([b"a"]), "timestamp": pa.array(["now"])}, "column 'timestamp' is string"),
        ({"value": pa.array([b"a"]), "headers": pa.array([b"a"])}, "column 'headers' is binary"),
        (
            {"value": pa.array([b"a"]), "headers": pa.array([[{"key": None, "value": b""}]], pa.list_(
                pa.struct([("key", pa.string()), ("value", pa.binary())])))},
            "a header has no key",
        ),
        ({"value": pa.array([], pa.binary())}, "at least one record"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_a_usage_error(columns: dict[str, pa.Array], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        encode_v2(batch_of(**columns))


def test_offsets_and_epochs_are_those_that_were_asked_for() -> None:
    data = encode_v2(
        batch_of(value=pa.array([b"a", b"b"])),
        base_offset=500,
        leader_epoch=4,
        producing=Producing(9, 2, 70),
        codec=Codec.LZ4,
    )
    header = parse_header(data)
    assert (header.base_offset, header.leader_epoch, header.last_sequence) == (500, 4, 71)
    assert [row["offset"] for row in read(data)] == [500, 501]


def test_the_estimate_is_never_below_the_batch() -> None:
    builder = BatchBuilder()
    for number in range(300):
        size = builder.append(b"k" * (number % 7) or None, b"v" * number, NOW_MS - number, {"h": b"x", "ü": None})
        assert size == builder.size
    assert len(builder) == 300
    assert len(builder.build()) <= builder.size < 2 * len(builder.build())


def test_a_key_that_is_not_bytes_is_a_usage_error() -> None:
    builder = BatchBuilder()
    builder.append("text", b"v", NOW_MS)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="must be bytes or None"):
        builder.build()
