"""The results of a producer: Delivery of one record, BatchDelivery of a table. Block for them, or await them.

A future per record would cost more than the record. So records that are buffered together share one BatchFuture, and a
Delivery is a reference to it and two numbers.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from msgspec import Struct

from penstock import _clock
from penstock.client.runtime.background_loop import next_of
from penstock.client.runtime.callbacks import HERE, Callbacks
from penstock.client.runtime.closing import add_note
from penstock.config.client import ClientLog
from penstock.errors import Closed, PenstockError, RequestTimeout, UsageError
from penstock.model import LogRange, Partition, Value

__all__ = ["BatchDelivery", "BatchFuture", "Delivery", "PartitionRun", "RecordMetadata", "RecordResult"]

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.records.scalar_writer import Rows

    Places = npt.NDArray[Any] | Sequence[int]


T = TypeVar("T")


class RecordMetadata(Value, frozen=True):
    """Where a record is stored. ``offset`` is -1 with acks=0; ``timestamp_ms`` is the log's if it stamps records.

    ``node`` names the broker that keeps the partition, None where partitions do not belong to brokers (Kafka).
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    node: str | None = None


class RecordResult(Struct):
    """The result of ``rows`` rows of a run from ``first`` on: stored from ``offset`` on, or an error.

    ``offsets`` has the offset of each row where they are not consecutive. Never changed after creation; not frozen:
    frozen instances are five times slower to create, and there is one per batch.
    """

    first: int
    rows: int
    offset: int
    timestamp_ms: int
    error: PenstockError | None
    offsets: Sequence[int] | None = None

    def offset_of(self, row: int) -> int:
        """The offset of one row of the run; -1 where unknown."""
        if self.offsets is not None:
            return self.offsets[row - self.first]
        return self.offset + row - self.first if self.offset >= 0 else -1


class PartitionRun:
    """Rows of one partition that were buffered together; they may be sent in several batches.

    ``born`` is when the first one was buffered (loop time), ``size`` their approximate size. ``rows`` is dropped when
    all are settled, so that a Delivery that the user keeps does not keep the payload. ``free``: no row is bound to this
    partition, and until the first one is sent all of them may go to another.
    """

    __slots__ = ("born", "count", "free", "outcome", "partition", "results", "rows", "settled", "size")

    def __init__(self, outcome: BatchFuture, partition: Partition, rows: Rows, size: int, born: float) -> None:
        self.outcome = outcome
        self.partition = partition
        self.rows: Rows | None = rows
        self.count: int = rows.num_rows
        self.size = size
        self.born = born
        self.free = False
        self.results: list[RecordResult] = []
        self.settled = 0

    def settle(self, result: RecordResult) -> bool:
        """Store the result of some rows; True if they were the last open ones."""
        # Never sort a list in place that another thread may read: it looks empty during the sort.
        self.results = sorted([*self.results, result], key=lambda each: each.first) if self.results else [result]
        self.settled += result.rows
        if self.settled == self.count:
            self.rows = None
        return self.settled == self.count

    def result_of(self, row: int) -> RecordResult | None:
        """The result of one row; None while it is open."""
        results = self.results
        place = 0 if len(results) == 1 else bisect_right(results, row, key=lambda each: each.first) - 1
        if place < 0:
            return None
        result = results[place]
        return result if result.first <= row < result.first + result.rows else None


class BatchFuture:
    """The result of rows that were buffered together. Settled on the loop, read from any thread.

    ``runs`` is None until the rows are assigned to partitions. ``places`` then says for each row which run it is in,
    and at which row of it (None: there is one run, with the same rows). ``error`` is the result of rows without another
    one. ``callbacks`` runs the users' callbacks. ``size`` and ``rows`` are known once no more rows are added.
    """

    __slots__ = ("_waiters", "callbacks", "error", "loop", "places", "rows", "runs", "seen", "size", "topic")

    def __init__(self, loop: asyncio.AbstractEventLoop, topic: str = "", callbacks: Callbacks = HERE) -> None:
        self.loop = loop
        self.topic = topic
        self.callbacks = callbacks
        self.size = 0
        self.rows = 0
        self.runs: list[PartitionRun] | None = None
        self.places: tuple[Places, Places] | None = None
        self.error: PenstockError | None = None
        self.seen = False
        self._waiters: list[Callable[[], None]] = []

    @property
    def done(self) -> bool:
        """Whether every row has a result."""
        if self.error is not None:
            return True
        for run in self.runs or ():
            if run.settled != run.count:
                return False
        return self.runs is not None

    def result_of(self, row: int) -> RecordResult | None:
        """The result of one row; None while it is open."""
        if self.runs is not None:
            run, place = (self.runs[0], row) if self.places is None else self.run_of(row)
            if (result := run.result_of(place)) is not None:
                return result
        return None if self.error is None else RecordResult(row, 1, -1, -1, self.error)

    def run_of(self, row: int) -> tuple[PartitionRun, int]:
        """The run of one row, and its row there; only once ``runs`` is known."""
        assert self.runs is not None
        if self.places is None:
            return self.runs[0], row
        return self.runs[int(self.places[0][row])], int(self.places[1][row])

    def first_error(self) -> PenstockError | None:
        """The first error of any row."""
        if self.error is not None:
            return self.error
        for run in self.runs or ():
            for result in run.results:
                if result.error is not None:
                    return result.error
        return None

    def fail(self, error: PenstockError) -> None:
        """Settle all open rows with ``error``."""
        self.error = error
        for run in self.runs or ():
            run.rows = None
        self.changed()

    def changed(self) -> None:
        """Call all waiters: some row has a result. They check for themselves, and wait again if necessary."""
        waiters, self._waiters = self._waiters, []
        failures = []
        for waiter in waiters:
            try:
                waiter()
            except Exception as error:  # for example no thread for callbacks; the other waiters must be called, too
                failures.append(error)
        if failures:
            raise failures[0]

    def on_change(self, waiter: Callable[[], None]) -> None:
        """Call ``waiter`` once, at the next change. Check again after this call: earlier changes are not reported.

        For internal waiters, which neither raise nor block; users' callbacks go to ``callbacks``.
        """
        self._waiters.append(waiter)


