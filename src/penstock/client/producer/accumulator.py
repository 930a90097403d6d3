"""Intake: where any thread puts records in, under one lock, and the loop takes them out in order.

It counts the memory of everything that is not settled yet. A record costs a few list appends here and nothing else
(`RecordAccumulator.put_plain`); the loop is woken when a staging begins (its linger starts) and when one is full.
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

from penstock._dataclasses import dataclass
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

# What users put in: single records, checked and brought into the columns that senders pack, and tables beside them.
#
# A wrong record is refused where it is put in, in the caller's traceback, and never takes a batch of good ones with it.
_HEADERS: Final = "Headers are text to bytes or None"
OVERHEAD: Final = 80
"""Bytes of memory and of batch that a record takes beside its key and value, about."""


def payload(name: str, given: object) -> bytes | None:
    """A key or a value as bytes. Raises UsageError."""
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    hint = "Encode text first: text.encode()" if isinstance(given, str) else "Serialise it first"
    raise UsageError(f"{name} is {type(given).__name__}, wanted is bytes or None", hint=hint)


def _pairs(headers: object) -> Iterator[tuple[object, object]]:
    """Names and contents as they were given. Raises UsageError for what has none."""
    if hasattr(headers, "items"):
        headers = headers.items()
    if isinstance(headers, str | bytes) or not isinstance(headers, Sequence | Set):
        raise UsageError(f"headers are {type(headers).__name__}, wanted is a dict or a list of pairs", hint=_HEADERS)
    for pair in headers:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise UsageError(f"one of the headers is {pair!r:.80}, wanted is a pair", hint=_HEADERS)
        yield pair[0], pair[1]


def record_size(key: bytes | None, value: bytes | None, headers: HeadersLike | None) -> int:
    """About what a record weighs. Raises UsageError for headers of another shape."""
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
    """Half a surrogate pair, as JSON may carry it, is none."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


class PendingBatch:
    """Single records of one topic, put in one after the other, until they are given to partitions together."""

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
        """Appended to last: a record is in as soon as its timestamp is."""
        self.named: dict[int, int] = {}
        """The partitions that records named, by row."""

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
        """Forget the half of a record whose ``append`` was interrupted."""
        builder = self._builder
        builder.repair()
        self.named.pop(len(builder), None)
        pairs = enumerate(zip(self.keys, self.values, strict=True))
        self.size = sum(record_size(key, value, builder.headers_of(row)) for row, (key, value) in pairs)

    def __len__(self) -> int:
        return len(self.timestamps)

    def rows(self) -> Rows:
        """The records as they are where they are few; else as columns, with ``partition`` if any record named one."""
        if len(self) <= FEW:
            return self._builder.few()
        rows = self._builder.rows()
        if not self.named:
            return rows
        partitions = np.full(rows.num_rows, -1, np.int32)
        partitions[list(self.named)] = list(self.named.values())
        named = number_array(pa.int32(), rows.num_rows, partitions, partitions >= 0)
        return rows.append_column("partition", named)


@dataclass(frozen=True, slots=True)
class StagedTable:
    """Rows of one topic that were put in together, as columns."""

    topic: str
    outcome: BatchFuture
    born: float
    size: int
    batch: pa.RecordBatch

    @property
    def named(self) -> Mapping[int, int]:
        """No partition is named beside the columns."""
        return {}

    def rows(self) -> Rows:
        """The columns."""
        return self.batch


# How large a record may be, and what is said of one that could never be sent.
_WITH_LENGTHS: Final = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())


def largest_record(config: ProducerConfig) -> int:
    """Bytes that a record may have."""
    return min(config.max_request_bytes, config.buffer_memory_bytes)


def too_large(size: int, config: ProducerConfig) -> UsageError:
    """The error for a record of so many bytes."""
    limit = "max_request_bytes" if size > config.max_request_bytes else "buffer_memory_bytes"
    return UsageError(
        f"a record of {size} bytes is more than {limit}={getattr(config, limit)} allows",
        hint="Raise it, and the server's limit too",
    )


def check_sizes(rows: pa.Table | pa.RecordBatch, config: ProducerConfig) -> None:
    """Raise UsageError if a key or a value alone is more than could ever be sent."""
    for name in {"key", "value"} & set(rows.schema.names):
        column = rows.column(name)
        if column.type in _WITH_LENGTHS:
            largest = max(map(longest, column.chunks if isinstance(column, pa.ChunkedArray) else [column]), default=0)
            if largest > largest_record(config):
                raise too_large(largest, config)


_LOCK_S: Final = 1.0


