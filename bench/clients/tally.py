"""Measures readers and writers: their job, a clock for batches, and a clock for sends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["COLUMNS", "Job", "Tally", "polled", "timed"]

SILENCE_S = 20.0
COLUMNS = ("value", "offset")


@dataclass(frozen=True, slots=True)
class Job:
    """``warm`` records that are not measured, then ``count``. ``value_bytes`` is the size of sent values."""

    servers: str
    topic: str
    count: int
    warm: int
    value_bytes: int


class Tally:
    """Counts rows and bytes of values; the clock runs from the first batch, whose rows are not counted, to the last."""

    def __init__(self) -> None:
        self.records = self.bytes = self._first = 0
        self._born = self._begun = self._last = time.perf_counter()
        self._cpu = self._last_cpu = 0.0

    def add(self, table: pa.Table) -> None:
        """Count a batch."""
        if not table.num_rows:
            return
        if not self.records:
            self._begun, self._cpu = time.perf_counter(), time.process_time()
            self._first = table.num_rows
        self.records += table.num_rows
        self.bytes += pc.sum(pc.binary_length(table.column("value"))).as_py()
        self._last, self._last_cpu = time.perf_counter(), time.process_time()

    def result(self) -> dict[str, object]:
        """The figures, in the form of the Java driver's."""
        return {
            "records": self.records - self._first,
            "seconds": self._last - self._begun,
            "cpu_s": self._last_cpu - self._cpu,
            "bytes": self.bytes,
            "start_s": self._begun - self._born,
        }


def polled(consumer: object, count: int, *, commit: bool) -> Iterator[pa.Table]:
    from penstock import Consumer

    assert isinstance(consumer, Consumer)
    rows = 0
    while rows < count:
        batch = consumer.poll(SILENCE_S)
        if not batch:
            raise TimeoutError(f"nothing came for {SILENCE_S} s after {rows} records")
        rows += len(batch)
        yield batch.to_arrow(COLUMNS)
        if commit:
            consumer.commit(batch)


def timed(job: Job, send: Callable[[int], None], flush: Callable[[], None]) -> dict[str, object]:
    send(job.warm)
    flush()
    begun, cpu = time.perf_counter(), time.process_time()
    send(job.count)
    flush()
    seconds, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
    return {
        "records": job.count,
        "seconds": seconds,
        "cpu_s": cpu_s,
        "bytes": job.count * job.value_bytes,
        "start_s": 0.0,
    }
