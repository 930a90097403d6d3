"""Delivering: queued rows become batches, batches requests, answers fates.

One request to a node carries at most one batch a partition; at most ``max_in_flight`` requests a node are unanswered.
A batch that failed is tried again until its delivery time is over: first all other unanswered batches of its partition
are waited for, then the failed ones go again one at a time, oldest first. So order is kept whatever fails.
What must not live here: staging, memory, who waits for what.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

from penstock._dataclasses import dataclass
from penstock.client._alarm import Alarm
from penstock.client._inside import Background, failed_inside
from penstock.client._lateness import too_late
from penstock.client._meters import ProducerMeter
from penstock.client._queues import Flight, PartitionQueue, Segment, fail, tell
from penstock.client._readiness import MOST_SECONDS, Readiness
from penstock.client._recovery import Recovery
from penstock.client._surroundings import Backoff
from penstock.client.delivery import Run
from penstock.config import Acks, ProducerConfig
from penstock.config.logs import client_log
from penstock.errors import PenstockError
from penstock.model import Node, Partition
from penstock.seams import Avoids, LogClient, Packed, Sender, SendsAtOnce, Sent
from penstock.seams.batch_limits import BatchLimits
from penstock.seams.client import TellsOfTrouble

__all__ = ["Delivering", "Hooks"]


@dataclass(frozen=True, slots=True)
class Hooks:
    """What delivering asks of the engine: leaders are unknown; these runs are settled; this is a bug; which partition
    of the same topic is better than one that the sender avoids (None: no other is)."""

    refresh: Callable[[], None]
    finished: Callable[[Sequence[Run]], None]
    failed: Callable[[BaseException], None]
    elsewhere: Callable[[Partition], Partition | None]


Chosen: TypeAlias = "list[tuple[PartitionQueue, Flight]]"
"""The batches of one request, and whose they are."""


class Delivering:
    """One producer's; on the loop."""

    def __init__(
        self,
        client: LogClient,
        sender: Sender,
        config: ProducerConfig,
        backoff: Backoff,
        hooks: Hooks,
        meter: ProducerMeter,
    ) -> None:
        self._meter = meter
        self._client = client
        self._sender = sender
        self._config = config
        self._backoff = backoff
        self._hooks = hooks
        self._log = client_log("producer", config)
        self._loop = asyncio.get_running_loop()
        self._queues: dict[Partition, PartitionQueue] = {}
        self._busy: dict[Partition, PartitionQueue] = {}  # those that are not idle, and perhaps some that are
        self._requests: Counter[str] = Counter()
        self._background = Background("the producer", hooks.failed)
        self._begin = self._background.begin
        self._avoids = sender.avoids if isinstance(sender, Avoids) else None
        self._trouble = client.trouble if isinstance(client, TellsOfTrouble) else lambda partition: None
        self._at_once = sender.send_at_once if isinstance(sender, SendsAtOnce) else None
        self._unbegun: Counter[str] = Counter()
        # One that rings earlier than it has to stays; most of the time none is started.
        self._alarm = Alarm(self._loop, self.kick)
        self._batch_bytes = min(config.batch_size_bytes, config.max_request_bytes)
        # Not every protocol can number batches, and its sender has to say that it does: without, order comes first.
        numbered = config.enable_idempotence and sender.numbered
        self.readiness = Readiness(config, self._batch_bytes, numbered=numbered)
        acks: Acks = config.acks
        self._acks: int = acks.value
        self._timeout_s = config.request_timeout_ms / 1_000
        self._limits = BatchLimits(self._batch_bytes, config.metadata_max_age_ms / 1_000)
        self._recovery = Recovery(sender, config, self._loop.time, self._settle, self._limits)
        self._over = False
        self._complained = False
        self.open = False

    def begin(self) -> None:
        """What comes belongs to the next transaction; nothing is queued or under way."""
        # Its first batch of each partition may have to take the partition in first: none may overtake it.
        self.readiness.known_there.clear()
        self._recovery.dropping = None

    def put(self, runs: Sequence[Run]) -> None:
        """Queue rows."""
        for run in runs:
            queue = self._queues.get(run.partition)
            if queue is None:
                queue = self._queues[run.partition] = PartitionQueue(run.partition)
            self._busy[run.partition] = queue
            queue.put(run)

    def are_sent_alone(self, runs: Sequence[Run] | None, now: float) -> bool:
        """Send rows that are due, and all there is of their partition; whether they are on their way.

        Most that are waited for are such. Nothing stands before them, they are no reason to look at other partitions,
        and where anything is unusual, they are left to ``kick``.
        """
        if runs is None or len(runs) != 1:
            return False
        run = runs[0]
        queue = self._queues.get(run.partition)
        if queue is None or not self.open or not queue.holds_only(run):
            return False
        if run.size > self._limits.of(run.partition.topic, now):
            return False
        if not self.readiness.has_come(run, now) or (self._avoids is not None and self._avoids(run.partition)):
            return False
        node = self._client.leader(run.partition)
        if node is None or self._requests[node.name] >= self._config.max_in_flight:
            return False
        flight = self._taken(queue)
        if flight is not None:
            self._send_off(node, [(queue, flight)], now)
        return flight is not None

    @property
    def requests(self) -> int:
        """How many are under way. May be asked from any thread."""
        return sum(list(self._requests.values()))

    def waiting_bytes(self, partition: Partition) -> int:
        """How much is queued for a partition."""
        queue = self._queues.get(partition)
        return queue.bytes if queue else 0

    def is_idle(self, partition: Partition) -> bool:
        """Whether nothing of a partition waits or is under way."""
        queue = self._queues.get(partition)
        return queue is None or queue.idle

    def kick(self) -> None:
        """Send what can be sent, give up what is too old, come again when more is due. Raises nothing: loops call."""
        if not self.open:
            return
        try:
            self._go_on()
        except Exception as error:
            self._hooks.failed(error)

    def _go_on(self) -> None:
        now = self._loop.time()
        ready: dict[Node, list[PartitionQueue]] = {}
        wake = now + MOST_SECONDS
        for partition, queue in list(self._busy.items()):
            if queue.idle:
                self._rest(queue)
                continue
            if self._avoids is not None and self._avoids(partition) and self._move_on(queue):
                wake = now
            self._expire(queue, now)
            if queue.retries and queue.at_rest and self.readiness.expiry(queue, now) <= now:
                # Nobody to send it to, all that time: no answer will come that could be decided about.
                queue.recovering = True
                self._begin(self._at_rest(queue, self._recovery.give_up_late), "give up")
                continue
            due = self.readiness.due(queue, now)
            if due > now:
                if queue.failed_at is not None and self._client.leader(partition) in {None, queue.failed_at}:
                    self._hooks.refresh()  # another one may lead it before the pause is over
                wake = min(wake, due, self.readiness.expiry(queue, now))
                continue
            node = self._client.leader(partition)
            if node is None:
                self._hooks.refresh()
                wake = min(wake, self.readiness.expiry(queue, now))
            else:
                ready.setdefault(node, []).append(queue)
        for node, queues in ready.items():
            self._fill(node, queues)
        self._alarm.ring_by(wake)

    def renewed(self) -> None:
        """Leaders were asked for: what failed at another one need not wait for longer."""
        for queue in self._busy.values():
            if queue.failed_at is not None and self._client.leader(queue.partition) not in {None, queue.failed_at}:
                queue.failed_at, queue.retry_at = None, 0.0
        self.kick()

    async def close(self) -> None:
        """Stop; requests under way are forgotten."""
        self.open, self._over = False, True
        self._alarm.cancel()
        await self._background.end()

    def give_up(self) -> None:
        """Forget everything: whoever asks for this tells every outcome. Answers that come now are not looked at."""
        self.open, self._over = False, True
        self._queues.clear()
        self._busy.clear()

    def drop(self, error: PenstockError) -> None:
        """Settle with ``error`` what is not under way, and, until ``begin``, what is and then fails."""
        self._recovery.dropping = error
        for queue in list(self._busy.values()):
            self._fail(queue.expire(float("inf"), 0.0), error)
            if queue.retries and queue.at_rest:
                queue.recovering = True
                self._begin(self._at_rest(queue, self._recovery.drop_failed), "drop")

    def _move_on(self, queue: PartitionQueue) -> bool:
        """Give what need not wait for a partition in trouble to others; whether there was anything."""
        if self._hooks.elsewhere(queue.partition) is None:
            return False
        runs = queue.give_away()
        for run in runs:
            run.partition = self._hooks.elsewhere(queue.partition) or queue.partition
        self.put(runs)
        return bool(runs)

    def _fill(self, node: Node, queues: list[PartitionQueue]) -> None:
        """Send requests to a node until it has enough of them, or nothing is left for it."""
        # Whoever was sent from goes behind the others, so that a busy partition does not starve the rest.
        while queues and self._requests[node.name] < self._config.max_in_flight:
            chosen: Chosen = []
            left = self._config.max_request_bytes
            for queue in list(queues):
                flight = self._next_flight(queue, left)
                if flight is None:
                    continue
                chosen.append((queue, flight))
                assert flight.packed is not None
                left -= flight.packed.size
                queues.remove(queue)
                if self.readiness.due(queue, self._loop.time()) <= self._loop.time():
                    queues.append(queue)
                if left <= 0:
                    break
            if not chosen:
                return
            self._send_off(node, chosen, self._loop.time())

    def _send_off(self, node: Node, chosen: Chosen, now: float) -> None:
        self._requests[node.name] += 1
        chosen[0][1].sent_at = now
        if not self._is_written(node, chosen):
            self._unbegun[node.name] += 1
            self._begin(self._send(node, chosen), f"send {node.name}")

    def _next_flight(self, queue: PartitionQueue, left: int) -> Flight | None:
        if queue.retries:
            if queue.in_flight:
                return None
            flight = queue.retries.popleft()
            queue.in_flight.append(flight)
            return flight
        if left < self._config.max_request_bytes and queue.bytes and left < min(queue.bytes, self._batch_bytes):
            return None
        while self.readiness.due(queue, now := self._loop.time()) <= now:
            if (taken := self._taken(queue)) is not None:
                return taken
        return None

    def _taken(self, queue: PartitionQueue) -> Flight | None:
        """The next rows of a queue that has some, as a batch under way; None where they could not be packed."""
        segments = queue.take(self._limits.of(queue.partition.topic, self._loop.time()))
        try:
            flight = queue.batch(segments)
            flight.packed = self._sender.pack(queue.partition, flight.rows, self._config.compression)
        except PenstockError as error:
            self._fail(segments, error)
        except Exception as error:
            self._fail(segments, self._unpackable(queue.partition, error))
        else:
            queue.in_flight.append(flight)
            return flight
        return None

    def _unpackable(self, partition: Partition, error: Exception) -> PenstockError:
        """A bug that one batch has met takes nothing else with it; the log hears of it once."""
        if not self._complained:
            self._complained = True
            self._log.error("packing a batch of %s failed inside: %r", partition, error, exc_info=error)
        return failed_inside("packing this", error, partition)

    def _is_written(self, node: Node, chosen: Chosen) -> bool:
        """Whether this request is on its way already; else it needs a task. None overtakes a task that is not begun."""
        if self._at_once is None or self._unbegun.get(node.name):
            return False
        heard = partial(self._heard, node, chosen)
        return self._at_once(node, _packed(chosen), heard, acks=self._acks, timeout_s=self._timeout_s)

    def _heard(self, node: Node, chosen: Chosen, answers: Sequence[Sent] | Exception) -> None:
        """The answer to a request without a task; it gets one if there is something to decide."""
        self._requests[node.name] -= 1
        if self._over:
            return
        if isinstance(answers, Exception):
            self._hooks.failed(answers)
            return
        try:
            # Noted at once: the next answer may be here before a task has begun, and would have new batches sent.
            undecided = self._take_in(node, chosen, answers)
            if undecided:
                self._begin(self._decide(undecided), f"answer of {node.name}")
            elif self._busy:
                self.kick()
        except Exception as error:
            self._hooks.failed(error)

    async def _send(self, node: Node, chosen: Chosen) -> None:
        self._unbegun[node.name] -= 1
        try:
            answers = await self._sender.send(node, _packed(chosen), acks=self._acks, timeout_s=self._timeout_s)
        finally:
            self._requests[node.name] -= 1
        if not self._over:
            await self._decide(self._take_in(node, chosen, answers))

    def _take_in(self, node: Node, chosen: Chosen, answers: Sequence[Sent]) -> list[PartitionQueue]:
        """Note every outcome; returns the queues with failed batches to decide about, which are `recovering` now."""
        self._meter.request.add(self._loop.time() - chosen[0][1].sent_at)
        by_packed = {id(each[1].packed): each for each in chosen}
        undecided = []
        for sent in answers:
            queue, flight = by_packed.pop(id(sent.packed))
            queue.in_flight.remove(flight)
            if sent.error is None:
                if queue.idle:
                    self._rest(queue)
                self._stored(queue, flight, sent)
            else:
                self._failed(queue, flight, sent, sent.error, node)
            if queue.retries and not queue.in_flight:
                queue.recovering = True
                undecided.append(queue)
        if by_packed:
            raise RuntimeError(f"{len(by_packed)} batches were sent and got neither an answer nor an error")
        return undecided

    async def _decide(self, undecided: Sequence[PartitionQueue]) -> None:
        for queue in undecided:
            try:
                await self._recovery.decide(queue)
            finally:
                queue.recovering = False
        self.kick()

    def _failed(self, queue: PartitionQueue, flight: Flight, sent: Sent, error: PenstockError, node: Node) -> None:
        self.readiness.known_there.discard(queue.partition)
        self._meter.retries += flight.rows.num_rows if error.retriable else 0
        flight.offsets = sent.offsets
        flight.error = flight.reason = error
        flight.failures += 1
        queue.fail(flight)
        leader = self._client.leader(queue.partition)
        moved = leader not in {None, node}  # the answer may have named who leads it
        queue.retry_at = 0.0 if moved else self._loop.time() + self._backoff.seconds(flight.failures)
        queue.failed_at = node if leader is None else None
        if queue.failed_at is not None:
            self._hooks.refresh()  # now, beside the pause: one after the other they add up to seconds

    def _stored(self, queue: PartitionQueue, flight: Flight, sent: Sent) -> None:
        self.readiness.known_there.add(queue.partition)
        self._meter.stored(sent.packed.records, sent.packed.size)
        queue.failed_at = None
        flight.offsets = sent.offsets
        self._settle(flight, sent.base_offset, sent.timestamp_ms, None)

    async def _at_rest(self, queue: PartitionQueue, decide: Callable[[PartitionQueue], Awaitable[None]]) -> None:
        try:
            await decide(queue)
        finally:
            queue.recovering = False
        self.kick()

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        for segment in queue.expire(now, self._config.delivery_timeout_ms / 1_000):
            error = too_late(queue.partition, self._config.delivery_timeout_ms, None)
            if self._client.leader(queue.partition) is None:
                trouble = self._trouble(queue.partition)
                error.__cause__ = trouble
                error.message += f": {trouble}" if trouble else ": nobody is known to lead its partition"
            self._fail([segment], error)

    def _fail(self, segments: Sequence[Segment], error: PenstockError) -> None:
        self._hooks.finished(fail(segments, error))
        tell(segments)

    def _settle(self, flight: Flight, offset: int, timestamp_ms: int, error: PenstockError | None) -> None:
        self._hooks.finished(flight.settle(offset, timestamp_ms, error))
        tell(flight.segments)

    def _rest(self, queue: PartitionQueue) -> None:
        """Nothing of it has to be looked at until something is put in; what is known of its node will be old then."""
        queue.failed_at, queue.retry_at = None, 0.0
        self._busy.pop(queue.partition, None)


def _packed(chosen: Chosen) -> list[Packed]:
    if len(chosen) == 1 and (only := chosen[0][1].packed) is not None:
        return [only]
    return [flight.packed for _, flight in chosen if flight.packed is not None]
