"""What a consumer gives, a producer takes; and whatever else speaks Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import penstock
from penstock import LogRange, Partition
from penstock.client import AsyncProducer, Producer, RangeReader
from penstock.client.producer.accumulator import pieces
from penstock.errors import UsageError
from penstock.model import Record
from penstock.records import Messages
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import run

ADDRESS = "fake://h:1"


class OnlyArray:
    """As nanoarrow's arrays and others that export no stream."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        found: tuple[object, object] = self._rows.__arrow_c_array__(requested_schema)
        return found


class OnlyStream:
    """As DuckDB's relations, and everything that is read as it is asked for."""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._reader = pa.RecordBatchReader.from_batches(schema, batches)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._reader.__arrow_c_stream__(requested_schema)


COLUMNS = {"key": ["a", "b"], "value": [b"1", None]}
TABLE = pa.table(COLUMNS)
KINDS: dict[str, Callable[[], penstock.RowsLike]] = {
    "table": lambda: TABLE,
    "record batch": lambda: TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "struct array": lambda: TABLE.to_struct_array().combine_chunks(),
    "chunked struct array": TABLE.to_struct_array,
    "stream": lambda: OnlyStream(iter(TABLE.to_batches()), TABLE.schema),
    "array": lambda: OnlyArray(TABLE.to_batches()[0]),
    "Polars": lambda: pl.DataFrame(COLUMNS),
    "Polars struct series": lambda: pl.DataFrame(COLUMNS).to_struct("rows"),
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas, filtered": lambda: pd.DataFrame({"key": ["x", "a", "b"], "value": [b"0", b"1", None]}, index=[5, 6, 7])[
        1:
    ],
    "large and view types": lambda: pa.table(
        {"key": pa.array(["a", "b"]).dictionary_encode(), "value": pa.array([b"1", None], pa.large_binary())}
    ),
}


def read(topic: str = "t") -> list[Record]:
    with RangeReader(ADDRESS) as reader:
        partitions = [info.partition for info in reader.topics([topic])[topic].partitions]
        ends = reader.end_offsets(partitions)
        spans = [LogRange(topic, each.id, 0, ends[each]) for each in partitions]
        return [record for span in spans for batch in reader.read(span) for record in batch]


def everything(topic: str) -> Messages:
    with RangeReader(ADDRESS) as reader:
        partitions = [info.partition for info in reader.topics([topic])[topic].partitions]
        ends = reader.end_offsets(partitions)
        spans = [LogRange(topic, each.id, 0, ends[each]) for each in partitions]
        return Messages.concat(batch for span in spans for batch in reader.read(span))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("log")
def test_whatever_speaks_arrow_is_taken_by_both_classes(kind: str) -> None:
    with Producer(ADDRESS) as producer:
        assert producer.send_batch("t", KINDS[kind]()).result(5) == (LogRange("t", 0, 0, 2),)

    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            assert await (await producer.send_batch("t", KINDS[kind]())) == (LogRange("t", 0, 2, 4),)

    run(main())
    assert [(record.key, record.value) for record in read()] == [(b"a", b"1"), (b"b", None)] * 2


def put_originals(log: FakeLog, partitions: int = 4) -> None:
    log.create("from", partitions)
    with Producer(ADDRESS) as producer:
        for number in range(40):
            producer.send(
                "from", b"%d" % number, b"k%d" % (number % 7), partition=number % partitions,
                headers=[("h", b"1"), ("h", None)] if number % 3 else None, timestamp_ms=1_000 + number,
            )  # fmt: skip


def payloads(records: list[Record]) -> list[tuple[object, ...]]:
    return sorted((each.value, each.key, each.headers, each.timestamp_ms) for each in records)


@pytest.mark.parametrize("form", ["messages", "table", "slice", "polars", "a batch a partition"])
def test_what_a_consumer_gives_goes_into_another_topic(log: FakeLog, form: str) -> None:
    put_originals(log)
    given = everything("from")
    forms: dict[str, Callable[[], list[penstock.RowsLike]]] = {
        "messages": lambda: [given],
        "table": lambda: [given.to_arrow()],
        "slice": lambda: [given[:13], given[13:]],
        "polars": lambda: [pl.DataFrame(given)],
        "a batch a partition": lambda: list(given.to_arrow().to_batches()),
    }
    with Producer(ADDRESS) as producer:
        for rows in forms[form]():
            producer.send_batch("t", rows)  # which has one partition, and "from" four
    assert payloads(read()) == payloads(read("from"))


def test_rows_that_were_read_find_their_partitions_anew_by_their_keys(log: FakeLog) -> None:
    put_originals(log)
    with Producer(ADDRESS) as producer:
        producer.send_batch("t4", everything("from"))
    homes: dict[bytes | None, set[int]] = {}
    for record in read("t4"):
        homes.setdefault(record.key, set()).add(record.partition)
    assert {len(partitions) for partitions in homes.values()} == {1}
    assert len({record.partition for record in read("t4")}) > 1


