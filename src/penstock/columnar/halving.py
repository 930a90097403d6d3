"""Halving: a run of messages around those that cannot be decoded, where each has a frame of its own.

For protocols whose answers are lists of messages. A run that cannot be decoded is halved until what is damaged stands
alone: a few decodes for each damaged message, and large runs for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from penstock.errors import CorruptBatch, ProtocolViolation

__all__ = ["halved"]

Run = TypeVar("Run")


def halved(
    count: int, decode: Callable[[int, int], Run]
) -> Iterator[tuple[int, int, Run | CorruptBatch | ProtocolViolation]]:
    """Yield (first, last, what ``decode`` made of these messages), in order, for all of ``count``.

    ``decode(first, last)`` raises CorruptBatch or ProtocolViolation; of one message, that error is what is yielded.
    """
    waiting = [(0, count)] if count else []
    while waiting:
        first, last = waiting.pop()
        try:
            yield first, last, decode(first, last)
        except (CorruptBatch, ProtocolViolation) as error:
            if last - first == 1:
                yield first, last, error
                continue
            middle = (first + last) // 2
            waiting += [(middle, last), (first, middle)]
