"""Tests of a small program against a real log: in one process, in milliseconds, with a log that misbehaves on request.

    pytest test_reminders.py

``broker`` comes with penstock: a node of each test's own.
"""

from __future__ import annotations

import penstock
from penstock.testing import Broker


def remind(address: str, limit_cents: int) -> int:
    """The program under test: a reminder for each invoice above the limit. Returns how many it wrote."""
    written = 0
    with (
        penstock.Consumer(f"{address}/invoices", group="reminders") as consumer,
        penstock.Producer(address) as producer,
    ):
        while consumer.empty_reason() is not penstock.EmptyReason.NOTHING_NEW:
            batch = consumer.poll(timeout_s=0.2)
            for message in batch:
                if int(message.value or 0) > limit_cents:
                    producer.send("reminders", message.value, key=message.key)
                    written += 1
            producer.flush()
            consumer.commit(batch)
    return written


def invoices(broker: Broker, *cents: int) -> None:
    with penstock.Producer(broker.address) as producer:
        for number, each in enumerate(cents):
            producer.send("invoices", b"%d" % each, key=b"invoice-%d" % number)


def test_only_large_invoices_are_reminded_of(broker: Broker) -> None:
    invoices(broker, 100, 90_000, 250)
    assert remind(broker.address, 1_000) == 1
    with penstock.Consumer(f"{broker.address}/reminders") as consumer:
        (reminder,) = consumer.poll(timeout_s=10)
    assert (reminder.key, reminder.value) == (b"invoice-1", b"90000")


def test_nobody_is_reminded_twice(broker: Broker) -> None:
    invoices(broker, 90_000)
    assert remind(broker.address, 1_000) == 1
    assert remind(broker.address, 1_000) == 0


def test_a_log_that_stumbles_costs_no_reminder(broker: Broker) -> None:
    invoices(broker, *range(1_001, 1_101))
    broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    broker.faults.drop("Fetch", moment="after")
    assert remind(broker.address, 1_000) == 100
