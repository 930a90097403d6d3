"""The state of a partition's log in memory: recovery builds it, the log then works on it. No I/O.

`ProducerTable` has the idempotent producers and open transactions, `AbortedIndex` the aborted transactions,
`EpochHistory` the leader epochs. `LogState` puts them together with the segments; `check` and `note` apply a batch.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from penstock.errors import OutOfOrderSequence, OutsideTransaction, StaleProducerEpoch
from penstock.records.batch import ABORT, COMMIT, CONTROL, HEADER_BYTES, BatchHeader, control_type
from penstock.store.errors import Recovery
from penstock.store.filesystem import Buffer
from penstock.store.segment import Segment, Step

__all__ = [
    "MAX_PRODUCERS",
    "UNKNOWN",
    "Aborted",
    "AbortedIndex",
    "Entry",
    "EpochHistory",
    "KnownBatch",
    "LogState",
    "Marker",
    "ProducerTable",
    "SequencedBatch",
    "check",
    "entry_of",
    "from_bytes",
    "last_sequence",
    "note",
    "sequence_of",
    "to_bytes",
]

# Idempotent producers of one partition: whether a batch is a duplicate, in order or out of order, and which producers
# have an open transaction.
#
# A producer numbers the records it sends to a partition: a batch carries (producer id, epoch, first sequence), the last
# sequence follows from the batch's last offset delta, and 2147483647 is followed by 0. The log keeps, per producer id,
# the epoch and the last five batches, as many as a client may have in flight. Decisions, in this order (Kafka, KIP-98
# and KIP-360):
#
# | the batch | answer |
# |---|---|
# | equals one of the five: same epoch, first and last sequence | a duplicate: the first one's offsets
# |
# | producer id unknown, in a transaction of version 2, sequence not 0 | OutOfOrderSequence: earlier ones are missing |
# | producer id unknown otherwise | accepted, whatever its sequence: the log may have forgotten the producer |
# | epoch below the known one | StaleProducerEpoch |
# | epoch above the known one | accepted if it starts at sequence 0, else OutOfOrderSequence |
# | same epoch, starts where the last batch ended | accepted |
# | same epoch, anything else (also a duplicate older than the five) | OutOfOrderSequence |
# | in order, but not transactional while the producer has a transaction open here | OutsideTransaction |
#
# In version 2 of the protocol (KIP-890) a transaction begins with sequence 0 in each partition. If the log does not
# know the producer of a later sequence, the earlier batches failed, or were in a topic that has been deleted.
#
# A transaction is open from its first batch to its marker. A marker may raise the epoch (KIP-890): the producer then
# continues with sequence 0. The log's own batches (a group's offsets) may be transactional, but have no sequence.
RETAINED_BATCHES: Final = 5
SEQUENCES: Final = 2**31

MAX_PRODUCERS: Final = 100_000
"""Producers remembered per partition, about 50 MB; with more, the one that is idle for longest is forgotten."""


class SequencedBatch(NamedTuple):
    """A batch's producer fields; ``first`` and ``last`` are sequences, -1 if it has none."""

    producer_id: int
    epoch: int
    first: int
    last: int
    transactional: bool = False


class KnownBatch(NamedTuple):
    """A batch that is in the log: its sequences, its offsets and its largest timestamp."""

    first: int
    last: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class _Producer(Struct):
    epoch: int
    seen_ms: int
    batches: deque[KnownBatch] = field(default_factory=lambda: deque(maxlen=RETAINED_BATCHES))


def last_sequence(first: int, last_offset_delta: int) -> int:
    """The sequence of a batch's last record; 2147483647 is followed by 0."""
    return (first + last_offset_delta) % SEQUENCES


def sequence_of(header: BatchHeader) -> SequencedBatch | None:
    """A batch's producer fields; None if it has no idempotent producer, or is a marker (which has no sequence)."""
    if header.producer_id < 0 or header.control:
        return None
    return SequencedBatch(
        header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence, header.transactional
    )


