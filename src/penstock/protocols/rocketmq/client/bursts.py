"""Bursts: the messages ``[start, end)`` of a queue by several pulls at once, put together in order.

A broker answers a pull with 32 messages at most, so that a round trip for each would be all there is to a reader's
rate. Offsets have no holes, so that it is known where each pull begins before the ones before it are answered. An
answer that is shorter than was asked for (large messages) leaves a gap, which is asked for before what lies behind it
is used. Where brokers choose messages by tags, nobody knows where the next answer begins: then there is one pull at a
time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from penstock.model import Endpoint, Partition
from penstock.protocols.rocketmq.client.calls import Calls
from penstock.protocols.rocketmq.client.pulls import Got, Pull, pull, take
from penstock.protocols.rocketmq.methods import PULL_MESSAGE

__all__ = ["Burst", "Steps"]


class Steps:
    """How many messages an answer brings, by the answers so far."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.each = most

    def learn(self, asked: int, came: int, *, at_end: bool) -> None:
        """Of so many, so many came; not because the queue ended."""
        if came < asked and not at_end:
            self.each = max(1, came)
        elif came >= self.each:
            self.each = min(self._most, self.each * 2)


class Burst:
    """One: made, sent with ``start``, taken with ``answers``."""

    def __init__(
        self, calls: Calls, node: Endpoint, partition: Partition, bounds: tuple[int, int], steps: Steps, lane: str
    ) -> None:
        self._calls = calls
        self._node = node
        self._partition = partition
        self.start_offset, self.end = bounds
        self._steps = steps
        self._lane = lane
        self._asked: deque[tuple[int, int, Pull]] = deque()

    async def start(self) -> None:
        """Send all pulls in one write."""
        each = self._steps.each
        places = [(offset, min(each, self.end - offset)) for offset in range(self.start_offset, self.end, each)]
        self._asked = deque(await self._start(places))

    async def answers(self) -> list[Got]:
        """What came, in order and without gaps, up to the end or where the queue ended. All answers are waited for."""
        found: list[Got] = []
        place = self.start_offset
        ended = False
        while self._asked:
            offset, count, started = self._asked.popleft()
            got = await take(started, self._partition, offset)
            if ended or offset < place:
                continue  # the log ended before it
            found.append(got)
            place = got.next_offset
            ended = got.moved or place == offset
            at_end = place >= got.end
            if not self._calls.options.chooses:
                self._steps.learn(count, place - offset, at_end=at_end)
            following = self._asked[0][0] if self._asked else self.end
            if place < following and not ended:
                self._asked.extendleft(reversed(await self._start([(place, following - place)])))
        return found

    def abandon(self) -> None:
        """Hang up, if anything is on its way."""
        if self._asked:
            self._asked[0][2].abandon()
            self._asked.clear()

    async def _start(self, places: Sequence[tuple[int, int]]) -> list[tuple[int, int, Pull]]:
        requests = [pull(self._calls, self._partition, offset, count, held=False) for offset, count in places]
        started = await self._calls.start(self._node, PULL_MESSAGE, requests, lane=self._lane)
        return [(offset, count, each) for (offset, count), each in zip(places, started, strict=True)]
