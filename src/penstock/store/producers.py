"""Idempotent producers of one partition: what is a duplicate, what is next, what is out of order; and which of them
have a transaction open. Pure, no I/O.

A producer numbers the records it sends to a partition: a batch carries (producer id, epoch, first sequence), the
last sequence follows from the batch's last offset delta, and 2147483647 is followed by 0. The log keeps, per producer
id, the epoch and the last five batches, as many as a client may have in flight. Decisions, in this order (Kafka, KIP-98
and KIP-360):

| the batch | answer |
|---|---|
| equals one of the five: same epoch, first and last sequence | a duplicate: the first one's offsets, nothing is written
|
| producer id unknown, in a transaction of version 2, sequence not 0 | OutOfOrderSequence: earlier batches are missing |
| producer id unknown otherwise | accepted, whatever its sequence: the log may have forgotten the producer |
| epoch below the known one | StaleProducerEpoch |
| epoch above the known one | accepted if it starts at sequence 0, else OutOfOrderSequence |
| same epoch, starts where the last batch ended | accepted |
| same epoch, anything else (also a duplicate older than the five) | OutOfOrderSequence |
| in order, but not transactional while the producer has a transaction open here | OutsideTransaction |

In version 2 of the protocol (KIP-890) a transaction begins with sequence 0 in each partition. Where the log does not
know the producer of a later sequence, the batches before it failed, or went with the topic that was deleted.

A transaction is open from its first batch to its marker. A marker may raise the epoch (KIP-890): the producer then
continues with sequence 0. The log's own batches (a group's offsets) may be transactional, but have no sequence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from penstock._dataclasses import dataclass
from penstock.columnar.batch import BatchHeader
from penstock.errors import OutOfOrderSequence, OutsideTransaction, StaleProducerEpoch

__all__ = ["MAX_PRODUCERS", "KnownBatch", "ProducerTable", "SequencedBatch", "last_sequence", "sequence_of"]

RETAINED_BATCHES: Final = 5
SEQUENCES: Final = 2**31

MAX_PRODUCERS: Final = 100_000
"""Producers remembered per partition, about 50 MB; beyond that the one idle for longest is forgotten."""


class SequencedBatch(NamedTuple):
    """What a batch says about its producer; ``first`` and ``last`` are sequences, -1 if it has none."""

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


@dataclass(slots=True)
class _Producer:
    epoch: int
    seen_ms: int
    batches: deque[KnownBatch] = field(default_factory=lambda: deque(maxlen=RETAINED_BATCHES))


def last_sequence(first: int, last_offset_delta: int) -> int:
    """The sequence of a batch's last record; 2147483647 is followed by 0."""
    return (first + last_offset_delta) % SEQUENCES


def sequence_of(header: BatchHeader) -> SequencedBatch | None:
    """What a batch says about its idempotent producer; None if it has none, or is a marker (which has no sequence)."""
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

        ``transaction_v2``: it is of a transaction of the second version, whose sequences begin with 0.
        Raises StaleProducerEpoch, OutOfOrderSequence and OutsideTransaction, without topic and partition: the caller
        knows them.
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
        """Record a marker that is now in the log; returns where the transaction began, None if none was open."""
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
        """Forget producers whose last batch came before ``before_ms``; returns how many.

        Those with an open transaction stay: their coordinator will end it.
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
        """Replace everything with the rows of a `snapshot`. Raises ValueError for rows that `snapshot` never gives."""
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
