"""Reading until something is true, for the conformance tests: never longer than a failing test should take."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.client import Consumer
from penstock.model import Record

PATIENCE_S = 20.0


def read(consumer: Consumer, count: int) -> list[Record]:
    """Exactly ``count`` records."""
    found: list[Record] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} records came"
        found.extend(consumer.poll(0.5, max_records=count - len(found)))
    return found


def poll_until(condition: Callable[[], bool], *consumers: Consumer) -> list[Record]:
    """Poll all in turn until ``condition``; returns what came meanwhile."""
    found: list[Record] = []
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        for consumer in consumers:
            found.extend(consumer.poll(0.05))
    return found


def values(records: list[Record]) -> list[bytes | None]:
    """Their values."""
    return [record.value for record in records]
