"""BatchSender: queued rows become batches, batches become requests, and answers become results.

A request to a node carries at most one batch per partition, and at most ``max_in_flight`` requests per node are
unanswered. A failed batch is retried until its delivery time is over. First all other unanswered batches of its
partition are awaited; then the failed ones are sent again one at a time, oldest first. So the order is kept whatever
fails.

PartitionQueue holds one partition's rows and batches, Readiness decides when they are due, and Recovery what happens to
failed batches.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final, TypeAlias

import pyarrow as pa
from msgspec import Struct

from penstock.client.errors import DeliveryTimeout
from penstock.client.metrics import ProducerMeter
from penstock.client.producer.delivery import BatchFuture, PartitionRun, RecordResult
from penstock.client.runtime.background_loop import Background, CoalescingTimer, internal_error
from penstock.config import Acks, ProducerConfig
from penstock.config.client import client_log
from penstock.errors import ErrorKind, PenstockError, ServerError
from penstock.interfaces import LogClient, Packed, Sender, Sent
from penstock.interfaces.channel import Backoff
from penstock.interfaces.client import BatchLimits
from penstock.model import Node, Partition
from penstock.records.scalar_writer import FEW, FewRows, Rows, columns_of, join

__all__ = [
    "MOST_SECONDS",
    "BatchSender",
    "Hooks",
    "InFlightBatch",
    "PartitionQueue",
    "Readiness",
    "Recovery",
    "Segment",
    "Settle",
    "fail",
    "tell",
    "too_late",
]


# The error of records that were not acknowledged in time.
def too_late(partition: Partition, timeout_ms: int, cause: PenstockError | None) -> DeliveryTimeout:
    """The error of a record whose delivery time is over; ``cause`` is the error of its last attempt."""
    error = DeliveryTimeout(
        f"not acknowledged within delivery_timeout_ms={timeout_ms}" + (f"; the last attempt: {cause}" if cause else ""),
        topic=partition.topic,
        partition=partition.id,
        hint="The record may be stored all the same" if cause else "It was never sent",
    )
    error.__cause__ = cause
    return error


# One partition's rows to send, and its batches that were sent and not answered yet.
#
# Order is what matters. Rows are sent in the order they came. A failed batch is sent again before any row that came
# after it; until then, no new batch of its partition is packed.
class Segment(Struct):
    """``rows`` rows of a run, from ``first`` on. Never changed; not frozen, since there is at least one per batch."""

    run: PartitionRun
    first: int
    rows: int


class InFlightBatch(Struct, eq=False):
    """One batch: its rows (kept in case it must be split), the runs they belong to, and how often it has failed.

    ``number`` counts the batches of a partition in the order they were packed; the halves of a split batch share it.
    ``error`` is the error to decide about, ``reason`` the last one that there was. ``offsets`` are those of its rows,
    where the log reports each; -1 for a row that is not stored. ``sent_at`` is the start of its request (loop time), if
    it is the request's first batch.
    """

    segments: list[Segment]
    rows: Rows
    number: int
    packed: Packed | None = None
    failures: int = 0
    sent_at: float = 0.0
    error: PenstockError | None = None
    reason: PenstockError | None = None
    offsets: Sequence[int] | None = None

    @property
    def born(self) -> float:
        """When its oldest row was buffered."""
        return min(segment.run.born for segment in self.segments)

    def settle(self, offset: int, timestamp_ms: int, error: PenstockError | None) -> list[PartitionRun]:
        """Set every row's result; returns the runs that are now complete. Waiters are not called yet."""
        if len(self.segments) == 1 and self.offsets is None:
            only = self.segments[0]
            whole = only.run.settle(RecordResult(only.first, only.rows, offset, timestamp_ms, error))
            return [only.run] if whole else []
        finished: list[PartitionRun] = []
        done = 0
        for segment in self.segments:
            results = self._results(segment, done, offset, timestamp_ms, error)
            finished.extend(segment.run for result in results if segment.run.settle(result))
            done += segment.rows
            offset = offset + segment.rows if offset >= 0 else -1
        return finished

    def _results(
        self, segment: Segment, done: int, offset: int, timestamp_ms: int, error: PenstockError | None
    ) -> Iterator[RecordResult]:
        """One result; but where only some rows are stored, one for each stretch of stored or failed rows."""
        if self.offsets is None:
            yield RecordResult(segment.first, segment.rows, offset, timestamp_ms, error)
            return
        offsets = self.offsets[done : done + segment.rows]
        for stored, places in groupby(range(segment.rows), key=lambda place: offsets[place] >= 0):
            first, *rest = places
            rows = 1 + len(rest)
            if stored:
                own = offsets[first : first + rows]
                yield RecordResult(segment.first + first, rows, own[0], timestamp_ms, None, own)
            else:
                yield RecordResult(segment.first + first, rows, -1, -1, error)

    def halves(self) -> tuple[InFlightBatch, InFlightBatch]:
        """The same rows in two batches."""
        middle = self.rows.num_rows // 2
        front: list[Segment] = []
        back: list[Segment] = []
        left = middle
        for segment in self.segments:
            here = min(left, segment.rows)
            if here:
                front.append(Segment(segment.run, segment.first, here))
            if here < segment.rows:
                back.append(Segment(segment.run, segment.first + here, segment.rows - here))
            left -= here
        first = InFlightBatch(front, self.rows.slice(0, middle), self.number)
        return first, InFlightBatch(back, self.rows.slice(middle), self.number)


