"""The toy's messages: one after the other, each complete in itself, as RocketMQ's are.

A message, all numbers big-endian::

    u32 size         of the whole message, these four bytes included
    u32 magic        0x70656E73
    u32 checksum     CRC-32 of all that follows
    i64 offset       0 until a node has stored it
    i64 time         milliseconds since 1970, -1 for none
    u8  time's type  0 said by the producer, 1 by the node
    i32 key size     -1 for null
    i32 value size   -1 for null
    u16 headers
    key, value, and for each header: u16 size, name, i32 size (-1 for null), value
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import CorruptBatch
from penstock.records.arrow import (
    TYPES,
    Binary,
    binary_array,
    column_of,
    headers_array,
    record_columns,
    schema,
    timestamps_of,
)
from penstock.records.arrow import binary_input as binary_in
from penstock.records.arrow import headers_input as headers_in
from penstock.records.batch import BytesLike

MAGIC = 0x70656E73
FRONT = struct.Struct(">III")
REST = struct.Struct(">qqBiiH")
NAME = struct.Struct(">H")
SIZE = struct.Struct(">i")

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Message:
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def pack(message: Message) -> bytes:
    key, value = message.key or b"", message.value or b""
    rest = REST.pack(
        message.offset, message.timestamp_ms, message.timestamp_type,
        -1 if message.key is None else len(key), -1 if message.value is None else len(value), len(message.headers),
    )  # fmt: skip
    rest += key + value
    for name, text in message.headers:
        rest += NAME.pack(len(name.encode())) + name.encode()
        rest += SIZE.pack(-1) if text is None else SIZE.pack(len(text)) + text
    return FRONT.pack(FRONT.size + len(rest), MAGIC, zlib.crc32(rest)) + rest


def unpack_all(data: BytesLike) -> Iterator[Message]:
    """Every message of whole messages. Raises CorruptBatch."""
    source, at = bytes(data), 0
    while at < len(source):
        try:
            size, magic, checksum = FRONT.unpack_from(source, at)
            if magic != MAGIC or not FRONT.size + REST.size <= size <= len(source) - at:
                raise CorruptBatch(f"no message begins at byte {at}")
            if zlib.crc32(source[at + FRONT.size : at + size]) != checksum:
                raise CorruptBatch(f"the checksum of the message at byte {at} is wrong")
            yield _unpack(source, at + FRONT.size, at + size)
        except (struct.error, UnicodeDecodeError) as error:
            raise CorruptBatch(f"the message at byte {at} is cut off or no text") from error
        at += size


def _unpack(source: bytes, at: int, end: int) -> Message:
    offset, time, kind, key_size, value_size, count = REST.unpack_from(source, at)

    def take(size: int) -> bytes | None:
        nonlocal at
        if size > end - at or size < -1:
            raise CorruptBatch(f"a field of {size} bytes goes beyond its message")
        start, at = at, at + max(size, 0)
        return None if size < 0 else source[start:at]

    at += REST.size
    key, value = take(key_size), take(value_size)
    headers = []
    for _ in range(count):
        (size,) = NAME.unpack_from(source, at)
        at += NAME.size
        name = (take(size) or b"").decode()
        (size,) = SIZE.unpack_from(source, at)
        at += SIZE.size
        headers.append((name, take(size)))
    if at != end:
        raise CorruptBatch(f"a message has {end - at} bytes too many")
    return Message(offset, time, kind, key, value, tuple(headers))


def encode(rows: pa.RecordBatch, timestamp_ms: int = -1) -> bytes:
    """Columns to messages; offsets and types of timestamps are taken over where there are such columns."""
    count = rows.num_rows
    keys = _each(binary_in(column_of(rows, "key"), count, "key"), count)
    values = _each(binary_in(column_of(rows, "value"), count, "value"), count)
    times = timestamps_of(column_of(rows, "timestamp"), count, timestamp_ms).tolist()
    offsets, kinds = column_of(rows, "offset"), column_of(rows, "timestampType")
    ends, names, texts = headers_in(column_of(rows, "headers"))
    pairs: Sequence[tuple[str, bytes | None]] = []
    if len(ends):
        total = int(ends[-1])
        names_of = [(name or b"").decode() for name in _each(names, total)]
        pairs = list(zip(names_of, _each(texts, total), strict=True))
    return b"".join(
        pack(
            Message(
                0 if offsets is None else offsets[row].as_py(), times[row], 0 if kinds is None else kinds[row].as_py(),
                keys[row], values[row], tuple(pairs[ends[row] : ends[row + 1]]) if pairs else (),
            )
        )
        for row in range(count)
    )  # fmt: skip


def _each(column: Binary, count: int) -> list[bytes | None]:
    data, ends, valid = column.data.tobytes(), column.ends.tolist(), column.valid.tolist()
    return [None if valid and not valid[row] else data[ends[row] : ends[row + 1]] for row in range(count)]


def decode(
    data: BytesLike, *, start: int = 0, stop: int | None = None, columns: Sequence[str] | None = None
) -> tuple[pa.RecordBatch, int]:
    """Messages of offsets ``[start, stop)`` as record columns, and the offset to go on at. Raises CorruptBatch."""
    messages = list(unpack_all(data))
    wanted = [each for each in messages if each.offset >= start and (stop is None or each.offset < stop)]
    following = max([start, *(each.offset + 1 for each in wanted)])
    return columns_of(wanted, columns), following


def columns_of(messages: Sequence[Message], columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """Messages as record columns, whatever their offsets are."""
    make = {
        "key": lambda: binary_array([each.key for each in messages]),
        "value": lambda: binary_array([each.value for each in messages]),
        "offset": lambda: pa.array([each.offset for each in messages], pa.int64()),
        "timestamp": lambda: pa.array([each.timestamp_ms * 1_000 for each in messages], TYPES["timestamp"]),
        "timestampType": lambda: pa.array([each.timestamp_type for each in messages], pa.int32()),
        "headers": lambda: headers_array([each.headers for each in messages]),
    }
    names = record_columns(columns)
    return pa.RecordBatch.from_arrays([make[name]() for name in names], schema=schema(names))
