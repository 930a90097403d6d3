"""The demo's result: its schema, the Spark job that computes it, the same numbers without Spark, and a picture.

Cancelled flights have no departure; they count in ``flights`` and ``cancelled`` but not in the delays, which are whole
minutes. ``p95_dep_delay`` is the 95th percentile with linear interpolation: of n sorted delays the value at position
0.95 (n - 1), interpolated between two delays. That is always a multiple of a twentieth of a minute, so the result is
exact: here it is computed in whole twentieths, in Spark in doubles, which are rounded to two digits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from pyarrow import compute, parquet

from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.spark import DataFrame

__all__ = [
    "KEYS",
    "SCHEMA",
    "WATERMARK",
    "differences",
    "draw_delays",
    "expected_delays",
    "hourly_delays",
    "merged",
    "run_to_end",
    "write_parquet",
]

_INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    {
        "window_start": _INSTANT,
        "window_end": _INSTANT,
        "origin": pa.string(),
        "carrier": pa.string(),
        "flights": pa.int64(),
        "cancelled": pa.int64(),
        "mean_dep_delay": pa.float64(),
        "p95_dep_delay": pa.float64(),
    }
)
KEYS = ("window_start", "origin", "carrier")
_HOUR_US = 3_600_000_000
_SHOWN = 5


def expected_delays(table: pa.Table) -> pa.Table:
    """The result for the rows of the package's table, sorted by ``KEYS``; columns as in ``SCHEMA``."""
    rows = table.select(["time_hour", "origin", "carrier", "dep_time", "dep_delay"])
    keys = ("time_hour", "origin", "carrier")
    order = [(name, "ascending") for name in keys]
    rows = rows.sort_by([*order, ("dep_delay", "ascending")])
    wanted = [([], "count_all"), ("dep_time", "count"), ("dep_delay", "sum"), ("dep_delay", "count")]
    counts = rows.group_by(keys).aggregate(wanted).sort_by(order)
    flights = counts["count_all"].to_numpy()
    delays = counts["dep_delay_count"].to_numpy()
    # The rows of a group are adjacent, its delays sorted, nulls last: group g's delays start at first[g].
    first = np.cumsum(flights) - flights
    known = delays > 0
    sorted_delays = rows["dep_delay"].fill_null(0).to_numpy()
    whole, twentieths = np.divmod(19 * np.maximum(delays - 1, 0), 20)
    below, above = sorted_delays[first + whole], sorted_delays[first + whole + (twentieths > 0)]
    p95 = (below * (20 - twentieths) + above * twentieths) / 20
    mean = counts["dep_delay_sum"].fill_null(0).to_numpy() / np.maximum(delays, 1)
    start = counts["time_hour"].cast(_INSTANT)
    end = compute.add(start.cast(pa.int64()), _HOUR_US).cast(_INSTANT)
    columns = [
        start,
        end,
        counts["origin"],
        counts["carrier"],
        pa.array(flights),
        pa.array(flights - counts["dep_time_count"].to_numpy()),
        pa.array(mean, mask=~known),
        pa.array(p95, mask=~known),
    ]
    return pa.table(columns, names=SCHEMA.names).cast(SCHEMA)


def differences(found: pa.Table, expected: pa.Table) -> list[str]:
    """The differences in words, at most `_SHOWN`; empty if every cell of both tables is the same.

    Rows are matched by ``KEYS``, so a missing or repeated window is reported as such. Numbers must have equal bits.
    """
    if found.schema != expected.schema:
        return [f"the columns are {found.schema}, expected {expected.schema}"]
    ours, theirs = _by_key(found), _by_key(expected)
    lines = [] if len(ours) == found.num_rows else [f"{found.num_rows - len(ours)} windows are there twice"]
    lines += [f"window {key} is missing" for key in sorted(theirs.keys() - ours.keys())]
    lines += [f"window {key} is not in the package's table" for key in sorted(ours.keys() - theirs.keys())]
    names = [name for name in SCHEMA.names if name not in KEYS]
    for key in sorted(ours.keys() & theirs.keys()):
        lines += [
            f"window {key}: {name} is {mine}, expected {wanted}"
            for name, mine, wanted in zip(names, ours[key], theirs[key], strict=True)
            if mine != wanted
        ]
    return lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more differences"]


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a file atomically, so that neither a reader nor a kill leaves half a file."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    parquet.write_table(table, unfinished)
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.replace(path)


