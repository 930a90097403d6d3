"""What a client shows of itself: address, group, state, and no secret."""

from __future__ import annotations

import penstock
from penstock.testing import Broker


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
