"""Who a producer is and how its batches are numbered, per partition: what makes a batch sent twice be stored once.

A broker stores a batch only if its first sequence number follows the last one it has of that producer id and epoch; a
batch that it has already is acknowledged without being stored again. So numbers are given when a batch is packed, in
the order of packing, and a batch keeps its number however often it is sent.

When the row of numbers is broken (the broker lost it, or a batch in the middle was given up), a new epoch starts at 0
and every batch of that partition that is still unacknowledged is numbered anew, in order. Other partitions go over to
the new epoch once nothing of theirs is under way. A batch that is being written is never changed: it gets new bytes.
Source: KIP-98, KIP-360 (epochs are raised by the producer itself where there are no transactions).
"""

from __future__ import annotations

import struct
from dataclasses import field

from penstock._dataclasses import dataclass
from penstock.columnar.batch import CRC_START
from penstock.columnar.buffers import crc32c
from penstock.model import Partition

__all__ = ["LARGEST_EPOCH", "NOT_IDEMPOTENT", "KafkaPacked", "Numbering", "ProducerIdentity"]

LARGEST_EPOCH = 32_767
_SEQUENCES = 2**31
_PRODUCER = struct.Struct(">qhi")  # producer id, epoch, base sequence
_PRODUCER_AT = 43
_CRC_AT = 17


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """A producer id and an epoch; -1 and -1 for a producer that is not idempotent."""

    producer_id: int = -1
    epoch: int = -1


NOT_IDEMPOTENT = ProducerIdentity()


@dataclass(eq=False, slots=True)
class KafkaPacked:
    """An encoded batch; ``penstock.seams.client.Packed``. ``identity`` and ``sequence`` are what ``data`` says.

    ``times_sent`` counts under this number. ``overtook``: when it was refused, batches before it were not acknowledged.
    """

    partition: Partition
    records: int
    data: memoryview
    identity: ProducerIdentity = NOT_IDEMPOTENT
    sequence: int = -1
    sent_as: tuple[ProducerIdentity, int] | None = None
    times_sent: int = 0
    overtook: bool = False

    @property
    def size(self) -> int:
        """Bytes of the batch."""
        return len(self.data)

    def sending(self) -> memoryview:
        """The bytes to send now."""
        self.sent_as = (self.identity, self.sequence)
        self.times_sent += 1
        return self.data

    @property
    def renumbered(self) -> bool:
        """True if it got another number since it was last sent: what was answered then says nothing about it."""
        return self.sent_as is not None and self.sent_as != (self.identity, self.sequence)

    def renumber(self, identity: ProducerIdentity, sequence: int) -> None:
        """Take another place; the bytes that may be on their way stay as they are."""
        data = bytearray(self.data)
        _PRODUCER.pack_into(data, _PRODUCER_AT, identity.producer_id, identity.epoch, sequence)
        struct.pack_into(">I", data, _CRC_AT, crc32c(data, CRC_START))
        self.data = memoryview(data)
        self.identity, self.sequence, self.times_sent = identity, sequence, 0


@dataclass(slots=True)
class Numbering:
    """The row of sequence numbers of one partition and the batches that wait for their acknowledgement, in order."""

    identity: ProducerIdentity
    next: int = 0
    waiting: list[KafkaPacked] = field(default_factory=list)

    def take(self, current: ProducerIdentity, records: int) -> tuple[ProducerIdentity, int]:
        """The place of the next batch; goes over to ``current`` where nothing is under way."""
        identity, sequence = self.place(current)
        self.next = (sequence + records) % _SEQUENCES
        return identity, sequence

    def place(self, current: ProducerIdentity) -> tuple[ProducerIdentity, int]:
        """As ``take``, for a batch that may come to nothing: it has the place once it is ``taken``."""
        if self.identity is not current and self.identity != current and not self.waiting:
            self.identity, self.next = current, 0
        return self.identity, self.next

    def taken(self, packed: KafkaPacked) -> None:
        """It has the place that was told last, and waits to be acknowledged."""
        self.next = (self.next + packed.records) % _SEQUENCES
        self.waiting.append(packed)

    def acknowledged(self, packed: KafkaPacked) -> None:
        """It is stored."""
        if self.waiting and self.waiting[0] is packed:
            del self.waiting[0]
        elif packed in self.waiting:
            self.waiting.remove(packed)

    def first(self, packed: KafkaPacked) -> bool:
        """True if nothing before it is under way."""
        return bool(self.waiting) and self.waiting[0] is packed

    def give_back(self, packed: KafkaPacked) -> bool:
        """It was refused for good. False if its number cannot be used again.

        It cannot if others come after it, or if it was sent before: an answer that was lost may have said "stored",
        and another batch with its number would then be taken for it and never be stored.
        """
        free = self.waiting[-1] is packed and packed.times_sent <= 1
        self.waiting.remove(packed)
        if free:
            self.next = packed.sequence
        return free

    def restart(self, identity: ProducerIdentity) -> None:
        """Number everything that waits anew, from 0."""
        self.identity, self.next = identity, 0
        for packed in self.waiting:
            packed.renumber(*self.take(identity, packed.records))