def _by_key(table: pa.Table) -> dict[tuple[object, ...], tuple[object, ...]]:
    keys = zip(*(table[name].cast(pa.string()).to_pylist() for name in KEYS), strict=True)
    rest = zip(*(table[name].to_pylist() for name in SCHEMA.names if name not in KEYS), strict=True)
    return dict(zip(keys, rest, strict=True))


# The demo's Spark job: delays by hour, airport and carrier, exactly once, with every window in the output.
#
# Windows are in event time with a watermark, and the query runs in update mode: it outputs a window each time it grows,
# so no window waits for a later record to close it. Each micro-batch is written to its own file, named by its number
# and replaced as a whole if Spark repeats the batch after a crash; ``merged`` takes each window from the last batch
# that has it.
#
# No record is late by chance. A micro-batch takes the same share of every partition's backlog, so the times in two
# partitions differ at most as much as their flights do at equal shares: 52 days for the whole table, as some of
# LaGuardia's flights are seasonal. The watermark is ``WATERMARK`` before the newest flight. If Spark dropped a record
# all the same, the demo would end with an error.
WATERMARK = "60 days"
_LOOK_S = 1
_FLIGHT = "origin string, carrier string, dep_time int, dep_delay double"
_HOURLY = """
    select window.start as window_start, window.end as window_end, origin, carrier,
           count(*) as flights, count_if(dep_time is null) as cancelled,
           mean(dep_delay) as mean_dep_delay, round(percentile(dep_delay, 0.95), 2) as p95_dep_delay
    from {flights}
    group by window(timestamp, '1 hour'), origin, carrier
"""


def hourly_delays(events: DataFrame) -> DataFrame:
    """Columns as in ``SCHEMA`` from a stream (or batch) of records with columns value and timestamp."""
    parsed = events.selectExpr("timestamp", f"from_json(cast(value as string), '{_FLIGHT}') as flight")
    flights = parsed.selectExpr("timestamp", "flight.*").withWatermark("timestamp", WATERMARK)
    return flights.sparkSession.sql(_HOURLY, flights=flights)


def run_to_end(delays: DataFrame, *, windows: Path, checkpoint: Path, on_progress: Callable[[int], None]) -> None:
    """Process the records that are in the log now, from ``checkpoint`` on; batch n is written to ``windows``/n.parquet.

    ``on_progress`` is called every second with the number of records that this run has read; its errors end the query.
    Raises UsageError if Spark dropped a record as late.
    """
    windows.mkdir(parents=True, exist_ok=True)

    def keep(batch: DataFrame, number: int) -> None:
        write_parquet(batch.toArrow().cast(SCHEMA), windows / f"{number:06d}.parquet")

    query = (
        delays.writeStream.outputMode("update")
        .foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        while not query.awaitTermination(_LOOK_S):
            on_progress(_records(query.recentProgress))
        on_progress(_records(query.recentProgress))
    except BaseException:
        with suppress(Exception):  # the error that ended the query is better than one from stopping it
            query.stop()
        raise
    late = sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )
    if late:
        raise UsageError(f"{late} groups of records came later than the watermark of {WATERMARK} and were dropped")


def merged(windows: Path) -> pa.Table:
    """The last state of every window, sorted by ``KEYS``."""
    files = sorted(windows.glob("*.parquet"))
    every = pa.concat_tables([SCHEMA.empty_table(), *(parquet.read_table(file, schema=SCHEMA) for file in files)])
    numbered = every.append_column("row", pa.array(range(every.num_rows), pa.int64()))
    last = numbered.group_by(KEYS).aggregate([("row", "max")])["row_max"]
    return every.take(last).sort_by([(name, "ascending") for name in KEYS])


