"""Walk the messages of a TubeMQ answer: note where bodies, keys and attributes are, check every length."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from penstock.kernels.interface import (
    WANT_HEADERS,
    WANT_KEY,
    WANT_OFFSET,
    WANT_TIMESTAMP,
    WANT_VALUE,
    Bytes,
    Int32s,
    Int64s,
)
from penstock.protocols.tubemq.kernels.attributes import NOTHING, Attributes, read_attributes
from penstock.protocols.tubemq.kernels.interface import NO_TIME, Found, TubeFault

__all__ = ["count_messages", "walk_messages"]

_MESSAGES: Final = 0x22
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


class _Wrong(Exception):
    def __init__(self, fault: TubeFault, position: int) -> None:
        self.fault = fault
        self.position = position


class _Message(NamedTuple):
    message_id: int
    checksum: int
    payload: int
    payload_to: int
    flag: int


def _read_varint(source: bytes, at: int, end: int) -> tuple[int, int]:
    """Return (64 unsigned bits, position after them); the position is -1 where it is cut off or too long."""
    bits = shift = 0
    while at < end and shift < 70:
        byte = source[at]
        at += 1
        bits |= (byte & 127) << shift
        if byte < 128:
            return bits & (1 << 64) - 1, at
        shift += 7
    return 0, -1


def _read_length(source: bytes, at: int, end: int) -> tuple[int, int]:
    """Return (begin, end) of the bytes behind the length at ``at``; begin is -1 where they are not there."""
    length, begin = _read_varint(source, at, end)
    if begin < 0 or length > end - begin:
        return -1, -1
    return begin, begin + length


def count_messages(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.count_messages`."""
    source, count = data.tobytes(), 0
    while at < end and source[at] == _MESSAGES:
        begin, after = _read_length(source, at + 1, end)
        if begin < 0:
            break
        count, at = count + 1, after
    return count, at


def walk_messages(
    data: Bytes, at: int, count: int, number: int, want: int, check_crcs: int, filters: Bytes, filter_ends: Int32s,
    row: int, key_at: Int32s, key_ends: Int32s, value_at: Int32s, value_ends: Int32s, numbers: Int64s,
    timestamps: Int64s, timestamp_types: Int32s, attributes_at: Int32s, attributes_to: Int32s, header_ends: Int32s,
    message_ids: Int64s, found: Int64s,
) -> None:  # fmt: skip
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.walk_messages`."""
    source = data.tobytes()
    headers = int(found[Found.HEADERS])
    joined = filters.tobytes()
    items = {joined[a:b] for a, b in zip(filter_ends[:-1].tolist(), filter_ends[1:].tolist(), strict=True)}
    try:
        for index, message in enumerate(_messages(source, at, count), number):
            bounds = _bounds(source, message, check_crcs)
            if bounds is None:
                found[Found.CORRUPT] += 1
                if found[Found.FIRST_CORRUPT] < 0:
                    found[Found.FIRST_CORRUPT] = index
                continue
            begin, body = bounds
            size = message.payload_to - body
            said = read_attributes(source, begin, body) if begin < body else NOTHING
            if items and source[said.filter_at : said.filter_to] not in items:
                found[Found.FILTERED] += 1
                continue
            if want & WANT_KEY:
                key_at[row], key_ends[row + 1] = said.key_at, key_ends[row] + said.key_size
            if want & WANT_VALUE:
                value_at[row], value_ends[row + 1] = -1 if said.is_null and not size else body, value_ends[row] + size
            if want & WANT_OFFSET:
                numbers[row] = index
            if want & WANT_TIMESTAMP:
                timestamps[row], timestamp_types[row] = said.time_ms * 1000, _type_of(said)
            headers += len(said.headers)
            if want & WANT_HEADERS:
                attributes_at[row], attributes_to[row], header_ends[row + 1] = begin, body, headers
            message_ids[row] = message.message_id
            row += 1
    except _Wrong as wrong:
        found[Found.FAULT], found[Found.POSITION] = wrong.fault, wrong.position
    found[Found.ROWS] = row
    found[Found.HEADERS] = headers


def _type_of(said: Attributes) -> int:
    return -1 if said.time_ms == NO_TIME else 0


def _bounds(source: bytes, message: _Message, check_crcs: int) -> tuple[int, int] | None:
    """Return (begin of the attributes, begin of the body), None for a corrupt message."""
    begin, end = message.payload, message.payload_to
    if check_crcs and zlib.crc32(source[begin:end]) & 0x7FFFFFFF != message.checksum:
        return None
    if not message.flag & 1:
        return begin, begin
    if end - begin < 4:
        return None
    length = int.from_bytes(source[begin : begin + 4], "big", signed=True)
    if not 0 <= length <= end - begin - 4:
        return None
    return begin + 4, begin + 4 + length


def _messages(source: bytes, at: int, count: int) -> Iterator[_Message]:
    for _ in range(count):
        begin, end = _read_length(source, at + 1, len(source))
        if begin < 0:
            raise _Wrong(TubeFault.MESSAGE_LENGTH, at)
        yield _message(source, begin, end)
        at = end


def _message(source: bytes, at: int, end: int) -> _Message:
    start = at
    message_id = checksum = payload = payload_to = flag = 0
    seen = 0
    while at < end:
        field = at
        tag, at = _read_varint(source, at, end)
        number, kind = tag >> 3, tag & 7
        if at < 0 or not number or tag >> 32:
            raise _Wrong(TubeFault.TAG, field)
        if kind == _VARINT:
            value, at = _read_varint(source, at, end)
            if at < 0:
                raise _Wrong(TubeFault.NUMBER, field)
            if number == 1:
                message_id = _signed(value, 64)
            elif number == 2:
                checksum = _signed(value, 32)
            elif number == 4:
                flag = _signed(value, 32)
            if number in {1, 2, 4}:
                seen |= 1 << number
        elif kind == _LENGTH:
            begin, at = _read_length(source, at, end)
            if begin < 0:
                raise _Wrong(TubeFault.LENGTH, field)
            if number == 3:
                payload, payload_to, seen = begin, at, seen | 8
        elif kind in {_FIXED64, _FIXED32}:
            at += 8 if kind == _FIXED64 else 4
            if at > end:
                raise _Wrong(TubeFault.LENGTH, field)
        else:
            raise _Wrong(TubeFault.WIRE_TYPE, field)
    if seen != 30:
        raise _Wrong(TubeFault.REQUIRED, start)
    return _Message(message_id, checksum, payload, payload_to, flag)


def _signed(value: int, bits: int) -> int:
    return ((value + (1 << bits - 1)) & (1 << bits) - 1) - (1 << bits - 1)
