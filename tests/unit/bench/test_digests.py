"""A client that loses, doubles or swaps records must not get a figure."""

import pyarrow as pa
import pytest

from bench.metering import Meter
from bench.topics import BASE_MS, CYCLE, PARTITIONS, Digest, Topic, expected, records

TOPIC = Topic("100 B", 40, 100)


def batch(partition: int, offsets: list[int], *, unit: str = "ms") -> pa.RecordBatch:
    numbers = [offset * PARTITIONS + partition for offset in offsets]
    timestamps = pa.array([BASE_MS + number for number in numbers], pa.int64())
    if unit == "us":
        timestamps = timestamps.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
    columns = {
        "value": pa.array([records(100)[number % CYCLE][1] for number in numbers], pa.binary()),
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": timestamps,
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def read(*batches: pa.RecordBatch, thorough: bool = True) -> Digest:
    meter = Meter(thorough=thorough)
    for each in batches:
        meter.add(each)
    return meter.digest


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_reading_everything_in_any_order_agrees(unit: str) -> None:
    whole = [batch(partition, list(range(TOPIC.each)), unit=unit) for partition in range(PARTITIONS)]
    assert read(*whole[::-1]).agrees(expected(TOPIC))
    assert read(*whole, thorough=False).agrees(expected(TOPIC))
    assert read(whole[2]).agrees(expected(TOPIC, [2]))


def test_slices_count_only_their_own_bytes() -> None:
    whole = [batch(partition, list(range(TOPIC.each))) for partition in range(PARTITIONS)]
    assert read(*[each[cut] for each in whole for cut in (slice(0, 3), slice(3, 10))]).agrees(expected(TOPIC))


def test_a_lost_record_is_noticed() -> None:
    short = [batch(partition, list(range(TOPIC.each - (partition == 1)))) for partition in range(PARTITIONS)]
    assert not read(*short).agrees(expected(TOPIC))


def test_a_doubled_record_in_place_of_another_is_noticed() -> None:
    offsets = list(range(TOPIC.each))
    doubled = [batch(partition, [*offsets[:-1], 0] if partition == 1 else offsets) for partition in range(PARTITIONS)]
    assert not read(*doubled, thorough=False).agrees(expected(TOPIC))


def test_swapped_values_are_noticed_by_the_thorough_round() -> None:
    whole = [batch(partition, list(range(TOPIC.each))) for partition in range(PARTITIONS)]
    values = whole[0].column("value").take(pa.array([1, 0, *range(2, TOPIC.each)]))
    swapped = whole[0].set_column(0, "value", values)
    assert read(swapped, *whole[1:], thorough=False).agrees(expected(TOPIC))
    assert not read(swapped, *whole[1:]).agrees(expected(TOPIC))


def test_values_have_the_size_they_claim() -> None:
    assert {len(value) for _, value in records(100)} == {100}
    assert {len(key) for key, _ in records(100)} == {10}
