"""What clients count while they talk to a real Kafka: lag as the cluster tells it, and nothing that does not add up."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from penstock import Admin, Consumer, NewTopic, Producer
from tools.peers import kafka

pytestmark = pytest.mark.interop


def test_lag_and_totals_are_what_the_cluster_says(kafka_broker: Callable[..., kafka.Broker]) -> None:
    address, topic = f"kafka://{kafka_broker().bootstrap}", f"m-{uuid.uuid4().hex[:6]}"
    with Admin(address) as admin, Producer(address) as producer:
        admin.create_topics([NewTopic(topic, 3, 1)])
        for number in range(300):
            producer.send(topic, b"%d" % number, partition=number % 3)
        producer.flush()
        sent = producer.metrics()
        assert (sent.record_send_total, sent.record_error_total, sent.buffer_bytes) == (300, 0, 0)
        assert 0 < sent.request.max_ms <= sent.request.total_ms < 60_000
        with Consumer(f"{address}/{topic}", group=topic) as consumer:
            seen = 0
            while seen < 200:
                batch = consumer.poll(20, max_records=50)
                seen += len(batch)
            consumer.commit()
            found = consumer.metrics()
            behind = {place: lag.offsets for place, lag in admin.lag(topic).items()}
        assert sum(behind.values()) == 300 - seen
        assert {place: found.lag.get(place, 0) for place in behind} == behind
        assert (found.records_total, found.commit.count, found.rebalance.count) == (seen, 1, 1)
        assert found.fetched_bytes_total >= sent.batch_bytes_total * seen / 300
