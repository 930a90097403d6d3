"""Batches of which some messages cannot be decoded: runs of good ones, and an error for each of the others.

What must not live here: what becomes of them (the engine's), decoding (`records`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.errors import CorruptBatch, ProtocolViolation
from penstock.model import Partition
from penstock.protocols.tubemq.partition_ids import INDEX_BYTES
from penstock.protocols.tubemq.wire_fields import delimited, fields
from penstock.records.messages import halved

if TYPE_CHECKING:
    from penstock.protocols.tubemq.msg_time import MsgTimeZone
    from penstock.protocols.tubemq.records import Decoded, MessageSet
    from penstock.records import Messages

__all__ = ["decoded", "in_pieces", "wrong"]

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
    from penstock.protocols.tubemq.records import decode

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
    from penstock.protocols.tubemq.records import part_of, places

    at = places(messages)

    def end(last: int) -> int:
        """Where the messages before ``last`` end: rows count up in steps of the index, the batch's own end is told."""
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