def _records(progress: Sequence[Mapping[str, Any]]) -> int:
    return sum(each["numInputRows"] for each in progress)


# ``delays.png``: delays over the year and over the day, one line per airport. It needs only the result table.
_COLOURS = {"EWR": "#c1440e", "JFK": "#1f5f8b", "LGA": "#3b7d4f"}
_SMOOTHED_DAYS = 7
_FEWEST_FLIGHTS = 30  # hours of the day with fewer flights in a year are not drawn


def draw_delays(delays: pa.Table, path: Path) -> None:
    """Draw the table of ``SCHEMA`` and replace ``path`` in one step."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    through_year, through_day = figure.subplots(1, 2, width_ratios=[3, 2])
    for origin, colour in _COLOURS.items():
        rows = delays.filter(compute.equal(delays["origin"], origin))
        if not rows.num_rows:
            continue
        days, smooth = _by_day(rows)
        through_year.plot(days, smooth, color=colour, label=origin, linewidth=1.4)
        hours, means = _by_hour(rows)
        through_day.plot(hours, means, color=colour, marker="o", markersize=3, label=origin, linewidth=1.4)
    through_year.set_title(f"Through the year (mean of {_SMOOTHED_DAYS} days)", loc="left", fontsize=10)
    through_year.set_ylabel("mean departure delay, minutes")
    through_day.set_title("Through the day (New York time)", loc="left", fontsize=10)
    through_day.set_xlabel("hour of scheduled departure")
    through_day.set_xticks(range(0, 24, 3))
    through_day.set_xlim(4, 24)
    for axes in (through_year, through_day):
        axes.axhline(0, color="#888888", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    through_year.legend(frameon=False)
    figure.suptitle("Departure delays of flights from New York, 2013", fontsize=13)
    FigureCanvasAgg(figure)
    unfinished = path.with_name(f".{path.name}.unfinished")
    figure.savefig(unfinished, format="png", dpi=120)
    unfinished.replace(path)


def _by_day(rows: pa.Table) -> tuple[npt.NDArray[np.datetime64], npt.NDArray[np.float64]]:
    days = _new_york(rows).cast(pa.date32())
    minutes, flights = _sums(rows)
    first = np.datetime64(compute.min(days).as_py())
    index = days.to_numpy().astype("datetime64[D]") - first
    numbers = index.astype(np.int64)
    window = np.ones(min(_SMOOTHED_DAYS, numbers.max() + 1))
    summed = np.convolve(np.bincount(numbers, minutes), window, "same")
    counted = np.convolve(np.bincount(numbers, flights), window, "same")
    return first + np.arange(len(summed)), _mean(summed, counted, 1)


def _by_hour(rows: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    hours = compute.hour(_new_york(rows)).to_numpy()
    minutes, flights = _sums(rows)
    means = _mean(
        np.bincount(hours, minutes, 24).astype(np.float64),
        np.bincount(hours, flights, 24).astype(np.float64),
        _FEWEST_FLIGHTS,
    )
    return np.arange(24), means


def _new_york(rows: pa.Table) -> pa.ChunkedArray:
    return compute.local_timestamp(rows["window_start"].cast(pa.timestamp("us", "America/New_York")))


def _sums(rows: pa.Table) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Minutes of delay, and departed flights, by window."""
    flights = compute.subtract(rows["flights"], rows["cancelled"]).to_numpy().astype(np.float64)
    return rows["mean_dep_delay"].fill_null(0.0).to_numpy() * flights, flights


def _mean(summed: npt.NDArray[np.float64], counted: npt.NDArray[np.float64], fewest: int) -> npt.NDArray[np.float64]:
    return np.where(counted >= fewest, summed / np.maximum(counted, 1), np.nan)
