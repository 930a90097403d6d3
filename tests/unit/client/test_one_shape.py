"""What one call gives, another takes: partitions, what is known of them, ranges and offsets, without unpacking."""

from __future__ import annotations

import pytest

from penstock import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    Committed,
    Consumer,
    FoundOffset,
    LogRange,
    Messages,
    Partition,
    PartitionInfo,
    Producer,
    RangeReader,
    UsageError,
)
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import run

ADDRESS = "fake://h:1"
PLACES = [Partition("t4", number) for number in range(4)]


@pytest.fixture
def infos(log: FakeLog) -> tuple[PartitionInfo, ...]:
    """Ten records in each of four partitions, one a second from 1,000 ms on."""
    del log
    with Producer(ADDRESS) as producer:
        for number in range(40):
            producer.send("t4", b"%d" % number, partition=number % 4, timestamp_ms=1_000 * (1 + number // 4))
            if number % 4 == 3:
                producer.flush()
    with Admin(ADDRESS) as admin:
        return admin.topics(["t4"])["t4"].partitions


def test_a_partition_and_a_range_are_made_of_each_other() -> None:
    place = Partition("t", 3, "node")
    span = LogRange.of(place, 5, 7)
    assert span == LogRange("t", 3, 5, 7, "node")
    assert Partition.of(span) == Partition.of(place) == Partition.of(PartitionInfo(place, None)) == place
    assert LogRange.of(PartitionInfo(place, None), 5, 7) == span


def test_a_consumer_takes_what_is_known_of_partitions(infos: tuple[PartitionInfo, ...]) -> None:
    with Consumer(ADDRESS, group="g", auto_offset_reset="earliest") as consumer:
        assert list(consumer.partitions_for("t4")) == PLACES
        consumer.assign(infos)
        assert consumer.assignment() == {*PLACES}
        assert consumer.beginning_offsets(infos) == dict.fromkeys(PLACES, 0)
        assert consumer.end_offsets(infos) == dict.fromkeys(PLACES, 10)
        found = consumer.offsets_for_times(dict.fromkeys(PLACES, 4_000))
        assert {at.offset for at in found.values() if at} == {3}
        consumer.pause(infos)
        assert consumer.paused() == {*PLACES}
        consumer.resume(infos)
        consumer.seek_to_end(infos)
        consumer.seek(infos[0], 7)
        assert [consumer.position(info) for info in infos] == [7, 10, 10, 10]
        consumer.commit(dict.fromkeys(PLACES, 5))
        assert consumer.committed(infos) == dict.fromkeys(PLACES, Committed(5))


def test_offsets_that_were_found_or_committed_are_places_to_start_at(infos: tuple[PartitionInfo, ...]) -> None:
    with Admin(ADDRESS) as admin, Consumer(ADDRESS, group="g") as consumer:
        found = {place: at for place, at in admin.offsets_for_times(dict.fromkeys(PLACES, 4_000)).items() if at}
        assert {place: at.offset for place, at in found.items()} == dict.fromkeys(PLACES, 3)
        admin.commit("g", found)  # a group is moved to a time
        assert {place: at.offset for place, at in admin.committed("g", infos).items()} == dict.fromkeys(PLACES, 3)
        consumer.assign(found)
        assert {consumer.position(place) for place in PLACES} == {3}
        consumer.assign({place: Committed(6) for place in PLACES})
        consumer.seek(PLACES[0], found[PLACES[0]])
        assert [consumer.position(place) for place in PLACES] == [3, 6, 6, 6]


def test_where_nothing_was_found_nobody_guesses(infos: tuple[PartitionInfo, ...]) -> None:
    del infos
    with Consumer(ADDRESS, group="g") as consumer:
        too_late = consumer.offsets_for_times(dict.fromkeys(PLACES, 100_000))
        assert set(too_late.values()) == {None}
        for nothing in (too_late, consumer.committed(PLACES)):
            with pytest.raises(UsageError, match=r"no offset to start at \(topic t4, partition 0\).*end_offsets"):
                consumer.assign(nothing)
        with pytest.raises(UsageError, match="-1 is no offset"):
            consumer.assign({PLACES[0]: FoundOffset(-1)})


def test_a_reader_reads_a_partition_or_what_a_producer_has_told(infos: tuple[PartitionInfo, ...]) -> None:
    with RangeReader(ADDRESS) as reader, Producer(ADDRESS) as producer:
        whole = [Messages.concat(reader.read(each)) for each in (infos[1], PLACES[1], LogRange.of(infos[1], 0, 10))]
        assert [[record.value for record in each] for each in whole] == [[b"%d" % n for n in range(1, 40, 4)]] * 3
        for span in producer.send_batch("t4", whole[0]).result(5):
            assert Messages.concat(reader.read(span))
            assert reader.end_offsets([Partition.of(span)]) == {Partition.of(span): span.end}
        assert reader.committed("g", infos) == {}
        with pytest.raises(UsageError, match="must be a Partition"):
            reader.read("t4")  # type: ignore[arg-type]


def test_the_asynchronous_classes_do_the_same(infos: tuple[PartitionInfo, ...]) -> None:
    async def main() -> None:
        async with AsyncConsumer(ADDRESS, group="g") as consumer, AsyncAdmin(ADDRESS) as admin:
            await consumer.assign(infos)
            await consumer.seek(infos[0], Committed(4))
            assert await consumer.position(infos[0]) == 4
            assert await admin.end_offsets(infos) == dict.fromkeys(PLACES, 10)
            assert await admin.committed("g", infos) == {}

    run(main())
