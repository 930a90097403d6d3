"""Every level of acknowledgement, with and without numbers, by what a foreign client then finds in the log."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from penstock.client import Admin, Producer
from penstock.interfaces import NewTopic
from penstock.testing import Broker
from tests.interop.foreign import CLIENTS, samples
from tools.peers import kafka

pytestmark = pytest.mark.interop

SENT = samples(50)
LEVELS = [("0", False), ("1", False), ("all", False), ("all", True)]
SERVERS = [*kafka.VERSIONS, "snode"]


@pytest.mark.parametrize("version", SERVERS)
@pytest.mark.parametrize(("acks", "idempotent"), LEVELS)
def test_what_was_reported_as_sent_is_stored(
    kafka_broker: Callable[[str], kafka.Broker], broker: Broker, version: str, acks: str, idempotent: bool
) -> None:
    bootstrap = broker.bootstrap if version == "snode" else kafka_broker(version).bootstrap
    name = f"acks-{uuid.uuid4().hex[:8]}"
    with Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    with Producer(f"kafka://{bootstrap}", acks=acks, enable_idempotence=idempotent) as producer:
        sent = [
            producer.send(name, key=each.key, value=each.value, headers=each.headers, timestamp_ms=each.timestamp_ms)
            for each in SENT
        ]
        producer.flush()
        told = [each.result(10).offset for each in sent]

    assert told == ([-1] * len(SENT) if acks == "0" else list(range(len(SENT))))
    assert CLIENTS[0].consume(bootstrap, name, uuid.uuid4().hex, len(SENT)) == SENT
