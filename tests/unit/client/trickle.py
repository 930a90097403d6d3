"""Records that come one by one to a synchronous consumer, so that it receives them itself."""

from __future__ import annotations

import threading
import time

from penstock.client import Consumer, Producer
from penstock.client.consumer.engine import CallerThreadFetcher
from penstock.model import Partition

__all__ = ["LONG_S", "TOPIC", "Trickle", "own"]

LONG_S = 30.0
"""Longer than anything here takes."""

TOPIC = "t"


def own(consumer: Consumer[bytes, bytes]) -> CallerThreadFetcher:
    engine = consumer._inner._engine
    assert engine is not None
    found = engine._here._own
    assert found is not None
    return found


class Trickle:
    """Sends one record after the other, each when the last one was read; what was read must be what was sent."""

    def __init__(self, producer: Producer[bytes, bytes], consumer: Consumer[bytes, bytes], partitions: int = 1) -> None:
        self.producer, self.consumer = producer, consumer
        consumer.assign(consumer.end_offsets([Partition(TOPIC, each) for each in range(partitions)]))
        self.partitions = partitions
        self.sent = 0

    def send(self, size: int = 1) -> list[bytes]:
        values = [b"%d" % (self.sent + each) for each in range(size)]
        for value in values:
            self.producer.send(TOPIC, value, partition=self.sent % self.partitions)
            self.sent += 1
        return values

    def read(self, values: list[bytes]) -> None:
        until = time.monotonic() + LONG_S
        found: list[bytes | None] = []
        while len(found) < len(values):
            assert time.monotonic() < until
            found += [each.value for each in self.consumer.poll(LONG_S)]
        assert sorted(map(bytes, filter(None, found))) == sorted(values)

    def one(self) -> None:
        """Sent only once the reader waits, or nearly."""
        sender = threading.Timer(0.005, lambda: values.extend(self.send()))
        values: list[bytes] = []
        sender.start()
        got = self.consumer.poll(LONG_S)
        sender.join()
        assert [each.value for each in got] == values

    def until_lent(self) -> None:
        for _ in range(100):
            self.one()
            if own(self.consumer).lent:
                return
        mine = own(self.consumer)
        raise AssertionError(f"nothing was lent: {mine._score=}, {mine._failed=}, {mine._inside=}")