def test_a_partition_alone_is_a_wish(log: FakeLog) -> None:
    put_originals(log)
    with Producer(ADDRESS) as producer:
        producer.send_batch("t4", everything("from").to_arrow(["key", "value", "partition"]))
    assert sorted((each.partition, each.value) for each in read("t4")) == sorted(
        (each.partition, each.value) for each in read("from")
    )


def test_without_a_topic_each_row_goes_where_its_columns_say(log: FakeLog) -> None:
    put_originals(log)
    rows = pa.table({"topic": ["t", "t4", "t", "t4"], "value": [b"0", b"1", b"2", b"3"], "partition": [0, 3, None, 2]})
    with Producer(ADDRESS) as producer:
        assert producer.send_batch(None, rows).result(5) == (
            LogRange("t", 0, 0, 2), LogRange("t4", 2, 0, 1), LogRange("t4", 3, 0, 1),
        )  # fmt: skip
        producer.send_batch(None, pl.DataFrame({"topic": pl.Series(["t"], dtype=pl.Categorical), "value": ["3"]}))
        assert len(producer.send_batch(None, everything("from")).result(5)) == 4  # a mirror of it
    assert [record.value for record in read("t")] == [b"0", b"2", b"3"]
    assert len(read("from")) == 80
    assert len({(each.partition, each.value) for each in read("from")}) == 40


@pytest.mark.parametrize(
    ("topic", "rows", "complaint"),
    [
        (None, TABLE, "no column topic"),
        (None, pa.table({"topic": [None], "value": [b""]}), "column topic must hold string, got null"),
        (None, pa.table({"topic": ["t", None], "value": [b"", b""]}), "a row has no topic"),
        ("t", [b"a"], "rows must be Messages or an Arrow table or stream, got list"),
        ("t", {"value": [b"a"]}, r"pyarrow.table\(\) makes a table"),
        ("t", b"a", r"send\(\) takes single records"),
        ("t", pl.Series([b"a"]), "exports no table to Arrow"),
        ("t", pl.DataFrame({"value": [1]}), "column value must hold binary or string, got int64"),
        ("t", pl.DataFrame({"value": ["a"], "headers": ["b"]}), "must hold a list of key and value"),
        ("t", pa.table({"value": ["a"], "timestamp": ["b"]}), "integers of milliseconds"),
        ("t", pa.table({"value": ["a"], "partition": ["b"]}), "column partition must hold integers, got string"),
        ("t", pa.table([[b"a"], [b"b"]], ["value", "value"]), "the table has value, value"),
        ("t", pl.DataFrame({"value": ["a", "b" * 2_000_000]}), "max_request_bytes"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once_and_whole(
    log: FakeLog, topic: str | None, rows: penstock.RowsLike, complaint: str
) -> None:
    with Producer(ADDRESS) as producer, pytest.raises(UsageError, match=complaint):
        producer.send_batch(topic, rows)
    assert log.partitions[Partition("t", 0)].end == 0


@pytest.mark.parametrize("column", ["value", "headers"])
def test_views_count_for_the_rows_that_are_meant_and_not_for_all_that_share_their_buffers(column: str) -> None:
    text = [f"{number:0100}" for number in range(20_000)]
    columns = {"value": text, "headers": [[{"key": each, "value": each.encode()}] for each in text]}
    frame = pl.DataFrame({"value": ["v"] * len(text)} | {column: columns[column]})
    ((_, rows),) = pieces("t", frame[10:13], 10_000, lambda _: None)
    assert pl.DataFrame(rows)[column].cast(frame.schema[column]).to_list() == columns[column][10:13]


def test_views_are_cut_into_pieces_of_the_size_asked_for() -> None:
    frame = pl.DataFrame({"value": [f"{number:0100}" for number in range(70_000)]})
    found = [rows for _, rows in pieces("t", frame, 100_000, lambda _: None)]
    assert max(rows.nbytes for rows in found) <= 110_000
    assert len(found) <= 80
    assert [each.decode() for rows in found for each in rows.column("value").to_pylist()] == frame["value"].to_list()


def test_a_stream_is_read_as_there_is_room_and_left_where_it_fails(log: FakeLog) -> None:
    taken: list[int] = []
    schema = pa.schema({"value": pa.binary()})

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            taken.append(number)
            size = 30_000 if number < 60 else 3_000_000
            yield pa.record_batch({"value": pa.array([b"x" * size], pa.binary())})

    ahead: list[int] = []
    with Producer(ADDRESS, buffer_memory_bytes=1_200_000) as producer:
        rows = OnlyStream(batches(), schema)
        with pytest.raises(UsageError, match="a record of 3000000 bytes"):
            producer.send_batch("t", rows)
        ahead.append(len(taken))
    assert ahead == [61]
    assert log.partitions[Partition("t", 0)].end == 60


def test_empty_rows_of_any_kind_are_stored_at_once(log: FakeLog) -> None:
    del log
    with Producer(ADDRESS) as producer:
        for rows in (TABLE[:0], Messages(), pl.DataFrame(COLUMNS).clear(), TABLE[:0].to_reader()):
            assert producer.send_batch("t", rows).result(5) == ()
