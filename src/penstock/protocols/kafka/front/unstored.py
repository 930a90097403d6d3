"""Unstored: which batches of idempotent producers failed here, before a log that does not look at their numbers.

A producer has up to five batches on their way. Where one fails and the next is stored, Kafka's producers take it that
the failed one is stored as well, for a broker would have refused what does not follow: so the node must, too, until
what failed has come again. Nothing else is remembered: what is sent twice is stored twice.

| what comes, after a batch with first number ``n`` failed | answer |
|---|---|
| of the same epoch, beginning with ``n`` | taken; once it is stored, all is well again |
| of the same epoch, anything else | OUT_OF_ORDER_SEQUENCE_NUMBER |
| of a later epoch: the producer knows, and has begun anew | taken |

Source: KIP-98; Apache Kafka 4.x, ``ProducerAppendInfo``; librdkafka 2.x acknowledges what came before by what is.
"""

from __future__ import annotations

import struct
from typing import Final

from penstock._dataclasses import dataclass
from penstock.columnar.batch import HEADER_BYTES
from penstock.errors import OutOfOrderSequence, PenstockError
from penstock.model import Partition
from penstock.seams.framing import Buffer

__all__ = ["MAX_FAILED", "Numbers", "Unstored", "numbers_of"]

MAX_FAILED: Final = 100_000
"""Producers' partitions remembered, about 30 MB; beyond that the one that failed first is forgotten."""

_NUMBERS: Final = struct.Struct(">qhi")
_NUMBERS_AT: Final = 43


@dataclass(frozen=True, slots=True)
class Numbers:
    """A producer's id, its epoch, and the number of the batch's first record."""

    producer_id: int
    epoch: int
    first: int


def numbers_of(records: Buffer | None) -> Numbers | None:
    """What a batch of format 2 says, right or wrong in the rest; None where there is no producer's id."""
    if records is None or len(records) < HEADER_BYTES:
        return None
    found = Numbers(*_NUMBERS.unpack_from(records, _NUMBERS_AT))
    return found if found.producer_id >= 0 else None


class Unstored:
    """One a front."""

    def __init__(self) -> None:
        self._failed: dict[tuple[Partition, int], Numbers] = {}

    def __bool__(self) -> bool:
        return bool(self._failed)

    def check(self, partition: Partition, numbers: Numbers) -> None:
        """Raises OutOfOrderSequence for what does not follow."""
        failed = self._failed.get((partition, numbers.producer_id))
        if failed is not None and numbers.epoch <= failed.epoch and numbers != failed:
            raise OutOfOrderSequence(
                f"producer {numbers.producer_id} sent number {numbers.first}, and {failed.first} is not stored yet",
                topic=partition.topic,
                partition=partition.id,
            )

    def tell(self, partition: Partition, numbers: Numbers, failure: PenstockError | None) -> None:
        """What became of a batch."""
        key = partition, numbers.producer_id
        known = self._failed.get(key)
        if known is not None and numbers.epoch <= known.epoch and numbers != known:
            return  # it was refused for that, or overtaken by what it should have followed
        if failure is None:
            self._failed.pop(key, None)
            return
        self._failed[key] = numbers
        if len(self._failed) > MAX_FAILED:
            del self._failed[next(iter(self._failed))]
