"""The expected result against the plainest computation there is; a comparison that finds every kind of difference."""

import statistics
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.demo.delays import SCHEMA, differences, expected_delays, write_parquet
from penstock.demo.flights import FlightEvents
from penstock.demo.run import summed


@pytest.fixture(scope="module")
def delays(events: FlightEvents) -> pa.Table:
    return expected_delays(events.table.slice(50_000, 5_000))


def test_expected_delays_are_those_of_a_plain_loop(events: FlightEvents, delays: pa.Table) -> None:
    groups: dict[tuple[object, ...], list[int | None]] = defaultdict(list)
    for row in events.table.slice(50_000, 5_000).to_pylist():
        groups[row["time_hour"], row["origin"], row["carrier"]].append(row["dep_delay"])
    assert delays.num_rows == len(groups)
    for row in delays.to_pylist():
        group = groups[row["window_start"], row["origin"], row["carrier"]]
        flown = [delay for delay in group if delay is not None]
        assert (row["flights"], row["cancelled"]) == (len(group), len(group) - len(flown))
        assert (row["window_end"] - row["window_start"]).total_seconds() == 3600
        if flown:
            assert row["mean_dep_delay"] == statistics.fmean(flown)
            assert row["p95_dep_delay"] == round(float(np.quantile(flown, 0.95)), 2)
        else:
            assert row["mean_dep_delay"] is row["p95_dep_delay"] is None
    assert any(row["mean_dep_delay"] is None for row in delays.to_pylist())


def test_equal_tables_do_not_differ(delays: pa.Table) -> None:
    assert differences(delays, delays) == []
    assert differences(delays.take(pa.array(range(delays.num_rows - 1, -1, -1))), delays) == []


def changed(table: pa.Table, column: str, value: object) -> pa.Table:
    values = table[column].to_pylist()
    values[3] = value
    return table.set_column(
        SCHEMA.get_field_index(column), SCHEMA.field(column), pa.array(values, SCHEMA.field(column).type)
    )


@pytest.mark.parametrize(
    ("column", "value"), [("flights", 999), ("cancelled", 999), ("mean_dep_delay", None), ("p95_dep_delay", 1e-9)]
)
def test_one_wrong_cell_is_found(delays: pa.Table, column: str, value: object) -> None:
    (told,) = differences(changed(delays, column, value), delays)
    assert column in told
    assert str(value) in told


def test_missing_doubled_and_unknown_windows_are_found(delays: pa.Table) -> None:
    assert "is missing" in differences(delays.slice(1), delays)[0]
    assert "there twice" in differences(pa.concat_tables([delays, delays.slice(0, 1)]), delays)[0]
    assert "not in the package's table" in differences(delays, delays.slice(1))[0]
    assert "columns" in differences(delays.drop_columns("flights"), delays)[0]


def test_many_differences_are_cut_short(delays: pa.Table) -> None:
    told = differences(SCHEMA.empty_table(), delays)
    assert len(told) == 6
    assert told[-1] == f"and {delays.num_rows - 5} more differences"


def test_parquet_is_replaced_as_a_whole(delays: pa.Table, tmp_path: Path) -> None:
    target = tmp_path / "delays.parquet"
    for part in (delays.slice(0, 10), delays):
        write_parquet(part, target)
        assert parquet.read_table(target).equals(part)
    assert [path.name for path in tmp_path.iterdir()] == ["delays.parquet"]


def test_summary_counts_all_and_weighs_by_flights(delays: pa.Table, events: FlightEvents) -> None:
    flown = [row for row in events.table.slice(50_000, 5_000).to_pylist() if row["dep_delay"] is not None]
    rows = {row[0]: row for row in summed(delays, "origin")}
    assert sum(row[1] for row in rows.values()) == 5_000
    ewr = [row["dep_delay"] for row in flown if row["origin"] == "EWR"]
    assert rows["EWR"][3] == pytest.approx(statistics.fmean(ewr))
