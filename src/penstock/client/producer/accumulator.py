"""Checks what is sent, and buffers it: any thread puts records in, and the loop takes them out in order.

RecordValidator checks records and tables in the sending thread, and runs serializers. RecordAccumulator holds what is
not settled yet, under one lock, and counts its memory. A record costs only a few list appends
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
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, cast
from weakref import WeakSet

import numpy as np
import pyarrow as pa
from msgspec import Struct

from penstock.client.arguments import TopicNames, check_callable, check_partition_id, check_timestamp
from penstock.client.connecting import ClientClock
from penstock.client.errors import BufferFull
from penstock.client.producer.delivery import BatchFuture, Delivery
from penstock.client.runtime.callbacks import HERE, Callbacks
from penstock.config import ProducerConfig
from penstock.errors import PenstockError, UsageError
from penstock.records import Messages
from penstock.records.arrow import HEADERS_TYPE, TYPES, longest, number_array
from penstock.records.encoding import BatchBuilder, HeadersLike
from penstock.records.messages import Serializer, serialized
from penstock.records.scalar_writer import FEW, Rows

__all__ = [
    "OVERHEAD",
    "ArrowArray",
    "ArrowStream",
    "BufferMemory",
    "PendingBatch",
    "RecordAccumulator",
    "RecordValidator",
    "RowsLike",
    "Serializers",
    "StagedTable",
    "check_sizes",
    "largest_record",
    "nothing_is_plain",
    "payload",
    "pieces",
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
    raise UsageError(f"{name} must be bytes or None, got {type(given).__name__}", hint=hint)


def _pairs(headers: object) -> Iterator[tuple[object, object]]:
    """Names and values as given. Raises UsageError for another shape."""
    if hasattr(headers, "items"):
        headers = headers.items()
    if isinstance(headers, str | bytes) or not isinstance(headers, Sequence | Set):
        raise UsageError(f"headers must be a dict or a list of pairs, got {type(headers).__name__}", hint=_HEADERS)
    for pair in headers:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise UsageError(f"a header must be a pair, got {pair!r:.80}", hint=_HEADERS)
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
                raise UsageError(f"header {name!r} must be bytes or None, got {kind}", hint=_HEADERS)
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
        hint="Set a flag in the handler, and send where you check it",
    )


# Waiting until ``buffer_memory_bytes`` has space for another record.
class BufferMemory:
    """Lives on the loop. ``hurry`` sends everything possible while a caller waits."""

    def __init__(self, accumulator: RecordAccumulator, max_block_ms: int, hurry: Callable[[], None]) -> None:
        self._accumulator = accumulator
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
                while not self._accumulator.has_room(size):
                    await self._change()
        except TimeoutError:
            raise BufferFull(
                f"no room for {size} bytes within max_block_ms={self._max_block_ms}",
                hint="The log is slower than the sender: wait for deliveries, or raise buffer_memory_bytes",
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


# Tables from users: anything that exports Arrow, rows of a consumer included, cut into pieces.
_TYPES: Final = {"key": pa.binary(), "value": pa.binary(), "headers": HEADERS_TYPE, "topic": pa.string()}
_WITHOUT_VIEWS: Final = {"key": pa.large_binary(), "value": pa.large_binary(), "topic": pa.large_string()}
"""Large types, which hold any amount of data; a piece of a batch's size is then cast to the types above."""
_ROWS_WITHOUT_VIEWS: Final = 65_536
_SENT: Final = ("key", "value", "headers", "timestamp", "partition")
_ORIGIN: Final = frozenset({"topic", "offset", "node"})
"""Columns of rows that were read. In a table with one of these, a column partition says where a row came from."""
_INDEX: Final = "__index_level_"
"""The prefix of pandas' name for an exported index without a name."""


class ArrowStream(Protocol):
    """Rows as an Arrow PyCapsule stream: `penstock.Messages`, tables and readers of pyarrow, Polars, DuckDB, pandas."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream."""
        ...


