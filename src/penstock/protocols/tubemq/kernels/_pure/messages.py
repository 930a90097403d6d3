"""TubeMQ's messages read and written in plain Python: walking, headers, payloads, checksums."""

from __future__ import annotations

import itertools
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
from penstock.protocols.tubemq.kernels.interface import (
    NO_TIME,
    NOTHING,
    Attributes,
    Found,
    TubeFault,
    decoded,
    read_attributes,
    write_attributes,
)

__all__ = [
    "checksums",
    "count_messages",
    "encode_payloads",
    "gather_texts",
    "walk_attributes",
    "walk_messages",
    "wrap_messages",
]

# Walk the messages of a TubeMQ answer: note where bodies, keys and attributes are, check every length.
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


# Note where the names and values of TubeMQ's headers are, and copy texts together, decoded.
def walk_attributes(
    data: Bytes, attributes_at: Int32s, attributes_to: Int32s, header_ends: Int32s, first: int, last: int,
    name_at: Int32s, name_ends: Int32s, name_texts: Bytes, value_at: Int32s, value_ends: Int32s, value_texts: Bytes,
) -> None:  # fmt: skip
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.walk_attributes`."""
    source = data.tobytes()
    for row in range(first, last):
        if header_ends[row + 1] == header_ends[row]:
            continue
        said = read_attributes(source, int(attributes_at[row]), int(attributes_to[row]))
        for at, header in enumerate(said.headers, int(header_ends[row])):
            name_at[at], name_ends[at + 1], name_texts[at] = header.name_at, name_ends[at] + header.name_size, header[2]
            value_at[at], value_texts[at] = header.value_at, header.value_text
            value_ends[at + 1] = value_ends[at] + header.value_size


def gather_texts(data: Bytes, at: Int32s, ends: Int32s, texts: Bytes, first: int, last: int, out: Bytes) -> None:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.gather_texts`."""
    source, target = data.tobytes(), out.data
    for row in range(first, last):
        to, stop = int(ends[row]), int(ends[row + 1])
        if stop > to:
            target[to:stop] = decoded(source, int(at[row]), stop - to, int(texts[row]))


# Write TubeMQ payloads: what a record has besides its value becomes attributes.
def encode_payloads(
    keys: Bytes, key_ends: Int32s, key_valid: Bytes, values: Bytes, value_ends: Int32s, value_valid: Bytes,
    timestamps: Int64s, header_ends: Int32s, names: Bytes, name_ends: Int32s,
    header_values: Bytes, header_value_ends: Int32s, header_valid: Bytes,
    out: Bytes, payload_ends: Int32s, flags: Int32s, filter_headers: Int32s,
) -> None:  # fmt: skip
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.encode_payloads`."""
    all_keys, all_values = _parts(keys, key_ends, key_valid), _parts(values, value_ends, value_valid)
    header_names, all_header_values = (
        _parts(names, name_ends, names[:0]),
        _parts(header_values, header_value_ends, header_valid),
    )
    target = out.data
    at, start = 0, int(header_ends[0]) if len(header_ends) else 0
    payload_ends[0] = 0
    for row, time_ms in enumerate(timestamps.tolist()):
        first, last = 0, 0
        if len(header_ends):
            first, last = int(header_ends[row]) - start, int(header_ends[row + 1]) - start
        headers = [(header_names[i] or b"", all_header_values[i]) for i in range(first, last)]
        attributes, chosen = write_attributes(all_keys[row], all_values[row], time_ms, headers)
        flags[row] = 1 if attributes else 0
        filter_headers[row] = -1 if chosen < 0 else first + chosen
        head = len(attributes).to_bytes(4, "big") + attributes if attributes else b""
        payload = head + (all_values[row] or b"")
        target[at : at + len(payload)] = payload
        at += len(payload)
        payload_ends[row + 1] = at


def _parts(data: Bytes, ends: Int32s, valid: Bytes) -> list[bytes | None]:
    source, stops = data.tobytes(), ends.tolist()
    parts = [source[a:b] for a, b in itertools.pairwise(stops)]
    return (
        [part if there else None for part, there in zip(parts, valid.tolist(), strict=True)] if len(valid) else [*parts]
    )


# Checksums of TubeMQ payloads, and payloads as messages of an answer.
_MASK = (1 << 64) - 1


def checksums(data: Bytes, ends: Int32s, out: Int32s) -> None:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.checksums`."""
    source, stops = data.data, ends.tolist()
    for row, (begin, end) in enumerate(itertools.pairwise(stops)):
        out[row] = zlib.crc32(source[begin:end]) & 0x7FFFFFFF


def wrap_messages(data: Bytes, ends: Int32s, flags: Int32s, sums: Int32s, message_ids: Int64s, out: Bytes) -> int:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.wrap_messages`."""
    source, stops = data.data, ends.tolist()
    pieces: list[bytes | memoryview] = []
    for row, message_id in enumerate(message_ids.tolist()):
        payload = source[stops[row] : stops[row + 1]]
        head = b"\x08" + _varint(message_id) + b"\x10" + _varint(int(sums[row])) + b"\x1a" + _varint(len(payload))
        tail = b"\x20" + _varint(int(flags[row]))
        pieces += [b"\x22", _varint(len(head) + len(payload) + len(tail)), head, payload, tail]
    joined = b"".join(pieces)
    out.data[: len(joined)] = joined
    return len(joined)


def _varint(value: int) -> bytes:
    bits = value & _MASK
    written = bytearray()
    while bits > 127:
        written.append(bits & 127 | 128)
        bits >>= 7
    written.append(bits)
    return bytes(written)
