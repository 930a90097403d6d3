"""Idempotent producers of one partition: what is a duplicate, what is next, what is out of order. Pure, no I/O.

A producer numbers the records it sends to a partition: a batch carries (producer id, epoch, first sequence), the
last sequence follows from the batch's last offset delta, and after 2147483647 comes 0. The log keeps, per producer
id, the epoch and the last five batches, as many as a client may have in flight. Decisions, in this order
(Kafka, KIP-98 and KIP-360):

| the batch | answer |
|---|---|
| equals one of the five: same epoch, first and last sequence | a duplicate: the offsets of then, nothing is written |
| producer id unknown | accepted, whatever its sequence: the log may have forgotten the producer |
| epoch below the known one | StaleProducerEpoch |
| epoch above the known one | accepted if it starts at sequence 0, else OutOfOrderSequence |
| same epoch, starts where the last batch ended | accepted |
| same epoch, anything else (also a duplicate older than the five) | OutOfOrderSequence |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from penstock.columnar.batch import BatchHeader
from penstock.store.errors import OutOfOrderSequence, StaleProducerEpoch

__all__ = ["MAX_PRODUCERS", "KnownBatch", "ProducerTable", "SequencedBatch", "last_sequence", "sequence_of"]

RETAINED_BATCHES: Final = 5
SEQUENCES: Final = 2**31

MAX_PRODUCERS: Final = 100_000
"""Producers remembered per partition, about 50 MB; beyond that the one that was quiet longest is forgotten."""


class SequencedBatch(NamedTuple):
    """What a batch says of its producer; ``first`` and ``last`` are sequences."""

    producer_id: int
    epoch: int
    first: int
    last: int


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
    """What a batch says of its idempotent producer; None if it has none, or is a marker (which has no sequence)."""
    if header.producer_id < 0 or header.control:
        return None
    return SequencedBatch(header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence)


class ProducerTable:
    """The producers of one partition, in the order of their last batch."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, batch: SequencedBatch) -> KnownBatch | None:
        """None if the batch may be appended, or the batch it repeats.

        Raises StaleProducerEpoch and OutOfOrderSequence, without topic and partition: the caller knows them.
        """
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            return None
        if batch.epoch == producer.epoch:
            for known in producer.batches:
                if known.first == batch.first and known.last == batch.last:
                    return known
        if batch.epoch < producer.epoch:
            raise StaleProducerEpoch(
                f"producer {batch.producer_id} wrote in epoch {batch.epoch}, its newest is {producer.epoch}"
            )
        expected = 0
        if batch.epoch == producer.epoch and producer.batches:
            expected = (producer.batches[-1].last + 1) % SEQUENCES
        if batch.first != expected:
            raise OutOfOrderSequence(
                f"producer {batch.producer_id}, epoch {batch.epoch}, sent sequence {batch.first}, not {expected}"
            )
        return None

    def record(self, batch: SequencedBatch, base_offset: int, last_offset: int, timestamp_ms: int, now_ms: int) -> None:
        """Remember a batch that is now in the log."""
        producer = self._producers.pop(batch.producer_id, None)
        if producer is None or producer.epoch != batch.epoch:
            producer = _Producer(batch.epoch, now_ms)
        producer.seen_ms = now_ms
        producer.batches.append(KnownBatch(batch.first, batch.last, base_offset, last_offset, timestamp_ms))
        self._producers[batch.producer_id] = producer  # last in the order: dicts keep insertion order
        if len(self._producers) > MAX_PRODUCERS:
            del self._producers[next(iter(self._producers))]

    def expire(self, before_ms: int) -> int:
        """Forget producers whose last batch came before ``before_ms``; returns how many."""
        quiet = [number for number, producer in self._producers.items() if producer.seen_ms < before_ms]
        for number in quiet:
            del self._producers[number]
        return len(quiet)

    def snapshot(self) -> list[list[int]]:
        """Plain numbers for a snapshot file: id, epoch, seen_ms, then five numbers a batch; see `restore`."""
        return [
            [number, producer.epoch, producer.seen_ms, *_flat(producer.batches)]
            for number, producer in self._producers.items()
        ]

    def restore(self, rows: Sequence[Sequence[int]]) -> None:
        """Replace everything by what `snapshot` gave. Raises ValueError for rows that it never gives."""
        restored: dict[int, _Producer] = {}
        for number, epoch, seen_ms, *batches in rows:
            if len(batches) % len(KnownBatch._fields) or not batches:
                raise ValueError(f"producer {number} has {len(batches)} numbers")
            producer = _Producer(int(epoch), int(seen_ms))
            width = len(KnownBatch._fields)
            for at in range(0, len(batches), width):
                producer.batches.append(KnownBatch._make(int(part) for part in batches[at : at + width]))
            restored[int(number)] = producer
        self._producers = restored


def _flat(batches: deque[KnownBatch]) -> Iterator[int]:
    for known in batches:
        yield from known