class ProducerTable:
    """The producers of one partition, in the order of their last batch; and their open transactions, oldest first."""

    __slots__ = ("_open", "_producers")

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self._open: dict[int, int] = {}

    @property
    def first_open(self) -> int | None:
        """The first offset of the oldest open transaction; None if there is none."""
        return next(iter(self._open.values()), None)

    def open(self) -> Mapping[int, int]:
        """The first offset of each open transaction, by producer id; read-only."""
        return self._open

    def known(self) -> Iterator[tuple[int, int, int, int]]:
        """(id, epoch, last sequence or -1, when last seen in ms) of every producer."""
        for number, producer in self._producers.items():
            last = producer.batches[-1].last if producer.batches else -1
            yield number, producer.epoch, last, producer.seen_ms

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, batch: SequencedBatch, *, transaction_v2: bool = False) -> KnownBatch | None:
        """The batch that ``batch`` repeats; None if ``batch`` may be appended.

        ``transaction_v2``: the batch is in a transaction of version 2, whose sequences begin with 0.
        Raises StaleProducerEpoch, OutOfOrderSequence and OutsideTransaction without topic and partition, which the
        caller adds.
        """
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            if transaction_v2 and batch.first > 0:
                raise OutOfOrderSequence(
                    f"producer {batch.producer_id}, epoch {batch.epoch}, sent sequence {batch.first}, but the batches "
                    "of its transaction before it are not in this partition: they failed, or the topic was created anew"
                )
            return None
        if batch.epoch == producer.epoch:
            for known in producer.batches:
                if known.first == batch.first and known.last == batch.last:
                    return known
        if batch.epoch < producer.epoch:
            raise StaleProducerEpoch(
                f"producer {batch.producer_id} wrote in epoch {batch.epoch}, but is in epoch {producer.epoch}"
            )
        if batch.first < 0:
            return None
        expected = 0
        if batch.epoch == producer.epoch and producer.batches:
            expected = (producer.batches[-1].last + 1) % SEQUENCES
        if batch.first != expected:
            raise OutOfOrderSequence(
                f"producer {batch.producer_id}, epoch {batch.epoch}, sent sequence {batch.first}, not {expected}"
            )
        if batch.producer_id in self._open and not batch.transactional:
            raise OutsideTransaction(f"producer {batch.producer_id} has a transaction open in this partition")
        return None

    def check_marker(self, producer_id: int, epoch: int) -> None:
        """Raises StaleProducerEpoch for a marker from an outdated coordinator."""
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise StaleProducerEpoch(f"a marker for producer {producer_id} has epoch {epoch}, not {producer.epoch}")

    def record(self, batch: SequencedBatch, base_offset: int, last_offset: int, timestamp_ms: int, now_ms: int) -> None:
        """Remember a batch that is now in the log."""
        producer = self._seen(batch.producer_id, batch.epoch, now_ms)
        if batch.first >= 0:
            producer.batches.append(KnownBatch(batch.first, batch.last, base_offset, last_offset, timestamp_ms))
        if batch.transactional:
            self._open.setdefault(batch.producer_id, base_offset)

    def end(self, producer_id: int, epoch: int, now_ms: int) -> int | None:
        """Record a marker that is now in the log; returns the transaction's first offset, None if none was open."""
        self._seen(producer_id, epoch, now_ms)
        return self._open.pop(producer_id, None)

    def _seen(self, producer_id: int, epoch: int, now_ms: int) -> _Producer:
        producer = self._producers.pop(producer_id, None)
        if producer is None or producer.epoch != epoch:
            producer = _Producer(epoch, now_ms)
        producer.seen_ms = now_ms
        self._producers[producer_id] = producer  # last in the order: dicts keep insertion order
        if len(self._producers) > MAX_PRODUCERS:
            del self._producers[next((each for each in self._producers if each not in self._open), producer_id)]
        return producer

    def expire(self, before_ms: int) -> int:
        """Forget producers whose last batch came before ``before_ms``; returns their number.

        Producers with an open transaction stay: their coordinator will end it.
        """
        quiet = [
            number
            for number, producer in self._producers.items()
            if producer.seen_ms < before_ms and number not in self._open
        ]
        for number in quiet:
            del self._producers[number]
        return len(quiet)

    def snapshot(self) -> list[list[int]]:
        """Plain numbers for a snapshot file; see `restore`.

        A row has id, epoch, seen_ms, the first offset of an open transaction or -1, then five numbers per batch.
        """
        return [
            [number, producer.epoch, producer.seen_ms, self._open.get(number, -1), *_flat(producer.batches)]
            for number, producer in self._producers.items()
        ]

    def restore(self, rows: Sequence[Sequence[int]]) -> None:
        """Replace everything with the rows of a `snapshot`. Raises ValueError for rows that `snapshot` cannot make."""
        restored: dict[int, _Producer] = {}
        opened: dict[int, int] = {}
        width = len(KnownBatch._fields)
        for number, epoch, seen_ms, *rest in rows:
            # Rows from before transactions existed lack this number.
            since, batches = (rest[0], rest[1:]) if len(rest) % width == 1 else (-1, rest)
            if len(batches) % width or not rest:
                raise ValueError(f"producer {number} has {len(rest)} numbers")
            producer = _Producer(int(epoch), int(seen_ms))
            for at in range(0, len(batches), width):
                producer.batches.append(KnownBatch._make(int(part) for part in batches[at : at + width]))
            restored[int(number)] = producer
            if since >= 0:
                opened[int(number)] = int(since)
        self._producers = restored
        self._open = dict(sorted(opened.items(), key=lambda each: each[1]))


