"""confluent-kafka (librdkafka), the fastest other client for Python."""

from __future__ import annotations

from bench.clients.confluent_tuned import TUNED
from bench.clients.reading import POLL_AT_MOST, SILENCE_S, Job, to_arrow
from bench.metering import Meter

__all__ = ["consume"]


def consume(job: Job, meter: Meter) -> None:
    """``consume()`` of 10,000 messages at a time, its cheapest call per message."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": job.bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        **TUNED,
    })  # fmt: skip
    consumer.assign([TopicPartition(job.topic, partition, 0) for partition in job.partitions])
    while meter.records < job.count:
        messages = consumer.consume(POLL_AT_MOST, SILENCE_S)
        if not messages:
            raise TimeoutError(f"nothing came for {SILENCE_S} s after {meter.records} records")
        for message in messages[:1]:
            if message.error():
                raise RuntimeError(message.error())
        meter.add(
            to_arrow(
                [message.key() for message in messages],
                [message.value() for message in messages],
                [message.offset() for message in messages],
                [message.timestamp()[1] for message in messages],
            )
        )
    consumer.close()
