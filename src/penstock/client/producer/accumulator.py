"""RecordAccumulator: any thread buffers records here, under one lock, and the loop takes them out in order.

It counts the memory of everything that is not settled yet. A record costs only a few list appends
(`RecordAccumulator.put_plain`). The loop is woken when a PendingBatch begins, because its linger starts, and when one
is full. BufferMemory lets callers wait for free memory.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, cast
from weakref import WeakSet

import numpy as np
import pyarrow as pa
from msgspec import Struct

from penstock.client.errors import BufferFull
from penstock.client.producer.delivery import BatchFuture, Delivery
from penstock.client.runtime.callbacks import HERE, Callbacks
from penstock.config import ProducerConfig
from penstock.errors import PenstockError, UsageError
from penstock.records.arrow import longest, number_array
from penstock.records.encoding import BatchBuilder, HeadersLike
from penstock.records.scalar_writer import FEW, Rows

__all__ = [
    "OVERHEAD",
    "BufferMemory",
    "PendingBatch",
    "RecordAccumulator",
    "StagedTable",
    "check_sizes",
    "largest_record",
    "nothing_is_plain",
    "payload",
    "record_size",
    "too_large",
]

# Single records, checked and collected into the columns that senders pack, and whole tables.
#
# An invalid record is refused in its own call, in the caller's traceback, and never fails a batch of valid ones.
_HEADERS: Final = "Headers are text to bytes or None"
OVERHEAD: Final = 80
"""Approximate bytes of memory, and of a batch, that a record takes in addition to its key and value."""


def payload(name: str, given: object) -> bytes | None:
    """A key or a value as bytes. Raises UsageError."""
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    hint = "Encode text first: text.encode()" if isinstance(given, str) else "Serialise it first"
    raise UsageError(f"{name} is {type(given).__name__}, wanted is bytes or None", hint=hint)


def _pairs(headers: object) -> Iterator[tuple[object, object]]:
    """Names and values as given. Raises UsageError for another shape."""
    if hasattr(headers, "items"):
        headers = headers.items()
    if isinstance(headers, str | bytes) or not isinstance(headers, Sequence | Set):
        raise UsageError(f"headers are {type(headers).__name__}, wanted is a dict or a list of pairs", hint=_HEADERS)
    for pair in headers:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise UsageError(f"one of the headers is {pair!r:.80}, wanted is a pair", hint=_HEADERS)
        yield pair[0], pair[1]


def record_size(key: bytes | None, value: bytes | None, headers: HeadersLike | None) -> int:
    """The approximate size of a record. Raises UsageError for invalid headers."""
    size = OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    if headers:
        for name, content in _pairs(headers):
            if not isinstance(name, str):
                raise UsageError(f"the name of a header is {type(name).__name__} ({name!r:.40})", hint=_HEADERS)
            if not (content is None or isinstance(content, bytes)):
                kind = type(content).__name__
                raise UsageError(f"header {name!r} is {kind}, wanted is bytes or None", hint=_HEADERS)
            if not name.isascii() and not _is_unicode(name):
                raise UsageError(f"header {name!r} has a name that is no Unicode text")
            size += len(name) + len(content or b"") + 16
    return size


def _is_unicode(text: str) -> bool:
    """False for half a surrogate pair, which JSON may contain."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


class PendingBatch:
    """Single records of one topic, in the order they were sent, until they are assigned to partitions together."""

    __slots__ = ("_builder", "born", "keys", "named", "outcome", "size", "timestamps", "topic", "values")

    def __init__(self, topic: str, outcome: BatchFuture, born: float) -> None:
        self.topic = topic
        self.outcome = outcome
        self.born = born
        self.size = 0
        builder = self._builder = BatchBuilder()
        self.keys = builder.keys
        self.values = builder.values
        self.timestamps = builder.timestamps
        """Appended to last: a record is in the batch as soon as its timestamp is."""
        self.named: dict[int, int] = {}
        """Explicit partitions, by row."""

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: HeadersLike | None,
        partition: int | None,
        size: int,
    ) -> int:
        """Add a record; returns its row."""
        row = len(self.timestamps)
        if partition is not None:
            self.named[row] = partition
        if headers:
            self._builder.add_headers(headers)
        self.keys.append(key)
        self.values.append(value)
        self.timestamps.append(timestamp_ms)
        self.size += size
        return row

    def repair(self) -> None:
        """Remove the half of a record whose ``append`` was interrupted."""
        builder = self._builder
        builder.repair()
        self.named.pop(len(builder), None)
        pairs = enumerate(zip(self.keys, self.values, strict=True))
        self.size = sum(record_size(key, value, builder.headers_of(row)) for row, (key, value) in pairs)

    def __len__(self) -> int:
        return len(self.timestamps)

    def rows(self) -> Rows:
        """A few records as Python objects; more as columns, with ``partition`` if any record names one."""
        if len(self) <= FEW:
            return self._builder.few()
        rows = self._builder.rows()
        if not self.named:
            return rows
        partitions = np.full(rows.num_rows, -1, np.int32)
        partitions[list(self.named)] = list(self.named.values())
        named = number_array(pa.int32(), rows.num_rows, partitions, partitions >= 0)
        return rows.append_column("partition", named)


