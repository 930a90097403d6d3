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
from penstock.demo._routes import ROUTES, Route
from penstock.errors import RequestTimeout, UsageError
from penstock.model import LogRange, Partition
from penstock.seams import NewTopic

__all__ = ["create_topics", "load", "partitions"]

_ROWS_AT_ONCE = 8_192
_IN_FLIGHT = 8
_LOOK_S = 0.5


def partitions(admin: Admin, route: Route) -> list[Partition]:
    """The partitions of a route's topic, in the order of their places."""
    return [info.partition for info in admin.topics([route.topic])[route.topic].partitions]


def create_topics(node: Node) -> None:
    """Make the topics that are not there."""
    with Admin(node.admin_address) as admin:
        wanted = {route.topic for route in ROUTES}
        absent = sorted(wanted - admin.topics(wanted).keys())
        admin.create_topics([NewTopic(name, PARTITIONS) for name in absent])


def load(node: Node, events: FlightEvents, progress: Callable[[int], None]) -> int:
    """Produce what is not there yet and return how many rows that was; ``progress`` is told how many there are in all.

    Raises UsageError if a topic holds something else than a beginning of its rows, ConnectionLost if the node ends.
    """
    create_topics(node)
    backlogs = [_backlog(node, route, events.of_origins(route.origins)) for route in ROUTES]
    there = events.rows.num_rows - sum(len(missing) for _, _, missing in backlogs)
    progress(there)
    sent = 0
    for route, rows, missing in backlogs:
        producer = Producer(node.address(route))
        try:
            for acknowledged in _send(producer, route.topic, rows, missing, node):
                progress(there + sent + acknowledged)
        except BaseException:
            producer.close(0)  # not another two minutes for a node that is gone
            raise
        producer.close()
        sent += len(missing)
    return sent


def _backlog(node: Node, route: Route, events: FlightEvents) -> tuple[Route, pa.Table, npt.NDArray[np.int64]]:
    """The route's rows as they are sent, and which of them are not in the log yet."""
    address = node.address(route)
    with Admin(address) as admin:
        places = partitions(admin, route)
        ends = admin.end_offsets(places)
    with RangeReader(address) as reader:
        missing = [
            _missing(events.of_partition(at), events, route, places[at], ends, reader) for at in range(PARTITIONS)
        ]
    rows = events.rows.append_column("partition", pa.array(events.partition.astype(np.int32)))
    return route, rows, np.sort(np.concatenate(missing))


def _send(producer: Producer, topic: str, rows: pa.Table, missing: npt.NDArray[np.int64], node: Node) -> Iterator[int]:
    """Send these rows, a few chunks ahead of what is acknowledged; yields the number of acknowledged rows."""
    waiting = deque[tuple[int, BatchDelivery]]()
    for start in range(0, len(missing), _ROWS_AT_ONCE):
        chunk = missing[start : start + _ROWS_AT_ONCE]
        waiting.append((start + len(chunk), producer.send_batch(topic, rows.take(pa.array(chunk)))))
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


def _missing(
    mine: npt.NDArray[np.int64],
    events: FlightEvents,
    route: Route,
    partition: Partition,
    ends: Mapping[Partition, int],
    reader: RangeReader,
) -> npt.NDArray[np.int64]:
    """Numbers of the rows of ``mine`` that are not in their partition yet."""
    end = ends[partition]
    there, odd = divmod(end, route.step)
    if (
        odd
        or there > len(mine)
        or (there and not _is_last(events, int(mine[there - 1]), route, partition, end, reader))
    ):
        raise UsageError(
            "the topic holds other records than these flights",
            topic=partition.topic,
            partition=partition.id,
            offset=end - route.step,
            hint="Start anew with --fresh",
        )
    return mine[there:]


def _is_last(events: FlightEvents, row: int, route: Route, partition: Partition, end: int, reader: RangeReader) -> bool:
    last = LogRange.of(partition, end - route.step, end)
    found = [record.value for messages in reader.read(last) for record in messages]
    return found == [events.rows["value"][row].as_py()]
