"""What was produced is what is consumed: values, keys, headers, timestamps, nulls, order, with every codec."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.client import Consumer, Producer, RangeReader
from penstock.model import Codec, LogRange, Partition
from tests.conformance.conftest import CONSUMER, Log
from tests.conformance.reading import read, values


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
def test_every_codec_brings_back_the_same_bytes(log: Log, codec: str) -> None:
    topic = log.topic()
    sent = [b"%d" % number * (number % 50) for number in range(500)]
    with Producer(log.address, compression=codec) as producer:
        deliveries = [producer.send(topic, value) for value in sent]
        offsets = [delivery.result(10).offset for delivery in deliveries]
    assert offsets == list(range(500))
    with Consumer(log.at(topic), **CONSUMER) as consumer:
        assert values(read(consumer, 500)) == sent


def test_nulls_empties_headers_and_times_are_kept_apart(log: Log) -> None:
    topic = log.topic()
    repeated = [("a", b"1"), ("a", b"2"), ("b", None), ("", b"")]
    with Producer(log.address) as producer:
        producer.send(topic, None, b"key", timestamp_ms=1_700_000_000_001)
        producer.send(topic, b"", None, timestamp_ms=1_700_000_000_002)
        producer.send(topic, b"v", b"", headers=repeated, timestamp_ms=1_700_000_000_003)
        producer.send(topic, b"w", headers={"source": "départ".encode()}, timestamp_ms=1_700_000_000_004)
    with Consumer(log.at(topic), **CONSUMER) as consumer:
        found = read(consumer, 4)
    assert [(record.key, record.value) for record in found] == [(b"key", None), (None, b""), (b"", b"v"), (None, b"w")]
    assert [record.headers for record in found] == [(), (), tuple(repeated), (("source", "départ".encode()),)]
    assert [record.timestamp_ms for record in found] == [1_700_000_000_000 + n for n in (1, 2, 3, 4)]
    assert [(record.topic, record.partition, record.offset) for record in found] == [(topic, 0, n) for n in range(4)]


def test_each_partition_keeps_the_order_of_sending(log: Log) -> None:
    topic = log.topic(4)
    with Producer(log.address, linger_ms=0, batch_size_bytes=300) as producer:
        for number in range(2_000):
            producer.send(topic, b"%d" % number, partition=number % 4)
    with Consumer(log.at(topic), **CONSUMER) as consumer:
        found = read(consumer, 2_000)
    for partition in range(4):
        mine = [int(record.value or b"") for record in found if record.partition == partition]
        assert mine == list(range(partition, 2_000, 4))


def test_equal_keys_go_to_one_partition_whichever_way_they_are_sent(log: Log) -> None:
    topic = log.topic(5)
    keys = [b"key-%d" % (number % 40) for number in range(400)]
    with Producer(log.address) as producer:
        for key in keys:
            producer.send(topic, b"single", key)
        producer.send_batch(topic, pa.table({"key": keys, "value": [b"table"] * 400}))
    with Consumer(log.at(topic), **CONSUMER) as consumer:
        found = read(consumer, 800)
    homes: dict[bytes | None, set[int]] = {}
    for record in found:
        homes.setdefault(record.key, set()).add(record.partition)
    assert len(homes) == 40
    assert {len(partitions) for partitions in homes.values()} == {1}
    assert len({record.partition for record in found}) > 1


def test_a_table_comes_back_as_columns_at_the_offsets_that_were_told(log: Log) -> None:
    topic = log.topic(3)
    rows = 5_000
    table = pa.table(
        {
            "key": pa.array([None if n % 7 == 0 else b"k%d" % n for n in range(rows)], pa.binary()),
            "value": pa.array([None if n % 11 == 0 else b"v%d" % n for n in range(rows)], pa.binary()),
            "timestamp": pa.array([1_700_000_000_000_000 + 1_000 * n for n in range(rows)], pa.timestamp("us", "UTC")),
            "partition": pa.array([n % 3 for n in range(rows)], pa.int32()),
        }
    )
    with Producer(log.address, batch_size_bytes=10_000, compression="lz4") as producer:
        spans = producer.send_batch(topic, table).result(20)
    assert spans == tuple(LogRange(topic, n, 0, (rows + 2 - n) // 3) for n in range(3))
    with RangeReader(log.address) as reader:
        for span in spans:
            found = pa.concat_tables(batch.to_arrow() for batch in reader.read(span))
            mine = table.filter(pa.array([n % 3 == span.partition for n in range(rows)]))
            for name in ("key", "value", "timestamp"):
                assert found[name].to_pylist() == mine[name].to_pylist()
            assert found["offset"].to_pylist() == list(range(span.end))


def test_a_range_is_exactly_what_was_asked_for(log: Log) -> None:
    topic = log.topic()
    with Producer(log.address, batch_size_bytes=400) as producer:
        producer.send_batch(topic, pa.table({"value": [b"%d" % n for n in range(1_000)]})).result(20)
    with RangeReader(log.address) as reader:
        batches = list(reader.read(LogRange(topic, 0, 123, 877), columns=["value", "offset"], batch_rows=100))
        assert [len(batch) for batch in batches] == [100] * 7 + [54]
        assert [int(record.value or b"") for batch in batches for record in batch] == list(range(123, 877))
        assert list(reader.read(LogRange(topic, 0, 5, 5))) == []
        assert reader.end_offsets([Partition(topic, 0)]) == {Partition(topic, 0): 1_000}