class StagedTable(Struct, frozen=True):
    """Rows of one topic from one ``send_batch``, as columns."""

    topic: str
    outcome: BatchFuture
    born: float
    size: int
    batch: pa.RecordBatch

    @property
    def named(self) -> Mapping[int, int]:
        """Empty: explicit partitions are a column."""
        return {}

    def rows(self) -> Rows:
        """The columns."""
        return self.batch


# The largest possible record, and the errors for larger ones.
_WITH_LENGTHS: Final = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())


def largest_record(config: ProducerConfig) -> int:
    """The largest size of a record in bytes."""
    return min(config.max_request_bytes, config.buffer_memory_bytes)


def too_large(size: int, config: ProducerConfig) -> UsageError:
    """The error for a record of so many bytes."""
    limit = "max_request_bytes" if size > config.max_request_bytes else "buffer_memory_bytes"
    return UsageError(
        f"a record of {size} bytes is more than {limit}={getattr(config, limit)} allows",
        hint="Raise it, and the server's limit too",
    )


def check_sizes(rows: pa.Table | pa.RecordBatch, config: ProducerConfig) -> None:
    """Raise UsageError if a single key or value is too large to be sent."""
    for name in {"key", "value"} & set(rows.schema.names):
        column = rows.column(name)
        if column.type in _WITH_LENGTHS:
            largest = max(map(longest, column.chunks if isinstance(column, pa.ChunkedArray) else [column]), default=0)
            if largest > largest_record(config):
                raise too_large(largest, config)


_LOCK_S: Final = 1.0