class ArrowArray(Protocol):
    """Rows as an Arrow PyCapsule array of structs: record batches of pyarrow, nanoarrow and others."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """The schema and the array."""
        ...


RowsLike = ArrowStream | ArrowArray
"""The type of rows for ``send_batch``."""


def pieces(
    topic: str | None, given: RowsLike, most_bytes: int, check: Callable[[pa.RecordBatch | pa.Table], None]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """``given`` as batches of about ``most_bytes`` or less, each with its topic; ``check`` gets keys and values first.

    Raises UsageError for an object without rows, and for columns that cannot be sent: before anything of a table in
    memory is returned, and for a stream before anything of the offending batch.
    """
    for table in _tables(given):
        names = _obeyed(topic, table.schema)
        rows = table.select(names).replace_schema_metadata(None)
        check(rows)
        for batch in _without_views(rows):
            for piece in _slices(batch, most_bytes):
                fitting = _fitting(piece)
                if fitting is not piece:
                    check(fitting)
                if topic is not None:
                    yield topic, fitting
                else:
                    yield from _by_topic(fitting)


def _tables(given: RowsLike) -> Iterator[pa.Table]:
    """A table in memory as a whole, a stream batch by batch; at least one table, so that there is a schema to check."""
    if isinstance(given, Messages):
        yield given.to_arrow()
    elif isinstance(given, pa.Table):
        yield given
    elif isinstance(given, pa.RecordBatch):
        yield pa.Table.from_batches([given])
    elif hasattr(given, "__arrow_c_stream__"):
        with _imported(pa.RecordBatchReader.from_stream, given) as reader:
            yield reader.schema.empty_table()
            for batch in reader:
                yield pa.Table.from_batches([batch])
    elif hasattr(given, "__arrow_c_array__"):
        yield pa.Table.from_batches([_imported(pa.record_batch, given)])
    else:
        hint = "pyarrow.table() makes a table of columns; send() takes single records"
        raise UsageError(f"rows must be Messages or an Arrow table or stream, got {type(given).__name__}", hint=hint)


def _imported(read: Callable[[RowsLike], pa.RecordBatchReader], given: RowsLike) -> pa.RecordBatchReader:
    try:
        return read(given)
    except (pa.ArrowInvalid, TypeError) as error:
        raise UsageError(f"rows are {type(given).__name__}, which exports no table to Arrow: {error}") from None


def _obeyed(topic: str | None, schema: pa.Schema) -> list[str]:
    """The columns with what to send and where to; a consumer's other columns say where a row came from."""
    names = [name for name in schema.names if not name.startswith(_INDEX)]
    unknown = [name for name in names if name not in TYPES]
    if unknown or "value" not in names or len(set(names)) < len(names):
        raise UsageError(
            f"the table has {', '.join(names) or 'no columns'}",
            hint=f"Columns to send are {', '.join(_SENT)}, of which only value is needed; select() or rename them",
        )
    if topic is None and "topic" not in names:
        raise UsageError("no topic is named, and the rows have no column topic")
    obeyed = {*_SENT} - {name for name in names if pa.types.is_null(schema.field(name).type) and name != "value"}
    if topic is None:
        obeyed.add("topic")
    elif _ORIGIN & {*names}:
        obeyed.discard("partition")
    chosen = [name for name in names if name in obeyed]
    for name in chosen:
        _check_type(name, schema.field(name).type)
    return chosen


def _check_type(name: str, kind: pa.DataType) -> None:
    """Raise UsageError for a column type that cannot be sent, whatever its values."""
    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    types = pa.types
    is_text = any(test(kind) for test in (types.is_string, types.is_large_string, types.is_string_view))
    is_bytes = any(test(kind) for test in (types.is_binary, types.is_large_binary, types.is_binary_view))
    match name:
        case "topic":
            fits, wanted = is_text, "string"
        case "key" | "value":
            fits, wanted = (
                is_text or is_bytes or types.is_fixed_size_binary(kind) or types.is_null(kind),
                ("binary or string"),
            )
        case "timestamp":
            fits, wanted = types.is_timestamp(kind) or types.is_integer(kind), "timestamps, or integers of milliseconds"
        case "partition":
            fits, wanted = types.is_integer(kind) or types.is_floating(kind), "integers"
        case _:
            fits, wanted = _casts(kind, HEADERS_TYPE), "a list of key and value"
    if not fits:
        raise UsageError(f"column {name} must hold {wanted}, got {kind}")


