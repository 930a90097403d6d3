"""Batches of records to messages and back, as the front's own mapping says (`front/broker/messages`).

What a Kafka client reads of a message is what it reads where a RocketMQ client wrote into a node's own log, and the
other way round. A record becomes one of a batch of messages (320), which no broker delays or changes, and which stand
one behind the other; that has one time of birth, so a record of another time says its own in a property.
What must not live here: requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.columnar.batch import batches
from penstock.columnar.plain_records import Stored, stored_records
from penstock.errors import BatchTooLarge, CorruptBatch, Unsupported, UsageError
from penstock.protocols.rocketmq.front.broker.messages import number_of, parted
from penstock.protocols.rocketmq.records.batches import Inner, write_batch
from penstock.protocols.rocketmq.records.beside import FLAG
from penstock.protocols.rocketmq.records.properties import (
    MAX_PROPERTIES_BYTES,
    TIMESTAMP,
    format_properties,
    write_record,
)
from penstock.seams.framing import Buffer

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.kernels.interface import Int64s

__all__ = ["Cut", "Lump", "cut", "lumps", "messages_of"]

_NO_BODY: Final = b"\0"
_ADDED: Final = 256
"""What brokers add to a message's properties: the cluster's name, and that somebody waits."""
_OVERHEAD: Final = 22
_LARGEST: Final = (1 << 31) - 1


class Lump(NamedTuple):
    """Messages of one request: its body, how many they are, and their time of birth."""

    body: bytes
    messages: int
    born_ms: int


def messages_of(batch: Buffer, topic: str) -> list[Stored]:
    """The records of one batch v2. Raises CorruptBatch; Unsupported for one of a transaction, or a marker."""
    found = list(batches(batch))
    if any(each.control or each.transactional for each in found):
        raise Unsupported("a RocketMQ cluster has no transactions over topics", topic=topic)
    records = list(stored_records(batch, 0))
    if not records:
        raise CorruptBatch("a batch without a record", topic=topic)
    return records


def lumps(records: Sequence[Stored], most_bytes: int, born_ms: int | None = None) -> Iterator[Lump]:
    """Yield them in their order as bodies of about ``most_bytes``; one that is larger goes alone.

    ``born_ms``: when they are to be born together with others; None: with the first of them.
    Raises BatchTooLarge for a record whose key and headers do not fit into properties.
    """
    if born_ms is None:
        born_ms = max(records[0].timestamp_ms, 0)
    held: list[Inner] = []
    size = 0
    for record in records:
        inner = _inner(record, born_ms)
        takes = _OVERHEAD + len(inner.body) + len(inner.properties)
        if held and size + takes > most_bytes:
            yield Lump(write_batch(held), len(held), born_ms)
            held, size = [], 0
        held.append(inner)
        size += takes
    yield Lump(write_batch(held), len(held), born_ms)


def _inner(record: Stored, born_ms: int) -> Inner:
    headers, own = parted(record)
    try:
        properties = [*write_record(record.key, record.value, headers), *own]
        if record.timestamp_ms != born_ms:
            properties.append((TIMESTAMP, str(record.timestamp_ms)))
        text = format_properties(properties).encode()
    except UsageError as error:
        raise BatchTooLarge(error.message, hint=error.hint) from error
    if len(text) > MAX_PROPERTIES_BYTES - _ADDED:
        raise BatchTooLarge(
            f"key and headers take {len(text)} bytes; a message of RocketMQ's has {MAX_PROPERTIES_BYTES - _ADDED}",
            hint="Put what is large into the value",
        )
    flag = number_of(record, FLAG)
    return Inner(flag if abs(flag) <= _LARGEST else 0, record.value or _NO_BODY, text)


class Cut(NamedTuple):
    """Record batches v2 one behind the other, and the offset behind the last one."""

    data: bytes
    next_offset: int


def cut(bodies: Sequence[Buffer], start: int, next_offset: int, most_bytes: int) -> Cut:
    """Stored messages from offset ``start`` on as batches, a new one at each hole, ``most_bytes`` of keys and values at
    most, or one message. ``next_offset`` is where what was pulled ends. Raises CorruptBatch, ProtocolViolation."""
    from penstock.protocols.rocketmq.records.decoding import decode

    rows = decode(bodies, start=start, columns=("key", "value", "timestamp", "headers", "offset"), kept=True).batch
    if not rows.num_rows:
        return Cut(b"", next_offset)
    taken = rows.slice(0, _fitting(rows, most_bytes))
    offsets = taken.column("offset").to_numpy()
    end = next_offset if taken.num_rows == rows.num_rows else int(rows.column("offset")[taken.num_rows].as_py())
    return Cut(b"".join(_encoded(taken, offsets)), max(end, int(offsets[-1]) + 1))


def _fitting(rows: pa.RecordBatch, most_bytes: int) -> int:
    """How many rows have keys and values of that many bytes; one at least."""
    import numpy as np

    total = np.full(rows.num_rows, 16, np.int64)
    for name in ("key", "value"):
        column = rows.column(name)
        if column.null_count < len(column):
            ends = np.frombuffer(column.buffers()[1], np.int32, len(column) + column.offset + 1)[column.offset :]
            total += np.diff(ends)
    return max(int(np.searchsorted(np.cumsum(total), most_bytes, side="right")), 1)


def _encoded(rows: pa.RecordBatch, offsets: Int64s) -> Iterator[memoryview]:
    import numpy as np

    from penstock.columnar import encode_v2

    holes = np.flatnonzero(np.diff(offsets) != 1) + 1
    for first, end in pairwise([0, *holes.tolist(), rows.num_rows]):
        yield encode_v2(rows.slice(first, end - first), base_offset=int(offsets[first]), leader_epoch=0)
