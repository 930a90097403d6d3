"""A TubeMQ topic into Spark's noop sink with format("penstock"), in a session that has warmed up."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import psutil  # type: ignore[import-untyped]

from bench.clients.tubemq import TubeJob

__all__ = ["to_noop"]

COLUMNS = "value,offset"
WARM = 2
"""Queries to warm up: the first two of a session take seconds longer."""


def to_noop(job: TubeJob) -> dict[str, object]:
    """Read the whole topic, with the columns that the other consumers build."""
    from penstock.spark import session

    spark = session("bench", "local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.read.format("penstock").option("columns", COLUMNS).load(f"tubemq://{job.servers}/{job.topic}")
    found = frame.selectExpr("count(*) as records", "sum(length(value)) as bytes").collect()[0]
    write = frame.write.format("noop").mode("overwrite")
    for _ in range(WARM):
        write.save()
    before, begun = _cpu_s(), time.perf_counter()
    write.save()
    seconds, cpu_s = time.perf_counter() - begun, _cpu_s() - before
    spark.stop()
    return {"records": found["records"], "seconds": seconds, "cpu_s": cpu_s, "bytes": found["bytes"], "start_s": 0.0}


def _cpu_s() -> float:
    """User and system seconds of all processes that Spark has started."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times: Any = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total