class RecordAccumulator:
    """``wake`` is called in the thread that adds a record when the loop should ``take``."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: ProducerConfig,
        wake: Callable[[], object],
        callbacks: Callbacks = HERE,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._loop = loop
        self._callbacks = callbacks
        self._batch_bytes, self._most_bytes = config.batch_size_bytes, config.buffer_memory_bytes
        self._plain_bytes = min(self._batch_bytes, largest_record(config))
        self._wake = wake
        self._now_ns = now_ns
        self._lock = threading.RLock()  # it knows its owner: see `held_here`
        self._acquire, self._release = self._lock.acquire, self._lock.release
        self._is_owned: Callable[[], bool] = cast("Any", self._lock)._is_owned
        self._has_to_be_looked_at = self._is_owned
        self._putting = False
        self._later: Callable[[], object] | None = None
        self._staged: dict[str, PendingBatch] = {}
        self._sealed: list[PendingBatch | StagedTable] = []
        self._used_bytes = 0
        self._open: dict[int, tuple[BatchFuture, int]] = {}
        self._failure: PenstockError | None = None
        self._refusal: PenstockError | None = None
        _all.add(self)

    @property
    def used_bytes(self) -> int:
        """The approximate size of everything that is not settled yet. May be read from any thread."""
        return self._used_bytes

    def put_plain(
        self,
        topic: object,
        value: object,
        key: object,
        headers: object = None,
        partition: object = None,
        timestamp_ms: object = None,
    ) -> Delivery | None:
        """Add a record of plain bytes without options, as most records are; otherwise do nothing and return None.

        None also for a record that begins a PendingBatch or does not fit into it, for one without free memory, and for
        one that is refused: `put` handles it or raises the reason.

        This is one frame, and it takes the lock without ``with``, which would take twice as long. A signal handler may
        raise after every call, even after ``acquire``, so the release must not depend on asking whether this thread has
        the lock. It did not have the lock before this call (a handler whose interrupted thread has it does not get
        here). The first call after an exception releases the lock, if it was taken. The next owner of the lock repairs
        a half-added record.
        """
        if headers is not None or partition is not None or timestamp_ms is not None or value.__class__ is not bytes:
            return None
        size = OVERHEAD + len(value)
        if key is not None:
            if key.__class__ is not bytes:
                return None
            size += len(key)
        if topic.__class__ is not str or self._has_to_be_looked_at():
            return None
        acquire, release = self._acquire, self._release
        delivery: Delivery | None = None
        try:
            acquire()
            if not self._putting and self._refusal is None:
                self._putting = True
                staging = self._staged.get(topic)
                if (
                    staging is not None
                    and (filled := staging.size + size) < self._plain_bytes
                    and (used := self._used_bytes + size) <= self._most_bytes
                ):
                    now_ms = self._now_ns() // 1_000_000
                    timestamps = staging.timestamps
                    row = len(timestamps)
                    staging.keys.append(key)
                    staging.values.append(value)
                    timestamps.append(now_ms)
                    staging.size, self._used_bytes = filled, used
                    delivery = Delivery()
                    delivery.outcome, delivery._row, delivery._timestamp_ms = staging.outcome, row, now_ms
                self._putting = False
            release()
        except BaseException:
            try:  # noqa: SIM105  # any call before release() would be a point where a second handler may raise
                release()
            except RuntimeError:
                pass  # it was not taken yet, or has already been released
            self._interrupted()
            raise
        finally:
            if self._later is not None:
                self._do_later()
        return delivery

    def put(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: HeadersLike | None,
        partition: int | None,
        timestamp_ms: int,
        size: int,
    ) -> Delivery | None:
        """Add a record; None if there is no free memory for it now. Raises the error that made the producer fail."""
        if self._putting and self.held_here:
            raise _interrupting()
        try:
            with self._lock:
                self._mend()
                if self._refusal is not None:
                    raise self._refusal
                if self._used_bytes and self._used_bytes + size > self._most_bytes:
                    return None
                self._putting = True
                staging = self._staged.get(topic)
                if staging is not None and staging.size + size > self._batch_bytes:
                    self._seal(topic, self._batch_bytes)
                    staging = None
                wake = staging is None
                if staging is None:
                    outcome = BatchFuture(self._loop, topic, self._callbacks)
                    staging = self._staged[topic] = PendingBatch(topic, outcome, self._loop.time())
                    self._open[id(outcome)] = (outcome, 0)
                row = staging.append(key, value, timestamp_ms, headers, partition, size)
                self._used_bytes += size
                if staging.size >= self._batch_bytes:
                    self._seal(topic)
                    wake = True
                self._putting = False
            delivery = Delivery.of(staging.outcome, row, timestamp_ms)
            if wake:
                self._wake()  # last: the loop's thread waits for the interpreter while this thread continues
        except BaseException:
            self._interrupted()
            raise
        finally:
            if self._later is not None:
                self._do_later()
        return delivery

    def put_table(self, topic: str, batch: pa.RecordBatch, size: int) -> BatchFuture | None:
        """Add rows; None if there is no free memory for them now. Raises the error that made the producer fail."""
        if self._putting and self.held_here:
            raise _interrupting()
        try:
            with self._lock:
                self._mend()
                if not self._fits(size):
                    return None
                self._used_bytes += size
                self._seal(topic)
                outcome = BatchFuture(self._loop, topic, self._callbacks)
                table = StagedTable(topic, outcome, self._loop.time(), size, batch)
                table.outcome.size, table.outcome.rows = size, batch.num_rows
                self._open[id(table.outcome)] = (table.outcome, size)
                self._sealed.append(table)
            self._wake()
        finally:
            if self._later is not None:
                self._do_later()
        return table.outcome

    @property
    def held_here(self) -> bool:
        """Whether this thread is adding something. Then the caller is a signal handler that has interrupted it."""
        return self._is_owned()

    def later(self, work: Callable[[], object]) -> None:
        """Call ``work`` in the thread that is adding something, as soon as it has finished."""
        self._later = work

    def has_room(self, size: int) -> bool:
        """Whether so many bytes fit now; anything fits into an empty buffer."""
        return not self._used_bytes or self._used_bytes + size <= self._most_bytes

    def take(self, now: float, after_s: float) -> tuple[list[PendingBatch | StagedTable], float | None]:
        """Full batches and those that began at least ``after_s`` ago; and when the oldest remaining one began."""
        with self._lock:
            self._mend()
            for topic, each in tuple(self._staged.items()):
                if each.born + after_s <= now:
                    self._seal(topic)
            taken, self._sealed = self._sealed, []
            oldest = min([each.born for each in self._staged.values()]) if self._staged else None
        return taken, oldest

    def open_outcomes(self) -> list[BatchFuture]:
        """All deliveries that are not settled."""
        with self._lock:
            return [outcome for outcome, _ in self._open.values()]

    def unsettled(self) -> Counter[str]:
        """Unsettled records by topic. Also called at the interpreter's end."""
        # A daemon thread stopped in a put at the interpreter's end keeps the lock for ever; nothing changes then.
        locked = self._lock.acquire(timeout=_LOCK_S)
        try:
            counts = Counter({topic: len(staging) for topic, staging in self._staged.items()})
            for outcome, _ in self._open.values():
                counts[outcome.topic] += outcome.rows - sum(run.settled for run in outcome.runs or ())
        finally:
            if locked:
                self._lock.release()
        return +counts

    def settled(self, outcome: BatchFuture) -> None:
        """Release the memory of a delivery that is completely settled."""
        with self._lock:
            _, size = self._open.pop(id(outcome), (outcome, 0))
            self._used_bytes -= size

    def gate(self, error: PenstockError | None) -> None:
        """Refuse records with ``error`` until the next call; None accepts them."""
        with self._lock:
            self._refusal = self._failure or error

    def drop(self) -> list[BatchFuture]:
        """Remove and return everything that was not taken."""
        with self._lock:
            self._mend()
            for topic in list(self._staged):
                self._seal(topic)
            left = [each.outcome for each in self._sealed]
            self._sealed.clear()
        return left

    def fail(self, error: PenstockError) -> list[BatchFuture]:
        """Refuse everything from now on; returns what was not taken."""
        with self._lock:
            self._failure = self._refusal = self._failure or error
        return self.drop()

    def _do_later(self) -> None:
        if not self.held_here and (work := self._later) is not None:
            self._later = None
            work()

    def _interrupted(self) -> None:
        """A signal handler has raised in the middle of a ``put``: remove the partial record, send complete ones."""
        with self._lock:
            self._mend()
            left = bool(self._staged or self._sealed)
        if left:
            self._wake()  # the exception may have come just before the wake

    def _mend(self) -> None:
        """Remove the half of a record that an interrupted ``put`` has left, and count again.

        Called by the next owner of the lock: the interrupted thread has released it, and may not be the next to take
        it.
        """
        if not self._putting:
            return
        for topic, staging in list(self._staged.items()):
            if staging in self._sealed:
                del self._staged[topic]
                continue
            staging.repair()
            if not len(staging):
                del self._staged[topic]
                self._open.pop(id(staging.outcome), None)
        sealed = sum(size for _, size in self._open.values())
        self._used_bytes = sealed + sum(each.size for each in self._staged.values())
        self._putting = False

    def _fits(self, size: int) -> bool:
        if self._refusal is not None:
            raise self._refusal
        return self.has_room(size)

    def _seal(self, topic: str, at_least: int = 0) -> None:
        """Close the topic's batch to further records.

        ``at_least``: a batch into which the next record did not fit counts as full, so it does not linger.
        """
        staging = self._staged.get(topic)
        if staging is not None:
            outcome = staging.outcome
            outcome.size, outcome.rows = max(staging.size, at_least), len(staging)
            self._open[id(outcome)] = (outcome, staging.size)
            self._sealed.append(staging)  # first: for a moment it is in both, but never in neither; see `_mend`
            del self._staged[topic]


