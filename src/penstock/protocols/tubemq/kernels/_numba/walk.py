"""Walk the messages of a TubeMQ answer: note where bodies, keys and attributes are, check every length.

Faults are returned as the numbers of `penstock.protocols.tubemq.kernels.interface.TubeFault`.
"""

from __future__ import annotations

from typing import Final

from penstock.kernels._numba.compiling import (
    BYTES,
    INT,
    INT32S,
    OUT_INT32S,
    OUT_INT64S,
    byte_at,
    compiled,
    inlined,
    int64,
)
from penstock.kernels._numba.crc32 import crc32
from penstock.kernels._numba.text import read_length, read_unsigned
from penstock.kernels.interface import Bytes, Int32s, Int64s
from penstock.protocols.tubemq.kernels._numba.attributes import classify, element, milliseconds_of, minute_of

__all__ = ["count_messages", "walk_messages"]

_NO_NUMBER: Final = -(1 << 61)
_NO_TIME: Final = -1


@compiled(BYTES, INT, INT)
def count_messages(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.count_messages`."""
    count = int64(0)
    while at < end and byte_at(data, at) == 0x22:
        begin, after = read_length(data, at + 1, end)
        if begin < 0:
            break
        count += 1
        at = after
    return count, at


@inlined
def _int32(value: int) -> int:
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


@inlined
def _message(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Return (id, checksum, payload begin, payload end, flag, fault, position) of the message ``data[at:end]``."""
    start = at
    message_id = checksum = payload = payload_to = flag = seen = int64(0)
    while at < end:
        field = at
        tag, at = read_unsigned(data, at, end)
        number, kind = tag >> 3, tag & 7
        if at < 0 or number == 0 or tag >> 32 != 0:
            return 0, 0, 0, 0, 0, 2, field
        if kind == 0:
            value, at = read_unsigned(data, at, end)
            if at < 0:
                return 0, 0, 0, 0, 0, 3, field
            if number == 1:
                message_id, seen = value, seen | 2
            elif number == 2:
                checksum, seen = _int32(value), seen | 4
            elif number == 4:
                flag, seen = value, seen | 16
        elif kind == 2:
            begin, at = read_length(data, at, end)
            if begin < 0:
                return 0, 0, 0, 0, 0, 4, field
            if number == 3:
                payload, payload_to, seen = begin, at, seen | 8
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
            if at > end:
                return 0, 0, 0, 0, 0, 4, field
        else:
            return 0, 0, 0, 0, 0, 5, field
    if seen != 30:
        return 0, 0, 0, 0, 0, 6, start
    return message_id, checksum, payload, payload_to, flag, 0, 0


@inlined
def _attributes_end(data: Bytes, begin: int, end: int) -> int:
    """Return where the attributes of a payload end that has some, -1 where it is shorter than they."""
    if end - begin < 4:
        return -1
    length = byte_at(data, begin) << 24 | byte_at(data, begin + 1) << 16
    length |= byte_at(data, begin + 2) << 8 | byte_at(data, begin + 3)
    return begin + 4 + length if length <= end - begin - 4 else -1


@inlined
def _wanted(data: Bytes, at: int, end: int, filters: Bytes, filter_ends: Int32s) -> bool:
    for item in range(len(filter_ends) - 1):
        begin, length = int64(filter_ends[item]), int64(filter_ends[item + 1]) - int64(filter_ends[item])
        if length == end - at:
            place = int64(0)
            while place < length and byte_at(data, at + place) == byte_at(filters, begin + place):
                place += 1
            if place == length:
                return True
    return False


@inlined
def _attributes(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Return (key begin, key size, time, null, filter begin, filter end, headers)."""
    key = filter_at = filter_to = int64(-1)
    key_size = null = headers = seen = int64(0)
    exact = minute = int64(_NO_NUMBER)
    while at < end:
        name, name_to, value, value_to, at = element(data, at, end)
        if name < 0:
            continue
        kind = classify(data, name, name_to, value, value_to, seen)
        if 1 <= kind <= 3:
            headers += 1
            if kind == 2 and filter_at < 0:
                filter_at, filter_to = value, value_to
        elif kind == 4:
            key, key_size, seen = value, (value_to - value) * 3 // 4, seen | 16
        elif kind == 5:
            exact, seen = milliseconds_of(data, value, value_to), seen | 32
        elif kind == 6:
            if minute <= _NO_NUMBER:
                minute = minute_of(data, value, value_to)
        elif kind >= 7:
            null, seen = int64(kind == 7), seen | 128
    time = int64(_NO_TIME)
    if exact > _NO_NUMBER:
        time = exact
    elif minute > _NO_NUMBER:
        time = minute
    return key, key_size, time, null, filter_at, filter_to, headers


@compiled(
    BYTES, INT, INT, INT, INT, INT, BYTES, INT32S, INT, OUT_INT32S, OUT_INT32S, OUT_INT32S, OUT_INT32S, OUT_INT64S,
    OUT_INT64S, OUT_INT32S, OUT_INT32S, OUT_INT32S, OUT_INT32S, OUT_INT64S, OUT_INT64S,
)  # fmt: skip
def walk_messages(
    data: Bytes, at: int, count: int, number: int, want: int, check_crcs: int, filters: Bytes, filter_ends: Int32s,
    row: int, key_at: Int32s, key_ends: Int32s, value_at: Int32s, value_ends: Int32s, numbers: Int64s,
    timestamps: Int64s, timestamp_types: Int32s, attributes_at: Int32s, attributes_to: Int32s, header_ends: Int32s,
    message_ids: Int64s, found: Int64s,
) -> None:  # fmt: skip
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.walk_messages`."""
    want_key, want_value, want_offset = (want & 1) != 0, (want & 2) != 0, (want & 4) != 0
    want_timestamp, want_headers = (want & 8) != 0, (want & 16) != 0
    filtering = len(filter_ends) > 1
    headers = found[1]
    for index in range(number, number + count):
        begin, after = read_length(data, at + 1, len(data))
        if begin < 0:
            found[5], found[6] = 1, at
            break
        message_id, checksum, payload, end, flag, fault, position = _message(data, begin, after)
        if fault:
            found[5], found[6] = fault, position
            break
        at = after
        body = attributes = payload
        corrupt = check_crcs != 0 and (crc32(data, payload, end) & 0x7FFFFFFF) != checksum
        if not corrupt and flag & 1:
            attributes, body = payload + 4, _attributes_end(data, payload, end)
            corrupt = body < 0
        if corrupt:
            found[2] += 1
            if found[3] < 0:
                found[3] = index
            continue
        key, key_size, time, null = int64(-1), int64(0), int64(_NO_TIME), int64(0)
        if attributes < body:
            key, key_size, time, null, filter_at, filter_to, count_here = _attributes(data, attributes, body)
        else:
            filter_at, filter_to, count_here = int64(-1), int64(-1), int64(0)
        if filtering and (filter_at < 0 or not _wanted(data, filter_at, filter_to, filters, filter_ends)):
            found[4] += 1
            continue
        if want_key:
            key_at[row], key_ends[row + 1] = key, key_ends[row] + key_size
        if want_value:
            value_at[row], value_ends[row + 1] = -1 if null and body == end else body, value_ends[row] + (end - body)
        if want_offset:
            numbers[row] = index
        if want_timestamp:
            timestamps[row], timestamp_types[row] = time * 1000, -1 if time == _NO_TIME else 0
        headers += count_here
        if want_headers:
            attributes_at[row], attributes_to[row], header_ends[row + 1] = attributes, body, headers
        message_ids[row] = message_id
        row += 1
    found[0], found[1] = row, headers