class Waitable(ABC, Generic[T]):
    """A result that will be known later: block for it with ``result``, or await it."""

    __slots__ = ()

    @abstractmethod
    def done(self) -> bool:
        """Whether the result or the error is known."""

    @abstractmethod
    def _open(self) -> BatchFuture | None:
        """A BatchFuture that is still open, None when the result is known."""

    @abstractmethod
    def _finish(self) -> T:
        """The result; raises the error. Only called when it is known."""

    @abstractmethod
    def _any(self) -> BatchFuture | None:
        """One of its BatchFutures, if it has any."""

    def result(self, timeout_s: float | None = None) -> T:
        """Wait for the result and return it, or raise its error. Raises RequestTimeout after ``timeout_s``."""
        deadline = None if timeout_s is None else _clock.monotonic() + timeout_s
        while (outcome := self._open()) is not None:
            _must_not_block(outcome)
            changed: SimpleQueue[None] = SimpleQueue()  # not a lock of ours that a signal handler could find held
            outcome.on_change(partial(changed.put, None))
            if self._open() is not outcome:
                continue
            try:
                next_of(changed, deadline)
            except Empty:
                raise RequestTimeout(f"not acknowledged within {timeout_s} s", hint="It is still being sent") from None
        return self._finish()

    def exception(self, timeout_s: float | None = None) -> PenstockError | None:
        """Wait for the result, and return its error, or None if it succeeded."""
        try:
            self.result(timeout_s)
        except PenstockError as error:
            if not self.done():
                raise
            return error
        return None

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Call ``callback`` with this object once it is done; callbacks run one by one, as deliveries end.

        A Producer calls it in a thread of its own, an AsyncProducer on your loop, where it may be a coroutine function.
        It may send, but not flush or close. An exception is logged (``penstock.producer``) and passed to
        ``on_callback_error``; it has no other effect. ``flush`` and ``close`` return after all callbacks have run.
        """
        uncalled = threading.Lock()  # acquired once, never released: this thread and the loop may both see the end

        def look() -> None:
            while (outcome := self._open()) is not None:
                outcome.on_change(look)
                if self._open() is outcome:
                    return
            if uncalled.acquire(blocking=False):
                outcome = self._any()
                if outcome is None:
                    HERE.now(callback, self, "")
                else:
                    outcome.callbacks.put(outcome.loop, callback, self, outcome.topic)

        look()

    def __await__(self) -> Generator[Any, None, T]:
        while (outcome := self._open()) is not None:
            loop = asyncio.get_running_loop()
            changed: asyncio.Future[None] = loop.create_future()
            outcome.on_change(_waker(loop, changed, outcome))
            if self._open() is outcome:
                yield from changed
        return self._finish()


def _waker(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None], outcome: BatchFuture) -> Callable[[], None]:
    def wake() -> None:
        if not future.done():
            future.set_result(None)

    return wake if outcome.loop is loop else lambda: _post(loop, wake)


def _post(loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended, and its waiting tasks with it
        loop.call_soon_threadsafe(wake)


def _must_not_block(outcome: BatchFuture) -> None:
    if asyncio._get_running_loop() is outcome.loop:  # unlike get_running_loop() it never raises
        raise UsageError("result() would block the loop that has to send the record", hint="Await it instead")


class Delivery(Waitable[RecordMetadata]):
    """One record on its way: ``result()`` or ``await`` gives its `RecordMetadata`.

    ``outcome`` is shared with the records that were sent just before and after it.
    """

    __slots__ = ("_row", "_timestamp_ms", "outcome")
    # No __init__: calling it costs as much as everything else about an instance. The creator fills the slots.
    outcome: BatchFuture
    _row: int
    _timestamp_ms: int

    @classmethod
    def of(cls, outcome: BatchFuture, row: int, timestamp_ms: int) -> Delivery:
        """The delivery of one row; ``timestamp_ms`` is the record's where the log does not stamp records."""
        delivery = cls()
        delivery.outcome, delivery._row, delivery._timestamp_ms = outcome, row, timestamp_ms
        return delivery

    def done(self) -> bool:
        """Whether the record is stored, or has finally failed."""
        return self.outcome.result_of(self._row) is not None

    def _open(self) -> BatchFuture | None:
        return self.outcome if self.outcome.result_of(self._row) is None else None

    def _any(self) -> BatchFuture:
        return self.outcome

    def _settled_as(self) -> tuple[str, RecordMetadata | None, PenstockError | None]:
        """Topic, metadata or error of a settled record, for observers; it does not mark the error as read."""
        result = self.outcome.result_of(self._row)
        assert result is not None
        return self.outcome.topic, self._finish() if result.error is None else None, result.error

    def _finish(self) -> RecordMetadata:
        result = self.outcome.result_of(self._row)
        assert result is not None
        if result.error is not None:
            self.outcome.seen = True
            raise result.error
        run, place = self.outcome.run_of(self._row)
        offset = result.offset_of(place)
        timestamp_ms = result.timestamp_ms if result.timestamp_ms >= 0 else self._timestamp_ms
        topic, number, node = run.partition
        return RecordMetadata(topic, number, offset, timestamp_ms, node or None)


