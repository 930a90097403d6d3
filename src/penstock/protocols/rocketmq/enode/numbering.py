"""Which queue of which broker has which number as a partition: kept while brokers come and go. Pure.

What must not live here: asking who has which queues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

__all__ = ["Numbering", "Queue"]

_MOST: Final = 100_000
"""Queues of one topic that are numbered: who says more lies."""


class Queue(NamedTuple):
    """One queue: its broker's name, and its number there."""

    broker: str
    number: int


class Numbering:
    """Of one topic. Queues are numbered as they are heard of: by their own numbers, then by broker.

    A broker that nobody tells of any more keeps its places, so that no other queue gets its number; what a topic gets
    more of comes behind.

    >>> numbers = Numbering()
    >>> numbers.told({"b": 1, "a": 2})
    >>> [f"{queue.broker}{queue.number}" for queue in numbers.queues]
    ['a0', 'b0', 'a1']
    >>> numbers.told({"b": 2})
    >>> [f"{queue.broker}{queue.number}" for queue in numbers.queues]
    ['a0', 'b0', 'a1', 'b1']
    """

    def __init__(self, queues: Sequence[Queue] = ()) -> None:
        self.queues: list[Queue] = list(queues)
        self._numbers = _numbers(self.queues)

    def told(self, counts: Mapping[str, int]) -> None:
        """How many queues each broker has, of those that are known of now. Fewer than before: they were taken away."""
        if any(queue.number >= counts.get(queue.broker, queue.number + 1) for queue in self.queues):
            self.queues = [each for each in self.queues if each.number < counts.get(each.broker, each.number + 1)]
            self._numbers = _numbers(self.queues)
        most = min(max(counts.values(), default=0), _MOST)
        for number in range(most):
            for broker in sorted(counts):
                queue = Queue(broker, number)
                if number < counts[broker] and queue not in self._numbers and len(self.queues) < _MOST:
                    self._numbers[queue] = len(self.queues)
                    self.queues.append(queue)

    def number(self, queue: Queue) -> int | None:
        """The partition that a queue is."""
        return self._numbers.get(queue)


def _numbers(queues: Sequence[Queue]) -> dict[Queue, int]:
    return {queue: number for number, queue in enumerate(queues)}
