"""Subscription by pattern on a real Kafka: topics that come and go while a group reads, beside a librdkafka member."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from penstock import Admin, Consumer, NewTopic, Producer
from tests.eventually import comes_to
from tools.peers import kafka

pytestmark = pytest.mark.interop

AGE_MS = 500


def seen(look: Callable[[], bool]) -> None:
    comes_to(look, True, within_s=30)


@pytest.fixture
def address(kafka_broker: Callable[..., kafka.Broker]) -> str:
    return f"kafka://{kafka_broker().bootstrap}"


@pytest.fixture
def prefix() -> str:
    return f"p{uuid.uuid4().hex[:6]}-"


def make(address: str, *names: str) -> None:
    with Admin(address) as admin:
        admin.create_topics([NewTopic(name, 2, 1) for name in names])
    with Producer(address) as producer:
        for name in names:
            producer.send(name, name.encode())


@pytest.mark.parametrize("group", [True, False])
def test_topics_come_and_go(address: str, prefix: str, group: bool) -> None:
    make(address, f"{prefix}one", f"{prefix}two", f"not-{prefix}one")
    found: set[bytes | None] = set()
    with Consumer(
        f"{address}/^{prefix}", group=prefix if group else None, metadata_max_age_ms=AGE_MS, enable_auto_commit=group
    ) as consumer:

        def reads(*names: str) -> bool:
            found.update(message.value for message in consumer.poll(0.2))
            return consumer.subscription() == set(names) == {(value or b"").decode() for value in found}

        seen(lambda: reads(f"{prefix}one", f"{prefix}two"))
        make(address, f"{prefix}three")
        seen(lambda: reads(f"{prefix}one", f"{prefix}two", f"{prefix}three"))
        with Admin(address) as admin:
            admin.delete_topics([f"{prefix}two"])
        found.discard(f"{prefix}two".encode())
        seen(lambda: reads(f"{prefix}one", f"{prefix}three"))
        left = {f"{prefix}one", f"{prefix}three"}
        seen(lambda: consumer.poll(0.2) is not None and {each.topic for each in consumer.assignment()} == left)
        assert not any(name.startswith("__") for name in consumer.subscription())


def test_everything_is_without_internal_topics(address: str, prefix: str) -> None:
    make(address, f"{prefix}one")
    with Consumer(address, group=prefix) as consumer:
        consumer.subscribe(pattern=".*")
        seen(lambda: consumer.poll(0.2) is not None and f"{prefix}one" in consumer.subscription())
        consumer.commit()
        with Admin(address) as admin:
            assert "__consumer_offsets" in admin.topics(internal=True)
        assert "__consumer_offsets" not in consumer.subscription()


@pytest.fixture
def librdkafka(address: str, prefix: str) -> Iterator[confluent_kafka.Consumer]:
    """A member that subscribes by pattern as well."""
    options = {
        "bootstrap.servers": address.removeprefix("kafka://"),
        "group.id": prefix,
        "auto.offset.reset": "earliest",
    }
    other = confluent_kafka.Consumer({**options, "topic.metadata.refresh.interval.ms": AGE_MS})
    other.subscribe([f"^{prefix}"])
    yield other
    other.close()


def test_a_pattern_is_shared_with_librdkafka(address: str, prefix: str, librdkafka: confluent_kafka.Consumer) -> None:
    def shares(topics: set[str]) -> bool:
        consumer.poll(0.1)
        librdkafka.poll(0.1)
        mine = {(each.topic, each.id) for each in consumer.assignment()}
        theirs = {(each.topic, each.partition) for each in librdkafka.assignment()}
        return not mine & theirs and mine | theirs == {(topic, number) for topic in topics for number in (0, 1)}

    make(address, f"{prefix}one")
    with Consumer(f"{address}/^{prefix}", group=prefix, metadata_max_age_ms=AGE_MS) as consumer:
        seen(lambda: shares({f"{prefix}one"}))
        make(address, f"{prefix}two")
        seen(lambda: shares({f"{prefix}one", f"{prefix}two"}))
