"""One Spark session that measures all sources in turn: ``python -m bench.spark_case JOB`` prints JSON lines.

One JVM for both sides, because a JVM's age decides more than its code. Run by `bench.scenarios.spark`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import psutil  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from bench.rounds import rounds
from bench.servers import kept
from tools.peers import kafka

__all__ = ["main"]

TUNED = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(4 << 20),
    # At the end of its range the connector asks for offsets behind its own parked fetch: half a second a task.
    "kafka.fetch.max.wait.ms": "10",
}
SUMS = (
    "count(*)",
    "sum(offset)",
    "sum(length(value))",
    "bit_xor(xxhash64(key, value, topic, partition, offset, timestamp, timestampType))",
)
# Values repeat, and an exclusive or of pairs is nothing: a sum, kept small enough not to overflow.
VALUE_SUMS = ("count(*)", "sum(length(value))", "sum(pmod(xxhash64(value), 1000000007))")


def main(job: Mapping[str, Any]) -> None:
    """Checksums of every case first, then the timed rounds."""
    spark = _session()
    java = next(each for each in psutil.Process().children(recursive=True) if each.name() == "java")
    source = _Source(spark, job["bootstrap"], job["topic"])
    cases: list[str] = job["cases"]
    _say({"spark": spark.version, "uds": os.environ.get("PYSPARK_UDS_MODE"), "load": os.getloadavg()[0]})
    broken = set()
    for case in cases:
        try:
            _say({"case": case, "sums": source.sums(case)})
        except Exception as error:  # whatever it is, the other cases can still be measured
            broken.add(case)
            _say({"case": case, "error": f"{type(error).__name__}: {error}"[:3000]})
    sound = [case for case in cases if case not in broken]
    for number, case in rounds(sound, warm=job["warm"], runs=job["runs"]):
        before = _cpu_s(java)
        seconds = source.time(case)
        used = _cpu_s(java) - before
        _say({"case": case, "round": number, "seconds": seconds, "cpu_s": used, "load": os.getloadavg()[0]})
    _say({"rss_mb": java.memory_info().rss >> 20})
    spark.stop()


class _Source:
    """Frames over one topic: "connector" or "penstock", with the words " tuned", " value" and " stream" behind it."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._topic = topic

    def frame(self, case: str) -> DataFrame:
        """The rows that the case asks for."""
        name, *words = case.split()
        reader = self._spark.readStream if "stream" in words else self._spark.read
        options = {"subscribe": self._topic, "startingOffsets": "earliest", "kafka.bootstrap.servers": self._bootstrap}
        if "tuned" in words:
            options |= TUNED
        if name == "penstock":
            columns = {"columns": "value"} if "value" in words else {}
            return reader.format("penstock").options(**options, **columns).load()
        frame = reader.format("kafka").options(**options).load()
        return frame.select("value") if "value" in words else frame

    def sums(self, case: str) -> str:
        """Checksums of all rows; of what is there when only values are read."""
        words = case.split()
        frame = self.frame(" ".join(word for word in words if word != "stream"))
        return str(tuple(frame.selectExpr(*(VALUE_SUMS if "value" in words else SUMS)).collect()[0]))

    def time(self, case: str) -> float:
        """Seconds of the action alone."""
        frame = self.frame(case)
        if "stream" not in case.split():
            return _timed(lambda: frame.write.format("noop").mode("overwrite").save())
        with _folder() as checkpoint:
            return _timed(lambda: _drain(frame, checkpoint))


def _drain(frame: DataFrame, checkpoint: str) -> None:
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


def _timed(action: Callable[[], None]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


@contextlib.contextmanager
def _folder() -> Any:
    folder = tempfile.mkdtemp(dir=kept())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _session() -> SparkSession:
    from penstock.spark import session

    jars = ":".join(map(str, sorted(kafka.spark_connector_jars().glob("*.jar"))))
    spark = session("bench", "local[2]", **{"spark.driver.extraClassPath": jars, "spark.driver.memory": "4g"})
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _cpu_s(java: psutil.Process) -> float:
    """User and system seconds of the JVM, its Python workers, and those of them that have ended."""
    total = 0.0
    for process in [java, *java.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _say(line: Mapping[str, object]) -> None:
    print("@" + json.dumps(line), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
