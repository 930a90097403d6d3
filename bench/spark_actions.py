"""The actions on a topic's frame, and the check that all sides did the same work.

Each action can be timed (`Action.run`) and checked (`Action.sums`): the check does the same work, and returns checksums
of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from bench.spark_frames import Source, drain
from bench.spark_jvm import Spent, Stopwatch, folder

__all__ = ["ACTIONS", "Action", "action"]

# Sums, because those of a stream's batches can be added; hashes are small enough not to overflow.
ROWS = (
    "count(*)",
    "sum(offset)",
    "sum(length(value))",
    "sum(pmod(xxhash64(key, value, topic, partition, offset, timestamp, timestampType), 1000000007))",
)
VALUES = ("count(*)", "sum(length(value))", "sum(pmod(xxhash64(value), 1000000007))")

LEAST_BATCHES = 4
"""Minimum number of batches of a stream with a limit; a stream that ignores the limit must not be compared."""


@dataclass(frozen=True, slots=True)
class Action:
    """``sums`` of cases whose actions have the same ``evidence`` must be equal.

    ``run`` is timed, and raises ValueError if it can tell that rows are missing.
    """

    evidence: str
    sums: Callable[[Source, str], str]
    run: Callable[[Source, str, Stopwatch], Spent]


def action(case: str) -> Action:
    """The action of a case: the words after the reader and "tuned"."""
    return ACTIONS[" ".join(word for word in case.split()[1:] if word != "tuned")]


def _noop(source: Source, case: str, watch: Stopwatch) -> Spent:
    frame = source.frame(case)
    return watch.time(lambda: frame.write.format("noop").mode("overwrite").save())


def _sums_of_rows(source: Source, case: str) -> str:
    return str(_summed(source.frame(case), ROWS))


def _sums_of_values(source: Source, case: str) -> str:
    return str(_summed(source.frame(case), VALUES))


def _summed(frame: DataFrame, sums: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(value or 0 for value in frame.selectExpr(*sums).collect()[0])


def _stream(source: Source, case: str, watch: Stopwatch) -> Spent:
    frame = source.frame(case)
    rows = 0

    def drained() -> None:
        nonlocal rows
        rows = drain(frame).rows

    spent = watch.time(drained)
    return _complete(source, rows, spent)


def _sums_of_a_stream(source: Source, case: str) -> str:
    totals = [0] * len(ROWS)

    def add(batch: DataFrame, number: int) -> None:
        del number
        for at, value in enumerate(_summed(batch, ROWS)):
            totals[at] += value

    drained = drain(source.frame(case), each=add)
    if "limited" in case.split() and drained.batches < LEAST_BATCHES:
        raise ValueError(f"a limited stream of {drained.batches} batches")
    return str(tuple(totals))


def _count(source: Source, case: str, watch: Stopwatch) -> Spent:
    frame = source.frame(case)
    counted: list[int] = []
    spent = watch.time(lambda: counted.append(frame.count()))
    return _complete(source, counted[0], spent)


def _windows(source: Source, case: str) -> DataFrame:
    """Records and bytes by minute and partition."""
    grouped = source.frame(case).groupBy(f.window("timestamp", "1 minute"), "partition")
    return grouped.agg(f.count("*").alias("records"), f.sum(f.length("value")).alias("bytes"))


def _window(source: Source, case: str, watch: Stopwatch) -> Spent:
    frame = _windows(source, case)
    rows: list[Row] = []
    spent = watch.time(lambda: rows.extend(frame.collect()))
    return _complete(source, sum(row["records"] for row in rows), spent)


def _sums_of_windows(source: Source, case: str) -> str:
    rows = _windows(source, case).collect()
    return str(sorted((str(row["window"]["start"]), row["partition"], row["records"], row["bytes"]) for row in rows))


def _parquet(source: Source, case: str, watch: Stopwatch) -> Spent:
    frame = source.frame(case)
    with folder() as files:
        spent = watch.time(lambda: frame.write.mode("overwrite").parquet(files))
        return _complete(source, source.spark.read.parquet(files).count(), spent)


def _sums_of_parquet(source: Source, case: str) -> str:
    with folder() as files:
        source.frame(case).write.mode("overwrite").parquet(files)
        return str(_summed(source.spark.read.parquet(files), ROWS))


def _complete(source: Source, rows: int, spent: Spent) -> Spent:
    if rows != source.count:
        raise ValueError(f"{rows} of {source.count} rows")
    return spent


ACTIONS: Mapping[str, Action] = {
    "": Action("rows", _sums_of_rows, _noop),
    "value": Action("values", _sums_of_values, _noop),
    "stream": Action("rows", _sums_of_a_stream, _stream),
    "stream limited": Action("rows", _sums_of_a_stream, _stream),
    "count": Action("count", lambda source, case: str(source.frame(case).count()), _count),
    "window": Action("windows", _sums_of_windows, _window),
    "parquet": Action("rows", _sums_of_parquet, _parquet),
}
"""Actions by the words after a case's reader. Without words: all rows into the noop sink."""
