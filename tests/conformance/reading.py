"""Reading until something is true, for the conformance tests: never longer than a failing test should take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from penstock.client import Consumer
from penstock.model import Partition, Record
from penstock.records import Messages

PATIENCE_S = 20.0


def read(consumer: Consumer, count: int, *, commit: bool = False) -> list[Record]:
    """Exactly ``count`` records. With ``commit`` each batch is committed as it came: a log that waits for that gives no
    more of its partition before, and may have been asked when only a part of what is expected was written."""
    found: list[Record] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} records came"
        batch = consumer.poll(0.5, max_records=count - len(found))
        found.extend(batch)
        if commit and batch:
            consumer.commit(batch)
    return found


def poll_until(
    condition: Callable[[], bool], *, consumers: Sequence[Consumer], take: list[Messages] | None = None
) -> None:
    """Poll all in turn until ``condition``; ``take`` gets what came meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        for consumer in consumers:
            batch = consumer.poll(0.05)
            if take is not None and batch:
                take.append(batch)


def values(records: Sequence[Record]) -> list[bytes | None]:
    """Their values."""
    return [record.value for record in records]


def held(consumer: Consumer, topic: str) -> frozenset[Partition]:
    """What a member reads of a topic; a group may have one of its own beside it, for what was given back."""
    return frozenset(each for each in consumer.assignment() if each.topic == topic)
