"""``penstock consume``: which records come out in which form, where it stops, and what a group has committed then."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.cli.consume import Reading, before, way_in
from penstock.cli.output import StopRequests
from penstock.client import Admin, Consumer, Producer
from penstock.model import Partition
from penstock.records import Messages
from penstock.records.arrow import COLUMNS
from penstock.testing import Broker
from tests.unit.cli.running import fill, penstock, records, refused

ALL = ("--from", "earliest", "--until-end")


@pytest.fixture
def topic(log: Broker) -> str:
    """The address of a topic with two partitions."""
    log.create_topic("t", partitions=2)
    return f"{log.address}/t"


def committed(log: Broker, group: str) -> dict[int, int]:
    with Admin(log.address) as admin:
        return {partition.id: place.offset for partition, place in admin.committed(group).items()}


def test_text_is_each_value_and_a_line_feed(log: Broker, topic: str) -> None:
    fill(log, "t", [b"one", b"", b"\xff\x00"])
    ran = penstock("consume", topic, *ALL)
    assert (ran.code, ran.stdout, ran.stderr) == (
        0,
        b"one\n\n\xff\x00\n",
        "reading t from the first record\n3 records\n",
    )


def test_keys_stand_before_the_separator_as_produce_reads_them(log: Broker, topic: str) -> None:
    penstock("produce", topic, "--key-separator", "\\t", given=b"k\tv\n")
    assert penstock("consume", topic, *ALL, "--key-separator", "\\t").stdout == b"k\tv\n"


def test_json_says_everything_of_a_record(log: Broker, topic: str) -> None:
    with Producer(log.address) as producer:
        headers = [("h", b"x"), ("h", None), ("b", b"\xff")]
        producer.send("t", b"v", b"\xff\x00", partition=1, timestamp_ms=1_700_000_000_123, headers=headers)
        producer.send("t", None, None, partition=1, timestamp_ms=5)
    found = penstock("consume", topic, *ALL, "--format", "json").objects
    assert found == [
        {
            "topic": "t",
            "partition": 1,
            "offset": 0,
            "timestamp": 1_700_000_000_123,
            "key_base64": base64.b64encode(b"\xff\x00").decode(),
            "value": "v",
            "headers": [
                {"key": "h", "value": "x"},
                {"key": "h", "value": None},
                {"key": "b", "value_base64": base64.b64encode(b"\xff").decode()},
            ],
        },
        {"topic": "t", "partition": 1, "offset": 1, "timestamp": 5, "key": None, "value": None},
    ]


def test_without_group_all_partitions_are_read_and_nothing_is_committed(log: Broker, topic: str) -> None:
    fill(log, "t", [b"0"] * 3, partition=0)
    fill(log, "t", [b"1"] * 4, partition=1)
    assert sorted(penstock("consume", topic, *ALL).stdout.split()) == [b"0"] * 3 + [b"1"] * 4
    with Admin(log.address) as admin:
        assert admin.groups() == []


@pytest.mark.parametrize("filled", [[], [1]])
@pytest.mark.parametrize("group", [(), ("--group", "g")])
def test_the_end_of_what_is_empty_is_reached_at_once(
    log: Broker, topic: str, filled: list[int], group: tuple[str, ...]
) -> None:
    for partition in filled:
        fill(log, "t", [b"x"], partition=partition)
    ran = penstock("consume", topic, "--until-end", *group)
    assert (ran.code, ran.stdout) == (0, b"x\n" * len(filled))


def test_until_end_stops_at_the_end_as_it_was_at_the_start(log: Broker, topic: str) -> None:
    fill(log, "t", [b"1", b"2", b"3"])
    written = []

    class MoreComesMeanwhile:
        safe_at_once = True
        safe_at_end = True

        def write(self, batch: Messages) -> int:
            written.extend(record.value for record in batch)
            fill(log, "t", [b"later"] * 2, partition=0)
            fill(log, "t", [b"later"] * 2, partition=1)
            return len(batch)

    with Consumer(topic, group="g") as consumer, StopRequests() as stop:
        ends = consumer.end_offsets(consumer.partitions_for("t"))
        fill(log, "t", [b"later"])  # in one fetch with those before the end
        Reading(consumer, commits=True).run(MoreComesMeanwhile(), stop, ends=ends)
    assert written == [b"1", b"2", b"3"]
    assert committed(log, "g") == {0: 3}


def test_ends_cut_each_partition_where_it_ended() -> None:
    one, other, young = (Partition("t", number) for number in range(3))
    columns = {"offset": pa.array([4, 6, 7]), "value": [b"4", b"6", b"7"]}  # 5 is a hole, as compaction leaves them
    run = pa.RecordBatch.from_pydict(columns)
    batch = Messages.concat(Messages.of(partition, run, 8) for partition in (one, other, young))
    kept = before({one: 7, other: 8}, batch)
    assert [(record.partition, record.value) for record in kept] == [
        (0, b"4"), (0, b"6"), (1, b"4"), (1, b"6"), (1, b"7"),
    ]  # fmt: skip
    assert kept.next_offsets == {one: 7, other: 8}


def test_it_begins_where_a_consumer_would_and_says_where(log: Broker, topic: str) -> None:
    fill(log, "t", [b"1"])
    with Consumer(topic) as consumer:
        assert consumer.poll(20)[0].value == b"1"
    ran = penstock("consume", topic, "--max", 1)
    assert (ran.stdout, ran.stderr) == (b"1\n", "reading t from the first record\n1 records\n")
    ran = penstock("consume", topic, "--until-end", "--from", "latest")
    assert ran.stdout == b""
    assert ran.stderr.startswith("reading t from the end: records written from now on\n")


@pytest.mark.parametrize(
    ("group", "reset", "told"),
    [
        (None, "earliest", "from the first record"),
        (None, "latest", "from the end: records written from now on"),
        ("g", "earliest", "as group g: from its committed offsets, or else from the first record"),
        (
            "g",
            "largest",
            "as group g: from its committed offsets, or else from where auto_offset_reset=largest says",
        ),
        (None, "", "from where its options say"),
    ],
)
def test_the_way_in_is_told_in_words(group: str | None, reset: str, told: str) -> None:
    assert way_in(group, reset) == told


def test_a_group_commits_what_was_written_and_goes_on_there(log: Broker, topic: str) -> None:
    fill(log, "t", [b"%d" % number for number in range(10)])
    first = penstock("consume", topic, "--group", "g", "--max", 4, "--from", "earliest")
    assert first.stdout == b"0\n1\n2\n3\n"
    assert committed(log, "g") == {0: 4}
    second = penstock("consume", topic, "--group", "g", "--until-end")
    assert second.stdout == b"4\n5\n6\n7\n8\n9\n"
    assert committed(log, "g")[0] == 10


def test_a_group_in_the_address_commits_as_one_in_an_argument(log: Broker, topic: str) -> None:
    fill(log, "t", [b"1"])
    penstock("consume", f"{topic}?group.id=g", "--until-end")
    assert committed(log, "g") == {0: 1}


def test_what_the_address_says_is_not_overruled_by_a_default(log: Broker, topic: str) -> None:
    fill(log, "t", [b"1"])
    assert penstock("consume", f"{topic}?auto.offset.reset=earliest", "--max", 1).stdout == b"1\n"
    assert penstock("consume", topic, "-o", "auto_offset_reset=earliest", "--max", 1).stdout == b"1\n"


def test_a_file_takes_the_lines_and_standard_output_nothing(log: Broker, topic: str, tmp_path: Path) -> None:
    fill(log, "t", [b"1", b"2"])
    ran = penstock("consume", topic, *ALL, "--out", tmp_path / "o.txt")
    assert ran.stdout == b""
    assert (tmp_path / "o.txt").read_bytes() == b"1\n2\n"


def test_a_parquet_file_has_the_columns_of_sparks_source(log: Broker, topic: str, tmp_path: Path) -> None:
    fill(log, "t", [b"%d" % number for number in range(100)])
    file = tmp_path / "o.parquet"
    ran = penstock("consume", topic, *ALL, "--format", "parquet", "--out", file, "--group", "g")
    assert ran.code == 0
    table = parquet.read_table(file)
    assert table.column_names == list(COLUMNS)
    assert table["value"].to_pylist() == [b"%d" % number for number in range(100)]
    assert parquet.ParquetFile(file).num_row_groups == 1
    assert committed(log, "g") == {0: 100}


def test_a_parquet_file_of_nothing_can_be_read(topic: str, tmp_path: Path) -> None:
    file = tmp_path / "o.parquet"
    assert penstock("consume", topic, *ALL, "--format", "parquet", "--out", file).code == 0
    assert parquet.read_table(file).num_rows == 0


def test_records_that_could_not_be_written_are_not_committed(log: Broker, topic: str) -> None:
    fill(log, "t", [b"x" * 1_000] * 100)
    ran = penstock("consume", topic, *ALL, "--group", "g", "--out", "/dev/full")
    assert ran.code == 1
    assert "No space left" in ran.stderr
    assert committed(log, "g") == {}


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_what_was_consumed_can_be_produced_again_without_loss(
    log: Broker, topic: str, tmp_path: Path, form: str
) -> None:
    log.create_topic("copy", partitions=2)
    with Producer(log.address) as producer:
        for number in range(50):
            producer.send(
                "t",
                None if number % 7 == 0 else b"\xfe%d" % number,
                None if number % 3 == 0 else b"k%d" % number,
                partition=number % 2,
                timestamp_ms=1_600_000_000_000 + number,
                headers=[("h", b"\xff"), ("h", None)] if number % 5 == 0 else None,
            )
    file = tmp_path / f"all.{form}"
    assert penstock("consume", topic, *ALL, "--format", form, "--out", file).code == 0
    ran = penstock("produce", f"{log.address}/copy", file)
    assert ran.stderr == "50 records acknowledged\n"
    copies = [(r.partition, r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in records(log, "copy")]
    assert copies == [(r.partition, r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in records(log, "t")]


def test_values_on_lines_can_be_produced_again_without_loss(log: Broker, topic: str, tmp_path: Path) -> None:
    log.create_topic("copy")
    fill(log, "t", [b"\xff\xfe", b"", b"x\r"])
    penstock("consume", topic, *ALL, "--out", tmp_path / "lines")
    penstock("produce", f"{log.address}/copy", tmp_path / "lines")
    assert [record.value for record in records(log, "copy")] == [b"\xff\xfe", b"", b"x\r"]


def test_a_topic_is_needed_and_must_be_there(log: Broker) -> None:
    said = refused("consume", log.address)
    assert "names no topic" in said
    assert "/flights" in said
    assert "there is no such topic" in refused("consume", f"{log.address}/absent", "--until-end")
    assert "has no scheme" in refused("consume", f"{log.bootstrap}/t")


def test_what_cannot_be_meant_is_refused(topic: str, tmp_path: Path) -> None:
    assert "format 'xml' is not one of text, json, parquet" in refused("consume", topic, "--format", "xml")
    assert "--format parquet needs --out FILE" in refused("consume", topic, "--format", "parquet")
    assert "expected earliest, latest" in refused("consume", topic, "--from", "yesterday")
    assert "cannot write" in refused("consume", topic, "--out", tmp_path / "absent" / "o")
    assert "--max" in refused("consume", topic, "--max", -1)


def test_json_lines_are_json(log: Broker, topic: str) -> None:
    fill(log, "t", ["ü\u2028\n".encode()])
    (line,) = penstock("consume", topic, *ALL, "--format", "json").stdout.decode("ascii").splitlines()
    assert json.loads(line)["value"] == "ü\u2028\n"


def test_several_topics_are_read_together(log: Broker) -> None:
    log.create_topic("a")
    log.create_topic("b")
    fill(log, "a", [b"a"])
    fill(log, "b", [b"b"])
    ran = penstock("consume", f"{log.address}/a,b", "--until-end", "-g", "g")
    assert sorted(ran.stdout.split()) == [b"a", b"b"]
    with Admin(log.address) as admin:
        assert set(admin.committed("g")) == {Partition("a", 0), Partition("b", 0)}
