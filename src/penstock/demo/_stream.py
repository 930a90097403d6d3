"""The demo's Spark job: delays by hour, airport and carrier, exactly once, with every window given out.

Windows are in event time with a watermark, and the query runs in update mode: a window is given out each time it
grows, so none waits for a later record to close it. Each micro-batch goes to a file of its own, named by its number
and replaced as a whole if Spark repeats the batch after a crash; ``merged`` takes for each window the row of the last
batch that has it.

Nothing is late by accident. A micro-batch takes the same share of every partition's backlog, so two partitions are
never further apart than their own streams of flights are at equal shares: 52 days for the whole table, as some of
LaGuardia's flights are seasonal. The watermark trails the newest flight by ``WATERMARK``; a record that Spark dropped
all the same would end the demo with an error.
What must not live here: where the records come from, and what the numbers should be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from penstock.demo._delays import KEYS, SCHEMA, write_parquet
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.spark import DataFrame

__all__ = ["WATERMARK", "hourly_delays", "merged", "run_to_end"]

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
    """Columns as in ``_delays.SCHEMA`` from a stream (or batch) of records with columns value and timestamp."""
    parsed = events.selectExpr("timestamp", f"from_json(cast(value as string), '{_FLIGHT}') as flight")
    flights = parsed.selectExpr("timestamp", "flight.*").withWatermark("timestamp", WATERMARK)
    return flights.sparkSession.sql(_HOURLY, flights=flights)


def run_to_end(delays: DataFrame, *, windows: Path, checkpoint: Path, on_progress: Callable[[int], None]) -> None:
    """Process what is in the log now, going on from ``checkpoint``; batch n goes to ``windows``/n.parquet.

    ``on_progress`` is told every second how many records this run has read; what it raises ends the query. Raises
    UsageError if Spark dropped a record as late.
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
        with suppress(Exception):  # what ended the query says more than that it cannot be stopped
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