def _flat(batches: deque[KnownBatch]) -> Iterator[int]:
    for known in batches:
        yield from known


# Aborted transactions of one partition, for readers of committed records.
#
# An ABORT marker makes an entry. Entries are in the order of their markers; a reader of ``[start, end)`` needs those
# whose marker is not before ``start`` and whose first batch is before ``end``. The binary form, 34 bytes per
# transaction, is Kafka's transaction index (``.txnindex``, version 0): one file per segment, for the markers in it, so
# that entries are deleted with their segment.
_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0


class Aborted(NamedTuple):
    """One aborted transaction: from its first batch to its marker. ``stable`` is the last stable offset after it."""

    producer_id: int
    first: int
    last: int
    stable: int


class AbortedIndex:
    """All known aborted transactions of one partition."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[Aborted] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Aborted) -> None:
        """Add a transaction, aborted after all others."""
        self._entries.append(entry)

    def within(self, start: int, end: int) -> list[Aborted]:
        """Those with batches in ``[start, end)``."""
        found = []
        for entry in self._from(start):
            if entry.first < end:
                found.append(entry)
            if entry.stable >= end:
                break  # all later entries began at or after ``end``
        return found

    def marked(self, start: int, end: int) -> list[Aborted]:
        """Those whose marker lies in ``[start, end)``."""
        return [entry for entry in self._from(start) if entry.last < end]

    def cut_start(self, start: int) -> None:
        """The log now starts at ``start``: drop the transactions that ended before it."""
        del self._entries[: bisect_left(self._entries, start, key=_last)]

    def forget(self, markers: Collection[int]) -> None:
        """Drop the transactions with these marker offsets: the markers and all their records are gone."""
        if markers:
            self._entries = [entry for entry in self._entries if entry.last not in markers]

    def _from(self, start: int) -> Iterable[Aborted]:
        return self._entries[bisect_left(self._entries, start, key=_last) :]


def _last(entry: Aborted) -> int:
    return entry.last


def to_bytes(entries: Iterable[Aborted]) -> bytes:
    """Kafka's transaction index."""
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def from_bytes(data: bytes, start: int, end: int) -> Iterator[Aborted]:
    """Read an index of markers in ``[start, end)``. Raises ValueError if it is not one."""
    if len(data) % _ENTRY.size:
        raise ValueError(f"{len(data)} bytes are not whole entries of {_ENTRY.size}")
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = Aborted(*fields)
        if version != _VERSION or not start <= entry.last < end or not 0 <= entry.first < entry.last:
            raise ValueError(f"{entry} cannot be in the index of offsets {start} to {end}")
        start = entry.last + 1
        yield entry


