"""Implements ``_sink_once.TransactionalLog`` on a real log, and writes a task's rows in a transaction."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock import _clock
from penstock.client import Admin, BatchDelivery, Producer, RangeReader
from penstock.client.errors import TransactionAborted
from penstock.config import ClientConfig, OptionValue, ProducerConfig
from penstock.config.fields import fields
from penstock.errors import (
    ErrorKind,
    FencedError,
    OffsetOutOfRange,
    PenstockError,
    RequestTimeout,
    ServerError,
    UsageError,
)
from penstock.interfaces import NewTopic
from penstock.model import LogRange, Partition
from penstock.spark._sink_once import Marker, Slot
from penstock.spark._sink_options import SinkOptions
from penstock.spark._sink_rows import Columns, by_topic

__all__ = ["Fingerprint", "Transactions"]

# The fingerprint of a task's rows is independent of their order; it makes no Python object per row.
#
# It shows whether a rerun of a task got the same rows. It does not protect against forgery, only against a different
# division of the batch into tasks. So it mixes the length, byte sum, first and last bytes of each row's key and value,
# and adds up the rows.
Words = npt.NDArray[np.uint64]
_ODD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)
_SEEDS = {"key": 0x1F83D9ABFB41BD6B, "value": 0x5BE0CD19137E2179}


class Fingerprint:
    """The fingerprint of rows: ``add`` them batch by batch, in any order, then read ``text``."""

    def __init__(self) -> None:
        self._sum = np.uint64(0)
        self.rows = 0

    def add(self, topic: str, rows: pa.RecordBatch) -> None:
        """Add rows of one topic, with columns key and value as for a producer."""
        mixed = np.full(rows.num_rows, np.uint64(_text_seed(topic)))
        for name, seed in _SEEDS.items():
            index = rows.schema.get_field_index(name)
            if index >= 0:
                mixed = _mix(mixed + _of_column(rows.column(index), np.uint64(seed)))
        self._sum = np.uint64((int(self._sum) + int(mixed.sum(dtype=np.uint64))) % 2**64)
        self.rows += rows.num_rows

    @property
    def text(self) -> str:
        """The fingerprint as markers store it."""
        return f"{int(self._sum):016x}"


def _of_column(column: pa.Array, seed: np.uint64) -> Words:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
    column = column.cast(pa.large_binary())
    _, ends, data = column.buffers()
    bounds = np.frombuffer(ends, np.int64, len(column) + 1, 8 * column.offset)
    low, high = int(bounds[0]), int(bounds[-1])
    # Eight zero bytes after the data, so that the last bytes of a short row can be read as a word, too.
    plain = np.zeros(high - low + 8, np.uint8)
    plain[: high - low] = np.frombuffer(data or b"", np.uint8)[low:high]
    starts, stops = bounds[:-1] - low, bounds[1:] - low
    lengths = (stops - starts).astype(np.uint64)
    if not len(lengths):
        return lengths
    sums: Words = np.add.reduceat(plain, starts, dtype=np.uint64)
    sums[lengths == 0] = 0  # an empty row would otherwise have its neighbour's byte
    mixed: Words = _mix(lengths + seed) + sums * np.uint64(_ODD[1])
    # A word at every byte. Words of a row shorter than eight bytes reach into the next row; that part is masked.
    words = np.ndarray(len(plain) - 7, "<u8", buffer=plain, strides=(1,))
    short = np.uint64(8) - np.minimum(lengths, np.uint64(8))
    kept = np.where(lengths > 0, np.uint64(2**64 - 1) >> (np.uint64(8) * np.minimum(short, np.uint64(7))), np.uint64(0))
    for at, odd in ((starts, _ODD[2]), (np.maximum(stops - 8, starts), _ODD[3])):
        mixed = _mix(mixed + (words[at] & kept) * np.uint64(odd))
    if column.null_count:
        mixed[~column.is_valid().to_numpy(zero_copy_only=False)] = seed
    return mixed


def _mix(words: Words) -> Words:
    """splitmix64's finalizer: every bit of a row affects every bit of its part of the sum."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(_ODD[1])
    words = (words ^ (words >> np.uint64(27))) * np.uint64(_ODD[2])
    mixed: Words = words ^ (words >> np.uint64(31))
    return mixed


def _text_seed(text: str) -> int:
    seed = _ODD[0]
    for byte in text.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    return seed


TASK_TIMEOUT_MS: Final = 900_000
"""A prepared transaction waits for the slowest task and, if the driver dies, for the next driver. So it is the maximum
that a broker allows by default (transaction.max.timeout.ms)."""