def fail(segments: Sequence[Segment], error: PenstockError) -> list[PartitionRun]:
    """Set the result of rows that never became a batch; returns as ``InFlightBatch.settle``."""
    settled = ((each.run, RecordResult(each.first, each.rows, -1, -1, error)) for each in segments)
    return [run for run, result in settled if run.settle(result)]


def tell(segments: Sequence[Segment]) -> None:
    """Call the waiters of these rows. Do this last, because a thread that wakes competes for the interpreter."""
    if len(segments) == 1:
        _parted(segments[0].run).changed()
        return
    for outcome in {id(outcome): outcome for outcome in [_parted(segment.run) for segment in segments]}.values():
        outcome.changed()


def _parted(run: PartitionRun) -> BatchFuture:
    """The BatchFuture of a settled run. Once the run is complete, its reference to the future is deleted.

    This breaks the reference cycle. So a delivery is freed when its last user drops it, without the garbage collector,
    which some processes never run.
    """
    outcome = run.outcome
    if run.settled == run.count:
        del run.outcome
    return outcome


class PartitionQueue:
    """The queue of one partition.

    ``retries`` are failed batches, in the order they were first packed. ``recovering``: Recovery is deciding about
    them. ``failed_at`` is the node at which they failed because it seems to be no longer the leader.
    """

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.bytes = 0
        self.in_flight: list[InFlightBatch] = []
        self.retries: deque[InFlightBatch] = deque()
        self.retry_at = 0.0
        self.failed_at: Node | None = None
        self.recovering = False
        self._numbers = 0
        self._runs: deque[PartitionRun] = deque()
        self._taken = 0

    def put(self, run: PartitionRun) -> None:
        """Add rows at the end."""
        self._runs.append(run)
        self.bytes += run.size

    def give_away(self) -> list[PartitionRun]:
        """Remove the runs that may go to another partition and of which nothing was sent yet."""
        begun = 1 if self._taken else 0
        runs = list(self._runs)
        given = [run for run in runs[begun:] if run.free]
        if given:
            self._runs = deque(run for place, run in enumerate(runs) if place < begun or not run.free)
            self.bytes = max(0, self.bytes - sum(run.size for run in given)) if self._runs else 0
        return given

    def holds_only(self, run: PartitionRun) -> bool:
        """Whether this run is all there is to send, and nothing is unanswered."""
        return (
            len(self._runs) == 1
            and self._runs[0] is run
            and not (self._taken or self.in_flight or self.retries or self.recovering)
        )

    @property
    def idle(self) -> bool:
        """Whether there is nothing to send and nothing unanswered."""
        return not (self._runs or self.in_flight or self.retries or self.recovering)

    @property
    def oldest(self) -> float | None:
        """When the first waiting row was buffered."""
        return self._runs[0].born if self._runs else None

    def take(self, most_bytes: int) -> list[Segment]:
        """Remove the rows of the next batch: the first rows up to ``most_bytes``, but at least one.

        The caller must give each of them a result: they are no longer in the queue, and in no batch yet.
        """
        run = self._runs[0]
        if len(self._runs) == 1 and not self._taken and run.size <= most_bytes:
            self._runs.clear()
            self.bytes = 0
            return [Segment(run, 0, run.count)]
        segments: list[Segment] = []
        first: Rows | None = None
        left = most_bytes
        while self._runs:
            run = self._runs[0]
            assert run.rows is not None
            if first is not None and (left <= 0 or not _fit_together(first, run.rows)):
                break
            if segments and left < run.size <= most_bytes and not 4 * run.size <= 3 * most_bytes:
                break  # nearly a full batch by itself: splitting it would copy it, and all runs after it
            weight = max(run.size // run.count, 1)
            fitting = left // weight
            if not fitting and segments:
                break
            first = run.rows if first is None else first
            rows = max(1, min(run.count - self._taken, fitting))
            segments.append(Segment(run, self._taken, rows))
            left -= run.size if rows == run.count else rows * weight
            self._advance(run, rows)
        return segments

    def batch(self, segments: list[Segment]) -> InFlightBatch:
        """One batch of rows that were taken."""
        whole = segments[0].run
        if len(segments) == 1 and segments[0].rows == whole.count and whole.rows is not None:
            return self._flight(segments, whole.rows)
        pieces = [each.run.rows.slice(each.first, each.rows) for each in segments if each.run.rows is not None]
        return self._flight(segments, _joined(pieces))

    def expire(self, now: float, after_s: float) -> list[Segment]:
        """Remove waiting rows that were buffered at least ``after_s`` ago."""
        expired = []
        # The same sum as that of the timer that fires for it: a difference might round the other way, endlessly.
        while self._runs and self._runs[0].born + after_s <= now:
            run = self._runs[0]
            rows = run.count - self._taken
            expired.append(Segment(run, self._taken, rows))
            self._advance(run, rows)
        return expired

    @property
    def at_rest(self) -> bool:
        """Whether nothing of it is in flight or being decided."""
        return not (self.in_flight or self.recovering)

    def fail(self, flight: InFlightBatch) -> None:
        """Insert a failed batch among the other failed ones, in order."""
        place = sum(1 for each in self.retries if each.number <= flight.number)
        self.retries.insert(place, flight)

    def _flight(self, segments: list[Segment], rows: Rows) -> InFlightBatch:
        self._numbers += 1
        return InFlightBatch(segments, rows, self._numbers)

    def _advance(self, run: PartitionRun, rows: int) -> None:
        self._taken += rows
        if self._taken == run.count:
            self._runs.popleft()
            self._taken = 0
        self.bytes = max(0, self.bytes - run.size * rows // run.count) if self._runs else 0


def _fit_together(first: Rows, behind: Rows) -> bool:
    """Whether one batch may contain both."""
    if isinstance(first, FewRows) and isinstance(behind, FewRows):
        return True
    return bool(columns_of(first).schema == columns_of(behind).schema)


def _joined(pieces: list[Rows]) -> Rows:
    """All pieces in order; as columns if there are many rows."""
    if len(pieces) == 1:
        return pieces[0]
    few = [piece for piece in pieces if isinstance(piece, FewRows)]
    if len(few) == len(pieces):
        joined = join(few)
        return joined if joined.num_rows <= FEW else joined.columns()
    return pa.concat_batches([columns_of(piece) for piece in pieces])


# What happens to failed batches, once nothing of their partition is in flight.
Settle: TypeAlias = Callable[[InFlightBatch, int, int, PenstockError | None], None]
"""Sets the result of a batch: base offset and the log's timestamp in ms, -1 where there is none; and the error."""


class Recovery:
    """Decides about one producer's failed batches, a queue's ``retries``. ``now`` is the loop's clock.

    ``dropping`` is the error that they get while their transaction is being aborted. ``limits`` learns of batches that
    were too large.
    """

    def __init__(
        self,
        sender: Sender,
        config: ProducerConfig,
        now: Callable[[], float],
        settle: Settle,
        limits: BatchLimits,
    ) -> None:
        self._sender = sender
        self._config = config
        self._now = now
        self._settle = settle
        self._limits = limits
        self.dropping: PenstockError | None = None

    async def decide(self, queue: PartitionQueue) -> None:
        """Decide about the oldest failed batch of a partition, when none is in flight.

        Only about that one. Giving a batch up renumbers the batches after it. An earlier batch that is stored but not
        acknowledged yet would then be stored a second time under its new number.
        """
        while queue.retries and (error := queue.retries[0].error) is not None:
            flight = queue.retries[0]
            assert flight.packed is not None
            if self.dropping is not None:
                await self.drop_failed(queue)
            elif flight.born + self._config.delivery_timeout_ms / 1_000 <= self._now():
                await self.give_up_late(queue)
            elif (packed := await self._sender.recover(flight.packed, error)) is not None:
                flight.packed, flight.error = packed, None
            elif _is_too_large(error) and flight.rows.num_rows > 1:
                await self._split(queue)
            else:
                queue.retries.popleft()
                if _is_too_large(error):
                    error.message += f": a record that takes {flight.packed.size:,} bytes as a batch of its own"
                self._settle(flight, -1, -1, error)

    async def give_up_late(self, queue: PartitionQueue) -> None:
        """The delivery time of the oldest failed batch is over.

        It may be stored, and so may later batches without an answer: renumbered, they could be stored twice, so they
        are given up with it. A batch that the log has refused is not stored, and stays.
        """
        failed = list(queue.retries)
        queue.retries.clear()
        for place, flight in enumerate(failed):
            if place and isinstance(flight.error, ServerError):
                queue.retries.append(flight)
                continue
            assert flight.packed is not None
            await self._sender.abandon(flight.packed)
            error = too_late(queue.partition, self._config.delivery_timeout_ms, flight.reason)
            self._settle(flight, -1, -1, error)

    async def drop_failed(self, queue: PartitionQueue) -> None:
        """The transaction of the failed batches is aborted: give them up."""
        while queue.retries:
            flight = queue.retries.popleft()
            assert flight.packed is not None
            await self._sender.abandon(flight.packed)
            self._settle(flight, -1, -1, self.dropping or flight.reason)

    async def _split(self, queue: PartitionQueue) -> None:
        """Split the oldest failed batch, and those after it, into sizes that the server is likely to accept.

        Those after it get numbers after its pieces.
        """
        first, *behind = queue.retries
        target = self._limits.refused(queue.partition.topic, _weight(first), self._now())
        for flight in behind:
            assert flight.packed is not None
            await self._sender.abandon(flight.packed)
        queue.retries.clear()
        for flight in (first, *behind):
            queue.retries.extend(_pieces(flight, target))
        for flight in queue.retries:
            flight.packed = self._sender.pack(queue.partition, flight.rows, self._config.compression)
            flight.error = None
        queue.retry_at = 0.0


def _pieces(flight: InFlightBatch, target: int) -> Iterator[InFlightBatch]:
    """The batch, halved until no piece of several records is larger than ``target`` bytes."""
    if flight.rows.num_rows < 2 or _weight(flight) <= target:
        yield flight
        return
    for half in flight.halves():
        yield from _pieces(half, target)


def _weight(flight: InFlightBatch) -> int:
    """The approximate size of its rows, counted as in `PartitionQueue.take`: by the average of each run.

    At least the actual bytes. Otherwise one long record among short ones would seem short, and batches would be halved
    far below the size that the server accepts.
    """
    average = sum(segment.run.size * segment.rows // segment.run.count for segment in flight.segments)
    return max(average, _payload(flight.rows))


def _payload(rows: Rows) -> int:
    if not isinstance(rows, FewRows):
        return int(rows.nbytes)
    return sum(len(each) for column in (rows.keys, rows.values) for each in column if each is not None)


def _is_too_large(error: PenstockError) -> bool:
    return isinstance(error, ServerError) and error.kind is ErrorKind.TOO_LARGE


# When a partition's rows are due, and when they are too old.
MOST_SECONDS: Final = 3_600.0
"""Longer than anything waits here."""


class Readiness:
    """Decides when one producer's rows are due. Times are the loop's.

    ``urgent`` makes every row due at once: during a flush, or while a caller waits for memory. ``known_there`` are the
    partitions whose log knows this producer's sequence numbers.
    """

    def __init__(self, config: ProducerConfig, batch_bytes: int, *, numbered: bool) -> None:
        self._batch_bytes = batch_bytes
        self._linger_s = config.linger_ms / 1_000
        self._delivery_s = config.delivery_timeout_ms / 1_000
        self._numbered = numbered
        self.known_there: set[Partition] = set()
        self.urgent = False

    def due(self, queue: PartitionQueue, now: float) -> float:
        """When this queue can send next; far in the future while it must wait for an answer."""
        if queue.retries or queue.recovering:
            return now + MOST_SECONDS if queue.in_flight or queue.recovering else queue.retry_at
        oldest = queue.oldest
        if oldest is None or (queue.in_flight and not self._may_follow(queue)):
            return now + MOST_SECONDS
        if self.urgent or queue.bytes >= self._batch_bytes:
            return now
        return oldest + self._linger_s

    def has_come(self, run: PartitionRun, now: float) -> bool:
        """Whether the first rows of a queue have waited long enough, and not too long."""
        return run.born + self._linger_s <= now < run.born + self._delivery_s

    def expiry(self, queue: PartitionQueue, now: float) -> float:
        """When the next waiting row becomes too old; batches in flight are checked when their answer comes."""
        born = [queue.retries[0].born] if queue.retries and queue.at_rest else []
        born += [] if queue.oldest is None else [queue.oldest]
        return min(born) + self._delivery_s if born else now + MOST_SECONDS

    def _may_follow(self, queue: PartitionQueue) -> bool:
        """Whether a batch may be sent while another one is unanswered.

        Only if the log would refuse it if it overtook the other: batches are numbered, and the log knows this
        producer's numbers. The log knows them only after it has stored a first batch. (Overtaking happens: two requests
        wait for a connection, it opens, and a third request finds it open before the two tasks have been woken.)

        Not after a batch that is being retried: it may be stored, and the log recognises a duplicate only among a
        producer's last five batches, of which four may have followed it the first time.
        """
        if not self._numbered or queue.partition not in self.known_there:
            return False
        return not any(flight.failures for flight in queue.in_flight)


class Hooks(Struct, frozen=True):
    """The parts of the engine that the sender calls.

    ``refresh``: leaders are unknown. ``finished``: these runs are settled. ``failed``: an unexpected error.
    ``elsewhere``: a partition of the same topic to use instead of one that the sender avoids (None: there is none).
    """

    refresh: Callable[[], None]
    finished: Callable[[Sequence[PartitionRun]], None]
    failed: Callable[[BaseException], None]
    elsewhere: Callable[[Partition], Partition | None]


Chosen: TypeAlias = "list[tuple[PartitionQueue, InFlightBatch]]"
"""The batches of one request, each with its queue."""


class BatchSender:
    """The sending of one producer; on the loop."""

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
        self._busy: dict[Partition, PartitionQueue] = {}  # all queues that are not idle, and perhaps some idle ones
        self._requests: Counter[str] = Counter()
        self._background = Background("the producer", hooks.failed)
        self._begin = self._background.begin
        self._avoids = sender.avoids
        self._trouble = client.trouble
        self._at_once = sender.send_at_once
        self._unbegun: Counter[str] = Counter()
        # A timer that fires too early is kept; most of the time none is started.
        self._alarm = CoalescingTimer(self._loop, self.kick)
        self._batch_bytes = min(config.batch_size_bytes, config.max_request_bytes)
        # Not every protocol can number batches, and its sender says so. Without numbers, order has priority.
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
        """A new transaction begins; nothing is queued or in flight."""
        # The first batch of a partition may have to add the partition to the transaction: none may overtake it.
        self.readiness.known_there.clear()
        self._recovery.dropping = None

    def put(self, runs: Sequence[PartitionRun]) -> None:
        """Queue rows."""
        for run in runs:
            queue = self._queues.get(run.partition)
            if queue is None:
                queue = self._queues[run.partition] = PartitionQueue(run.partition)
            self._busy[run.partition] = queue
            queue.put(run)

    def are_sent_alone(self, runs: Sequence[PartitionRun] | None, now: float) -> bool:
        """Send rows that are due and are all there is of their partition; whether they are on their way.

        Most records that a caller waits for are of this kind. Nothing is queued before them, and other partitions need
        not be checked. In any unusual case they are left to ``kick``.
        """
        if runs is None or len(runs) != 1:
            return False
        run = runs[0]
        queue = self._queues.get(run.partition)
        if queue is None or not self.open or not queue.holds_only(run):
            return False
        if run.size > self._limits.of(run.partition.topic, now):
            return False
        if not self.readiness.has_come(run, now) or self._avoids(run.partition):
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
        """Requests in flight. May be read from any thread."""
        return sum(list(self._requests.values()))

    def waiting_bytes(self, partition: Partition) -> int:
        """Bytes queued for a partition."""
        queue = self._queues.get(partition)
        return queue.bytes if queue else 0

    def is_idle(self, partition: Partition) -> bool:
        """Whether nothing of a partition is queued or in flight."""
        queue = self._queues.get(partition)
        return queue is None or queue.idle

    def kick(self) -> None:
        """Send what can be sent, fail what is too old, set the timer for the rest. Raises nothing: loops call it."""
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
            if self._avoids(partition) and self._move_on(queue):
                wake = now
            self._expire(queue, now)
            if queue.retries and queue.at_rest and self.readiness.expiry(queue, now) <= now:
                # It had no leader all that time, so no answer will come to decide about.
                queue.recovering = True
                self._begin(self._at_rest(queue, self._recovery.give_up_late), "give up")
                continue
            due = self.readiness.due(queue, now)
            if due > now:
                if queue.failed_at is not None and self._client.leader(partition) in {None, queue.failed_at}:
                    self._hooks.refresh()  # another node may become leader before the pause is over
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
        self._alarm.call_by(wake)

    def renewed(self) -> None:
        """Leaders were looked up: batches that failed at another node need not wait any longer."""
        for queue in self._busy.values():
            if queue.failed_at is not None and self._client.leader(queue.partition) not in {None, queue.failed_at}:
                queue.failed_at, queue.retry_at = None, 0.0
        self.kick()

    async def close(self) -> None:
        """Stop; answers in flight are dropped."""
        self.open, self._over = False, True
        self._alarm.cancel()
        await self._background.end()

    def give_up(self) -> None:
        """Forget everything; the caller settles every delivery. Later answers are ignored."""
        self.open, self._over = False, True
        self._queues.clear()
        self._busy.clear()

    def drop(self, error: PenstockError) -> None:
        """Settle with ``error`` everything not in flight, and, until ``begin``, batches in flight that fail."""
        self._recovery.dropping = error
        for queue in list(self._busy.values()):
            self._fail(queue.expire(float("inf"), 0.0), error)
            if queue.retries and queue.at_rest:
                queue.recovering = True
                self._begin(self._at_rest(queue, self._recovery.drop_failed), "drop")

    def _move_on(self, queue: PartitionQueue) -> bool:
        """Move rows that are not bound to this partition to another one; whether there were any."""
        if self._hooks.elsewhere(queue.partition) is None:
            return False
        runs = queue.give_away()
        for run in runs:
            run.partition = self._hooks.elsewhere(queue.partition) or queue.partition
        self.put(runs)
        return bool(runs)

    def _fill(self, node: Node, queues: list[PartitionQueue]) -> None:
        """Send requests to a node until it has enough of them, or nothing is left for it."""
        # A queue that was used goes to the end, so that a busy partition does not starve the others.
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

    def _next_flight(self, queue: PartitionQueue, left: int) -> InFlightBatch | None:
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

    def _taken(self, queue: PartitionQueue) -> InFlightBatch | None:
        """The next rows of a non-empty queue, as a batch in flight; None if they could not be packed."""
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
        """An unexpected error fails only its own batch; it is logged once."""
        if not self._complained:
            self._complained = True
            self._log.error("encoding a batch of %s ended in an internal error: %r", partition, error, exc_info=error)
        return internal_error("encoding a batch", error, partition)

    def _is_written(self, node: Node, chosen: Chosen) -> bool:
        """Whether the request is already sent; else it needs a task. None overtakes a task that has not begun."""
        if self._unbegun.get(node.name):
            return False
        heard = partial(self._heard, node, chosen)
        return self._at_once(node, _packed(chosen), heard, acks=self._acks, timeout_s=self._timeout_s)

    def _heard(self, node: Node, chosen: Chosen, answers: Sequence[Sent] | Exception) -> None:
        """The answer to a request without a task; a task is started if there is something to decide."""
        self._requests[node.name] -= 1
        if self._over:
            return
        if isinstance(answers, Exception):
            self._hooks.failed(answers)
            return
        try:
            # Handled at once: the next answer may come before a task has begun, and would cause new batches.
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
        """Set all results; returns the queues with failed batches to decide about, now `recovering`."""
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

    def _failed(
        self, queue: PartitionQueue, flight: InFlightBatch, sent: Sent, error: PenstockError, node: Node
    ) -> None:
        self.readiness.known_there.discard(queue.partition)
        self._meter.retries += flight.rows.num_rows if error.retriable else 0
        flight.offsets = sent.offsets
        flight.error = flight.reason = error
        flight.failures += 1
        queue.fail(flight)
        leader = self._client.leader(queue.partition)
        moved = leader not in {None, node}  # the answer may have named the new leader
        queue.retry_at = 0.0 if moved else self._loop.time() + self._backoff.seconds(flight.failures)
        queue.failed_at = node if leader is None else None
        if queue.failed_at is not None:
            self._hooks.refresh()  # during the pause: one after the other they add up to seconds

    def _stored(self, queue: PartitionQueue, flight: InFlightBatch, sent: Sent) -> None:
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
                error.message += f": {trouble}" if trouble else ": its partition has no known leader"
            self._fail([segment], error)

    def _fail(self, segments: Sequence[Segment], error: PenstockError) -> None:
        self._hooks.finished(fail(segments, error))
        tell(segments)

    def _settle(self, flight: InFlightBatch, offset: int, timestamp_ms: int, error: PenstockError | None) -> None:
        self._hooks.finished(flight.settle(offset, timestamp_ms, error))
        tell(flight.segments)

    def _rest(self, queue: PartitionQueue) -> None:
        """Ignore the queue until rows are added; what is known of its node will be outdated by then."""
        queue.failed_at, queue.retry_at = None, 0.0
        self._busy.pop(queue.partition, None)


def _packed(chosen: Chosen) -> list[Packed]:
    if len(chosen) == 1 and (only := chosen[0][1].packed) is not None:
        return [only]
    return [flight.packed for _, flight in chosen if flight.packed is not None]
