"""The demo from start to end: node, records, Spark job, comparison, picture. It may be killed anywhere and run again.

The next run continues where a killed one stopped, and needs no repair: the log shows which rows it has, Spark's
checkpoint which batch comes next, and files are replaced as a whole. `RunLock` keeps two runs apart; `Report` prints.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pyarrow as pa
from pyarrow import compute

from penstock import _clock
from penstock.client import Admin
from penstock.demo.delays import (
    differences,
    draw_delays,
    expected_delays,
    hourly_delays,
    merged,
    run_to_end,
    write_parquet,
)
from penstock.demo.flights import ROUTES, FlightEvents, Node, Route, flights_events, flights_table, load, partitions
from penstock.errors import PenstockError, RemoteError, UsageError
from penstock.model import Partition
from penstock.spark import session

if TYPE_CHECKING:
    from penstock.spark import DataFrame, SparkSession

__all__ = ["GROUP", "Report", "RunLock", "main", "open_picture", "opener"]

# Only one run of the demo may use a folder, and only after the last process of a killed run has ended.
#
# The lock is a file's ``flock``, and the file is the run's log: the standard error of the node and of Spark's JVM.
# A ``flock`` belongs to the open file, not to a process, so it is held as long as any of them lives, and the kernel
# frees it when the last one has ended in any way.
_POLL_S = 0.05


class RunLock:
    """Keeps ``folder/demo.log`` locked; children write their messages to ``file``."""

    def __init__(self, folder: Path, *, wait_s: float, waiting: Callable[[], None] = lambda: None) -> None:
        """Wait at most ``wait_s`` for an earlier run's processes; ``waiting`` is called then. Raises UsageError."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "demo.log"
        self.file = self.path.open("ab", buffering=0)
        deadline = _clock.monotonic() + wait_s
        if not (taken := self._taken()):
            waiting()
        while not taken:
            if _clock.monotonic() > deadline:
                self.file.close()
                raise UsageError(
                    f"another run of the demo is still using {folder}", hint="Wait for it, or choose another --out"
                )
            time.sleep(_POLL_S)
            taken = self._taken()

    def _taken(self) -> bool:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @contextmanager
    def as_standard_error(self) -> Iterator[None]:
        """Children that inherit standard error (Spark's JVM) get the log as theirs in this block."""
        ours = os.dup(2)
        os.dup2(self.file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(ours, 2)
            os.close(ours)

    def close(self) -> None:
        """Release this process's lock; children that still run keep theirs."""
        self.file.close()


def opener(platform: str, environment: Mapping[str, str]) -> str | None:
    """The program that opens files on the user's desktop; None without a desktop."""
    if platform == "darwin":
        return None if "SSH_CONNECTION" in environment else "open"
    if environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"):
        return "xdg-open"
    return None


def open_picture(path: Path) -> bool:
    """Open the picture on the user's desktop without waiting for the viewer; False if there is none."""
    program = shutil.which(opener(sys.platform, os.environ) or "")
    if program is None:
        return False
    silent = subprocess.DEVNULL
    subprocess.Popen([program, str(path)], stdin=silent, stdout=silent, stderr=silent, start_new_session=True)
    return True


# The demo's output: progress, the delays by airport and carrier, the group's lag, the time of each stage.
_NEXT = """\
What to try next:
  penstock snode --store file:{store} --listen kafka://127.0.0.1:9092   # serve these flights
  penstock consume kafka://127.0.0.1:9092/flights --from earliest --max 3
  penstock groups describe kafka://127.0.0.1:9092 {group}
The README shows the same from Python, and from Spark."""


class Report:
    """Prints to standard output and remembers how long each stage took."""

    def __init__(self, output: TextIO | None = None) -> None:
        self._output = output or sys.stdout
        self._stages: list[tuple[str, float]] = []

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show the progress of the block; it yields a function that takes the number done, of ``total``."""
        started = _clock.monotonic()
        line = ""

        def progress(done: int) -> None:
            nonlocal line
            counted = f"  {done}/{total}" if total > 1 else ""
            line = f"{name:<18}{_clock.monotonic() - started:6.1f} s{counted}"
            if self.watched:
                self._output.write(f"\r{line}")
                self._output.flush()

        progress(0)
        try:
            yield progress
        finally:
            self.say("" if self.watched else line)
        self._stages.append((name, _clock.monotonic() - started))

    def say(self, text: str) -> None:
        """Print one line."""
        self._output.write(f"{text}\n")
        self._output.flush()

    def delays(self, delays: pa.Table) -> None:
        """The year's totals: each airport and all of them, then each carrier, the largest delay first."""
        for title, name in (("airport", "origin"), ("carrier", "carrier")):
            rows = summed(delays, name)
            left = sum(flights - cancelled for _, flights, cancelled, _ in rows)
            late = sum((flights - cancelled) * mean for _, flights, cancelled, mean in rows)
            total = ("all", sum(row[1] for row in rows), sum(row[2] for row in rows), late / max(left, 1))
            self.say(f"\nDeparture delays of the year by {title}")
            self.say(f"{title:<8}{'flights':>10}{'cancelled':>11}{'mean delay, min':>17}")
            for value, flights, cancelled, mean in (*rows, total):
                self.say(f"{value:<8}{flights:>10,}{cancelled:>11,}{mean:>17.1f}")

    @property
    def watched(self) -> bool:
        """Whether the output is a terminal."""
        return self._output.isatty()

    def what_next(self, group: str, store: Path) -> None:
        """Command lines that show more of the results."""
        self.say(_NEXT.format(group=group, store=store))

    def lag(self, group: str, lags: Mapping[Partition, int]) -> None:
        """The total number of records that the group has not read."""
        self.say(f"lag of group {group}: {sum(lags.values())} records in {len(lags)} partitions")

    def times(self) -> None:
        """How long each stage took, and all of them."""
        self.say("\nTime")
        for name, seconds in (*self._stages, ("all", sum(seconds for _, seconds in self._stages))):
            self.say(f"{name:<18}{seconds:8.1f} s")


def summed(delays: pa.Table, name: str) -> list[tuple[str, int, int, float]]:
    """(name, flights, cancelled, mean delay) of each value of column ``name``, largest delay first."""
    left = compute.subtract(delays["flights"], delays["cancelled"])
    minutes = compute.multiply(delays["mean_dep_delay"].fill_null(0.0), left.cast(pa.float64()))
    table = delays.select([name, "flights", "cancelled"]).append_column("left", left).append_column("minutes", minutes)
    sums = table.group_by(name).aggregate([(each, "sum") for each in ("flights", "cancelled", "left", "minutes")])
    rows = [
        (
            str(row[name]),
            int(row["flights_sum"]),
            int(row["cancelled_sum"]),
            row["minutes_sum"] / max(row["left_sum"], 1),
        )
        for row in sums.to_pylist()
    ]
    return sorted(rows, key=lambda row: -row[3])


GROUP = "delays"
_OURS = ("store", "checkpoint", "windows", "delays.parquet", "delays.png")
_WAIT_FOR_EARLIER_RUN_S = 60.0
_RECORDS_A_BATCH = 60_000
_SPARK = {
    # Without checksum files: they are replaced after the checkpoint's files, and a kill in between breaks both.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # The job ends before the optimizing compiler would pay off.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    # A last batch without records would only drop state: in update mode every window is already in the output.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def main(out: Path, fresh: bool, *, rows: int | None = None, records_a_batch: int = _RECORDS_A_BATCH) -> int:
    """Run the demo in folder ``out``; return 0 if every cell of the result is right and no lag is left, else 1.

    ``fresh`` deletes the state of an earlier run; without it the run continues there. ``rows`` takes only the first
    flights of the year, for a quick look. Raises UsageError, ConnectionLost and other PenstockErrors.
    """
    report = Report()
    earlier = "waiting for the processes of an earlier run to end"
    lock = RunLock(out, wait_s=_WAIT_FOR_EARLIER_RUN_S, waiting=lambda: report.say(earlier))
    try:
        if fresh:
            _forget(out, *_OURS)
        if not (out / "checkpoint").exists():
            _forget(out, "windows")  # they belong to a checkpoint that is gone
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
            # The full result is compared with the table of the file, not with the one that was sorted for the log.
            expected = expected_delays(table if rows is None else events.table)
            wrong = differences(delays, expected)
            progress(1)
        return _finish(out, delays, wrong, lags, report)
    finally:
        lock.close()


def _forget(out: Path, *names: str) -> None:
    """Delete files and folders; each is renamed first, so that readers never see one that is half deleted."""
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
    """Run the Spark job over the records in the log and return the delays of every window."""
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
        with suppress(Exception):  # if the JVM is gone, there is nothing to stop
            spark.stop()
    return delays


def _look(node: Node, records: int, progress: Callable[[int], None]) -> None:
    node.check()
    progress(records)


def _records(spark: SparkSession, node: Node, route: Route, limit: int) -> DataFrame:
    """A route's stream: columns value and timestamp, ``limit`` offsets per micro-batch."""
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
    """A route's share of a micro-batch in offsets; shares are equal in time, so that no route gets ahead."""
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
