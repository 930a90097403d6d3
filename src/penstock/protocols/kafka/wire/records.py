"""Kafka's record formats: decodes batches v2 and the older message sets (v0, v1) to columns, encodes columns as v2."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from penstock.errors import CorruptBatch
from penstock.model import Codec, TimestampType
from penstock.records.arrow import TYPES, binary_array, headers_array, number_array, record_columns, schema
from penstock.records.batch import AbortedTransactions, BytesLike, Producing, as_view, check_range
from penstock.records.compression import MAX_INFLATED_BYTES, inflate
from penstock.records.decoding import Decoded, decode_v2
from penstock.records.encoding import encode_v2 as encode
from penstock.records.scalar_writer import encode_few

__all__ = ["Decoded", "Producing", "decode", "decode_message_sets", "encode", "encode_few"]

# Message sets (formats v0 and v1), read only. Clients before Kafka 0.11 wrote them, and old segments still hold them.
#
# A message holds one record, or it is a wrapper whose value is a compressed message set. Such logs are small and old,
# so plain Python is fast enough.
# Source: Kafka protocol, message sets (magic 0; magic 1 with timestamps, KIP-31 and KIP-32).

_PREFIX: Final = struct.Struct(">qiIbb")  # offset, size, crc, magic, attributes
_CRC: Final = struct.Struct(">I")
_TIMESTAMP: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")
_SIZE_AFTER: Final = 12
_CRC_FROM: Final = 16
_SMALLEST: Final = {0: 14, 1: 22}
_CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
_CODEC: Final = 7
_LOG_APPEND: Final = 8
_LAST_OFFSET: Final = (1 << 63) - 2
_MOST_INFLATED: Final = 64 << 20
"""The most bytes that wrappers may decompress to. Each message becomes a few Python objects, so the limit is low;
wrappers of these formats usually hold about 1 MB."""

_LAST_MS: Final = (2**63 - 1) // 1000


class _Message(NamedTuple):
    """One message. The ``value`` of a wrapper is a compressed message set."""

    offset: int
    magic: int
    codec: Codec
    timestamp_ms: int
    timestamp_type: TimestampType
    key: memoryview | None
    value: memoryview | None
    end: int


class _Rows(Struct):
    """Columns under construction."""

    key: list[memoryview | None] = field(default_factory=list)
    value: list[memoryview | None] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    timestamp: list[int] = field(default_factory=list)
    timestamp_type: list[int] = field(default_factory=list)

    def add(self, offset: int, message: _Message) -> None:
        self.key.append(message.key)
        self.value.append(message.value)
        self.offset.append(offset)
        self.timestamp.append(max(-_LAST_MS, min(message.timestamp_ms, _LAST_MS)) * 1000)
        self.timestamp_type.append(message.timestamp_type)

    def batch(self, columns: Sequence[str]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([self._column(name) for name in columns], schema=schema(columns))

    def _column(self, name: str) -> pa.Array:
        rows = len(self.offset)
        if name == "headers":
            return headers_array([()] * rows)
        if name == "timestampType":
            return number_array(TYPES[name], rows, np.array(self.timestamp_type, np.int32))
        if name in {"offset", "timestamp"}:
            return number_array(TYPES[name], rows, np.array(getattr(self, name), np.int64))
        return binary_array(getattr(self, name))


def decode_message_sets(
    view: memoryview,
    position: int,
    end: int,
    *,
    start: int,
    stop: int,
    columns: Sequence[str],
    check_crcs: bool,
    max_inflated_bytes: int,
) -> Decoded:
    """Decode the messages of ``view[position:end]`` up to an incomplete one, one of another format, or offset ``stop``.

    Raises CorruptBatch if the first message in range is damaged. A damaged message later on ends the run.
    """
    rows = _Rows()
    limit = min(max_inflated_bytes, _MOST_INFLATED)
    next_offset, inflated, taken = start, 0, False
    try:
        while next_offset < stop and inflated < limit and (message := _read(view, position, end)) is not None:
            if message.offset >= start:
                if check_crcs:
                    _check_crc(view, position, message)
                for offset, plain in _unwrap(message, limit):
                    if start <= offset < stop:
                        rows.add(offset, plain)
                inflated += 0 if message.codec is Codec.NONE else len(message.value or b"")
                next_offset = message.offset + 1
                taken = True
            position = message.end
    except CorruptBatch:
        if not taken:
            raise
    return Decoded(rows.batch(columns), min(next_offset, stop), position)


def _read(view: memoryview, position: int, end: int) -> _Message | None:
    """Return the message at ``position``; None if it is incomplete or of another format."""
    if end - position < _PREFIX.size:
        return None
    offset, size, _, magic, attributes = _PREFIX.unpack_from(view, position)
    after = position + _SIZE_AFTER + size
    if magic not in _SMALLEST or after > end:
        return None
    fault = None
    if size < _SMALLEST[magic]:
        fault = f"message size {size} is too small for its format"
    elif not 0 <= offset <= _LAST_OFFSET:
        fault = f"message offset {offset} is out of range"
    elif attributes & _CODEC >= len(_CODECS):
        fault = f"codec {attributes & _CODEC} is unknown"
    if fault:
        raise CorruptBatch(f"{fault}, at byte {position}", offset=offset)
    at, timestamp_ms, kind = position + _PREFIX.size, -1, TimestampType.NONE
    if magic:
        (timestamp_ms,) = _TIMESTAMP.unpack_from(view, at)
        kind = TimestampType.LOG_APPEND if attributes & _LOG_APPEND else TimestampType.CREATE
        at += _TIMESTAMP.size
    key, at = _bytes(view, at, after, offset)
    value, at = _bytes(view, at, after, offset)
    if at != after:
        raise CorruptBatch(f"message does not end at its size, at byte {at}", offset=offset)
    return _Message(offset, magic, _CODECS[attributes & _CODEC], timestamp_ms, kind, key, value, after)


def _bytes(view: memoryview, at: int, end: int, offset: int) -> tuple[memoryview | None, int]:
    if end - at < _LENGTH.size:
        raise CorruptBatch(f"message is cut off at byte {at}", offset=offset)
    (length,) = _LENGTH.unpack_from(view, at)
    at += _LENGTH.size
    if not -1 <= length <= end - at:
        raise CorruptBatch(f"length {length} at byte {at - _LENGTH.size} does not fit the message", offset=offset)
    return (None, at) if length < 0 else (view[at : at + length], at + length)


def _check_crc(view: memoryview, position: int, message: _Message) -> None:
    (crc,) = _CRC.unpack_from(view, position + _SIZE_AFTER)
    found = zlib.crc32(view[position + _CRC_FROM : message.end])
    if found != crc:
        raise CorruptBatch(
            f"checksum of the message at byte {position} is {found:#010x}, it says {crc:#010x}", offset=message.offset
        )


def _unwrap(wrapper: _Message, limit: int) -> list[tuple[int, _Message]]:
    """Return (offset, message) of each message in a wrapper. A message that is not a wrapper is returned alone."""
    if wrapper.codec is Codec.NONE:
        return [(wrapper.offset, wrapper)]
    if wrapper.value is None:
        raise CorruptBatch("compressed message without a value", offset=wrapper.offset)
    inner = list(_inner(wrapper, inflate(wrapper.codec, wrapper.value, limit)))
    if not inner:
        raise CorruptBatch("compressed message set without messages", offset=wrapper.offset)
    # In magic 0, inner offsets are absolute. In magic 1 they are relative, and the wrapper's offset is that of its last
    # message.
    shift = wrapper.offset - inner[-1].offset if wrapper.magic else 0
    if inner[0].offset + shift < 0:
        raise CorruptBatch("relative offset lies before the log's start", offset=wrapper.offset)
    if wrapper.timestamp_type is TimestampType.LOG_APPEND:
        inner = [
            message._replace(timestamp_ms=wrapper.timestamp_ms, timestamp_type=wrapper.timestamp_type)
            for message in inner
        ]
    return [(message.offset + shift, message) for message in inner]


def _inner(wrapper: _Message, plain: memoryview) -> Iterator[_Message]:
    at = 0
    while at < len(plain):
        message = _read(plain, at, len(plain))
        if message is None or message.magic != wrapper.magic or message.codec is not Codec.NONE:
            raise CorruptBatch(f"damaged message at byte {at} of a compressed set", offset=wrapper.offset)
        yield message
        at = message.end


# Runs of batches of any format. The magic byte of a batch gives its format, which changes within a run only if brokers
# of different versions wrote the log.
_MAGIC_AT: Final = 16
_NEWEST: Final = 2
_NO_STOP: Final = (1 << 63) - 1


def decode(
    buffer: BytesLike,
    *,
    position: int = 0,
    end: int | None = None,
    start: int | None = None,
    stop: int | None = None,
    columns: Sequence[str] | None = None,
    check_crcs: bool = True,
    aborted: Sequence[tuple[int, int]] | None = None,
    max_inflated_bytes: int = MAX_INFLATED_BYTES,
) -> Decoded:
    """Decode the complete batches of ``buffer[position:end]``, which come from a Fetch response or a log segment.

    Arguments and result are those of `penstock.records.decoding.decode_v2`, for every format. An incomplete batch at
    the end is ignored; brokers pad converted responses with one. Raises CorruptBatch if the first batch in range is
    damaged or of an unknown format. If that happens to a later batch, the run ends before it, and
    `Decoded.next_offset` is its offset.
    """
    view = as_view(buffer)
    end = check_range(len(view), position, end)
    names = record_columns(columns)
    transactions = None if aborted is None else AbortedTransactions(aborted)
    parts: list[Decoded] = []
    asked = max(start or 0, 0)
    newest = None
    while end - position > _MAGIC_AT and (view[position + _MAGIC_AT] == _NEWEST) is not newest:
        try:
            newest = _is_newest(view[position + _MAGIC_AT], position)
            if newest:
                part = decode_v2(
                    buffer, position=position, end=end, start=start, stop=stop, columns=names, check_crcs=check_crcs,
                    aborted=transactions, max_inflated_bytes=max_inflated_bytes,
                )  # fmt: skip
            else:
                part = decode_message_sets(
                    view, position, end, start=max(start or 0, 0), stop=_NO_STOP if stop is None else stop,
                    columns=names, check_crcs=check_crcs, max_inflated_bytes=max_inflated_bytes,
                )  # fmt: skip
        except CorruptBatch:
            if not any(part.batch.num_rows or part.next_offset > asked for part in parts):
                raise  # the batches before it are out of range, so it is the first one
            break
        parts.append(part)
        position, start = part.consumed, part.next_offset
    if len(parts) == 1:
        return parts[0]
    return Decoded(_concat([part.batch for part in parts], names), start or 0, position)


def _is_newest(magic: int, position: int) -> bool:
    if magic > _NEWEST:
        raise CorruptBatch(f"magic {magic} at byte {position + _MAGIC_AT} is no format of Kafka")
    return magic == _NEWEST


def _concat(batches: Sequence[pa.RecordBatch], names: Sequence[str]) -> pa.RecordBatch:
    if batches:
        return pa.concat_batches(batches)
    wanted = schema(names)
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in wanted], schema=wanted)
