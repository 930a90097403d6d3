"""``penstock produce``: what of a file becomes a record, and what is said of a file that is no good."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.client import Admin
from penstock.testing import Broker
from tests.unit.cli.running import penstock, records, refused


@pytest.fixture
def topic(log: Broker) -> str:
    """The address of a topic with two partitions."""
    log.create_topic("t", partitions=2)
    return f"{log.address}/t"


def values(log: Broker) -> list[bytes | None]:
    return [record.value for record in records(log, "t")]


def test_each_line_is_a_value_byte_for_byte(log: Broker, topic: str) -> None:
    ran = penstock("produce", topic, given=b"one\n\ntwo \r\n\xff\x00last")
    assert (ran.code, ran.stderr) == (0, "4 records acknowledged\n")
    assert sorted(map(bytes, values(log))) == sorted([b"one", b"", b"two \r", b"\xff\x00last"])


def test_nothing_to_send_is_no_error(topic: str) -> None:
    assert penstock("produce", topic).stderr == "0 records acknowledged\n"


@pytest.mark.parametrize("separator", [":", "\t", "\\t", "=>"])
def test_what_stands_before_the_first_separator_is_the_key(log: Broker, topic: str, separator: str) -> None:
    written = separator.replace("\\t", "\t").encode()
    penstock("produce", topic, "--key-separator", separator, given=b"k" + written + b"v" + written + b"w\n")
    (record,) = records(log, "t")
    assert (record.key, record.value) == (b"k", b"v" + written + b"w")


def test_a_line_without_separator_is_named_and_those_before_it_are_sent(log: Broker, topic: str) -> None:
    ran = penstock("produce", topic, "--key-separator", ":", given=b"a:1\nb:2\nc\nd:4\n")
    assert ran.code == 2
    assert "2 records acknowledged" in ran.stderr
    assert "line 3 has no key separator ':'" in ran.stderr
    assert len(values(log)) == 2


def test_json_lines_say_everything_of_a_record(log: Broker, topic: str) -> None:
    lines = [
        {"value": "text", "key": "k", "partition": 1, "timestamp": 1_700_000_000_123, "headers": {"h": "x"}},
        {"value": None, "partition": 1, "headers": [["h", None], ["h", "2"]]},
        {"value_base64": "/wA=", "key_base64": "AAE=", "partition": 1},
        {"value": {"a": [1, None]}, "partition": 1, "headers": [{"key": "h", "value_base64": "/w=="}]},
        {"value": "", "partition": 1, "topic": "elsewhere", "offset": 7},
    ]
    ran = penstock("produce", topic, "--format", "json", given="\n\n".join(map(json.dumps, lines)).encode())
    assert (ran.code, ran.stderr) == (0, "5 records acknowledged\n")
    found = records(log, "t")
    assert [record.partition for record in found] == [1] * 5
    assert found[0].timestamp_ms == 1_700_000_000_123
    assert [(record.key, record.value, record.headers) for record in found] == [
        (b"k", b"text", (("h", b"x"),)),
        (None, None, (("h", None), ("h", b"2"))),
        (b"\x00\x01", b"\xff\x00", ()),
        (None, b'{"a": [1, null]}', (("h", b"\xff"),)),
        (None, b"", ()),
    ]


def test_keys_choose_the_partition_where_the_files_is_not_wanted(log: Broker, topic: str) -> None:
    same_key = [{"value": "", "key": "k", "partition": number} for number in (0, 1)]
    given = "\n".join(map(json.dumps, same_key)).encode()
    penstock("produce", topic, "--format", "json", "--repartition", given=given)
    assert len({record.partition for record in records(log, "t")}) == 1


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"vlaue": "x"}', "there is no field 'vlaue'"),
        (b'{"id": 1, "name": "x"}', "--format lines sends whole lines"),
        (b'{"key": "x"}', 'there is no "value"'),
        (b'{"value": "", "partition": "1"}', 'partition is "1"'),
        (b'{"value": "", "partition": true}', "partition is true"),
        (b'{"value": "", "timestamp": 1.5}', "timestamp is 1.5"),
        (b'{"value_base64": "?"}', "value_base64 is not base64"),
        (b'{"value_base64": ""}\n{"value": "", "headers": 5}', "line 2: headers are neither"),
        (b'{"value": "", "headers": [["h"]]}', 'header ["h"] has no name and value'),
        (b'{"value": "", "headers": [[1, "x"]]}', "has no name and value"),
        (b'{"value": "", "partition": -1}', "there is no partition -1"),
        (b'{"value": "", "timestamp": 99999999999999999999999}', "line 1"),
    ],
)
def test_a_json_line_that_is_no_record_is_named(topic: str, line: bytes, told: str) -> None:
    said = refused("produce", topic, "--format", "json", given=line)
    assert told in said
    assert "line " in said


def test_a_partition_that_is_not_there_is_refused(topic: str) -> None:
    assert "there is no partition 9" in refused(
        "produce", topic, "--format", "json", given=b'{"value":"","partition":9}'
    )


def test_a_record_that_is_too_large_is_refused_with_its_line(log: Broker, topic: str) -> None:
    said = refused("produce", topic, "-o", "max_request_bytes=2000", given=b"small\n" + b"x" * 2_001)
    assert "line 2: a record of" in said
    assert "max_request_bytes=2000" in said
    assert values(log) == [b"small"]


def test_rows_of_a_csv_file_become_json_objects(log: Broker, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "flights.csv"
    file.write_text('carrier,number,delay,note\nUA,007,1.5,"a, b"\nAA,12,,\n')
    assert penstock("produce", topic, file, "--key", "number").code == 0
    found = {record.key: json.loads(record.value or b"") for record in records(log, "t")}
    assert found == {
        b"007": {"carrier": "UA", "number": "007", "delay": 1.5, "note": "a, b"},
        b"12": {"carrier": "AA", "number": "12", "delay": None, "note": ""},
    }


def test_a_key_column_that_is_not_there_is_named_with_those_that_are(topic: str, tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_text("a,b\n1,2\n")
    assert "no column 'c' in the file. it has a, b" in refused("produce", topic, file, "--key", "c")


def test_rows_of_a_parquet_file_become_json_objects(log: Broker, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "f.parquet"
    table = pa.table(
        {
            "when": pa.array([datetime.datetime(2013, 1, 1, 5, tzinfo=datetime.UTC), None]),
            "day": pa.array([datetime.date(2013, 1, 1), None]),
            "nan": [float("nan"), 0.5],
            "bytes": [b"text", b"\xff"],
            "list": pa.array([[1, 2], None]),
            "id": [1, None],
        }
    )
    parquet.write_table(table, file)
    assert penstock("produce", topic, file, "--key", "id").code == 0
    found = {record.key: json.loads(record.value or b"") for record in records(log, "t")}
    assert found == {
        b"1": {
            "when": "2013-01-01T05:00:00+00:00", "day": "2013-01-01", "nan": None, "bytes": "text", "list": [1, 2],
            "id": 1,
        },
        None: {"when": None, "day": None, "nan": 0.5, "bytes": "/w==", "list": None, "id": None},
    }  # fmt: skip


def test_a_parquet_file_of_records_is_sent_as_it_is(log: Broker, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "f.parquet"
    stamp = datetime.datetime(2013, 1, 1, 5, 0, 0, 123_000, tzinfo=datetime.UTC)
    headers = pa.array(
        [[{"key": "h", "value": b"\xff"}], None],
        pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
    )
    table = pa.table({"key": [b"k", None], "value": [b"\x00", None], "timestamp": [stamp, stamp], "headers": headers})
    parquet.write_table(table, file)
    assert penstock("produce", topic, file).code == 0
    found = {(record.key, record.value, record.timestamp_ms, record.headers) for record in records(log, "t")}
    milliseconds = int(stamp.timestamp() * 1_000)
    assert found == {(b"k", b"\x00", milliseconds, (("h", b"\xff"),)), (None, None, milliseconds, ())}


def test_a_parquet_file_with_other_columns_beside_value_keeps_them(log: Broker, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "f.parquet"
    parquet.write_table(pa.table({"id": [1], "value": [b"v"]}), file)
    penstock("produce", topic, file)
    assert json.loads(values(log)[0] or b"") == {"id": 1, "value": "v"}


@pytest.mark.parametrize("name", ["f.csv", "f.parquet"])
def test_a_file_that_is_not_what_its_name_says_is_refused(topic: str, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"")
    assert f"the {name[2:]} file cannot be read" in refused("produce", topic, file)


def test_a_file_that_is_not_there_is_refused(topic: str, tmp_path: Path) -> None:
    assert "No such file" in refused("produce", topic, tmp_path / "absent.csv")


def test_parquet_comes_through_a_pipe_too(log: Broker, topic: str) -> None:
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table({"value": [b"1", b"2"]}), sink)
    ran = penstock("produce", topic, "--format", "parquet", given=sink.getvalue().to_pybytes())
    assert (ran.code, sorted(map(bytes, values(log)))) == (0, [b"1", b"2"])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("absent", "and there is no such topic .*topics create.*--repartition"),
        ("t", "which the topic does not have .*topics grow"),
    ],
)
def test_a_parquet_file_whose_partitions_there_are_not_is_refused_before_its_first_record(
    log: Broker, topic: str, tmp_path: Path, name: str, wanted: str
) -> None:
    del topic
    file = tmp_path / "f.parquet"
    rows = pa.table({"value": [b"1"] * 5, "partition": pa.array(range(5), pa.int32())})
    parquet.write_table(rows, file, row_group_size=1)
    assert re.search(f"has records of partition 4, {wanted}", refused("produce", f"{log.address}/{name}", str(file)))
    assert values(log) == []
    with Admin(log.address) as admin:
        assert set(admin.topics()) == {"t"}
    ran = penstock("produce", f"{log.address}/made", str(file), "--repartition")
    assert (ran.code, ran.stderr) == (0, "5 records acknowledged\n")


def test_an_unknown_format_is_refused(topic: str) -> None:
    assert "format 'xml' is not one of lines, json, csv, parquet" in refused("produce", topic, "--format", "xml")


def test_a_missing_topic_is_told_soon_and_how_to_create_it(log: Broker) -> None:
    said = refused("produce", f"{log.address}/absent", "-o", "allow_auto_create_topics=false", given=b"x\n")
    assert "absent" in said
    assert "penstock topics create" in said
    assert "acknowledged" not in said
    assert penstock("topics", "list", log.address).rows == []


def test_an_address_must_name_the_one_topic(log: Broker) -> None:
    assert "names no topic" in refused("produce", log.address, given=b"x\n")
    assert "names 2 topics" in refused("produce", f"{log.address}/a,b", given=b"x\n")
    assert "has no scheme" in refused("produce", log.bootstrap, given=b"x\n")


def test_an_unknown_option_names_the_nearest(topic: str) -> None:
    assert "'linger_ms'" in refused("produce", topic, "-o", "liger.ms=5")


def test_a_failed_delivery_is_the_logs_fault(log: Broker, topic: str) -> None:
    log.faults.error("Produce", "TOPIC_AUTHORIZATION_FAILED", times=None)
    ran = penstock("produce", topic, given=b"1\n2\n")
    assert ran.code == 1
    assert "0 records acknowledged" in ran.stderr
    assert "t" in ran.stderr
