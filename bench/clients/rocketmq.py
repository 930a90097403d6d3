"""penstock with RocketMQ, reading and writing, in a process that has warmed up like its rival
(`bench.clients.rocketmq_java`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count as numbers
from time import time_ns

import pyarrow as pa

from bench.clients.tally import COLUMNS, Tally, polled, timed
from bench.clients.tally import Job as RocketJob

__all__ = ["CASES", "RocketJob"]

ROWS_AT_ONCE = 50_000
_MANY = "pull_batch_size=1024"
_USUAL = "pull_batch_size=32"

_groups = numbers(time_ns())


def _reading(read: Callable[[RocketJob, int, str], Iterator[pa.Table]], options: str) -> Callable[[RocketJob], object]:
    def run(job: RocketJob) -> object:
        from penstock import kernels

        kernels.load()
        for _ in read(job, job.warm, options):
            pass
        tally = Tally()
        for table in read(job, job.count, options):
            tally.add(table)
        return tally.result()

    return run


def _range_reader(job: RocketJob, count: int, options: str) -> Iterator[pa.Table]:
    """Exact ranges, queue after queue, as in a Spark task."""
    from penstock import LogRange, RangeReader

    with RangeReader(f"rocketmq://{job.servers}?{options}") as reader:
        queues = [info.partition for info in reader.topics([job.topic])[job.topic].partitions]
        for each in queues:
            wanted = LogRange(each.topic, each.id, 0, count // len(queues), each.node)
            for batch in reader.read(wanted, columns=COLUMNS):
                yield batch.to_arrow(COLUMNS)


def _group(job: RocketJob, count: int, options: str) -> Iterator[pa.Table]:
    """The only member of a group, which commits every second."""
    from penstock import Consumer

    address = f"rocketmq://{job.servers}/{job.topic}?{options}&auto_offset_reset=earliest&auto_commit_interval_ms=1000"
    with Consumer(address, group=f"bench{next(_groups)}") as consumer:
        yield from polled(consumer, count, commit=False)


def _send(job: RocketJob) -> object:
    """``Producer.send`` from synchronous code."""
    from penstock import Producer, kernels

    kernels.load()
    value = b"x" * job.value_bytes
    with Producer(f"rocketmq://{job.servers}") as producer:

        def send(count: int) -> None:
            one = producer.send
            for _ in range(count):
                one(job.topic, value)

        return timed(job, send, producer.flush)


def _sending_tables(options: str) -> Callable[[RocketJob], object]:
    def run(job: RocketJob) -> object:
        from penstock import Producer, kernels

        kernels.load()
        rows = pa.table({"value": pa.array([b"x" * job.value_bytes] * ROWS_AT_ONCE, pa.binary())})
        with Producer(f"rocketmq://{job.servers}?{options}") as producer:

            def send(count: int) -> None:
                for first in range(0, count, ROWS_AT_ONCE):
                    producer.send_batch(job.topic, rows.slice(0, min(ROWS_AT_ONCE, count - first)))

            return timed(job, send, producer.flush)

    return run


CASES: Mapping[str, Callable[[RocketJob], object]] = {
    "penstock RangeReader": _reading(_range_reader, _MANY),
    "penstock RangeReader, 32 at once": _reading(_range_reader, _USUAL),
    "penstock Consumer, group": _reading(_group, _MANY),
    "penstock Consumer, group, 32 at once": _reading(_group, _USUAL),
    "penstock Producer.send": _send,
    "penstock send_batch (Arrow)": _sending_tables("batch_messages=true"),
    "penstock send_batch (Arrow), one a request": _sending_tables("batch_messages=false"),
}
