"""kafka-python."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from tests.interop.foreign.face import Foreign, Sample

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # theirs: it reads its schemas by a deprecated call
    from kafka import KafkaConsumer, KafkaProducer


def produce(bootstrap: str, topic: str, samples: Sequence[Sample], codec: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, enable_idempotence=True
    )
    try:
        sent = [
            producer.send(
                topic, each.value, each.key, headers=list(each.headers) or None, timestamp_ms=each.timestamp_ms
            )
            for each in samples
        ]
        for each in sent:
            each.get(timeout=20)
    finally:
        producer.close()


def consume(bootstrap: str, topic: str, group: str, count: int) -> list[Sample]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=15_000,
    )
    found: list[Sample] = []
    try:
        for message in consumer:
            found.append(Sample(message.key, message.value, tuple(message.headers), message.timestamp))
            if len(found) == count:
                break
        assert len(found) == count, f"only {len(found)} of {count} records came"
        consumer.commit()
    finally:
        consumer.close()
    return found


KAFKA_PYTHON = Foreign("kafka-python", False, produce, consume)
