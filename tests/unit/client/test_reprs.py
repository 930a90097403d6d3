"""What a client shows of itself: address, group, state, and no secret."""

from __future__ import annotations

import logging

import pytest

import penstock
from penstock.testing import Broker


def test_the_log_tells_who_joined_and_what_it_reads(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    broker.create_topic("orders", partitions=2)
    options = {"client_id": "shop"}
    with (
        caplog.at_level(logging.INFO, "penstock.group"),
        penstock.Consumer(f"{broker.address}/orders", group="stats", **options) as consumer,
    ):
        while not consumer.assignment():
            consumer.poll(1)
    lines = [line.getMessage() for line in caplog.records if line.name == "penstock.group"]
    assert "[client shop, group stats] it reads orders-0, orders-1 from now on" in lines
    assert all(line.startswith("[client shop, group stats] ") for line in lines)


def test_clients_say_where_they_are_and_how_they_stand(broker: Broker) -> None:
    broker.create_topic("orders", partitions=2)
    address = broker.address
    with penstock.Consumer(f"{address}/orders?client_id=secret", group="stats") as consumer:
        assert repr(consumer) == f"<penstock.Consumer {address}/orders, group stats, 0 partitions, out>"
        while not consumer.assignment():
            consumer.poll(1)
        assert repr(consumer) == f"<penstock.Consumer {address}/orders, group stats, 2 partitions, in>"
    assert repr(consumer) == f"<penstock.Consumer {address}/orders, group stats, closed>"
    for make in (penstock.Producer, penstock.Admin, penstock.RangeReader):
        client = make(address)
        client.close()
        assert repr(client) == f"<penstock.{make.__name__} {address}, closed>"
    assert repr(penstock.AsyncConsumer(address)) == f"<penstock.AsyncConsumer {address}, no group, not started>"
    assert repr(penstock.AsyncProducer(address)) == f"<penstock.AsyncProducer {address}, not started>"
    assert repr(penstock.AsyncAdmin(address)) == f"<penstock.AsyncAdmin {address}, open>"
