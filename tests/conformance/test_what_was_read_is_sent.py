"""What a consumer gives, a producer takes, of every log: nothing of a record is lost on the way from topic to topic."""

from __future__ import annotations

import time

from penstock.client import Consumer, Producer
from penstock.model import Record
from penstock.records import Messages
from tests.conformance.conftest import CONSUMER, Log
from tests.conformance.reading import PATIENCE_S, read

FORMS = (lambda batch: batch, lambda batch: batch.to_arrow(), lambda batch: batch.to_arrow().to_reader())


def polled(consumer: Consumer, count: int) -> list[Messages]:
    found: list[Messages] = []
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(len, found)) < count:
        assert time.monotonic() < deadline, f"only {sum(map(len, found))} of {count} records came"
        found.append(consumer.poll(0.5))
    return found


def content(records: list[Record]) -> list[tuple[object, ...]]:
    return sorted((each.value, each.key or b"", each.headers, each.timestamp_ms) for each in records)


def test_batches_go_from_topic_to_topic_as_they_are(log: Log) -> None:
    source, target = log.topic(3), log.topic(2)
    with Producer(log.writing) as producer:
        for number in range(90):
            producer.send(
                source, b"%d" % number, b"k%d" % (number % 7) if number % 5 else None, partition=number % 3,
                headers=[("a", b"1"), ("b", None)] if number % 2 else None, timestamp_ms=1_700_000_000_000 + number,
            )  # fmt: skip
    with Consumer(log.at(source), **CONSUMER) as consumer:
        batches = polled(consumer, 90)
    with Producer(log.writing) as producer:
        for form in FORMS:
            for batch in batches:
                producer.send_batch(target, form(batch))
    with Consumer(log.at(target), **CONSUMER) as consumer:
        copies = content(read(consumer, 3 * 90))
    originals = content([record for batch in batches for record in batch])
    assert copies[::3] == copies[1::3] == copies[2::3] == originals
