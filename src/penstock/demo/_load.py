"""Puts the flights into the log, each exactly once, however often the demo was killed on the way.

Rows have a fixed order and a fixed partition, and the producer keeps the order within a partition: so what a
partition holds is always a beginning of its rows, and its end offset says how many. What must not live here: where
rows come from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.client import Admin, BatchDelivery, Producer, RangeReader
from penstock.demo._flights import PARTITIONS, FlightEvents
from penstock.demo._node import Node
from penstock.errors import RequestTimeout, UsageError
from penstock.model import LogRange, Partition
from penstock.seams import NewTopic

__all__ = ["TOPIC", "load", "partitions"]

TOPIC = "flights"
_ROWS_AT_ONCE = 8_192
_IN_FLIGHT = 8
_LOOK_S = 0.5


def partitions() -> list[Partition]:
    """The topic's partitions."""
    return [Partition(TOPIC, number) for number in range(PARTITIONS)]


def load(node: Node, events: FlightEvents, progress: Callable[[int], None]) -> int:
    """Produce what is not there yet and return how many rows that was; ``progress`` is told how many there are in all.

    Raises UsageError if the topic holds something else than a beginning of these rows, ConnectionLost if the node ends.
    """
    with Admin(node.address) as admin:
        if TOPIC not in admin.topics([TOPIC]):
            admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
        ends = admin.end_offsets(partitions())
    with RangeReader(node.address) as reader:
        missing = _missing(events, {partition.id: end for partition, end in ends.items()}, reader)
    rows = events.rows.append_column("partition", pa.array(events.partition.astype(np.int32)))
    there = rows.num_rows - len(missing)
    progress(there)
    producer = Producer(node.address)
    try:
        for acknowledged in _send(producer, rows, missing, node):
            progress(there + acknowledged)
    except BaseException:
        producer.close(0)  # not another two minutes for a node that is gone
        raise
    producer.close()
    return len(missing)


def _send(producer: Producer, rows: pa.Table, missing: npt.NDArray[np.int64], node: Node) -> Iterator[int]:
    """Send these rows, a few chunks ahead of what is acknowledged; yields the number of acknowledged rows."""
    waiting = deque[tuple[int, BatchDelivery]]()
    for start in range(0, len(missing), _ROWS_AT_ONCE):
        chunk = missing[start : start + _ROWS_AT_ONCE]
        waiting.append((start + len(chunk), producer.send_batch(TOPIC, rows.take(pa.array(chunk)))))
        if len(waiting) > _IN_FLIGHT:
            yield _acknowledged(waiting, node)
    while waiting:
        yield _acknowledged(waiting, node)


def _acknowledged(waiting: deque[tuple[int, BatchDelivery]], node: Node) -> int:
    """Wait for the oldest chunk, as long as the node lives."""
    rows, delivery = waiting.popleft()
    while not delivery.done():
        node.check()
        with suppress(RequestTimeout):
            delivery.result(_LOOK_S)
    delivery.result()
    return rows


def _missing(events: FlightEvents, ends: Mapping[int, int], reader: RangeReader) -> npt.NDArray[np.int64]:
    """Row numbers that are not in the log yet, in order of time."""
    missing = []
    for partition, end in ends.items():
        mine = events.of_partition(partition)
        if end > len(mine) or (end and not _is_last(events.rows.slice(int(mine[end - 1]), 1), partition, end, reader)):
            raise UsageError(
                "the topic holds other records than these flights",
                topic=TOPIC,
                partition=partition,
                offset=end - 1,
                hint="Start anew with --fresh",
            )
        missing.append(mine[end:])
    return np.sort(np.concatenate(missing))


def _is_last(row: pa.Table, partition: int, end: int, reader: RangeReader) -> bool:
    last = [
        (record.key, record.value)
        for messages in reader.read(LogRange(TOPIC, partition, end - 1, end))
        for record in messages
    ]
    return last == [(row["key"][0].as_py(), row["value"][0].as_py())]
