"""Fetch: ranges read to the last record and no further, whatever holes and troubles the log has."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from penstock.client.ranges.range_reader import RangeRead
from penstock.errors import CorruptBatch, OffsetOutOfRange, ServerError, UsageError
from penstock.interfaces import ReadFrom, ReadLimits
from penstock.model import LogRange, Offset, OffsetSpec, Partition
from penstock.net.blocking_channel import BlockingChannel, run
from penstock.protocols.kafka.client.client import KafkaClient, open_client
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.client.fetch import KafkaFetched
from penstock.protocols.kafka.wire.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from penstock.protocols.kafka.wire.records import encode
from tests.unit.kafka_client.mock_brokers import MockBrokers
from tests.unit.kafka_client.scripted import Stage, go, metadata, stage

FIRST = Partition("events", 0)
FETCH = 1
QUICK = KafkaOptions(retry_backoff_ms=1, retry_backoff_max_ms=5, short_log_patience_ms=20)


def batch(base: int, count: int) -> bytes:
    values = [b"%d" % n for n in range(base, base + count)]
    return bytes(encode(pa.record_batch({"value": values}), base_offset=base, timestamp_ms=1))


@pytest.fixture(scope="module")
def brokers() -> Iterator[MockBrokers]:
    with MockBrokers(2) as brokers:
        yield brokers


@pytest.fixture
def topic(brokers: MockBrokers) -> str:
    name = f"events-{uuid.uuid4().hex}"
    brokers.topic(name, 2)
    return name


@pytest.fixture
def client(brokers: MockBrokers) -> Iterator[KafkaClient]:
    client = open_client(BlockingChannel, brokers.bootstrap, QUICK)
    yield client
    run(client.close())


def produce(brokers: MockBrokers, topic: str, count: int, **options: Any) -> None:
    # Lingering for as long as the loop below may take keeps them in one batch; flush() waits for no linger.
    producer = Producer({"bootstrap.servers": brokers.servers, "linger.ms": 10_000, **options})
    producer.list_topics(topic, 10)  # records that wait for metadata may be parted when it comes
    for n in range(count):
        producer.produce(topic, b"%d" % n, b"key", 0, timestamp=1_000 + n)
    assert producer.flush(10) == 0


def each_value(read: RangeRead) -> Iterator[int]:
    while (messages := run(read.next())) is not None:
        assert messages
        for message in messages:
            yield int(message.value or b"")


def values(read: RangeRead) -> list[int]:
    return list(each_value(read))


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_range_is_read_exactly(brokers: MockBrokers, client: KafkaClient, topic: str, compression: str) -> None:
    produce(brokers, topic, 5_000, **{"compression.type": compression, "batch.num.messages": 70})
    for start, end in [(0, 5_000), (0, 1), (69, 71), (4_999, 5_000), (1_234, 4_321), (17, 17)]:
        read = RangeRead(client, LogRange(topic, 0, start, end), fetch_bytes=20_000)
        assert values(read) == list(range(start, end))
        assert run(read.next()) is None
        assert read.offset == end


def test_only_the_columns_asked_for_are_built(brokers: MockBrokers, client: KafkaClient, topic: str) -> None:
    produce(brokers, topic, 10)
    messages = run(RangeRead(client, LogRange(topic, 0, 0, 10), columns=["value", "offset"]).next())
    assert messages is not None
    assert messages.parts[0].batch.schema.names == ["value", "offset"]


@pytest.mark.parametrize("codes", [[6], [74, 75, 0, 3], [100]])
def test_a_leader_that_is_away_for_a_moment_is_waited_for(
    brokers: MockBrokers, client: KafkaClient, topic: str, codes: list[int]
) -> None:
    produce(brokers, topic, 500, **{"batch.num.messages": 50})
    brokers.fail(FETCH, codes)
    assert values(RangeRead(client, LogRange(topic, 0, 0, 500), fetch_bytes=2_000)) == list(range(500))


def test_a_leader_that_moved_is_followed_in_the_middle_of_a_range(
    brokers: MockBrokers, client: KafkaClient, topic: str
) -> None:
    brokers.lead(topic, 0, 1)
    produce(brokers, topic, 500, **{"batch.num.messages": 50})
    read = RangeRead(client, LogRange(topic, 0, 0, 500), fetch_bytes=2_000)
    first = run(read.next())
    assert first is not None
    brokers.lead(topic, 0, 2)
    assert len(first) + len(values(read)) == 500


def test_a_range_beyond_the_log_is_an_error_after_what_there_is(
    brokers: MockBrokers, client: KafkaClient, topic: str
) -> None:
    produce(brokers, topic, 10, **{"batch.num.messages": 6})  # as happens where the machine is slow; a batch a fetch
    read = RangeRead(client, LogRange(topic, 0, 5, 20))
    found: list[int] = []
    with pytest.raises(OffsetOutOfRange, match="the log ends at 10, before the end of the range, 20") as raised:
        found.extend(each_value(read))
    assert found == list(range(5, 10))
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == (topic, 0, 10)


def test_a_range_whose_start_is_gone_is_an_error_at_once(brokers: MockBrokers, client: KafkaClient, topic: str) -> None:
    produce(brokers, topic, 10)
    with pytest.raises(OffsetOutOfRange) as raised:
        run(RangeRead(client, LogRange(topic, 0, 50, 60)).next())
    assert raised.value.offset == 50


def test_ranges_that_cannot_be_are_refused(client: KafkaClient) -> None:
    for start, end in [(-1, 5), (6, 5)]:
        with pytest.raises(UsageError):
            RangeRead(client, LogRange("events", 0, start, end))


def test_a_range_stopped_early_leaves_the_client_usable(brokers: MockBrokers, client: KafkaClient, topic: str) -> None:
    produce(brokers, topic, 500, **{"batch.num.messages": 50})
    read = RangeRead(client, LogRange(topic, 0, 0, 500), fetch_bytes=2_000)
    assert run(read.next())
    read.close()
    read.close()
    assert values(RangeRead(client, LogRange(topic, 0, 490, 500))) == list(range(490, 500))


def test_offsets_by_name_and_time(brokers: MockBrokers, client: KafkaClient, topic: str) -> None:
    produce(brokers, topic, 10)
    for spec, offset in [(OffsetSpec(Offset.EARLIEST), 0), (OffsetSpec(Offset.LATEST), 10)]:
        assert run(client.offsets({Partition(topic, 0): spec}))[Partition(topic, 0)].offset == offset
    with pytest.raises(UsageError):
        run(client.offsets({Partition(topic, 0): OffsetSpec()}))


def test_one_long_poll_reads_several_partitions_and_tells_trouble_apart(
    brokers: MockBrokers, client: KafkaClient, topic: str
) -> None:
    brokers.lead(topic, 0, 1)
    brokers.lead(topic, 1, 1)
    produce(brokers, topic, 10)
    run(client.topics([topic]))
    node = client.leader(Partition(topic, 0))
    assert node is not None
    reads = [ReadFrom(Partition(topic, 0), 4, 100_000), ReadFrom(Partition(topic, 1), 99, 100_000)]
    good, bad = run(client.read(node, reads, ReadLimits(100, 1, 1_000_000)))
    messages, next_offset = good.decode(stop=8)
    assert [message.offset for message in messages] == [4, 5, 6, 7]
    assert (next_offset, good.next_offset, good.high_watermark, good.error) == (8, 10, 10, None)
    assert isinstance(bad.error, OffsetOutOfRange)
    assert bad.next_offset == 99
    with pytest.raises(OffsetOutOfRange):
        bad.decode()


# What no broker gives on demand: holes and damage.


def fetches(bodies: Iterable[tuple[int, bytes]]) -> Callable[[Any, int], FetchResponse]:
    """(high watermark, records) of the next answers."""
    rest = iter(bodies)

    def answer(request: Any, version: int) -> FetchResponse:
        high, records = next(rest)
        part = FetchResponsePartition(partition_index=0, high_watermark=high, records=records)
        by_name = version <= 12
        topic = FetchResponseTopic(
            topic="events" if by_name else "",
            topic_id=bytes(16) if by_name else request.topics[0].topic_id,
            partitions=[part],
        )
        return FetchResponse(responses=[topic])

    return answer


async def scripted_range(it: Stage, start: int, end: int, bodies: Iterable[tuple[int, bytes]]) -> list[int]:
    it.broker.answers["Metadata"] = metadata({1: it.endpoint}, {"events": {0: (1, 0)}})
    it.broker.answers["Fetch"] = fetches(bodies)
    read, found = RangeRead(it.client, LogRange("events", 0, start, end)), []
    while (messages := await read.next()) is not None:
        found += [int(message.value or b"") for message in messages]
    return found


def test_holes_of_compaction_are_passed_over() -> None:
    async def body() -> None:
        async with stage() as it:
            bodies = [(100, batch(3, 2)), (100, batch(50, 1)), (100, batch(90, 5))]
            assert await scripted_range(it, 0, 60, bodies) == [3, 4, 50]
            assert [each.topics[0].partitions[0].fetch_offset for each in it.broker.asked("Fetch")] == [0, 5, 51]

    go(body())


def test_nothing_is_asked_for_beyond_the_end() -> None:
    async def body() -> None:
        async with stage() as it:
            assert await scripted_range(it, 0, 4, [(100, batch(0, 10))]) == [0, 1, 2, 3]
            assert len(it.broker.asked("Fetch")) == 1
            assert not it.broker.asked("ListOffsets")

    go(body())


def test_a_new_leader_that_lags_is_waited_for() -> None:
    async def body() -> None:
        async with stage() as it:
            bodies = [(2, batch(0, 2)), (2, b""), (2, b""), (4, batch(2, 2))]
            assert await scripted_range(it, 0, 4, bodies) == [0, 1, 2, 3]

    go(body())


def test_a_cut_off_tail_is_read_again() -> None:
    async def body() -> None:
        async with stage() as it:
            bodies = [(9, batch(0, 3) + batch(3, 3)[:-1]), (9, batch(3, 3))]
            assert await scripted_range(it, 0, 6, bodies) == [0, 1, 2, 3, 4, 5]

    go(body())


def test_a_batch_that_never_comes_whole_is_an_error_and_no_endless_loop() -> None:
    async def body() -> None:
        async with stage() as it:
            with pytest.raises(CorruptBatch, match="without one whole batch"):
                await scripted_range(it, 0, 6, [(9, batch(0, 3)[:-1])])

    go(body())


def test_damage_is_raised_after_the_good_records_before_it() -> None:
    async def body() -> None:
        async with stage() as it:
            damaged = bytearray(batch(2, 2))
            damaged[-1] ^= 1
            it.broker.answers["Metadata"] = metadata({1: it.endpoint}, {"events": {0: (1, 0)}})
            answer = (9, batch(0, 2) + bytes(damaged) + batch(4, 2))
            it.broker.answers["Fetch"] = fetches([answer, answer, (9, bytes(damaged))])
            read = RangeRead(it.client, LogRange("events", 0, 0, 6))
            messages = await read.next()
            assert messages is not None
            assert [message.offset for message in messages] == [0, 1]
            with pytest.raises(CorruptBatch) as raised:
                await read.next()
            assert (raised.value.topic, raised.value.partition) == ("events", 0)

    go(body())


def test_topic_ids_are_used_where_all_are_known() -> None:
    async def body() -> None:
        for ids, highest in (({"events": b"i" * 16}, 13), (None, 12)):
            async with stage() as it:
                it.broker.answers["Metadata"] = metadata({1: it.endpoint}, {"events": {0: (1, 0)}}, ids)
                it.broker.answers["Fetch"] = fetches([(9, batch(0, 9))])
                assert await RangeRead(it.client, LogRange("events", 0, 0, 9)).next()
                (version,) = {version for name, _, version in it.broker.seen if name == "Fetch"}
                assert version >= 13 if highest == 13 else version == 12

    go(body())


def test_an_error_of_the_whole_answer_is_raised() -> None:
    async def body() -> None:
        async with stage() as it:
            it.broker.answers["Metadata"] = metadata({1: it.endpoint}, {"events": {0: (1, 0)}})
            it.broker.answers["Fetch"] = lambda request, version: FetchResponse(error_code=29)
            with pytest.raises(ServerError, match="TOPIC_AUTHORIZATION_FAILED"):
                await RangeRead(it.client, LogRange("events", 0, 0, 9)).next()

    go(body())


@pytest.mark.parametrize("cut", [0, 11, 16, 17, 60, 61])
def test_the_next_offset_is_told_from_headers_alone(cut: int) -> None:
    records = batch(10, 5) + batch(15, 2)[:cut]
    fetched = KafkaFetched(ReadFrom(FIRST, 12, 1), FetchResponsePartition(records=records), None, KafkaOptions())
    assert fetched.next_offset == 15
    assert fetched.decode()[1] == 15


def test_who_reads_what_is_committed_sees_the_log_end_at_the_last_stable_offset() -> None:
    told = FetchResponsePartition(records=None, high_watermark=9, last_stable_offset=4)
    for options, end in ((KafkaOptions(), 9), (KafkaOptions(read_committed=True), 4)):
        assert KafkaFetched(ReadFrom(FIRST, 4, 1), told, None, options).high_watermark == end


def test_a_header_that_lies_about_its_length_is_no_batch() -> None:
    for length in (-1, 0, 13, 2**31 - 1):
        records = bytearray(batch(10, 5))
        records[8:12] = length.to_bytes(4, "big", signed=True)
        told = FetchResponsePartition(records=bytes(records))
        assert KafkaFetched(ReadFrom(FIRST, 12, 1), told, None, KafkaOptions()).next_offset == 12
