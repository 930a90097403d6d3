"""What was produced is what is consumed: values, keys, headers, timestamps, nulls, order, with every codec."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.client import Consumer, Producer, RangeReader
from penstock.model import Codec, LogRange, Partition
from penstock.records import Messages
from tests.conformance.abilities import Ability, needs
from tests.conformance.conftest import CONSUMER, Log
from tests.conformance.reading import poll_until, read, values


def per_partition(consumer: Consumer, count: int) -> dict[Partition, list[bytes]]:
    """The values of each partition, in the order in which they came."""
    found: list[Messages] = []
    poll_until(lambda: sum(map(len, found)) == count, take=found, consumers=[consumer])
    by_partition: dict[Partition, list[bytes]] = {}
    for batch in found:
        for part in batch.parts:
            by_partition.setdefault(part.partition, []).extend(part.batch.column("value").to_pylist())
    return by_partition


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
def test_every_codec_brings_back_the_same_bytes(log: Log, codec: str) -> None:
    topic = log.topic()
    sent = [b"%d" % number * (number % 50) for number in range(500)]
    with Producer(log.writing, compression=codec) as producer:
        deliveries = [producer.send(topic, value, partition=0) for value in sent]
        offsets = [delivery.result(10).offset for delivery in deliveries]
    assert offsets == sorted(set(offsets))
    with Consumer(log.at(topic), **CONSUMER) as consumer:
        records = read(consumer, 500)
    assert values(records) == sent
    assert [record.offset for record in records] == offsets


@needs(Ability.COUNTS_RECORDS)
def test_offsets_count_records(log: Log) -> None:
    topic = log.topic()
    with Producer(log.writing, batch_size_bytes=300) as producer:
        deliveries = [producer.send(topic, b"%d" % number, partition=0) for number in range(100)]
        assert [delivery.result(10).offset for delivery in deliveries] == list(range(100))


def test_keys_headers_and_times_come_back(log: Log) -> None:
    topic = log.topic()
    repeated = [("a", b"1"), ("a", b"2"), ("b", b"\x00\xff"), ("c", b"a,b=c#d$")]
    with Producer(log.writing) as producer:
        producer.send(topic, b"u", b"key", timestamp_ms=1_700_000_000_001, partition=0)
        producer.send(topic, b"v", b"\x00\xff", headers=repeated, timestamp_ms=1_700_000_000_002, partition=0)
        producer.send(topic, b"w", headers={"source": "départ".encode()}, timestamp_ms=1_700_000_000_003, partition=0)
    with Consumer(log.at(topic), **CONSUMER) as consumer:
        found = read(consumer, 3)
    assert [(record.key, record.value) for record in found] == [(b"key", b"u"), (b"\x00\xff", b"v"), (None, b"w")]
    assert [record.headers for record in found] == [(), tuple(repeated), (("source", "départ".encode()),)]
    assert [record.timestamp_ms for record in found] == [1_700_000_000_000 + n for n in (1, 2, 3)]
    assert [(record.topic, record.partition) for record in found] == [(topic, log.partitions(topic)[0].id)] * 3


def test_nulls_and_empties_are_kept_apart(log: Log) -> None:
    topic = log.topic()
    headers = [("b", None), ("", b"")]
    with Producer(log.writing) as producer:
        producer.send(topic, None, b"key", partition=0)
        producer.send(topic, b"", None, partition=0)
        producer.send(topic, b"v", b"", headers=headers, partition=0)
    with Consumer(log.at(topic), **CONSUMER) as consumer:
        found = read(consumer, 3)
    assert [(record.key, record.value) for record in found] == [(b"key", None), (None, b""), (b"", b"v")]
    assert [record.headers for record in found] == [(), (), tuple(headers)]


def test_each_partition_keeps_the_order_of_sending(log: Log) -> None:
    topic = log.topic(4)
    partitions = log.partitions(topic)
    with Producer(log.writing, linger_ms=0, batch_size_bytes=300) as producer:
        for number in range(2_000):
            producer.send(topic, b"%d" % number, partition=number % len(partitions))
    with Consumer(log.at(topic), **CONSUMER) as consumer:
        found = per_partition(consumer, 2_000)
    for place, partition in enumerate(partitions):
        assert [int(value) for value in found[partition]] == list(range(place, 2_000, len(partitions)))


def test_equal_keys_go_to_one_partition_whichever_way_they_are_sent(log: Log) -> None:
    topic = log.topic(5)
    keys = [b"key-%d" % (number % 40) for number in range(400)]
    with Producer(log.writing) as producer:
        for key in keys:
            producer.send(topic, key, key)
        producer.send_batch(topic, pa.table({"key": keys, "value": keys}))
    with Consumer(log.at(topic), **CONSUMER) as consumer:
        found = per_partition(consumer, 800)
    homes: dict[bytes, set[Partition]] = {}
    for partition, sent in found.items():
        for key in sent:
            homes.setdefault(key, set()).add(partition)
    assert len(homes) == 40
    assert {len(partitions) for partitions in homes.values()} == {1}
    assert len(found) > 1


def test_a_table_comes_back_as_columns_at_the_offsets_that_were_told(log: Log) -> None:
    topic = log.topic(3)
    partitions = log.partitions(topic)
    rows, count = 5_000, len(partitions)
    table = pa.table(
        {
            "key": pa.array([None if n % 7 == 0 else b"k%d" % n for n in range(rows)], pa.binary()),
            "value": pa.array([b"v%d" % n for n in range(rows)], pa.binary()),
            "timestamp": pa.array([1_700_000_000_000_000 + 1_000 * n for n in range(rows)], pa.timestamp("us", "UTC")),
            "partition": pa.array([n % count for n in range(rows)], pa.int32()),
        }
    )
    with Producer(log.writing, batch_size_bytes=10_000, compression="lz4") as producer:
        spans = producer.send_batch(topic, table).result(20)
    assert {Partition.of(span) for span in spans} == set(partitions)
    with RangeReader(log.address) as reader:
        begin, end = reader.beginning_offsets(partitions), reader.end_offsets(partitions)
        for place, partition in enumerate(partitions):
            # A log may have put other records between those of one table, so that it is told of in several spans.
            mine = [span for span in spans if Partition.of(span) == partition]
            assert begin[partition] == min(span.start for span in mine)
            assert end[partition] >= max(span.end for span in mine)
            batches = [batch.to_arrow() for span in mine for batch in reader.read(span)]
            found, sent = pa.concat_tables(batches), table.filter(pa.array([n % count == place for n in range(rows)]))
            for name in ("key", "value", "timestamp"):
                assert found[name].to_pylist() == sent[name].to_pylist()
            offsets = found["offset"].to_pylist()
            assert offsets == sorted(set(offsets))


def test_a_range_is_exactly_what_was_asked_for(log: Log) -> None:
    topic = log.topic()
    partition = log.partitions(topic)[0]
    with Producer(log.writing, batch_size_bytes=400) as producer:
        sent = [producer.send(topic, b"%d" % number, partition=0) for number in range(1_000)]
        offsets = [each.result(20).offset for each in sent]
    with RangeReader(log.address) as reader:
        middle = LogRange.of(partition, offsets[123], offsets[877])
        batches = list(reader.read(middle, columns=["value", "offset"], batch_rows=100))
        assert [len(batch) for batch in batches] == [100] * 7 + [54]
        assert [int(record.value or b"") for batch in batches for record in batch] == list(range(123, 877))
        assert list(reader.read(LogRange.of(partition, offsets[5], offsets[5]))) == []
        end = reader.end_offsets([partition])[partition]
        (last,) = reader.read(LogRange.of(partition, offsets[999], end))
        assert [record.value for record in last] == [b"999"]


def test_what_was_stored_and_what_is_read_name_the_same_place(log: Log) -> None:
    """The broker is part of it where partitions belong to brokers: theirs have the same ids and offsets."""
    topic = log.topic(partitions=3)
    partitions = log.partitions(topic)
    count = 3 * len(partitions)
    with Producer(log.writing) as producer:
        deliveries = [producer.send(topic, b"%d" % n, partition=n % len(partitions)) for n in range(count)]
        stored = [delivery.result(10) for delivery in deliveries]
    sent = {(each.topic, each.node, each.partition, each.offset): b"%d" % n for n, each in enumerate(stored)}
    assert len(sent) == count
    assert {each.node or "" for each in stored} == {each.node for each in partitions}
    with Consumer(log.at(topic), **CONSUMER) as consumer:
        before = consumer.poll(0).to_arrow()
        records = read(consumer, count)
    assert {(each.topic, each.node, each.partition, each.offset): each.value for each in records} == sent
    assert {Partition.of(each) for each in records} == {*partitions}
    with RangeReader(log.address) as reader:
        ends = reader.end_offsets(partitions)
        tables = [run.to_arrow() for each in partitions for run in reader.read(LogRange.of(each, 0, ends[each]))]
    rows = pa.concat_tables(tables).to_pylist()
    assert {(row["topic"], row.get("node"), row["partition"], row["offset"]): row["value"] for row in rows} == sent
    if not before.num_rows:
        assert before.schema == tables[0].schema
