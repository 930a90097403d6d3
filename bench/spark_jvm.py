"""The common part of all Spark measurements: the session with both sources, its stopwatch, and the output of figures.

Both sides use the same JVM, because the age of a JVM matters more than its code.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from bench.cpu import look, used_s
from bench.servers import kept
from tools.peers import kafka

__all__ = ["TUNED", "Spent", "Stopwatch", "folder", "say", "session"]

TUNED: Mapping[str, str] = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(4 << 20),
    # At the end of its range the connector requests offsets while its own fetch waits: half a second per task.
    "kafka.fetch.max.wait.ms": "10",
}
"""An expert's settings for reading with Spark's own connector."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Wall-clock seconds, and CPU seconds of the JVM and its Python processes."""

    seconds: float
    cpu_s: float


class Stopwatch:
    """Measures the JVM that this process has started, and its Python processes, without the broker."""

    def __init__(self) -> None:
        self._java = _java()

    def time(self, action: Callable[[], object]) -> Spent:
        """Run ``action``, once."""
        before = look(self._java)
        begun = time.perf_counter()
        action()
        seconds = time.perf_counter() - begun
        return Spent(seconds, used_s(before, look(self._java)))

    @property
    def rss_mb(self) -> int:
        """The JVM's memory now."""
        return int(self._java.memory_info().rss) >> 20


def _java() -> psutil.Process:
    """The JVM among the child processes; short-lived processes of Spark's launcher are ignored."""
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if each.name() == "java":
                return each
    raise RuntimeError("this process has started no JVM yet: make the session before its stopwatch")


def session(cores: int = 2) -> SparkSession:
    """A session of `penstock.spark.session` (with Unix sockets), with Spark's own connector on its class path."""
    from penstock.spark import session as ours

    jars = ":".join(map(str, sorted(kafka.spark_connector_jars().glob("*.jar"))))
    spark = ours("bench", f"local[{cores}]", **{"spark.driver.extraClassPath": jars, "spark.driver.memory": "4g"})
    spark.sparkContext.setLogLevel("ERROR")
    say({"spark": spark.version, "uds": os.environ.get("PYSPARK_UDS_MODE"), "load": os.getloadavg()[0]})
    return spark


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """A folder for a checkpoint or for files, removed afterwards."""
    made = tempfile.mkdtemp(dir=kept())
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def say(line: Mapping[str, object]) -> None:
    """Print a line for the scenario; `bench.children.lines` finds it in Spark's output."""
    print("@" + json.dumps(line), flush=True)
