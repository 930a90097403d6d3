"""Producing the flights: each once, also over a node that was killed, and never on top of something else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.client import Admin, Producer, RangeReader
from penstock.demo.flights import (
    PARTITIONS,
    ROUTES,
    FlightEvents,
    Node,
    Route,
    flights_events,
    flights_table,
    load,
    partitions,
)
from penstock.errors import ConnectionLost, UsageError
from penstock.model import LogRange


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return flights_table()


@pytest.fixture(scope="module")
def events(table: pa.Table) -> FlightEvents:
    return flights_events(table, 60_000)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with (tmp_path / "log").open("ab") as log, Node(tmp_path / "store", log) as node:
        yield node


Stored = dict[tuple[str, int], list[tuple[bytes, int]]]
"""(value, ms) of every record, by topic and place of the partition."""


def stored(node: Node) -> Stored:
    found: Stored = {}
    for route in ROUTES:
        with Admin(node.address(route)) as admin:
            places = partitions(admin, route)
            ends = admin.end_offsets(places)
        with RangeReader(node.address(route)) as reader:
            for place, partition in enumerate(places):
                whole = LogRange(partition.topic, partition.id, 0, ends[partition], partition.node)
                found[route.topic, place] = [pair for each in reader.read(whole) for pair in pairs(each.to_arrow())]
    return found


def pairs(rows: pa.Table) -> list[tuple[bytes, int]]:
    values, stamps = rows["value"].to_pylist(), rows["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    return list(zip(values, stamps.to_pylist(), strict=True))


def wanted(events: FlightEvents) -> Stored:
    found: Stored = {}
    for route in ROUTES:
        mine = events.of_origins(route.origins)
        for place in range(PARTITIONS):
            found[route.topic, place] = pairs(mine.rows.take(pa.array(mine.of_partition(place))))
    return found


def test_all_rows_are_stored_in_order_and_only_once(node: Node, events: FlightEvents) -> None:
    told: list[int] = []
    assert load(node, events, told.append) == 60_000
    assert (told[0], told[-1], told == sorted(told)) == (0, 60_000, True)
    assert load(node, events, told.append) == 0
    assert stored(node) == wanted(events)


def test_more_rows_follow_those_of_a_shorter_run(node: Node, table: pa.Table, events: FlightEvents) -> None:
    load(node, flights_events(table, 1_000), lambda _: None)
    assert load(node, events, lambda _: None) == 59_000
    assert stored(node) == wanted(events)
    with pytest.raises(UsageError, match="--fresh"):
        load(node, flights_events(table, 1_000), lambda _: None)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: str(route.scheme))
def test_other_records_in_the_topic_are_not_built_upon(node: Node, events: FlightEvents, route: Route) -> None:
    load(node, events, lambda _: None)
    with Producer(node.address(route)) as producer:
        producer.send(route.topic, b"not a flight", partition=3).result()
    more = flights_events(flights_table(), 61_000)
    with pytest.raises(UsageError, match="other records"):
        load(node, more, lambda _: None)


@pytest.mark.parametrize("reached_rows", [20_000, 50_000], ids=["in the first topic", "in the second topic"])
def test_loading_goes_on_after_the_node_was_killed(tmp_path: Path, events: FlightEvents, reached_rows: int) -> None:
    store, reached = tmp_path / "store", threading.Event()
    with (tmp_path / "log").open("ab") as log:
        with Node(store, log) as node:

            def kill(rows: int) -> None:
                if rows >= reached_rows and not reached.is_set():
                    reached.set()
                    node.process.kill()

            with pytest.raises(ConnectionLost, match="the service node ended"):
                load(node, events, kill)
        with Node(store, log) as node:
            told: list[int] = []
            sent = load(node, events, told.append)
            assert told[0] >= reached_rows  # what was acknowledged is there
            assert told[0] + sent == 60_000
            assert stored(node) == wanted(events)


def test_node_ends_with_its_parent(tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab") as log, Node(tmp_path / "store", log) as node:
        process = node.process
    assert process.returncode == 0


def test_node_that_cannot_start_is_told(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where a folder should be")
    with (tmp_path / "log").open("ab") as log, pytest.raises(ConnectionLost, match="did not start"):
        Node(tmp_path / "store", log)
    assert (tmp_path / "log").read_text()
