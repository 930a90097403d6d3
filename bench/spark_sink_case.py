"""One Spark session that writes to topics with all sinks in turn: ``python -m bench.spark_sink_case JOB``.

``write`` is a batch of rows in memory, ``copy`` an AvailableNow stream from topic to topic, ``read`` the same stream
without a target. Every topic is new, and its records are counted. `bench.scenarios.spark_sink` runs it.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame

from bench.loading import create, delete, ends
from bench.spark_frames import Source, drain
from bench.spark_jvm import Spent, Stopwatch, say, session
from bench.spark_told import told_cases

__all__ = ["main"]

TUNED: Mapping[str, str] = {
    "kafka.linger.ms": "20",
    "kafka.batch.size": str(256 << 10),
    "kafka.buffer.memory": str(128 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
    "kafka.send.buffer.bytes": str(4 << 20),
}
"""An expert's settings for writing with Spark's own connector. Compression has its default: none, as in ours."""

SUMS = ("count(*)", "sum(length(value))", "sum(pmod(xxhash64(key, value), 1000000007))")
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class _Sinks:
    source: Source
    rows: DataFrame
    """The rows, in memory."""

    def action(self, case: str, target: str) -> Callable[[], object]:
        """The function of a case, which writes into topic ``target``."""
        name, *words = case.split()
        if words[-1] == "read":
            return lambda: drain(self.source.frame(f"{name} stream"))
        into = "penstock" if name == "penstock" else "kafka"
        options = {"kafka.bootstrap.servers": self.source.bootstrap, "topic": target}
        # The defaults of both sinks, made explicit: all replicas, and no duplicate batches.
        options |= {"kafka.acks": "all", "kafka.enable.idempotence": "true"}
        if "tuned" in words:
            options |= TUNED
        if "exactly-once" in words:
            options["deliveryGuarantee"] = "exactly-once"
        if words[-1] == "write":
            return lambda: self.rows.write.format(into).mode("append").options(**options).save()
        reader = "connector tuned stream" if "tuned" in words else f"{name} stream"
        return lambda: drain(self.source.frame(reader).select("key", "value"), into, options)

    def sums(self, case: str) -> str:
        """Checksums of the committed records in the topic afterwards."""
        with self._target() as target:
            self.action(case, target)()
            if case.endswith(" read"):
                target = self.source.topic
            options = {"subscribe": target, "kafka.bootstrap.servers": self.source.bootstrap}
            read = self.source.spark.read.format("kafka").option("kafka.isolation.level", "read_committed")
            return str(tuple(read.options(**options).load().selectExpr(*SUMS).collect()[0]))

    def time(self, case: str, watch: Stopwatch) -> Spent:
        """Seconds until every record is acknowledged. Raises ValueError if there are too few or too many."""
        with self._target() as target:
            spent = watch.time(self.action(case, target))
            there = sum(ends(self.source.bootstrap, target))
        if case.endswith(" read"):
            return spent
        # Transaction markers take offsets, too.
        if there < self.source.count or ("exactly-once" not in case.split() and there > self.source.count):
            raise ValueError(f"{self.source.count} records were written, {there} are there")
        return spent

    @contextmanager
    def _target(self) -> Iterator[str]:
        bootstrap, name = self.source.bootstrap, f"bench-spark-sink-{next(_numbers)}"
        if ends(bootstrap, name):  # left by an earlier run that was killed
            delete(bootstrap, name)
        create(bootstrap, name)
        try:
            yield name
        finally:
            delete(bootstrap, name)


def main(job: Mapping[str, Any]) -> None:
    """Checksums of every case first, then the timed rounds."""
    spark = session()
    watch = Stopwatch()
    source = Source(spark, job["bootstrap"], job["topic"], job["count"])
    rows = source.frame("connector tuned").select("key", "value").cache()
    rows.count()
    sinks = _Sinks(source, rows)

    def sums(case: str) -> Mapping[str, object]:
        return {"evidence": "records", "sums": sinks.sums(case)}

    def figures(case: str) -> Mapping[str, object]:
        source.touch()
        return asdict(sinks.time(case, watch))

    told_cases(job, sums, figures)
    say({"rss_mb": watch.rss_mb})
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
