"""A range's reads: bursts of pulls, the next one under way while the last one is looked at.

Nothing is asked for beyond the end, and no message is there twice or missing: offsets have no holes. Where brokers
choose by tags or SQL, an answer says up to where it has looked.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING

from penstock.errors import OffsetOutOfRange, PenstockError
from penstock.model import LogRange, Partition
from penstock.protocols.rocketmq.client.bursts import Burst, Steps
from penstock.protocols.rocketmq.client.filters import try_filter
from penstock.protocols.rocketmq.client.pulls import Got, RocketFetched, gone

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.shared import Shared

__all__ = ["RangePulls"]

_LANE = "ranges"
_BURSTS_AHEAD = 2


class RangePulls:
    """``penstock.seams.RangeSource``."""

    def __init__(self, shared: Shared, wanted: LogRange) -> None:
        self.channel = shared.channel
        self.limits = shared.options
        self.start = wanted.start
        self.end = wanted.end
        self._shared = shared
        self._partition = shared.topics.routes.resolve(Partition.of(wanted))
        self._steps = Steps(shared.options.rocket.pull_batch_size)
        self._bursts: deque[Burst] = deque()
        self._asked_to = -1
        self.depth = 1 if shared.options.chooses else _BURSTS_AHEAD

    @property
    def ahead(self) -> int:
        """How many bursts are on their way; as many as are worth having where the end is asked for already."""
        done = self._bursts and self._asked_to >= self.end
        return self.depth if done else len(self._bursts)

    async def ask(self, offset: int) -> None:
        """Send the next burst."""
        begin = self._asked_to if self._bursts else offset
        pulls = 1 if self._shared.options.chooses else self._shared.options.rocket.pulls_ahead
        end = min(self.end, begin + pulls * self._steps.each)
        node = await self._shared.topics.leader(self._partition)
        node = self._shared.topics.routes.reader(self._partition) or node
        await try_filter(self._shared, node, self._partition.topic)
        burst = Burst(self._shared.calls, node.endpoint, self._partition, (begin, end), self._steps, _LANE)
        await burst.start()
        self._bursts.append(burst)
        self._asked_to = end

    async def take(self) -> RocketFetched:
        """The first burst's messages."""
        burst = self._bursts.popleft()
        answers = await burst.answers()
        last = answers[-1]
        self._shared.topics.routes.suggest(self._partition, last.suggested)
        if last.next_offset < burst.end or last.moved:
            await self._drain()  # the log ended, or is not what it was: what lies behind is not to be had
        if last.moved and last.offset >= last.end and last.offset > burst.start_offset:
            answers = answers[:-1]
        elif last.moved and last.offset >= last.end:
            answers = [Got(last.offset, last.offset, last.first, last.end)]
        return RocketFetched(self._partition, burst.start_offset, answers, self._shared.options)

    def note(self, error: PenstockError) -> None:
        """Ask a name server again who has the queue, before the next attempt."""
        if error.retriable:
            self._shared.topics.routing.distrust(self._partition)
            self._shared.topics.routes.suggested.pop(self._partition, None)

    def gone(self, text: str, offset: int) -> OffsetOutOfRange:
        """21, as a broker would say it."""
        hint = "The end was not this queue's when the range was planned, or its broker came back without its disk"
        return gone(self._partition, text, offset, hint)

    def close(self) -> None:
        """Hang up on what is on its way, if anything is."""
        for burst in self._bursts:
            burst.abandon()
        self._bursts.clear()
        self._asked_to = -1

    async def _drain(self) -> None:
        """Wait for what was asked for ahead, and forget it: kinder to others on the connection than `close`."""
        while self._bursts:
            with contextlib.suppress(PenstockError):
                await self._bursts.popleft().answers()
        self._asked_to = -1

    async def finish(self) -> None:
        """Nothing is asked for beyond the end, so nothing is left to wait for."""
        self.close()
