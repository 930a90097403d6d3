"""Records that cannot be decoded: the task fails and says which, or they are told, dropped or put aside."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.errors import ConfigError
from penstock.model import LogRange
from penstock.records.arrow import schema
from penstock.spark._bad_records import BadRecord, decoded
from penstock.spark._options import Decoding, decoded_ddl, parse_decoding, parse_options

RANGES = [LogRange("t", 0, 10, 14)]
COLUMNS = ("value", "offset")
ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
VALUES = [b'{"i":1}', b"bad", None, b'{"i":"x"}']


def batch() -> pa.RecordBatch:
    count = len(VALUES)
    rows = {
        "key": [b"k"] * count,
        "value": VALUES,
        "topic": ["t"] * count,
        "partition": [0] * count,
        "offset": list(range(10, 10 + count)),
        "timestamp": [datetime(2024, 1, 1, tzinfo=UTC)] * count,
        "headers": [[{"key": "own", "value": b"1"}]] * count,
    }
    return pa.RecordBatch.from_pylist(
        [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)], schema(ALL)
    )


def decoding(**options: str) -> Decoding:
    made = parse_decoding({"valueFormat": "json", "valueSchema": "i int", **options}, "kafka://h:1", COLUMNS)
    assert made is not None
    return made


def read(**options: str) -> list[dict[str, Any]]:
    def batches() -> Iterator[pa.RecordBatch]:
        yield batch()

    return [row for made in decoded(decoding(**options), COLUMNS, RANGES, batches()) for row in made.to_pylist()]


def test_failing_fast_says_which_record_and_why() -> None:
    with pytest.raises(BadRecord, match=r"it is not JSON.*1 more of the same 4 records") as raised:
        read()
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("t", 0, 11)
    assert "PERMISSIVE" in str(raised.value)


def test_permissive_keeps_the_bytes_and_says_why() -> None:
    rows = read(mode="permissive")
    assert [row["value"] for row in rows] == [{"i": 1}, None, None, None]
    assert [row["_raw"] for row in rows] == [None, b"bad", None, b'{"i":"x"}']
    assert rows[1]["_error"].startswith("it is not JSON")
    assert [rows[number]["_error"] for number in (0, 2, 3)] == [None, None, "i is string, expected number"]


def test_dropping_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        assert read(mode="DROPMALFORMED") == [{"value": {"i": 1}, "offset": 10}, {"value": None, "offset": 12}]
    assert "dropped 2 records" in caplog.text


def test_dead_letters_in_a_folder_are_whole_and_the_same_task_writes_the_same_file(tmp_path: Path) -> None:
    for _ in range(2):
        assert [row["offset"] for row in read(mode="DEADLETTER", deadLetter=str(tmp_path / "dead"))] == [10, 12]
    (file,) = (tmp_path / "dead").iterdir()
    letters = parquet.read_table(file).to_pylist()
    assert [(letter["offset"], letter["value"], letter["key"]) for letter in letters] == [
        (11, b"bad", b"k"),
        (13, b'{"i":"x"}', b"k"),
    ]
    assert letters[1]["error"] == "i is string, expected number"
    assert letters[1]["headers"] == [{"key": "own", "value": b"1"}]


def test_a_bad_record_says_which_broker_it_is_of(tmp_path: Path) -> None:
    ranges = [LogRange("t", 0, 10, 14, node="broker-a")]

    def batches() -> Iterator[pa.RecordBatch]:
        nodes = pa.array(["broker-a"] * len(VALUES), pa.string())
        yield batch().append_column("node", nodes)

    with pytest.raises(BadRecord) as raised:
        list(decoded(decoding(), COLUMNS, ranges, batches()))
    assert (raised.value.partition, raised.value.node) == (0, "broker-a")
    aside = decoding(mode="DEADLETTER", deadLetter=str(tmp_path / "dead"))
    list(decoded(aside, COLUMNS, ranges, batches()))
    letters = parquet.read_table(tmp_path / "dead")
    assert letters.column("node").to_pylist() == ["broker-a"] * 2


def test_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield batch()
        raise RuntimeError("gone")

    wanted = decoding(mode="DEADLETTER", deadLetter=f"file://{tmp_path}")
    with pytest.raises(RuntimeError, match="gone"):
        list(decoded(wanted, COLUMNS, RANGES, batches()))
    assert list(tmp_path.iterdir()) == []


def test_schema_is_told_with_the_columns_of_the_mode() -> None:
    assert decoded_ddl(COLUMNS, None) == "value binary, offset bigint"
    assert decoded_ddl(COLUMNS, decoding()) == "value struct<i int>, offset bigint"
    told = "value struct<i int>, offset bigint, _error string, _raw binary"
    assert decoded_ddl(COLUMNS, decoding(mode="PERMISSIVE")) == told


def test_dead_letters_go_where_they_are_sent() -> None:
    for text, expected in {
        "aside": ("kafka://h:1", "aside", ""),
        "kafka://other:2/aside?linger_ms=5": ("kafka://other:2/?linger_ms=5", "aside", ""),
        "/folder": ("", "", "/folder"),
        "s3://bucket/folder": ("", "", "s3://bucket/folder"),
    }.items():
        made = decoding(mode="DEADLETTER", deadLetter=text).dead_letters
        assert made is not None
        assert (made.address, made.topic, made.folder) == expected


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"valueFormat": "xml"}, "valueFormat is 'xml', expected binary or json"),
        ({"mode": "DROP"}, "mode has no effect while values stay bytes"),
        ({"valueFormat": "json"}, "valueFormat=json needs a schema"),
        ({"valueFormat": "json", "valueSchema": "i in"}, "valueSchema = i in: 'in' is not a supported type"),
        ({"valueFormat": "json", "valueSchema": "i int", "columns": "key"}, "decodes the column value, which columns"),
        (
            {"valueFormat": "json", "valueSchema": "i int", "mode": "ignore"},
            "mode is 'ignore', expected one of FAILFAST",
        ),
        ({"valueFormat": "json", "valueSchema": "i int", "mode": "DEADLETTER"}, "needs a place to store records"),
        ({"valueFormat": "json", "valueSchema": "i int", "deadLetter": "t"}, "no effect with mode=FAILFAST"),
        (
            {"valueFormat": "json", "valueSchema": "i int", "mode": "DEADLETTER", "deadLetter": "kafka://h:1/a,b"},
            "deadLetter names 2 topics",
        ),
    ],
)
def test_refused(options: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        parse_options({"path": "kafka://h:1/t", **options})
