"""penstock with TubeMQ, reading and writing, in a process that has warmed up like its rival
(`bench.clients.tubemq_java`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count as numbers

import pyarrow as pa

from bench.clients.tally import COLUMNS, Tally, polled, timed
from bench.clients.tally import Job as TubeJob

__all__ = ["CASES", "TubeJob"]

ROWS_AT_ONCE = 50_000
STEP = 28
"""The difference of two consecutive offsets if a store has one partition."""

_groups = numbers(time.time_ns())


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
    """Exact ranges, partition after partition, as in a Spark task."""
    from penstock import LogRange, RangeReader

    with RangeReader(f"tubemq://{job.servers}") as reader:
        partitions = [info.partition for info in reader.topics([job.topic])[job.topic].partitions]
        end = count // len(partitions) * STEP
        for each in partitions:
            for batch in reader.read(LogRange(each.topic, each.id, 0, end, each.node), columns=COLUMNS):
                yield batch.to_arrow(COLUMNS)


def _assigned(job: TubeJob, count: int) -> Iterator[pa.Table]:
    """The consumer without a group: all partitions together, from their start."""
    from penstock import Consumer

    with Consumer(f"tubemq://{job.servers}") as consumer:
        consumer.assign(dict.fromkeys(consumer.partitions_for(job.topic), 0))
        yield from polled(consumer, count, commit=False)


def _group(job: TubeJob, count: int) -> Iterator[pa.Table]:
    """The only member of a server-balanced group, which confirms every batch locally, as its rival does."""
    yield from _member(job, count, "")


def _one_connection(job: TubeJob, count: int) -> Iterator[pa.Table]:
    """The same over one connection, as its rival."""
    yield from _member(job, count, "&connections_per_broker=1")


def _member(job: TubeJob, count: int, more: str) -> Iterator[pa.Table]:
    from penstock import Consumer

    group = f"bench{next(_groups)}"
    options = f"auto_offset_reset=earliest&heartbeat_interval_ms=1000&confirm_locally=true{more}"
    address = f"tubemq://{job.servers}/{job.topic}?{options}"
    with Consumer(address, group=group) as consumer:
        yield from polled(consumer, count, commit=True)


def _send(job: TubeJob) -> dict[str, object]:
    """``Producer.send`` from synchronous code."""
    from penstock import Producer, kernels

    kernels.load()
    value = b"x" * job.value_bytes
    with Producer(f"tubemq://{job.servers}") as producer:
        return timed(job, lambda count: _each(producer, job.topic, value, count), producer.flush)


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

    with Producer(f"tubemq://{job.servers}") as producer:

        def send(count: int) -> None:
            for first in range(0, count, ROWS_AT_ONCE):
                producer.send_batch(job.topic, rows.slice(0, min(ROWS_AT_ONCE, count - first)))

        return timed(job, send, producer.flush)


CASES: Mapping[str, Callable[[TubeJob], dict[str, object]]] = {
    "penstock RangeReader": _reading(_range_reader),
    "penstock Consumer, assigned": _reading(_assigned),
    "penstock Consumer, group": _reading(_group),
    "penstock Consumer, group, one connection": _reading(_one_connection),
    "penstock Producer.send": _send,
    "penstock send_batch (Arrow)": _send_batch,
}
