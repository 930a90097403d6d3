"""penstock reading from and writing to TubeMQ, in a process that has warmed up, as its rival has.

What must not live here: the rival (`bench.clients.tubemq_java`), servers, topics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count as numbers

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["CASES", "TubeJob"]

SILENCE_S = 20.0
COLUMNS = ("value", "offset")
ROWS_AT_ONCE = 50_000
STEP = 28
"""Offsets of neighbours are so far apart where a store has one partition."""

_groups = numbers(time.time_ns())


@dataclass(frozen=True, slots=True)
class TubeJob:
    """``warm`` records that nobody times, then ``count``. ``value_bytes``: of what is sent."""

    masters: str
    topic: str
    count: int
    warm: int
    value_bytes: int


class Tally:
    """Rows and bytes of values; the clock runs from the first batch, whose rows are not counted, to the last."""

    def __init__(self) -> None:
        self.records = self.bytes = self._first = 0
        self._born = self._begun = self._last = time.perf_counter()
        self._cpu = self._last_cpu = 0.0

    def add(self, table: pa.Table) -> None:
        """Count one."""
        if not table.num_rows:
            return
        if not self.records:
            self._begun, self._cpu = time.perf_counter(), time.process_time()
            self._first = table.num_rows
        self.records += table.num_rows
        self.bytes += pc.sum(pc.binary_length(table.column("value"))).as_py()
        self._last, self._last_cpu = time.perf_counter(), time.process_time()

    def result(self) -> dict[str, object]:
        """As the Java driver tells it."""
        return {
            "records": self.records - self._first,
            "seconds": self._last - self._begun,
            "cpu_s": self._last_cpu - self._cpu,
            "bytes": self.bytes,
            "start_s": self._begun - self._born,
        }


def _reading(read: Callable[[TubeJob, int], Iterator[pa.Table]]) -> Callable[[TubeJob], dict[str, object]]:
    def run(job: TubeJob) -> dict[str, object]:
        from penstock import kernels

        kernels.load()
        for _ in read(job, job.warm):
            pass
        tally = Tally()
        for table in read(job, job.count):
            tally.add(table)
        return tally.result()

    return run


def _range_reader(job: TubeJob, count: int) -> Iterator[pa.Table]:
    """Exact ranges, partition after partition: what a Spark task does."""
    from penstock import LogRange, RangeReader

    with RangeReader(f"tubemq://{job.masters}") as reader:
        partitions = [info.partition for info in reader.topics([job.topic])[job.topic].partitions]
        end = count // len(partitions) * STEP
        for each in partitions:
            for batch in reader.read(LogRange(each.topic, each.id, 0, end, each.node), columns=COLUMNS):
                yield batch.to_arrow(COLUMNS)


def _assigned(job: TubeJob, count: int) -> Iterator[pa.Table]:
    """The consumer without a group: all partitions at once, from their beginning."""
    from penstock import Consumer

    with Consumer(f"tubemq://{job.masters}") as consumer:
        consumer.assign(dict.fromkeys(consumer.partitions_for(job.topic), 0))
        yield from _polled(consumer, count, commit=False)


def _group(job: TubeJob, count: int) -> Iterator[pa.Table]:
    """A server-balanced member of a group of its own that confirms every batch: locally, as its rival does."""
    yield from _member(job, count, "")


def _one_connection(job: TubeJob, count: int) -> Iterator[pa.Table]:
    """The same over one connection, which is what its rival has."""
    yield from _member(job, count, "&connections_per_broker=1")


def _member(job: TubeJob, count: int, more: str) -> Iterator[pa.Table]:
    from penstock import Consumer

    group = f"bench{next(_groups)}"
    options = f"auto_offset_reset=earliest&heartbeat_interval_ms=1000&confirm_locally=true{more}"
    address = f"tubemq://{job.masters}/{job.topic}?{options}"
    with Consumer(address, group=group) as consumer:
        yield from _polled(consumer, count, commit=True)


def _polled(consumer: object, count: int, *, commit: bool) -> Iterator[pa.Table]:
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


def _send(job: TubeJob) -> dict[str, object]:
    """``Producer.send`` from synchronous code."""
    from penstock import Producer, kernels

    kernels.load()
    value = b"x" * job.value_bytes
    with Producer(f"tubemq://{job.masters}") as producer:
        return _timed(job, lambda count: _each(producer, job.topic, value, count), producer.flush)


def _each(producer: object, topic: str, value: bytes, count: int) -> None:
    from penstock import Producer

    assert isinstance(producer, Producer)
    one = producer.send
    for _ in range(count):
        one(topic, value)


def _send_batch(job: TubeJob) -> dict[str, object]:
    """``Producer.send_batch`` of Arrow columns."""
    from penstock import Producer, kernels

    kernels.load()
    rows = pa.table({"value": pa.array([b"x" * job.value_bytes] * ROWS_AT_ONCE, pa.binary())})

    with Producer(f"tubemq://{job.masters}") as producer:

        def send(count: int) -> None:
            for first in range(0, count, ROWS_AT_ONCE):
                producer.send_batch(job.topic, rows.slice(0, min(ROWS_AT_ONCE, count - first)))

        return _timed(job, send, producer.flush)


def _timed(job: TubeJob, send: Callable[[int], None], flush: Callable[[], None]) -> dict[str, object]:
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


CASES: Mapping[str, Callable[[TubeJob], dict[str, object]]] = {
    "penstock RangeReader": _reading(_range_reader),
    "penstock Consumer, assigned": _reading(_assigned),
    "penstock Consumer, group": _reading(_group),
    "penstock Consumer, group, one connection": _reading(_one_connection),
    "penstock Producer.send": _send,
    "penstock send_batch (Arrow)": _send_batch,
}
