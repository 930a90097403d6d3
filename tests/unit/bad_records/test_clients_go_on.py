"""A record that is damaged on its way to a client: every kind of client goes on as ``on_bad_record`` says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.client import AsyncConsumer, Consumer, RangeReader
from penstock.errors import ConfigError, CorruptBatch
from penstock.model import LogRange, Record
from tests.unit.bad_records.damaging import MARKED, SCHEMES, TOPIC, DamagingWire
from tests.unit.cli.running import penstock

BEFORE, BEHIND = [b"v0", b"v1"], [b"v3", b"v4"]
STEP = {"kafka": 1, "rocketmq": 1, "tubemq": 28}
SKIPS = {"kafka": "skip", "rocketmq": "auto", "tubemq": "auto"}
"""What is given where records are to be skipped: for two of them it is the default."""
FAILS = {"kafka": "auto", "rocketmq": "fail", "tubemq": "fail"}


@pytest.fixture(scope="module", params=SCHEMES)
def wire(request: pytest.FixtureRequest) -> Iterator[DamagingWire]:
    with DamagingWire(request.param) as wire:
        wire.fill(*BEFORE, MARKED, *BEHIND)
        yield wire


def until(enough: Callable[[list[Record]], bool], consumer: Consumer, found: list[Record]) -> list[Record]:
    """Poll until there is enough; what was found before an error stays in ``found``."""
    for _ in range(60):
        found += consumer.poll(0.5)
        if enough(found):
            break
    return found


def is_last(found: list[Record]) -> bool:
    return bool(found) and found[-1].value == BEHIND[-1]


def values(found: list[Record]) -> list[bytes | None]:
    return [each.value for each in found]


def check_error(error: CorruptBatch, wire: DamagingWire) -> None:
    step = STEP[wire.scheme]
    assert (error.topic, error.partition, error.offset) == (TOPIC, 0, 2 * step)
    assert f"seek() to offset {3 * step}" in str(error)


def test_a_consumer_skips(wire: DamagingWire) -> None:
    with Consumer(wire.url, on_bad_record=SKIPS[wire.scheme]) as consumer:
        assert values(until(is_last, consumer, [])) == [*BEFORE, *BEHIND]
        assert consumer.metrics().bad_records_total == 1


def test_a_consumer_gets_raw_bytes(wire: DamagingWire) -> None:
    with Consumer(wire.url, on_bad_record="raw") as consumer:
        found = until(is_last, consumer, [])
        assert [*values(found)[:2], *values(found)[3:]] == [*BEFORE, *BEHIND]
        assert b"DAMAGED" in (found[2].value or b"")
        assert "penstock.error" in dict(found[2].headers)


def test_a_consumer_fails_until_it_seeks_past(wire: DamagingWire) -> None:
    found: list[Record] = []
    with Consumer(wire.url, on_bad_record=FAILS[wire.scheme]) as consumer:
        for _ in range(2):  # it stays there
            with pytest.raises(CorruptBatch) as raised:
                until(is_last, consumer, found)
            check_error(raised.value, wire)
        assert values(found) == BEFORE
        (partition,) = consumer.assignment()
        assert raised.value.next_offset is not None
        consumer.seek(partition, raised.value.next_offset)
        assert values(until(is_last, consumer, [])) == BEHIND
        assert consumer.metrics().bad_records_total == 0


def test_a_group_commits_past_what_it_sought_past(wire: DamagingWire) -> None:
    found: list[Record] = []
    with Consumer(wire.url, group="fails", on_bad_record=FAILS[wire.scheme]) as consumer:
        with pytest.raises(CorruptBatch) as raised:
            until(is_last, consumer, found)
        assert values(found) == BEFORE
        (partition,) = consumer.assignment()
        assert raised.value.next_offset is not None
        consumer.seek(partition, raised.value.next_offset)
        assert values(until(is_last, consumer, [])) == BEHIND
        consumer.commit()
        assert consumer.committed([partition])[partition].offset == 5 * STEP[wire.scheme]


def test_a_group_commits_past_what_it_skipped(wire: DamagingWire) -> None:
    with Consumer(wire.url, group="skips", on_bad_record=SKIPS[wire.scheme]) as consumer:
        found: list[Record] = []
        for _ in range(60):
            batch = consumer.poll(0.5)
            found += batch
            if batch:
                consumer.commit(batch)
            if is_last(found):
                break
        assert values(found) == [*BEFORE, *BEHIND]
        (partition,) = consumer.assignment()
        assert consumer.committed([partition])[partition].offset == 5 * STEP[wire.scheme]


def test_an_asynchronous_consumer_does_the_same(wire: DamagingWire) -> None:
    async def read(choice: str) -> tuple[list[bytes | None], int]:
        async with AsyncConsumer(wire.url, on_bad_record=choice) as consumer:
            found: list[Record] = []
            while not is_last(found):
                try:
                    found += await consumer.poll(5)
                except CorruptBatch as error:
                    check_error(error, wire)
                    (partition,) = consumer.assignment()
                    await consumer.seek(partition, error.next_offset or 0)
            return values(found), consumer.metrics().bad_records_total

    assert asyncio.run(read(SKIPS[wire.scheme])) == ([*BEFORE, *BEHIND], 1)
    assert asyncio.run(read(FAILS[wire.scheme])) == ([*BEFORE, *BEHIND], 0)


def test_iteration_goes_on(wire: DamagingWire) -> None:
    with Consumer(wire.url, on_bad_record=SKIPS[wire.scheme]) as consumer:
        found: list[Record] = []
        for batch in consumer:
            found += batch
            if is_last(found):
                break
        assert values(found) == [*BEFORE, *BEHIND]


def test_a_range_reader_does_the_same(wire: DamagingWire) -> None:
    step = STEP[wire.scheme]
    for choice, bad, wanted in ((SKIPS[wire.scheme], 1, 4), ("raw", 1, 5)):
        with RangeReader(wire.url, on_bad_record=choice) as reader:
            (place,) = (info.partition for info in reader.topics([TOPIC])[TOPIC].partitions)
            found = [each for run in reader.read(LogRange.of(place, 0, 5 * step)) for each in run]
            assert [each.value for each in found if not each.headers or each.offset != 2 * step] == [*BEFORE, *BEHIND]
            assert (len(found), reader.bad_records_total) == (wanted, bad)
            assert len([*reader.read(LogRange.of(place, 3 * step, 5 * step))]) > 0
    with RangeReader(wire.url, on_bad_record=FAILS[wire.scheme]) as reader:
        read: list[Record] = []
        with pytest.raises(CorruptBatch) as raised:
            read.extend(each for run in reader.read(LogRange.of(place, 0, 5 * step)) for each in run)
        check_error(raised.value, wire)
        assert values(read) == BEFORE


def test_the_command_line_does_the_same(wire: DamagingWire) -> None:
    skipped = penstock("consume", wire.url, "--max", 4, "-o", f"on_bad_record={SKIPS[wire.scheme]}")
    assert (skipped.code, skipped.stdout) == (0, b"v0\nv1\nv3\nv4\n")
    failed = penstock("consume", wire.url, "--max", 5, "-o", f"on_bad_record={FAILS[wire.scheme]}")
    assert failed.code != 0
    assert failed.stdout == b"v0\nv1\n"
    assert f"offset {2 * STEP[wire.scheme]}" in failed.stderr
    assert "on_bad_record" in failed.stderr
    raw = penstock("consume", wire.url, "--max", 5, "--format", "json", "-o", "on_bad_record=raw")
    assert raw.code == 0
    assert "penstock.error" in str(raw.objects[2])


def test_sparks_source_does_the_same(wire: DamagingWire) -> None:
    pytest.importorskip("pyspark")
    from penstock.spark._options import parse_options
    from penstock.spark._reading import BatchReader

    def rows(choice: str, **options: str) -> Iterator[dict[str, Any]]:
        reader = BatchReader(parse_options({"path": wire.url, "onBadRecord": choice, **options}))
        for task in reader.partitions():
            for batch in reader.read(task):
                yield from batch.to_pylist()

    assert [row["value"] for row in rows(SKIPS[wire.scheme])] == [*BEFORE, *BEHIND]
    raw = [*rows("RAW", columns="offset,value,header:penstock.error")]
    assert [row["value"] for row in raw if row["penstock.error"] is None] == [*BEFORE, *BEHIND]
    assert (len(raw), raw[2]["offset"]) == (5, 2 * STEP[wire.scheme])
    with pytest.raises(CorruptBatch, match="on_bad_record"):
        [*rows(FAILS[wire.scheme])]


def test_sparks_source_refuses_what_the_option_is_not() -> None:
    pytest.importorskip("pyspark")
    from penstock.spark._options import parse_options

    with pytest.raises(ConfigError, match="expected one of auto, fail, skip, raw"):
        parse_options({"path": "kafka://127.0.0.1:1/t", "onBadRecord": "ignore"})
