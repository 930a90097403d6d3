"""kafka-python: pure Python."""

from __future__ import annotations

from bench.clients.reading import POLL_AT_MOST, SILENCE_S, Job, to_arrow
from bench.metering import Meter

__all__ = ["consume"]


def consume(job: Job, meter: Meter) -> None:
    """``poll()`` of 10,000 messages at a time; CRCs are checked by default."""
    from kafka import KafkaConsumer, TopicPartition  # type: ignore[import-untyped]

    consumer = KafkaConsumer(
        bootstrap_servers=job.bootstrap,
        group_id=None,
        enable_auto_commit=False,
        max_poll_records=POLL_AT_MOST,
        max_partition_fetch_bytes=4 << 20,
    )
    consumer.assign([TopicPartition(job.topic, partition) for partition in job.partitions])
    consumer.seek_to_beginning()
    while meter.records < job.count:
        found = consumer.poll(timeout_ms=int(SILENCE_S * 1000))
        if not found:
            raise TimeoutError(f"nothing came for {SILENCE_S} s after {meter.records} records")
        for messages in found.values():
            meter.add(
                to_arrow(
                    [message.key for message in messages],
                    [message.value for message in messages],
                    [message.offset for message in messages],
                    [message.timestamp for message in messages],
                )
            )
    consumer.close()
