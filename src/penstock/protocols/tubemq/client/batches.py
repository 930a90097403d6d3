"""One answer to GET_MESSAGE as the engine sees it: decoded later, in another thread, around damaged messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from penstock.errors import CorruptBatch, PenstockError, ProtocolViolation
from penstock.model import Partition
from penstock.protocols.tubemq.wire.protobuf import delimited, fields
from penstock.protocols.tubemq.wire.strings import INDEX_BYTES
from penstock.records.messages import halved

if TYPE_CHECKING:
    from penstock.protocols.tubemq.config import MsgTimeZone
    from penstock.protocols.tubemq.wire.record_columns import Decoded
    from penstock.protocols.tubemq.wire.records import MessageSet
    from penstock.records import Messages

__all__ = ["PulledBatch", "decoded", "in_pieces", "wrong"]

# Batches of which some messages cannot be decoded: runs of good ones, and an error for each of the others.
_PAYLOAD = 3


def decoded(
    messages: MessageSet,
    offset: int,
    partition: Partition,
    columns: Sequence[str] | None = None,
    filters: tuple[str, ...] = (),
    zone: MsgTimeZone | None = None,
) -> Decoded:
    """The rows of a batch that begins at ``offset``. Raises CorruptBatch, ProtocolViolation if any is damaged."""
    from penstock.protocols.tubemq.wire.record_columns import decode

    try:
        found = decode(messages, offset=offset, columns=columns, filters=filters, zone=zone)
    except ProtocolViolation as error:
        error.topic, error.partition = partition.topic, partition.id
        raise
    if found.corrupt:
        raise wrong(found.corrupt, messages.count, offset + INDEX_BYTES * found.first_corrupt, partition)
    return found


def wrong(corrupt: int, count: int, offset: int, partition: Partition) -> CorruptBatch:
    """The error for a batch of which not all could be decoded."""
    which = "a message is" if count == 1 else f"{corrupt} of {count} messages are"
    return CorruptBatch(
        f"{which} damaged (checksum or length of attributes)",
        topic=partition.topic,
        partition=partition.id,
        offset=offset,
        node=partition.node,
    )


def in_pieces(
    messages: MessageSet,
    offset: int,
    next_offset: int,
    partition: Partition,
    columns: Sequence[str] | None,
    filters: tuple[str, ...],
    zone: MsgTimeZone | None,
    made: Callable[[Decoded, int], Messages],
) -> Iterator[Messages | CorruptBatch]:
    """``penstock.interfaces.client.DecodesInPieces`` for a batch of ``[offset, next_offset)``; ``made`` makes messages
    of rows and the offset to read next."""
    from penstock.protocols.tubemq.wire.records import part_of, places

    at = places(messages)

    def end(last: int) -> int:
        """Where the messages before ``last`` end: rows count up in steps of the index; the batch's own end is known."""
        return next_offset if last == len(at) else min(offset + INDEX_BYTES * last, next_offset)

    def decode(first: int, last: int) -> Decoded:
        begin = offset + INDEX_BYTES * first
        return decoded(part_of(messages, at, first, last), begin, partition, columns, filters, zone)

    for first, last, found in halved(len(at), decode):
        if not isinstance(found, CorruptBatch | ProtocolViolation):
            yield made(found, end(last))
            continue
        error = found if isinstance(found, CorruptBatch) else CorruptBatch(found.message)
        error.offset, error.next_offset = offset + INDEX_BYTES * first, end(last)
        error.raw = _payload(delimited(messages.data.data, at[first] + 1)[0])
        yield error


def _payload(message: memoryview) -> bytes:
    """What the message carries, or all of one that is no protobuf."""
    try:
        found = dict(fields(message))[_PAYLOAD]
        return bytes(message) if isinstance(found, int) else bytes(found)
    except (ProtocolViolation, KeyError):
        return bytes(message)


# PulledBatch: one answer to GET_MESSAGE as the engine sees it; decoded later, and in another thread.
#
# A broker says where a batch begins, not where it ends: that is known beforehand only where every message took one step
# of the index, in a store without other partitions, read without a filter. Elsewhere offsets of records count up from
# the batch's own in steps of the index, which is the least they can be. Source: Apache InLong TubeMQ 2.x, broker's
# ``getMessagesC2B``.
class PulledBatch(Struct, frozen=True):
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
        """Not in the answer."""
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
        """All records of the batch: a confirmation covers the whole batch, so there is nothing to stop at.

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
