"""The demo from start to end: node, records, Spark job, comparison, picture; safe to kill anywhere and run again.

What a killed run leaves is only ever picked up, never repaired: the log says which rows it has, Spark's checkpoint
which batch comes next, and files are replaced as a whole. What must not live here: how any of it is done.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.client import Admin
from penstock.demo._delays import differences, expected_delays, write_parquet
from penstock.demo._flights import FlightEvents, flights_events, flights_table
from penstock.demo._load import load, partitions
from penstock.demo._lock import RunLock
from penstock.demo._node import Node
from penstock.demo._opening import open_picture
from penstock.demo._picture import draw_delays
from penstock.demo._report import Report
from penstock.demo._routes import ROUTES, Route
from penstock.demo._stream import hourly_delays, merged, run_to_end
from penstock.errors import PenstockError, RemoteError
from penstock.model import Partition
from penstock.spark import session

if TYPE_CHECKING:
    from penstock.spark import DataFrame, SparkSession

__all__ = ["GROUP", "main"]

GROUP = "delays"
_OURS = ("store", "checkpoint", "windows", "delays.parquet", "delays.png")
_WAIT_FOR_EARLIER_RUN_S = 60.0
_RECORDS_A_BATCH = 60_000
_SPARK = {
    # Checksum files beside the checkpoint's are replaced apart from them: a kill in between would spoil both.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # The job is over before the thorough compiler would have paid for itself.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    # A last batch without records would only drop state: in update mode every window has been given out by then.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def main(out: Path, fresh: bool, *, rows: int | None = None, records_a_batch: int = _RECORDS_A_BATCH) -> int:
    """Run the demo in folder ``out``; return 0 if every cell of the result is right and no lag is left, else 1.

    ``fresh`` forgets what an earlier run left there; without it the run goes on where that one was. ``rows`` takes only
    the first flights of the year, for a quick look. Raises UsageError, ConnectionLost and other PenstockErrors.
    """
    report = Report()
    earlier = "waiting for the processes of an earlier run to end"
    lock = RunLock(out, wait_s=_WAIT_FOR_EARLIER_RUN_S, waiting=lambda: report.say(earlier))
    try:
        if fresh:
            _forget(out, *_OURS)
        if not (out / "checkpoint").exists():
            _forget(out, "windows")  # of a checkpoint that is gone
        with report.stage("read the table", 1) as progress:
            table = flights_table()
            events = flights_events(table, rows)
            progress(1)
        with Node(out / "store", lock.file) as node:
            with report.stage("produce", events.rows.num_rows) as progress:
                load(node, events, progress)
            delays = _stream(out, node, events, records_a_batch, report, lock)
            lags = _lags(node)
        with report.stage("compare", 1) as progress:
            # All flights are compared with the table as it is in the file, not as it was sorted for the log.
            expected = expected_delays(table if rows is None else events.table)
            wrong = differences(delays, expected)
            progress(1)
        return _finish(out, delays, wrong, lags, report)
    finally:
        lock.close()


def _forget(out: Path, *names: str) -> None:
    """Delete files and folders, each at once for whoever looks: one that is half deleted has another name."""
    for name in names:
        path, gone = out / name, out / f".{name}.forgotten"
        with suppress(FileNotFoundError):
            shutil.rmtree(gone)
        with suppress(FileNotFoundError):
            path.rename(gone)
        if gone.is_dir():
            shutil.rmtree(gone)
        else:
            gone.unlink(missing_ok=True)


def _stream(
    out: Path, node: Node, events: FlightEvents, records_a_batch: int, report: Report, lock: RunLock
) -> pa.Table:
    """Run the Spark job over what the log holds and return the delays of every window."""
    with report.stage("start Spark", 1) as progress:
        with lock.as_standard_error():
            spark = session(app_name="penstock demo", **_SPARK)
        progress(1)
    try:
        streams = [_records(spark, node, route, _limit(events, route, records_a_batch)) for route in ROUTES]
        flights = functools.reduce(lambda one, other: one.union(other), streams)
        left = sum(_lags(node).values())
        with report.stage("stream", left) as progress:
            run_to_end(
                hourly_delays(flights),
                windows=out / "windows",
                checkpoint=out / "checkpoint",
                on_progress=lambda records: _look(node, records, progress),
            )
            delays = merged(out / "windows")
    except PenstockError:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise RemoteError(f"the Spark job failed: {reason}", hint=f"See {lock.path}") from error
    finally:
        with suppress(Exception):  # where the JVM is gone there is nothing left to stop
            spark.stop()
    return delays


def _look(node: Node, records: int, progress: Callable[[int], None]) -> None:
    node.check()
    progress(records)


def _records(spark: SparkSession, node: Node, route: Route, limit: int) -> DataFrame:
    """A route's stream: columns value and timestamp, ``limit`` offsets a micro-batch."""
    return (
        spark.readStream.format("penstock")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", limit)
        .option("columns", "value,timestamp")
        .option("group", GROUP)
        .option("commitOffsets", "true")
        .load(node.address(route, topic=True))
    )


def _limit(events: FlightEvents, route: Route, records_a_batch: int) -> int:
    """Each route's share of a micro-batch in offsets, so that no route runs ahead of the others in time."""
    mine: int = events.of_origins(route.origins).rows.num_rows
    share: int = records_a_batch * mine // max(1, events.rows.num_rows)
    return max(1, share) * route.step


def _lags(node: Node) -> dict[Partition, int]:
    """Records that the group has not read yet, by partition."""
    lags: dict[Partition, int] = {}
    for route in ROUTES:
        with Admin(node.address(route)) as admin:
            places = partitions(admin, route)
            ends, committed = admin.end_offsets(places), admin.committed(GROUP, places)
        for partition, end in ends.items():
            read = committed[partition].offset if partition in committed else 0
            lags[partition] = -(-(end - read) // route.step)
    return lags


def _finish(out: Path, delays: pa.Table, wrong: list[str], lags: Mapping[Partition, int], report: Report) -> int:
    with report.stage("write and draw", 1) as progress:
        write_parquet(delays, out / "delays.parquet")
        draw_delays(delays, out / "delays.png")
        progress(1)
    report.delays(delays)
    report.lag(GROUP, lags)
    report.times()
    for difference in wrong:
        report.say(f"WRONG: {difference}")
    if wrong:
        report.say("--fresh starts anew")
    if not wrong:
        flights = sum(delays["flights"].to_pylist())
        report.say(f"{flights:,} flights in {delays.num_rows:,} windows: every cell equals the package's table")
    report.say(f"results: {out / 'delays.parquet'}, {out / 'delays.png'}")
    if report.watched:
        open_picture(out / "delays.png")
    report.what_next(GROUP, out / "store")
    return 1 if wrong or any(lags.values()) else 0
