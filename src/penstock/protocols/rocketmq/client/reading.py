"""Reading without an end: one poll of some queues of one broker.

A broker answers each queue's pull by itself and holds it while there is nothing, so that a poll keeps a pull of every
queue at the broker and waits for whichever is answered first. Those that are not stay there for the next poll. Where a
queue turns out to have more, bursts of pulls follow at once, up to as much as a poll may bring.

A pull that is not answered may be one that is held, or one of a broker that is slow. So that nobody takes the one for
the other and believes a queue to be read to its end, the broker is asked for that end, once a place.
Source: Apache RocketMQ 4.9 and 5.4, ``PullRequestHoldService``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock._dataclasses import dataclass
from penstock.errors import ConnectionLost, PenstockError, ProtocolViolation, RequestTimeout
from penstock.model import Node, Partition
from penstock.protocols.rocketmq.client.bursts import Burst, Steps
from penstock.protocols.rocketmq.client.filters import try_filter
from penstock.protocols.rocketmq.client.offsets import bound
from penstock.protocols.rocketmq.client.pulls import Pull, RocketFetched, pull, take
from penstock.protocols.rocketmq.methods import GET_MAX_OFFSET, PULL_MESSAGE
from penstock.seams.client import ReadFrom, ReadLimits

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.shared import Shared

__all__ = ["Polling"]

_LANE: Final = "pull"
_ENOUGH_BYTES: Final = 1 << 20
_FORGOTTEN_S: Final = 120.0
_BROKEN = (ConnectionLost, RequestTimeout, ProtocolViolation)


@dataclass(slots=True)
class _Queue:
    """One that is polled: where it goes on, the pull that waits at its broker, when it was polled last, and where it
    ended when its broker last said so (-1: it has not)."""

    offset: int
    steps: Steps
    waiting: Pull | None = None
    polled: float = 0.0
    end: int = -1


class Polling:
    """The queues behind ``LogClient.read``, where their last polls left them."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._queues: dict[tuple[Partition, str], _Queue] = {}

    async def read(
        self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str
    ) -> Sequence[RocketFetched]:
        """One poll. Per-queue trouble is in ``RocketFetched.error``; a broken connection is raised."""
        now = self._shared.channel.monotonic()
        queues = {read: self._queue(read, lane, now) for read in reads}
        self._forget(now)
        try:
            await try_filter(self._shared, node, reads[0].partition.topic)
            await self._ask(node, queues, lane)
            waiting = [each.waiting.pending for each in queues.values() if each.waiting is not None]
            await self._shared.channel.any_of(waiting, within_s=limits.max_wait_ms / 1_000)
            work = [self._collect(node, read, queue, lane) for read, queue in queues.items()]
            outcomes = await self._shared.channel.gather(work)
        except PenstockError:
            self._drop(queues, lane)
            raise
        found = []
        for read, outcome in zip(reads, outcomes, strict=True):
            if isinstance(outcome, RocketFetched):
                found.append(outcome)
                continue
            self._drop([read], lane)
            if not isinstance(outcome, PenstockError) or isinstance(outcome, _BROKEN):
                self._drop(reads, lane)
                raise outcome
            found.append(RocketFetched(read.partition, read.offset, (), self._shared.options, outcome))
        return found

    async def _ask(self, node: Node, queues: dict[ReadFrom, _Queue], lane: str) -> None:
        """See that a pull of each queue waits at the broker."""
        idle = [(read.partition, queue) for read, queue in queues.items() if queue.waiting is None]
        options = self._shared.options
        count = options.rocket.pull_batch_size
        requests = [pull(self._shared.calls, partition, queue.offset, count, held=True) for partition, queue in idle]
        if not requests:
            return
        started = await self._shared.calls.start(
            node.endpoint, PULL_MESSAGE, requests,
            timeout_s=options.held_timeout_s, held_s=options.held_s, lane=lane or _LANE,
        )  # fmt: skip
        for (_, queue), each in zip(idle, started, strict=True):
            queue.waiting = each

    async def _collect(self, node: Node, read: ReadFrom, queue: _Queue, lane: str) -> RocketFetched:
        """What is there of a queue: nothing while its pull waits; else that, and what follows it."""
        partition, options = read.partition, self._shared.options
        waiting = queue.waiting
        if waiting is None or not waiting.pending.answered:
            if queue.end != queue.offset:
                queue.end = await bound(self._shared, node.endpoint, partition, GET_MAX_OFFSET)
            return RocketFetched(partition, read.offset, (), options, end=queue.end)
        queue.waiting = None
        got = await take(waiting, partition, read.offset)
        answers = [got]
        enough = min(read.max_bytes, _ENOUGH_BYTES)
        while not got.moved and got.next_offset < got.end and sum(len(each.body) for each in answers) < enough:
            pulls = 1 if options.chooses else options.rocket.pulls_ahead
            end = min(got.end, got.next_offset + pulls * queue.steps.each)
            burst = Burst(
                self._shared.calls, node.endpoint, partition, (got.next_offset, end), queue.steps, lane or _LANE
            )
            await burst.start()
            more = await burst.answers()
            before, got = got.next_offset, more[-1]
            if got.moved:
                more = more[:-1]  # the next poll says so
            answers += more
            if not more or got.next_offset == before:
                break
        self._shared.topics.routes.suggest(partition, got.suggested)
        if got.put_to >= 0:
            self._shared.heard.resets.note(options.group or "", partition, got.put_to)
        fetched = RocketFetched(partition, read.offset, answers, options)
        queue.offset, queue.end = fetched.next_offset, fetched.high_watermark
        return fetched

    def _queue(self, read: ReadFrom, lane: str, now: float) -> _Queue:
        queue = self._queues.get((read.partition, lane))
        if queue is None or queue.offset != read.offset:
            # What waits at the broker for another place is answered some day, and then looked at by nobody.
            queue = self._queues[read.partition, lane] = _Queue(
                read.offset, Steps(self._shared.options.rocket.pull_batch_size)
            )
        queue.polled = now
        return queue

    def _forget(self, now: float) -> None:
        """Queues that were others' long ago."""
        for key in [key for key, queue in self._queues.items() if now - queue.polled > _FORGOTTEN_S]:
            del self._queues[key]

    def _drop(self, reads: Sequence[ReadFrom] | dict[ReadFrom, _Queue], lane: str) -> None:
        for read in reads:
            self._queues.pop((read.partition, lane), None)
