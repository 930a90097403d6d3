"""PulledBatch: one answer to GET_MESSAGE as the engine sees it; decoded later, and in another thread.

A broker says where a batch begins, not where it ends: that is known beforehand only where every message took one step
of the index, in a store without other partitions, read without a filter. Elsewhere offsets of records count up from the
batch's own in steps of the index, which is the least they can be.
Source: Apache InLong TubeMQ 2.x, broker's ``getMessagesC2B``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock._dataclasses import dataclass
from penstock.errors import CorruptBatch, PenstockError
from penstock.model import Partition
from penstock.protocols.tubemq.client.damaged import decoded, in_pieces
from penstock.protocols.tubemq.partition_ids import INDEX_BYTES

if TYPE_CHECKING:
    from penstock.protocols.tubemq.msg_time import MsgTimeZone
    from penstock.protocols.tubemq.records import Decoded, MessageSet
    from penstock.records import Messages

__all__ = ["PulledBatch"]


@dataclass(frozen=True, slots=True)
class PulledBatch:
    """``penstock.interfaces.Pulled``. ``filters`` are checked here once more: brokers compare hash codes. ``zone`` is
    that of messages' minutes."""

    partition: Partition
    offset: int
    high_watermark: int
    context: str
    found: MessageSet
    filters: tuple[str, ...] = ()
    zone: MsgTimeZone | None = None

    @property
    def error(self) -> PenstockError | None:
        """Answers that are errors do not become batches."""
        return None

    @property
    def log_start_offset(self) -> int:
        """Not told."""
        return -1

    @property
    def next_offset(self) -> int:
        """Where the next batch begins, at least."""
        return self.offset + INDEX_BYTES * self.found.count

    @property
    def size(self) -> int:
        """Bytes held."""
        return self.found.size

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]:
        """All records of the batch: whoever confirms confirms the whole, so there is nothing to stop at.

        Raises CorruptBatch, ProtocolViolation.
        """
        from penstock.records import Messages

        del stop
        rows = decoded(self.found, self.offset, self.partition, columns, self.filters, self.zone).batch
        return Messages.of(self.partition, rows, self.next_offset, self.context), self.next_offset

    @property
    def topic_id(self) -> None:
        """TubeMQ's topics have none."""

    def pieces(
        self, *, stop: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Messages | CorruptBatch]:
        """``penstock.interfaces.client.DecodesInPieces``: message by message where one is damaged."""
        from penstock.records import Messages
        from penstock.records.messages import Part

        del stop

        def made(found: Decoded, following: int) -> Messages:
            return Messages.of(self.partition, found.batch, following)

        end = self.next_offset
        yield from in_pieces(self.found, self.offset, end, self.partition, columns, self.filters, self.zone, made)
        # What confirms the batch, behind all of it.
        yield Messages((Part(self.partition, None, self.next_offset, self.context),))