_DRIVER_TIMEOUT_MS: Final = 10_000
"""Transactions of markers last milliseconds; readers of markers wait for one that a dead driver left open."""

_PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.02
_MARKER_TOPIC: Final = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
_PAUSE_FOR_BROKERS_S: Final = 0.5

_PRODUCERS_OWN: Final = {each.name for each in fields(ProducerConfig)} - {each.name for each in fields(ClientConfig)}
"""Readers and admins use the other options: addresses, timeouts, and a protocol's options for every client."""

_seen: dict[tuple[str, str], tuple[int, dict[bytes, bytes]]] = {}
"""By address and marker topic: the offset up to which it was read, and the last marker of each query. Workers are
reused, so a task reads only the records since then."""


class Transactions:
    """The transactions of one sink. It connects on first use and must be closed. For one thread at a time."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._plain = {name: value for name, value in options.patient.items() if name not in _PRODUCERS_OWN}
        self._admin: Admin | None = None
        self._committed: RangeReader | None = None
        self._driver: Producer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._admin, self._committed, self._driver):
            if each is not None:
                _hang_up(each)

    def write(self, query: str, task: int, columns: Columns, batches: Iterable[pa.RecordBatch]) -> Slot:
        """Write a task's rows in one transaction, and leave it prepared. Aborts an earlier attempt's transaction."""
        options: dict[str, OptionValue] = {"transaction_timeout_ms": TASK_TIMEOUT_MS, **self._options.patient}
        producer = self._producer(self._id(query, str(task)), options)
        try:
            producer.begin_transaction()
            fingerprint, deliveries = _send(producer, self._options, columns, batches)
            prepared = producer.prepare_transaction()
        except BaseException as error:
            _hang_up(producer)  # this aborts the transaction
            if isinstance(error, TransactionAborted) and isinstance(error.__cause__, PenstockError):
                raise error.__cause__ from None  # the bad row's error; good rows were dropped only because of it
            raise
        stored = [span for delivery in deliveries for span in delivery.result()]
        producer.close()
        first = stored[0] if stored else None
        witness = None if first is None else LogRange.of(Partition.of(first), first.start, first.start + 1)
        return Slot(task, prepared, fingerprint.rows, fingerprint.text, witness)

    def marker(self, query: str) -> Marker | None:
        """The last marker that was written before this call."""
        topic = self._options.marker_topic
        partition = Partition(topic, 0)
        if topic not in self._reader.topics([topic]):
            return None
        end = self._settled_end(partition)
        key = (self._options.address, topic)
        position, found = _seen.get(key, (0, {}))
        if position > end:  # the topic was recreated
            position, found = 0, {}
        position = max(position, self._reader.beginning_offsets([partition])[partition])
        for messages in self._reader.read(LogRange(topic, 0, position, end), columns=("key", "value")):
            rows = messages.to_arrow(("key", "value"))
            found.update(zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True))
        _seen[key] = (end, found)
        stored = found.get(query.encode())
        return None if stored is None else Marker.from_bytes(stored)

    def complete(self, slot: Slot, *, commit: bool) -> bool:
        """Commit or abort. True if it ended that way, now or before; False if it ended the other way for good."""
        try:
            self._admin_client.complete_transaction(slot.prepared, commit=commit)
        except FencedError:
            # Its transactional id was taken over, either before its end, which aborted it, or after that.
            return self._is_shown(slot) is commit
        except ServerError as error:
            if error.kind is not ErrorKind.WRONG_TRANSACTION_STATE:
                raise
            return False
        return True

    def own(self, query: str) -> None:
        """Fence all other drivers of this query."""
        if self._driver is not None:
            _hang_up(self._driver)
        options: dict[str, OptionValue] = {**self._options.patient, "transaction_timeout_ms": _DRIVER_TIMEOUT_MS}
        self._driver = self._producer(self._id(query, "driver"), options)

    def decide(self, marker: Marker) -> None:
        """Write a marker durably. Raises FencedError if another driver has called ``own`` since."""
        assert self._driver is not None
        self._create_marker_topic()
        with self._driver.transaction():
            self._driver.send(
                self._options.marker_topic, key=marker.query.encode(), value=marker.to_bytes(), partition=0
            )

    def take_over(self, query: str, task: int) -> None:
        """Abort the transaction that a task which no longer exists may have left open."""
        self._producer(self._id(query, str(task)), self._options.patient).close()

    def _producer(self, transactional_id: str, options: Mapping[str, OptionValue]) -> Producer:
        producer = Producer(self._options.address, **{**options, "transactional_id": transactional_id})
        try:
            producer.init_transactions()
        except (UsageError, ServerError) as error:
            _hang_up(producer)
            if error.retriable or isinstance(error, FencedError):
                raise
            if isinstance(error, ServerError) and error.kind is ErrorKind.TRANSACTION_TIMEOUT_TOO_LONG:
                error.hint = "Set kafka.transaction.timeout.ms to what the log allows (transaction.max.timeout.ms)"
                raise
            raise UsageError(
                f"exactly-once needs transactions; the log at {self._options.address} refuses them: {error.message}",
                hint="Set deliveryGuarantee to at-least-once, and dedupHeaders=true so that readers can drop"
                " repeated rows",
            ) from error
        return producer

    def _id(self, query: str, part: str) -> str:
        return f"{self._options.transactional_id_prefix}-{query}-{part}"

    def _settled_end(self, partition: Partition) -> int:
        """The end of the partition once no transaction before it is open.

        A reader of committed records stops at the oldest open transaction, of any query, and would miss a marker that
        was committed after it.
        """
        with RangeReader(self._options.address, **self._plain) as everything:
            end = everything.end_offsets([partition])[partition]
        return self._wait_for(partition, end)

    def _wait_for(self, partition: Partition, offset: int) -> int:
        deadline = _clock.monotonic() + _PATIENCE_S
        while (settled := self._reader.end_offsets([partition])[partition]) < offset:
            if _clock.monotonic() > deadline:
                raise RequestTimeout(
                    f"an open transaction has hidden what was committed after offset {settled} for {_PATIENCE_S:.0f} s",
                    topic=partition.topic,
                    partition=partition.id,
                    hint="Find out who holds it: kafka-transactions.sh find-hanging",
                )
            time.sleep(_PAUSE_S)
        return settled

    def _is_shown(self, slot: Slot) -> bool:
        """Whether a reader of committed records sees the witness, once no transaction before it is open."""
        witness = slot.witness
        assert witness is not None  # without rows there is no transaction whose id could be taken over
        self._wait_for(Partition.of(witness), witness.end)
        try:
            if any(len(messages) for messages in self._reader.read(witness, columns=("offset",))):
                return True
        except OffsetOutOfRange as error:
            error.hint = "It is no longer known whether the batch is stored: its rows were deleted"
            raise
        if "compact" in self._admin_client.topic_config(witness.topic).get("cleanup.policy", ""):
            raise UsageError(
                f"task {slot.task}: it is not known whether its rows are stored: the topic is compacted",
                topic=witness.topic,
                partition=witness.partition,
                offset=witness.start,
                hint="Look for the record; then go on with a new checkpoint",
            )
        return False

    def _create_marker_topic(self) -> None:
        name = self._options.marker_topic
        deadline = _clock.monotonic() + _PATIENCE_S
        while name not in self._reader.topics([name]):
            try:
                self._admin_client.create_topics([NewTopic(name, partitions=1, config=_MARKER_TOPIC)])
            except ServerError as error:
                if error.kind is ErrorKind.TOPIC_EXISTS:
                    return
                # Too few nodes for the server's default replication: wait until they are back.
                waits = error.retriable or error.kind is ErrorKind.TOO_FEW_NODES
                if not waits or _clock.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_FOR_BROKERS_S)

    @property
    def _reader(self) -> RangeReader:
        if self._committed is None:
            self._committed = RangeReader(self._options.address, **{**self._plain, "isolation_level": "read_committed"})
        return self._committed

    @property
    def _admin_client(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(self._options.address, **self._plain)
        return self._admin


def _hang_up(client: Admin | RangeReader | Producer) -> None:
    # A producer's close reports records whose results were not awaited; here all were.
    with suppress(PenstockError):
        client.close()


def _send(
    producer: Producer, options: SinkOptions, columns: Columns, batches: Iterable[pa.RecordBatch]
) -> tuple[Fingerprint, list[BatchDelivery]]:
    fingerprint = Fingerprint()
    deliveries: list[BatchDelivery] = []
    waiting: deque[BatchDelivery] = deque()
    for batch in batches:
        for topic, rows in by_topic(batch, columns, options.topic):
            fingerprint.add(topic, rows)
            waiting.append(producer.send_batch(topic, rows))
            if not deliveries:
                deliveries.append(waiting[-1])
        # Raise an error as soon as it is known, not after everything was sent.
        while waiting and waiting[0].done():
            waiting.popleft().result()
    return fingerprint, deliveries
