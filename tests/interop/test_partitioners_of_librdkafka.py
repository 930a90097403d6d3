"""Producers of librdkafka and ours, told the same partitioner, send equal keys to equal partitions of a real topic."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import confluent_kafka
import pyarrow as pa
import pytest

from penstock import Admin, NewTopic, Producer
from tools.peers import kafka

pytestmark = pytest.mark.interop

KEYS = [b"", b"a", b"\x00", *(b"key %d" % number for number in range(60))]


@pytest.mark.parametrize("name", ["consistent", "consistent_random", "murmur2_random", "fnv1a"])
def test_equal_keys_meet(kafka_broker: Callable[..., kafka.Broker], name: str) -> None:
    servers = kafka_broker().bootstrap
    topic = f"{name}-{uuid.uuid4().hex[:6]}"
    with Admin(f"kafka://{servers}") as admin:
        admin.create_topics([NewTopic(topic, 7, 1)])
    keys = KEYS[1:] if name == "consistent_random" else KEYS  # an empty one goes anywhere there
    theirs: dict[bytes, int] = {}
    other = confluent_kafka.Producer({"bootstrap.servers": servers, "partitioner": name})
    for key in keys:
        other.produce(
            topic, b"v", key, on_delivery=lambda _, sent: theirs.update({sent.key() or b"": sent.partition()})
        )
    assert other.flush(30) == 0
    with Producer(f"kafka://{servers}", partitioner=name) as producer:
        sent = {key: producer.send(topic, b"v", key) for key in keys}
        assert {key: delivery.result(30).partition for key, delivery in sent.items()} == theirs
        for key in keys[:5]:
            rows = pa.table({"key": pa.array([key], pa.binary()), "value": [b"v"]})
            assert [span.partition for span in producer.send_batch(topic, rows).result(30)] == [theirs[key]]
