"""Read by mypy, never run: what users write with the clients has the types that the documentation promises."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, assert_type

import prometheus_client
import pyarrow as pa

import penstock
from penstock.client import BatchDelivery, Delivery, Lag, RecordMetadata
from penstock.client.opentelemetry import OpenTelemetryMetrics
from penstock.client.prometheus import PrometheusCollector
from penstock.interfaces import FoundOffset, NewTopic


def produce(table: pa.Table) -> None:
    with penstock.Producer("kafka://127.0.0.1:9092", linger_ms=20, compression="zstd") as producer:
        delivery = producer.send("flights", key=b"AA1", value=b"{}", headers={"source": b"demo"})
        assert_type(delivery, Delivery)
        assert_type(delivery.result(timeout_s=5), RecordMetadata)
        producer.send("flights", b"{}", headers=[("a", b"1"), ("a", None)], partition=3, timestamp_ms=0)
        batch = producer.send_batch("flights", table)
        assert_type(batch, BatchDelivery)
        assert_type(batch.result(), tuple[penstock.LogRange, ...])
        delivery.add_done_callback(lambda done: print(done.exception()))


def transact(table: pa.Table) -> None:
    with penstock.Producer("kafka://127.0.0.1:9092", transactional_id="mover") as producer:
        with producer.transaction():
            assert_type(producer.send_batch("flights", table), BatchDelivery)
        producer.begin_transaction()
        producer.send_offsets_to_transaction({penstock.Partition("flights", 0): 5}, "stats")
        prepared = producer.prepare_transaction()
        assert_type(prepared, penstock.PreparedTransaction)
    with penstock.Admin("kafka://127.0.0.1:9092") as admin:
        admin.complete_transaction(prepared, commit=False)


async def move(consumer: penstock.AsyncConsumer, producer: penstock.AsyncProducer) -> None:
    batch = await consumer.poll()
    assert_type(consumer.group_metadata(), penstock.GroupMetadata)
    async with producer.transaction():
        await producer.send_batch("copy", batch)
        await producer.send_batch(None, batch[:5])
        await producer.send_batch("copy", batch.to_arrow())
        await producer.send_offsets_to_transaction(batch, consumer.group_metadata())


def consume() -> None:
    with penstock.Consumer("tubemq://127.0.0.1:8715/flights", group="stats") as consumer:
        for batch in consumer:
            assert_type(batch, penstock.Messages)
            table = batch.to_arrow()
            print(table)
            for message in batch:
                assert_type(message, penstock.Record)
                print(message.key, message.value, message.offset, message.headers)
            consumer.commit()
            consumer.commit(batch)


class Mine(penstock.Assignor):
    name = "mine"

    def assign(
        self,
        members: Sequence[penstock.Subscriber],
        partitions: Mapping[str, Sequence[penstock.Partition]],
        racks: penstock.Racks,
    ) -> penstock.Shares:
        return {members[0].member_id: partitions["flights"]}


def share_out() -> None:
    with penstock.Consumer("kafka://127.0.0.1:9092/flights", group="g", assignors=[Mine, "range"]) as consumer:
        consumer.enforce_rebalance("something changed that only we know")
        assert_type(consumer.group_metadata(), penstock.GroupMetadata)


def objects(json: Any) -> None:
    with penstock.Consumer(
        "kafka://127.0.0.1:9092/flights", key_deserializer=penstock.from_utf8, value_deserializer=int
    ) as consumer:
        for batch in consumer:
            assert_type(batch, penstock.Messages[str, int])
            for message in batch[:5]:
                assert_type(message.key, str | None)
                assert_type(message.value, int | None)
            consumer.commit(batch)
            consumer.reject(batch)
            assert_type(batch.deserialized(value=len), penstock.Messages[bytes, int])
            assert_type(batch.deserialized(key=penstock.from_utf8), penstock.Messages[str, bytes])
            assert_type(batch.deserialized(), penstock.Messages)
    with penstock.Producer("kafka://127.0.0.1:9092", value_serializer=penstock.to_utf8) as producer:
        producer.send("flights", "text", b"key")
        producer.send("flights", None)
        producer.send("flights", b"bytes")  # type: ignore[arg-type] # no text
    options: dict[str, str] = {"client.id": "me"}
    with penstock.Consumer("kafka://127.0.0.1:9092/flights", **options) as plain:
        assert_type(plain.poll()[0].value, bytes | None)


async def asynchronous_objects(consumer: penstock.AsyncConsumer[str, int], batch: penstock.Messages) -> None:
    assert_type((await consumer.poll())[0].value, int | None)
    assert_type(batch[0], penstock.Record[bytes, bytes])


class Signing(penstock.ProducerInterceptor):
    def sending(self, record: penstock.Outgoing) -> penstock.Outgoing:
        return penstock.Outgoing(record.topic, record.value, headers={"by": b"me"})


class Counting(penstock.ConsumerInterceptor):
    def polled(self, batch: penstock.Messages[Any, Any]) -> None:
        print(len(batch))


def intercepted() -> None:
    penstock.Producer("kafka://127.0.0.1:9092", interceptors=[Signing()], partitioner=lambda topic, key, count: 0)
    penstock.Producer("kafka://127.0.0.1:9092", partitioner="consistent_random")
    penstock.Consumer("kafka://127.0.0.1:9092/flights", interceptors=[Counting()])


def measure(consumer: penstock.Consumer, producer: penstock.AsyncProducer[str, Any]) -> None:
    earlier = consumer.metrics()
    assert_type(consumer.metrics().since(earlier).fetch.avg_ms, float)
    assert_type(producer.metrics().request, penstock.Timing)
    PrometheusCollector(consumer, client="a")
    prometheus_client.REGISTRY.register(PrometheusCollector(producer))
    OpenTelemetryMetrics().observe(consumer, {"messaging.client.id": "a"})


def told_of_a_consumer(snapshot: penstock.ConsumerMetrics) -> None:
    print(snapshot.records_lag_max)


async def told_of_a_producer(snapshot: penstock.ProducerMetrics) -> None:
    print(snapshot.buffer_bytes)


def telling() -> None:
    penstock.Consumer("kafka://127.0.0.1:9092/flights", on_metrics=told_of_a_consumer, metrics_interval_ms=1_000)
    penstock.AsyncProducer("kafka://127.0.0.1:9092", on_metrics=told_of_a_producer)


async def subscribe(consumer: penstock.Consumer, asynchronous: penstock.AsyncConsumer) -> None:
    consumer.subscribe("flights")
    consumer.subscribe(["flights", "^delays-", re.compile("a")], Listener())
    consumer.subscribe(pattern=re.compile("flights-"), listener=Listener())
    await asynchronous.subscribe(pattern="flights-")
    assert_type(consumer.subscription(), frozenset[str])


def consume_java_names() -> None:
    options: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:9092", "auto.offset.reset": "latest"}
    with penstock.Consumer("kafka:///flights", **options) as consumer:
        assert_type(consumer.poll(1.0, max_records=10), penstock.Messages[Any, Any])
        zero = penstock.Partition("flights", 0)
        consumer.seek(zero, 5)
        consumer.commit({zero: 5})
        consumer.commit({zero: penstock.Committed(5, "by hand")})
        consumer.commit_async(callback=told)
        assert_type(consumer.position(zero), int)
        assert_type(consumer.assignment(), frozenset[penstock.Partition])
        assert_type(consumer.committed([zero]), Mapping[penstock.Partition, penstock.Committed | None])
        assert_type(consumer.offsets_for_times({zero: 0}), Mapping[penstock.Partition, FoundOffset | None])


def told(offsets: Mapping[penstock.Partition, penstock.Committed], error: penstock.PenstockError | None) -> None:
    print(offsets, error)


class Listener(penstock.RebalanceListener):
    def assigned(self, partitions: Collection[penstock.Partition]) -> None:
        print(len(partitions))

    async def revoked(self, partitions: Collection[penstock.Partition]) -> None:
        print(len(partitions))


async def consume_async() -> None:
    async with penstock.AsyncConsumer("rocketmq://127.0.0.1:9876/orders?group=audit&tags=Paid||Refunded") as consumer:
        await consumer.subscribe(["orders"], Listener())
        await consumer.subscribe(penstock.SubscriptionPattern("orders-.*"))
        await consumer.subscribe(["orders", penstock.SubscriptionPattern("orders-.*")])
        await consumer.subscribe(pattern=penstock.SubscriptionPattern("orders-.*"))
        async for batch in consumer:
            assert_type(batch, penstock.Messages)
            await consumer.commit(batch)


async def produce_async() -> None:
    async with penstock.AsyncProducer("kafka://127.0.0.1:9092") as producer:
        delivery = await producer.send("flights", b"{}")
        assert_type(await delivery, RecordMetadata)


def read_ranges() -> None:
    with penstock.RangeReader("kafka://127.0.0.1:9092") as reader:
        for batch in reader.read(penstock.LogRange("flights", 0, start=0, end=1_000), columns=["value"]):
            assert_type(batch, penstock.Messages)


def administer() -> None:
    with penstock.Admin("kafka://127.0.0.1:9092") as admin:
        admin.create_topics([NewTopic("flights", partitions=3)])
        assert_type(admin.lag("stats"), Mapping[penstock.Partition, Lag])
        assert_type(admin.topics(), Mapping[str, penstock.TopicInfo])
