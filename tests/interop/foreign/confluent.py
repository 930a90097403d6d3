"""confluent-kafka (librdkafka)."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.interop.foreign.face import Foreign, Sample


def produce(bootstrap: str, topic: str, samples: Sequence[Sample], codec: str) -> None:
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 5}
    )
    for each in samples:
        producer.produce(
            topic,
            value=each.value,
            key=each.key,
            headers=list(each.headers),
            timestamp=each.timestamp_ms,
            on_delivery=delivered,
        )
    left = producer.flush(20)
    assert (left, failed) == (0, [])


def consume(bootstrap: str, topic: str, group: str, count: int) -> list[Sample]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.subscribe([topic])
    found: list[Sample] = []
    try:
        while len(found) < count:
            message = consumer.poll(15)
            assert message is not None, f"only {len(found)} of {count} records came"
            assert message.error() is None, message.error()
            headers = tuple((name, value) for name, value in message.headers() or ())
            found.append(Sample(message.key(), message.value(), headers, message.timestamp()[1]))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


CONFLUENT = Foreign("confluent-kafka", True, produce, consume)