# Leader epochs of one partition: the offset from which on each epoch wrote.
#
# The store's epoch grows by one each time it is opened; a log notes the offset at which it first wrote in an epoch. A
# consumer that reconnects asks "where did epoch N end?" (OffsetForLeaderEpoch, KIP-101, KIP-320) and learns whether
# the records it has read are still there. The text form is Kafka's ``leader-epoch-checkpoint`` file: a version line, a
# count, then one line ``epoch start-offset`` per epoch.
UNKNOWN = -1


class EpochHistory:
    """(epoch, start offset) pairs, both strictly increasing."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries:
            self.assign(epoch, start)

    @property
    def latest(self) -> int:
        """The newest epoch, -1 if there is none."""
        return self._epochs[-1] if self._epochs else UNKNOWN

    def entries(self) -> list[tuple[int, int]]:
        """All (epoch, start offset) pairs, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start: int) -> bool:
        """``epoch`` writes from ``start`` on; False if it is already the newest. Raises ValueError if either decreases.

        If the previous epoch starts at the same offset it wrote nothing, so its entry is replaced.
        """
        if epoch == self.latest:
            return False
        if epoch < self.latest or (self._starts and start < self._starts[-1]):
            raise ValueError(f"epoch {epoch} at {start} after epoch {self.latest} at {self._starts[-1]}")
        if self._starts and self._starts[-1] == start:
            self._epochs[-1] = epoch
        else:
            self._epochs.append(epoch)
            self._starts.append(start)
        return True

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(epoch, end offset) of the newest epoch not above ``epoch``; (-1, -1) for an epoch of the future.

        For an epoch older than all known ones: that epoch, and the start offset of the oldest known one.
        """
        if epoch < 0 or epoch > self.latest:
            return UNKNOWN, UNKNOWN
        if epoch == self.latest:
            return epoch, log_end
        above = bisect_right(self._epochs, epoch)
        found = self._epochs[above - 1] if above else epoch
        return found, self._starts[above]

    def at(self, offset: int) -> int:
        """The epoch that wrote ``offset``; -1 if the offset is older than all known epochs."""
        above = bisect_right(self._starts, offset)
        return self._epochs[above - 1] if above else UNKNOWN

    def cut_end(self, end: int) -> None:
        """The log now ends at ``end``: drop epochs that began at or after it."""
        while self._starts and self._starts[-1] >= end:
            self._starts.pop()
            self._epochs.pop()

    def cut_start(self, start: int) -> None:
        """The log now starts at ``start``: of the epochs before it keep only the last, moved to ``start``."""
        covered = bisect_right(self._starts, start) - 1
        if covered >= 0:
            del self._epochs[:covered], self._starts[:covered]
            self._starts[0] = start

    def to_text(self) -> str:
        """The checkpoint file's text."""
        lines = [f"{epoch} {start}" for epoch, start in self.entries()]
        return "\n".join(["0", str(len(lines)), *lines, ""])

    @classmethod
    def from_text(cls, text: str) -> EpochHistory:
        """Read a checkpoint file. Raises ValueError."""
        version, count, *lines = text.split("\n")
        pairs = [tuple(map(int, line.split())) for line in lines if line]
        whole = text.endswith("\n")  # otherwise the last number may have lost digits: the file has no checksum
        if version != "0" or len(pairs) != int(count) or any(len(pair) != 2 for pair in pairs) or not whole:
            raise ValueError("not a leader epoch checkpoint of version 0")
        return cls((pair[0], pair[1]) for pair in pairs)


