"""``penstock.read`` and ``penstock.scan``: all that is there now, between the bounds that were given, and no more."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import penstock
from penstock import Committed, LogRange, Messages, Partition, Producer, RangeReader
from penstock.errors import ConfigError, OffsetOutOfRange, UsageError
from penstock.records.arrow import COLUMNS, schema
from tests.conformance.fake_log import FakeLog

ADDRESS = "fake://h:1"
FOURS = f"{ADDRESS}/t4"
PLACES = [Partition("t4", number) for number in range(4)]
SECOND_5 = datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)


@pytest.fixture
def ten(log: FakeLog) -> FakeLog:
    """Ten records in each of four partitions, a batch each, one a second from 1970-01-01 00:00:01 on."""
    with Producer(ADDRESS) as producer:
        for number in range(40):
            producer.send("t4", b"%d" % number, b"k", partition=number % 4, timestamp_ms=1_000 * (1 + number // 4))
            if number % 4 == 3:
                producer.flush()
    return log


def offsets(table: pa.Table) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in table.select(["partition", "offset"]).to_pylist():
        found.setdefault(row["partition"], []).append(row["offset"])
    return found


@pytest.mark.usefixtures("ten")
def test_a_whole_topic_is_one_table() -> None:
    table = penstock.read(FOURS)
    assert table.schema == schema(COLUMNS)
    assert offsets(table) == {number: list(range(10)) for number in range(4)}
    assert table["value"].to_pylist() == [b"%d" % number for start in range(4) for number in range(start, 40, 4)]
    assert penstock.read(FOURS, ["offset", "value"]).column_names == ["offset", "value"]
    assert penstock.read(f"{ADDRESS}/t").num_rows == 0
    assert set(penstock.read(f"{ADDRESS}/t,t4")["topic"].to_pylist()) == {"t4"}


def polled() -> Messages:
    with penstock.Consumer(FOURS, auto_offset_reset="earliest") as consumer:
        return consumer.poll(10)


def of_a_range() -> Messages:
    with RangeReader(ADDRESS) as reader:
        return next(iter(reader.read(LogRange("t4", 0, start=0, end=10))))


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize(
    "made",
    [
        polled,
        of_a_range,
        lambda: of_a_range()[2:5],
        lambda: of_a_range()[:0],
        lambda: of_a_range().deserialized(value=penstock.from_utf8),
        lambda: penstock.read(FOURS),
        lambda: penstock.scan(FOURS),
    ],
    ids=["poll", "range", "slice", "empty", "deserialized", "read", "scan"],
)
def test_every_result_is_taken_as_it_is_by_what_takes_arrow(made: Callable[[], Any]) -> None:
    rows = pa.table(made())
    assert rows.schema.names == list(COLUMNS)
    assert pa.RecordBatchReader.from_stream(made()).schema == rows.schema
    frame = pl.DataFrame(made())
    assert (frame.height, frame.columns) == (rows.num_rows, rows.column_names)
    assert frame["offset"].to_list() == rows["offset"].to_pylist()


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize(
    ("bounds", "wanted"),
    [
        ({"start": 7}, [range(7, 10)] * 4),
        ({"end": 2}, [range(2)] * 4),
        ({"end": 99}, [range(10)] * 4),
        ({"start": 3, "end": 5}, [range(3, 5)] * 4),
        ({"start": 5, "end": 3}, []),
        ({"start": 10}, []),
        ({"start": SECOND_5}, [range(4, 10)] * 4),
        ({"end": SECOND_5}, [range(4)] * 4),
        ({"start": datetime(1970, 1, 1, tzinfo=UTC), "end": datetime(2000, 1, 1, tzinfo=UTC)}, [range(10)] * 4),
        ({"start": datetime(2000, 1, 1, tzinfo=UTC)}, []),
        ({"start": SECOND_5, "end": 6}, [range(4, 6)] * 4),
        ({"start": {PLACES[0]: 9, PLACES[1]: Committed(8)}}, [range(9, 10), range(8, 10), range(10), range(10)]),
        ({"end": {PLACES[3]: 1}}, [range(10), range(10), range(10), range(1)]),
    ],
)
def test_bounds_are_offsets_or_times(bounds: dict[str, Any], wanted: list[range]) -> None:
    assert offsets(penstock.read(FOURS, **bounds)) == {number: list(span) for number, span in enumerate(wanted)}


@pytest.mark.usefixtures("ten")
def test_what_a_batch_says_of_its_end_is_a_bound() -> None:
    with RangeReader(ADDRESS) as reader:
        first = Messages.concat(reader.read(place) for place in ())
        first = Messages.concat(batch for place in PLACES for batch in reader.read(place))
        later = first[:15]
    assert offsets(penstock.read(FOURS, start=later.next_offsets)) == {
        1: [5, 6, 7, 8, 9],
        2: [*range(10)],
        3: [*range(10)],
    }


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize(
    ("bounds", "complaint"),
    [
        ({"start": -1}, "-1 is no offset"),
        ({"start": "5"}, "an offset must be a whole number, got str"),
        ({"start": True}, "an offset must be a whole number, got bool"),
        ({"end": 1.5}, "an offset must be a whole number, got float"),
        ({"start": 11}, r"start 11 is after the end of the log, 10 \(topic t4, partition 0\)"),
        ({"start": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001
        ({"end": {Partition("t4", 4): 1}}, r"end names a partition that is not there \(topic t4, partition 4\)"),
        ({"start": {PLACES[0]: None}}, "an offset must be a whole number, got None"),
        ({"columns": ["colour"]}, "there is no column 'colour'"),
    ],
)
def test_bounds_that_cannot_be_meant_are_refused(bounds: dict[str, Any], complaint: str) -> None:
    for call in (penstock.read, penstock.scan):
        with pytest.raises(UsageError, match=complaint):
            call(FOURS, **bounds)


@pytest.mark.usefixtures("ten")
def test_what_is_not_there_is_told() -> None:
    with pytest.raises(UsageError, match=r"there is no such topic \(topic none\)"):
        penstock.scan(f"{ADDRESS}/none")
    with pytest.raises(ConfigError, match="names no topic"):
        penstock.read(ADDRESS)
    with pytest.raises(ConfigError):
        penstock.read(FOURS, fetch_min_bites=1)


def test_a_start_that_was_deleted_is_an_error_and_the_beginning_is_not(ten: FakeLog) -> None:
    ten.partitions[PLACES[2]].start = 6
    assert offsets(penstock.read(FOURS))[2] == [6, 7, 8, 9]
    with pytest.raises(OffsetOutOfRange):
        penstock.read(FOURS, start=5)


def test_what_retention_deletes_meanwhile_is_left_out(ten: FakeLog) -> None:
    batches = penstock.scan(FOURS, ["offset", "partition"], batch_rows=2)
    found = [batches.read_next_batch()]
    ten.partitions[PLACES[3]].start = 8
    found += list(batches)
    assert offsets(pa.Table.from_batches(found)) == {**{number: [*range(10)] for number in range(3)}, 3: [8, 9]}


def test_a_scan_goes_batch_by_batch_and_hangs_up_when_it_is_left(ten: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    del ten
    closed: list[RangeReader] = []

    def close(reader: RangeReader) -> None:
        closed.append(reader)

    monkeypatch.setattr(RangeReader, "close", close)
    with penstock.scan(FOURS, ["value"], batch_rows=4) as batches:
        assert [batch.num_rows for batch in batches] == [4, 4, 2] * 4
    assert len(closed) == 1
    batches = penstock.scan(FOURS, ["value"], batch_rows=4)
    assert batches.read_next_batch().num_rows == 4
    del batches
    penstock.scan(FOURS)  # and nobody looks
    gc.collect()
    assert len(closed) == 3


@pytest.mark.usefixtures("ten")
def test_a_scan_goes_into_frames_and_producers() -> None:
    assert pl.DataFrame(penstock.scan(FOURS)).height == 40
    with Producer(ADDRESS) as producer:
        producer.send_batch("t", penstock.scan(FOURS, ["value"], start=5))
    assert penstock.read(f"{ADDRESS}/t").num_rows == 20


def test_an_error_in_the_middle_of_a_scan_is_the_readers_own(ten: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    del ten

    def broken(*_: object) -> Iterator[Messages]:
        raise UsageError("broken in the middle", topic="t4")
        yield

    monkeypatch.setattr(RangeReader, "read", broken)
    with pytest.raises(UsageError, match=r"broken in the middle \(topic t4\)"):
        penstock.read(FOURS)