def _casts(kind: pa.DataType, to: pa.DataType) -> bool:
    try:
        pa.array([], kind).cast(to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _without_views(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """``rows`` in types whose size in bytes is known.

    Views (text of Polars) share their buffers with rows outside of a slice. pyarrow 22 and later counts all of them for
    each slice, and earlier versions raise. So views are copied, some at a time; other columns stay unchanged.
    """
    viewed = [name for name in _TYPES if name in rows.schema.names and _has_views(rows.schema.field(name).type)]
    for batch in rows.to_batches(max_chunksize=_ROWS_WITHOUT_VIEWS if viewed else None):
        for name in viewed:
            column = _cast(name, batch.column(name), _WITHOUT_VIEWS.get(name, HEADERS_TYPE))
            batch = batch.set_column(batch.schema.get_field_index(name), name, column)
        yield batch


def _has_views(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.DictionaryType):
        return _has_views(kind.value_type)
    is_view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return is_view or any(_has_views(kind.field(number).type) for number in range(kind.num_fields))


def _slices(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    count = max(1, -(-batch.nbytes // most_bytes))
    rows = max(1, -(-batch.num_rows // count))
    for first in range(0, batch.num_rows, rows):
        yield batch.slice(first, rows)


def _fitting(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in the types that senders pack; columns that already have them are not copied."""
    if all(batch.schema.field(name).type == kind for name, kind in _TYPES.items() if name in batch.schema.names):
        return batch
    columns = {
        name: column if (kind := _TYPES.get(name)) is None else _cast(name, column, kind)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return pa.RecordBatch.from_pydict(columns)


def _cast(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        if isinstance(column, pa.DictionaryArray):  # Arrow cannot take values of every type
            column = pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(kind))
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f"column {name} is {column.type}, which cannot be sent: {error}") from None


def _by_topic(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, in order; topics in the order of their first rows."""
    index = batch.schema.get_field_index("topic")
    topics, rows = batch.column(index), batch.remove_column(index)
    if topics.null_count:
        raise UsageError("a row has no topic", hint="Name a topic for all rows, or give each its own")
    codes = topics.dictionary_encode()
    names: Sequence[str] = codes.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], rows
        return
    numbers = codes.indices.to_numpy(zero_copy_only=False)
    for number, name in enumerate(names):
        yield name, rows.filter(pa.array(numbers == number))


RecordToPut: TypeAlias = "tuple[str, bytes | None, bytes | None, HeadersLike | None, int | None, int, int]"
"""Topic, key, value, headers, partition, timestamp in ms, size: the arguments of ``RecordAccumulator.put``."""

TableToPut: TypeAlias = tuple[str, pa.RecordBatch, int]
"""Topic, rows, size: the arguments of ``RecordAccumulator.put_table``."""


class RecordValidator:
    """The checks of one producer."""

    def __init__(self, names: TopicNames, config: ProducerConfig, clock: ClientClock) -> None:
        self._names = names
        self._config = config
        self._now_ns = clock.now_ns
        self._largest_record = largest_record(config)

    def record(
        self,
        topic: str,
        value: object,
        key: object,
        headers: HeadersLike | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> RecordToPut:
        """A checked record for the accumulator. Raises UsageError for a record that can never be sent."""
        if topic.__class__ is not str or topic not in self._names.known:
            topic = self._names.one(topic)
        if key is not None and key.__class__ is not bytes:
            key = payload("key", key)
        if value.__class__ is not bytes:
            value = payload("value", value)
        size = record_size(key, value, headers)
        if size > self._largest_record:
            raise too_large(size, self._config)
        if partition is not None:
            partition = check_partition_id(partition, topic)
        timestamp_ms = self._now_ns() // 1_000_000 if timestamp_ms is None else check_timestamp(timestamp_ms)
        return topic, key, value, headers, partition, timestamp_ms, size

    def tables(self, topic: str | None, rows: RowsLike) -> Iterator[TableToPut]:
        """Rows for the accumulator, piece by piece. Raises UsageError for columns that cannot be sent."""
        if topic is not None:
            topic = self._names.one(topic)
        # Pieces are large enough to fill batches of many partitions, and small enough to bound memory.
        most_bytes = max(1, min(16 * self._config.batch_size_bytes, self._config.buffer_memory_bytes // 4))
        check = partial(check_sizes, config=self._config)
        found = pieces(topic, rows, most_bytes, check)
        return ((self._names.one(name), batch, max(batch.nbytes, 1)) for name, batch in found)


# Serializers run where a record is sent, in the sender's thread and traceback.
class Serializers(Struct, frozen=True):
    """The functions that turn keys and values into bytes; None for bytes."""

    key: Serializer[Any] | None
    value: Serializer[Any] | None

    @classmethod
    def of(cls, key: object, value: object) -> Serializers | None:
        """Both serializers; None if there are none. Raises ConfigError for one that is not callable."""
        for name, given in (("key_serializer", key), ("value_serializer", value)):
            check_callable(name, given, "For JSON it is penstock.to_json, for text penstock.to_utf8")
        if key is None and value is None:
            return None
        return cls(cast("Serializer[Any] | None", key), cast("Serializer[Any] | None", value))

    def record(
        self,
        put: Callable[..., RecordToPut],
        topic: str,
        value: object,
        key: object,
        headers: HeadersLike | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> RecordToPut:
        """Call ``put`` with the serialized key and value. Raises UsageError."""
        if self.key is not None:
            key = serialized("key", self.key, key, topic)
        if self.value is not None:
            value = serialized("value", self.value, value, topic)
        return put(topic, value, key, headers, partition, timestamp_ms)