class LogState(Struct):
    """A log's segments (the last one is the active one), and the state of its offsets and writers.

    Everything below ``recovery_point`` was on the disk when the store opened; everything below ``cleaned`` has been
    compacted since. The next compaction waits until ``compact_after_ms``. A ``retired`` log may not touch its files.
    ``unchecked`` is a range of offsets (first, end) with batches whose headers an older version did not check; the
    next check of them waits until ``check_after_ms``.
    """

    start_offset: int = 0
    segments: list[Segment] = field(default_factory=list)
    epochs: EpochHistory = field(default_factory=EpochHistory)
    producers: ProducerTable = field(default_factory=ProducerTable)
    aborted: AbortedIndex = field(default_factory=AbortedIndex)
    recovery_point: int = 0
    recovered: list[Recovery] = field(default_factory=list)
    cleaned: int = 0
    compacting: bool = False
    compact_after_ms: int = 0
    retired: bool = False
    unchecked: tuple[int, int] = (0, 0)
    check_after_ms: int = 0

    @property
    def end_offset(self) -> int:
        return self.segments[-1].next_offset if self.segments else self.start_offset

    def heads_checked(self, segment: Segment) -> bool:
        """Whether the largest timestamps in the segment's batch headers are known to agree with the records."""
        return segment.next_offset <= self.unchecked[0] or segment.base >= self.unchecked[1]

    def settled_segments(self) -> Sequence[Segment]:
        """The segments up to and including the first that holds records of an open transaction."""
        first = self.producers.first_open
        if first is None:
            return self.segments
        return self.segments[: sum(segment.next_offset <= first for segment in self.segments) + 1]

    @property
    def stable_offset(self) -> int:
        """The last stable offset: all transactions below it have ended, so readers of committed records stop there."""
        first = self.producers.first_open
        return self.end_offset if first is None else max(first, self.start_offset)

    def misses_synced(self, end: int) -> bool:
        """Whether a log that ends at ``end`` lacks records that were on the disk and not deleted on request."""
        return end < self.recovery_point and self.start_offset < self.recovery_point


# The steps by which a batch changes the state of producers and transactions; append and recovery use the same.
class Marker(NamedTuple):
    """The end of a producer's transaction in this partition."""

    producer_id: int
    epoch: int
    commit: bool


Entry: TypeAlias = SequencedBatch | Marker | None


def entry_of(header: BatchHeader, batch: Buffer) -> Entry:
    """The producer fields or the marker in ``batch``; None if it has neither. Raises CorruptBatch."""
    if not header.attributes & CONTROL:
        return None if header.producer_id < 0 else sequence_of(header)
    kind = control_type(memoryview(batch)[HEADER_BYTES:])
    if header.producer_id < 0 or kind not in (ABORT, COMMIT):
        return None
    return Marker(header.producer_id, header.producer_epoch, kind == COMMIT)


def check(state: LogState, entry: Entry, *, transaction_v2: bool = False) -> KnownBatch | None:
    """The batch that ``entry`` repeats; None if ``entry`` may be appended. See `ProducerTable.check`.

    Raises StaleProducerEpoch, OutOfOrderSequence, OutsideTransaction.
    """
    if isinstance(entry, Marker):
        state.producers.check_marker(entry.producer_id, entry.epoch)
        return None
    return None if entry is None else state.producers.check(entry, transaction_v2=transaction_v2)


def note(state: LogState, entry: Entry, step: Step, now_ms: int) -> None:
    """Update ``state``: the entry's batch is in the log, at ``step``."""
    if isinstance(entry, Marker):
        first = state.producers.end(entry.producer_id, entry.epoch, now_ms)
        if first is not None and not entry.commit:
            first_open = state.producers.first_open
            stable = step.last_offset + 1 if first_open is None else first_open
            state.aborted.add(Aborted(entry.producer_id, first, step.last_offset, stable))
    elif entry is not None:
        state.producers.record(entry, step.base_offset, step.last_offset, step.max_timestamp, now_ms)