_all: WeakSet[RecordAccumulator] = WeakSet()


def _after_fork() -> None:
    """A thread that does not exist in the child may hold the lock, so no record takes the fast path there."""
    for each in list(_all):
        each._has_to_be_looked_at = lambda: True


os.register_at_fork(after_in_child=_after_fork)


def nothing_is_plain(*_: object) -> None:
    """Replaces `RecordAccumulator.put_plain` where every record has to be checked."""


def _interrupting() -> UsageError:
    return UsageError(
        "this send() is in a signal's handler that has interrupted another one",
        hint="Set a flag in the handler, and send where it is looked at",
    )


# Waiting until ``buffer_memory_bytes`` has space for another record.
class BufferMemory:
    """Lives on the loop. ``hurry`` sends everything possible while a caller waits."""

    def __init__(self, intake: RecordAccumulator, max_block_ms: int, hurry: Callable[[], None]) -> None:
        self._intake = intake
        self._max_block_ms = max_block_ms
        self._hurry = hurry
        self._loop = asyncio.get_running_loop()
        self.waiting: set[asyncio.Future[None]] = set()
        """One future per waiting caller."""

    async def wait(self, size: int) -> None:
        """Return when so many bytes may fit. Raises BufferFull after ``max_block_ms``, Closed at the producer's end."""
        deadline = self._loop.time() + self._max_block_ms / 1_000
        try:
            async with asyncio.timeout_at(deadline):
                while not self._intake.has_room(size):
                    await self._change()
        except TimeoutError:
            raise BufferFull(
                f"no room for {size} bytes within max_block_ms={self._max_block_ms}",
                hint="The log is slower than you: wait for deliveries, or raise buffer_memory_bytes",
            ) from None

    def look_again(self) -> None:
        """Memory was released: wake the waiting callers."""
        for each in self.waiting:
            if not each.done():
                each.set_result(None)

    def refuse(self, error: PenstockError) -> None:
        """Raise this error in all waiting callers."""
        for each in self.waiting:
            if not each.done():
                each.set_exception(error)

    async def _change(self) -> None:
        changed: asyncio.Future[None] = self._loop.create_future()
        self.waiting.add(changed)
        try:
            self._hurry()
            await changed
        finally:
            self.waiting.discard(changed)
