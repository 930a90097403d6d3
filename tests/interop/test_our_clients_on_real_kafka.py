"""Our producer, consumer, reader and admin against real Kafka 3.9 and 4.x, checked by another client."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.client import Admin, Consumer, Producer, RangeReader
from penstock.interfaces import NewTopic
from penstock.model import LogRange, Offset, OffsetSpec, Partition
from tests.interop.foreign import CLIENTS, samples
from tools.peers import kafka

pytestmark = pytest.mark.interop

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SENT = samples(200)


@pytest.fixture
def topic(any_kafka: kafka.Broker) -> Callable[[int], str]:
    def make(partitions: int) -> str:
        name = f"t-{uuid.uuid4().hex[:8]}"
        with Admin(f"kafka://{any_kafka.bootstrap}") as admin:
            admin.create_topics([NewTopic(name, partitions, 1)])
        return name

    return make


@pytest.mark.parametrize("codec", CODECS)
def test_what_our_producer_sent_librdkafka_reads(
    any_kafka: kafka.Broker, topic: Callable[[int], str], codec: str
) -> None:
    name = topic(1)
    with Producer(f"kafka://{any_kafka.bootstrap}", compression=codec) as producer:
        sent = [
            producer.send(name, key=each.key, value=each.value, headers=each.headers, timestamp_ms=each.timestamp_ms)
            for each in SENT
        ]
        producer.flush()
        offsets = [each.result(10).offset for each in sent]

    assert offsets == list(range(len(SENT)))
    assert CLIENTS[0].consume(any_kafka.bootstrap, name, uuid.uuid4().hex, len(SENT)) == SENT


@pytest.mark.parametrize("codec", CODECS)
def test_what_librdkafka_sent_our_group_reads_once(
    any_kafka: kafka.Broker, topic: Callable[[int], str], codec: str
) -> None:
    name = topic(3)
    CLIENTS[0].produce(any_kafka.bootstrap, name, SENT, codec)
    found = []
    with Consumer(f"kafka://{any_kafka.bootstrap}/{name}", group=f"g-{name}", auto_offset_reset="earliest") as consumer:
        while len(found) < len(SENT):
            batch = consumer.poll(timeout_s=20)
            assert len(batch), f"only {len(found)} records came"
            found.extend(batch)
            consumer.commit(batch)

    assert len({(each.partition, each.offset) for each in found}) == len(found)
    assert sorted((str(e.key), str(e.value), e.headers, e.timestamp_ms) for e in found) == sorted(
        (str(e.key), str(e.value), e.headers, e.timestamp_ms) for e in SENT
    )
    with Admin(f"kafka://{any_kafka.bootstrap}") as admin:
        assert sum(lag.offsets for lag in admin.lag(f"g-{name}").values()) == 0


def test_a_table_sent_as_columns_comes_back_as_columns(any_kafka: kafka.Broker, topic: Callable[[int], str]) -> None:
    name = topic(4)
    keys = [b"key %d" % (n % 97) for n in range(20_000)]
    values = [b"value %d" % n for n in range(20_000)]
    table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
    with Producer(f"kafka://{any_kafka.bootstrap}", compression="lz4") as producer:
        producer.send_batch(name, table).result(30)

    found: list[tuple[bytes | None, bytes | None]] = []
    with RangeReader(f"kafka://{any_kafka.bootstrap}") as reader:
        partitions = [Partition(name, n) for n in range(4)]
        ends = reader.offsets(dict.fromkeys(partitions, OffsetSpec(name=Offset.LATEST)))
        for partition in partitions:
            for batch in reader.read(LogRange(name, partition.id, 0, ends[partition].offset)):
                found.extend((each.key, each.value) for each in batch)

    assert sorted(found) == sorted(zip(keys, values, strict=True))


@pytest.mark.parametrize("transactional_id", [None, "creating"])
def test_the_first_send_creates_its_topic(any_kafka: kafka.Broker, transactional_id: str | None) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Producer(f"kafka://{any_kafka.bootstrap}", transactional_id=transactional_id) as producer:
        if transactional_id is None:
            producer.send(name, b"a").result(20)
        else:
            with producer.transaction():
                producer.send(name, b"a")

    assert [each.value for each in CLIENTS[0].consume(any_kafka.bootstrap, name, uuid.uuid4().hex, 1)] == [b"a"]


def test_our_member_shares_a_topic_with_librdkafka(any_kafka: kafka.Broker, topic: Callable[[int], str]) -> None:
    from confluent_kafka import Consumer as Foreign

    name, group = topic(4), uuid.uuid4().hex
    other = Foreign(
        {
            "bootstrap.servers": any_kafka.bootstrap,
            "group.id": group,
            "partition.assignment.strategy": "range",
            "auto.offset.reset": "earliest",
        }
    )
    other.subscribe([name])
    try:
        with Consumer(f"kafka://{any_kafka.bootstrap}/{name}", group=group) as ours:
            for _ in range(200):
                other.poll(0.1)
                ours.poll(timeout_s=0.1)
                if len(other.assignment()) == 2 and len(ours.assignment()) == 2:
                    break
            mine = {partition.id for partition in ours.assignment()}
            theirs = {each.partition for each in other.assignment()}
        assert (len(mine), len(theirs), mine | theirs) == (2, 2, {0, 1, 2, 3})
        for _ in range(200):
            other.poll(0.1)
            if len(other.assignment()) == 4:
                break
        assert len(other.assignment()) == 4
    finally:
        other.close()