class RecordAccumulator:
    """``wake`` is called, from whichever thread puts something in, when the loop should ``take``."""

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
        self._lock = threading.RLock()  # which knows its owner: see `held_here`
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
        """About what was put in and is not settled yet. May be asked from any thread."""
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
        """Put in a record that is bytes and nothing else, as most are. None, and nothing is done, for any other, and
        for one that begins a staging or does not fit into it, has no room or is refused: `put` does that, or says why.

        One frame, and a lock without ``with``, which takes twice as long. So whoever gives it back has to ask nobody
        whether he has it: a signal's handler may raise behind every call, that of ``acquire`` included, and it was not
        this thread's before (in a handler it may be: that is no record for here). An exception's first call gives it
        back, if it was taken, and what is half in is mended by whoever takes the lock next.
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
            try:  # noqa: SIM105  # a call before this one would be a place where a second handler may raise
                release()
            except RuntimeError:
                pass  # it was not taken yet, or is given back already
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
        """Put a record in; None if there is no room for it now. Raises what made the producer fail."""
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
                self._wake()  # last: the loop's thread waits for the interpreter as long as this one goes on
        except BaseException:
            self._interrupted()
            raise
        finally:
            if self._later is not None:
                self._do_later()
        return delivery

    def put_table(self, topic: str, batch: pa.RecordBatch, size: int) -> BatchFuture | None:
        """Put rows in; None if there is no room for them now. Raises what made the producer fail."""
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
        """Whether this thread is putting something in: then this is a signal's handler that has interrupted it."""
        return self._is_owned()

    def later(self, work: Callable[[], object]) -> None:
        """Do it, in the thread that puts something in just now, as soon as it has."""
        self._later = work

    def has_room(self, size: int) -> bool:
        """Whether so many bytes fit now; something always fits into an empty buffer."""
        return not self._used_bytes or self._used_bytes + size <= self._most_bytes

    def take(self, now: float, after_s: float) -> tuple[list[PendingBatch | StagedTable], float | None]:
        """What is full, and what was begun ``after_s`` ago or earlier; and when the oldest of the rest was begun."""
        with self._lock:
            self._mend()
            for topic, each in tuple(self._staged.items()):
                if each.born + after_s <= now:
                    self._seal(topic)
            taken, self._sealed = self._sealed, []
            oldest = min([each.born for each in self._staged.values()]) if self._staged else None
        return taken, oldest

    def open_outcomes(self) -> list[BatchFuture]:
        """Everything that was put in and is not settled."""
        with self._lock:
            return [outcome for outcome, _ in self._open.values()]

    def unsettled(self) -> Counter[str]:
        """How many records by topic were put in and are not settled. Asked at the interpreter's end, too."""
        # A daemon thread that the interpreter's end has stopped in a put keeps the lock for ever; nothing changes then.
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
        """Give back the memory of something that is settled as a whole."""
        with self._lock:
            _, size = self._open.pop(id(outcome), (outcome, 0))
            self._used_bytes -= size

    def gate(self, error: PenstockError | None) -> None:
        """Refuse records with ``error`` until further notice; None takes them."""
        with self._lock:
            self._refusal = self._failure or error

    def drop(self) -> list[BatchFuture]:
        """Forget what was put in and not taken; returns it."""
        with self._lock:
            self._mend()
            for topic in list(self._staged):
                self._seal(topic)
            left = [each.outcome for each in self._sealed]
            self._sealed.clear()
        return left

    def fail(self, error: PenstockError) -> list[BatchFuture]:
        """Refuse everything from now on; returns what was put in and not taken."""
        with self._lock:
            self._failure = self._refusal = self._failure or error
        return self.drop()

    def _do_later(self) -> None:
        if not self.held_here and (work := self._later) is not None:
            self._later = None
            work()

    def _interrupted(self) -> None:
        """A signal's handler has raised in the middle of a ``put``: what is half in goes, what is in goes its way."""
        with self._lock:
            self._mend()
            left = bool(self._staged or self._sealed)
        if left:
            self._wake()  # it may have come just before that was done

    def _mend(self) -> None:
        """Forget the half of a record that an interrupted ``put`` has left, and count anew.

        By whoever has taken the lock: the thread that was interrupted has given it back, and may not be the next.
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
        """Nothing is added any more. What the next record does not fit into is ``at_least`` a batch: nobody waits."""
        staging = self._staged.get(topic)
        if staging is not None:
            outcome = staging.outcome
            outcome.size, outcome.rows = max(staging.size, at_least), len(staging)
            self._open[id(outcome)] = (outcome, staging.size)
            self._sealed.append(staging)  # first: it is in both for a moment, and never in none; see `_mend`
            del self._staged[topic]


_all: WeakSet[RecordAccumulator] = WeakSet()


def _after_fork() -> None:
    """The lock may be held by a thread that is not in this process: who asks for it is to look at more before."""
    for each in list(_all):
        each._has_to_be_looked_at = lambda: True


os.register_at_fork(after_in_child=_after_fork)


def nothing_is_plain(*_: object) -> None:
    """What stands in for `RecordAccumulator.put_plain` where every record has to be looked at."""


def _interrupting() -> UsageError:
    return UsageError(
        "this send() is in a signal's handler that has interrupted another one",
        hint="Set a flag in the handler, and send where it is looked at",
    )


# Room: who waits until ``buffer_memory_bytes`` have room for another record, and how that ends.
class BufferMemory:
    """Lives on the loop. ``hurry`` has everything sent that can be, while somebody waits."""

    def __init__(self, intake: RecordAccumulator, max_block_ms: int, hurry: Callable[[], None]) -> None:
        self._intake = intake
        self._max_block_ms = max_block_ms
        self._hurry = hurry
        self._loop = asyncio.get_running_loop()
        self.waiting: set[asyncio.Future[None]] = set()
        """One for each who waits."""

    async def wait(self, size: int) -> None:
        """Return once so many bytes may fit. Raises BufferFull after ``max_block_ms``, Closed at the producer's end."""
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
        """There may be room now."""
        for each in self.waiting:
            if not each.done():
                each.set_result(None)

    def refuse(self, error: PenstockError) -> None:
        """Whoever waits now gets this."""
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
