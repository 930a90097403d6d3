"""Puts the flights into the log, each exactly once, however often the demo was killed on the way.

Rows have a fixed order and a fixed partition, and the producer keeps the order within a partition: so what a
partition holds is always a beginning of its rows, and its end offset says how many. What must not live here: where
rows come from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.client import Admin, BatchDelivery, Producer, RangeReader
from penstock.demo._flights import PARTITIONS, FlightEvents
from penstock.errors import UsageError
from penstock.model import LogRange, Partition
from penstock.seams import NewTopic

__all__ = ["TOPIC", "load", "partitions"]

TOPIC = "flights"
_ROWS_AT_ONCE = 8_192
_IN_FLIGHT = 8


def partitions() -> list[Partition]:
    """The topic's partitions."""
    return [Partition(TOPIC, number) for number in range(PARTITIONS)]


def load(address: str, events: FlightEvents, progress: Callable[[int], None]) -> int:
    """Produce what is not there yet and return how many rows that was; ``progress`` is told how many there are in all.

    Raises UsageError if the topic holds something else than a beginning of these rows.
    """
    with Admin(address) as admin:
        if TOPIC not in admin.topics([TOPIC]):
            admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
        ends = admin.end_offsets(partitions())
    with RangeReader(address) as reader:
        missing = _missing(events, {partition.id: end for partition, end in ends.items()}, reader)
    done = events.rows.num_rows - len(missing)
    progress(done)
    rows = events.rows.append_column("partition", pa.array(events.partition.astype(np.int32)))
    waiting = deque[BatchDelivery]()
    with Producer(address) as producer:
        for start in range(0, len(missing), _ROWS_AT_ONCE):
            chunk = rows.take(pa.array(missing[start : start + _ROWS_AT_ONCE]))
            waiting.append(producer.send_batch(TOPIC, chunk))
            if len(waiting) > _IN_FLIGHT:
                waiting.popleft().result()
                progress(done + start - _ROWS_AT_ONCE * (_IN_FLIGHT - 1))
        for sent in waiting:
            sent.result()
    progress(done + len(missing))
    return len(missing)


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