class BatchDelivery(Waitable[tuple[LogRange, ...]]):
    """A table on its way: the result is where its rows are stored, as ranges by partition, in order.

    If rows of some partition failed, the first error is raised; rows of other partitions are stored all the same.
    """

    __slots__ = ("_outcomes",)

    def __init__(self, outcomes: Sequence[BatchFuture]) -> None:
        self._outcomes = outcomes

    def done(self) -> bool:
        """Whether every row is stored, or has finally failed."""
        return self._open() is None

    @property
    def stored(self) -> int:
        """How many rows are stored by now."""
        runs = [run for outcome in self._outcomes for run in tuple(outcome.runs or ())]
        return sum(result.rows for run in runs for result in tuple(run.results) if result.error is None)

    def _open(self) -> BatchFuture | None:
        return next((outcome for outcome in self._outcomes if not outcome.done), None)

    def _any(self) -> BatchFuture | None:
        return self._outcomes[-1] if self._outcomes else None

    def _finish(self) -> tuple[LogRange, ...]:
        for outcome in self._outcomes:
            if (error := outcome.first_error()) is not None:
                for each in self._outcomes:
                    each.seen = True
                raise error
        found: dict[Partition, list[LogRange]] = {}
        for outcome in self._outcomes:
            for run in outcome.runs or ():
                for result in run.results:
                    _add_range(found.setdefault(run.partition, []), run.partition, result)
        return tuple(span for partition in sorted(found) for span in found[partition])


def _add_range(spans: list[LogRange], partition: Partition, result: RecordResult) -> None:
    start = result.offset_of(result.first)
    end = result.offset_of(result.first + result.rows - 1) + 1 if start >= 0 else -1
    if spans and spans[-1].end == start:
        start = spans.pop().start
    spans.append(LogRange.of(partition, start, end))


class Ending(Struct, frozen=True):
    """The result of a close: records that were not delivered, by topic; ``error`` is an earlier error, never read.

    It is reported without replacing an exception that is being raised.
    """

    lost: Counter[str]
    error: PenstockError | None

    def __str__(self) -> str:
        topics = ", ".join(f"{topic} {count:,}" for topic, count in sorted(self.lost.items()))
        plural = "records were" if self.lost.total() > 1 else "record was"
        return f"{self.lost.total():,} {plural} not acknowledged when the producer was closed ({topics})"

    def tell(self, log: ClientLog) -> None:
        """Log the lost records, if any."""
        if self.lost:
            log.warning("%s", self)

    def raise_first(self, *, of_lost: bool) -> None:
        """Raise the unread error; else Closed if records were lost."""
        if self.error is not None:
            raise self.error
        if self.lost and of_lost:
            raise Closed(str(self), hint="They may be stored nevertheless; close_timeout_ms says how long to try")

    def add_notes(self, error: BaseException) -> None:
        """Add notes to an exception that continues."""
        if self.error is not None:
            add_note(error, f"an earlier delivery failed: {self.error}")
        if self.lost:
            add_note(error, f"{self}; close_on_error_timeout_ms says how long to try")


def undelivered(outcomes: Iterable[BatchFuture]) -> Counter[str]:
    """Records by topic that were not stored, as far as known, of settled deliveries."""
    lost: Counter[str] = Counter()
    for outcome in outcomes:
        results = [result for run in outcome.runs or () for result in run.results]
        if outcome.error is not None:
            lost[outcome.topic] += outcome.rows - sum(result.rows for result in results if result.error is None)
        else:
            lost[outcome.topic] += sum(result.rows for result in results if result.error is not None)
    return +lost


def error_of(unseen: BatchFuture | None) -> PenstockError | None:
    """The error of a delivery whose result was never read."""
    return None if unseen is None or unseen.seen else unseen.first_error()
