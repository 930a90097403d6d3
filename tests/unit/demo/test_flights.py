"""The flights: all of them, in order of time, each a JSON object that says what its row says."""

import json

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from pyarrow import compute

from penstock.demo.delays import WATERMARK
from penstock.demo.flights import PARTITIONS, ROUTES, FlightEvents, flights_events, murmur2
from penstock.demo.run import _limit
from penstock.model import Partition
from penstock.spark._follow import admit


def test_every_flight_is_there(table: pa.Table) -> None:
    counted = {row["values"]: row["counts"] for row in table["origin"].value_counts().to_pylist()}
    assert counted == {"EWR": 120_835, "JFK": 111_279, "LGA": 104_662}


def test_events_are_in_order_of_scheduled_departure(table: pa.Table, events: FlightEvents) -> None:
    stamps = events.rows["timestamp"].cast(pa.int64()).to_numpy()
    assert events.rows.num_rows == table.num_rows
    assert (np.diff(stamps) >= 0).all()
    assert table["month"].to_numpy()[100_000] != 4  # the file itself is not in order


def test_event_says_what_the_row_says(table: pa.Table, events: FlightEvents) -> None:
    for at in range(0, events.rows.num_rows, 7_919):
        key, value, when = (events.rows[name][at].as_py() for name in ("key", "value", "timestamp"))
        row = events.table.slice(at, 1).to_pylist()[0]
        assert key == f"{row['carrier']}{row['flight']}".encode()
        assert when == row["time_hour"].replace(minute=row["minute"])
        row["time_hour"] = row["time_hour"].strftime("%Y-%m-%dT%H:%M:%SZ")
        assert json.loads(value) == row
    assert sum(events.table["dep_time"].is_null().to_pylist()) == table["dep_time"].null_count == 8_255


def test_fewer_rows_are_a_beginning_of_all(table: pa.Table, events: FlightEvents) -> None:
    few = flights_events(table, 1_000)
    assert few.rows.equals(events.rows.slice(0, 1_000))
    for partition in range(PARTITIONS):
        mine = few.of_partition(partition)
        assert (events.of_partition(partition)[: len(mine)] == mine).all()


@pytest.mark.parametrize(
    ("key", "hash_of_java"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"abc", 479470107)],
)
def test_partitioner_hashes_as_java(key: bytes, hash_of_java: int) -> None:
    # Apache Kafka, UtilsTest.testMurmur2
    assert murmur2(key) == hash_of_java % 2**32


def test_each_flight_has_one_route(events: FlightEvents) -> None:
    routed = [events.of_origins(route.origins) for route in ROUTES]
    assert [each.rows.num_rows for each in routed] == [120_835, 111_279, 104_662]
    for each in routed:
        assert each.rows["timestamp"].equals(each.rows.sort_by("timestamp")["timestamp"])
        assert len(each.partition) == each.table.num_rows == each.rows.num_rows


@pytest.mark.parametrize("limit", [5_000, 60_000, 150_000])
def test_no_record_is_late_whatever_a_batch_takes(events: FlightEvents, limit: int) -> None:
    days, _ = WATERMARK.split()
    queues: dict[str, dict[Partition, npt.NDArray[np.int64]]] = {}
    for route in ROUTES:
        mine = events.of_origins(route.origins)
        stamps = mine.rows["timestamp"].cast(pa.int64()).to_numpy()
        places = {Partition(route.topic, number): stamps[mine.of_partition(number)] for number in range(PARTITIONS)}
        queues[route.topic] = places
    newest = 0
    while any(len(queue) for places in queues.values() for queue in places.values()):
        batch: list[npt.NDArray[np.int64]] = []
        for route in ROUTES:  # a route's limit is in offsets; its backlog here is in records
            places = queues[route.topic]
            share = _limit(events, route, limit) // route.step
            taken = admit({partition: len(queue) for partition, queue in places.items()}, share)
            batch += [places[partition][:count] for partition, count in taken.items()]
            queues[route.topic] = {partition: queue[taken.get(partition, 0) :] for partition, queue in places.items()}
        stamps = np.concatenate(batch)
        assert stamps.min() >= newest - int(days) * 86_400_000
        newest = max(newest, int(stamps.max()))


def test_keys_stay_in_one_partition(events: FlightEvents) -> None:
    placed = pa.table({"key": events.rows["key"], "partition": events.partition})
    spread = placed.group_by("key").aggregate([("partition", "count_distinct")])
    assert compute.max(spread["partition_count_distinct"]).as_py() == 1
    assert set(np.unique(events.partition)) == set(range(PARTITIONS))
