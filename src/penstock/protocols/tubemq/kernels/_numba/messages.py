"""TubeMQ's messages read and written by compiled loops: attributes, walking, headers, payloads, checksums."""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.kernels._numba.compiling import (
    BYTES,
    INT,
    INT32S,
    INT64S,
    OUT_BYTES,
    OUT_INT32S,
    OUT_INT64S,
    byte_at,
    compiled,
    copy_bytes,
    inlined,
    int64,
)
from penstock.kernels._numba.crc32 import crc32
from penstock.kernels._numba.text import (
    is_base64,
    is_utf8,
    read_base64,
    read_length,
    read_unsigned,
    unsigned_size,
    write_base64,
    write_unsigned,
)
from penstock.kernels.interface import Bytes, Int32s, Int64s
from penstock.protocols.tubemq.kernels.interface import (
    FILTER_HEADER,
    HEADER,
    KEY,
    MSG_TIME,
    MSG_TYPE,
    OURS,
    TIME,
    VALUE,
)

__all__ = [
    "checksums",
    "classify",
    "count_messages",
    "dot_of",
    "element",
    "encode_payloads",
    "gather_texts",
    "milliseconds_of",
    "minute_of",
    "same",
    "walk_attributes",
    "walk_messages",
    "wrap_messages",
]

# The attributes of a TubeMQ message: one element at a time, and what kind it is.
#
# Kinds: 0 nothing, 1 a header as it stands, 2 the filter item, 3 a coded header, 4 the key, 5 the time, 6 the minute, 7
# a null value, 8 an empty value. ``seen`` has bit 2^kind of those that count once: 4, 5, 6 and 7 (for 7 and 8).
_MSG_TYPE: Final = np.frombuffer(MSG_TYPE, np.uint8)
_MSG_TIME: Final = np.frombuffer(MSG_TIME, np.uint8)
_KEY: Final = np.frombuffer(KEY, np.uint8)
_TIME: Final = np.frombuffer(TIME, np.uint8)
_VALUE: Final = np.frombuffer(VALUE, np.uint8)
_HEADER: Final = np.frombuffer(HEADER, np.uint8)
_NULL: Final = np.frombuffer(b"null", np.uint8)
_EMPTY: Final = np.frombuffer(b"empty", np.uint8)
_MOST_MS: Final = (2**63 - 1) // 1000
_NO_NUMBER: Final = -(1 << 62)
_DAYS_BEFORE: Final = np.array([0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334], np.int64)
_DAYS_IN: Final = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


@inlined
def same(data: Bytes, at: int, end: int, word: Bytes) -> bool:
    """Whether ``data[at:end]`` is ``word``."""
    if end - at != len(word):
        return False
    for place in range(len(word)):  # noqa: SIM110 - a generator is nothing numba compiles
        if byte_at(data, at + place) != byte_at(word, place):
            return False
    return True


@inlined
def element(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Return (name begin, name end, value begin, value end, position after the comma); name begin -1 without ``=``."""
    equals, stop = -1, at
    while stop < end:
        byte = byte_at(data, stop)
        if byte == 44:
            break
        if byte == 61 and equals < 0:
            equals = stop
        stop += 1
    if equals < 0:
        return -1, -1, -1, -1, stop + 1
    name, name_to, value, value_to = at, equals, equals + 1, stop
    while name < name_to and byte_at(data, name) <= 32:
        name += 1
    while name_to > name and byte_at(data, name_to - 1) <= 32:
        name_to -= 1
    while value < value_to and byte_at(data, value) <= 32:
        value += 1
    while value_to > value and byte_at(data, value_to - 1) <= 32:
        value_to -= 1
    return name, name_to, value, value_to, stop + 1


@inlined
def dot_of(data: Bytes, at: int, end: int) -> int:
    """Return where the first dot is, ``end`` without one."""
    while at < end and byte_at(data, at) != 46:
        at += 1
    return at


@inlined
def milliseconds_of(data: Bytes, at: int, end: int) -> int:
    """Return the number that is written, below -2^61 where none is."""
    negative = at < end and byte_at(data, at) == 45
    if negative:
        at += 1
    if not 1 <= end - at <= 16:
        return _NO_NUMBER
    value = 0
    for place in range(at, end):
        digit = byte_at(data, place) - 48
        if digit < 0 or digit > 9:
            return _NO_NUMBER
        value = value * 10 + digit
    if value > _MOST_MS:
        return _NO_NUMBER
    return -value if negative else value


@inlined
def minute_of(data: Bytes, at: int, end: int) -> int:
    """Return the milliseconds of ``yyyyMMddHHmm``, below -2^61 where no minute is written."""
    if end - at != 12 or byte_at(data, at) == 45:
        return _NO_NUMBER
    number = milliseconds_of(data, at, end)
    if number < 0:
        return _NO_NUMBER
    minute, hour, day = number % 100, number // 100 % 100, number // 10_000 % 100
    month, year = number // 1_000_000 % 100, number // 100_000_000
    if year < 1 or month < 1 or month > 12 or day < 1 or hour > 23 or minute > 59:
        return _NO_NUMBER
    leap = 1 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 0
    if day > _DAYS_IN[month] + (leap if month == 2 else 0):
        return _NO_NUMBER
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400 + _DAYS_BEFORE[month] + day - 719_163
    if month > 2:
        days += leap
    return ((days * 24 + hour) * 60 + minute) * 60_000


@inlined
def _coded(data: Bytes, at: int, end: int) -> bool:
    dot = dot_of(data, at, end)
    return is_base64(data, at, dot) and (dot == end or is_base64(data, dot + 1, end))


@inlined
def classify(data: Bytes, name: int, name_to: int, value: int, value_to: int, seen: int) -> int:
    """Return the kind of an element; what is reserved but makes no sense, or comes again, is an ordinary header."""
    if name == name_to or byte_at(data, name) != 36:
        return 1
    if same(data, name, name_to, _MSG_TYPE):
        return 2 if value < value_to else 0
    if same(data, name, name_to, _MSG_TIME):
        return 6
    if same(data, name, name_to, _HEADER):
        return 3 if _coded(data, value, value_to) else 1
    if same(data, name, name_to, _KEY):
        return 4 if not seen & 16 and is_base64(data, value, value_to) else 1
    if same(data, name, name_to, _TIME):
        return 5 if not seen & 32 and milliseconds_of(data, value, value_to) > _NO_NUMBER else 1
    if same(data, name, name_to, _VALUE) and not seen & 128:
        if same(data, value, value_to, _NULL):
            return 7
        if same(data, value, value_to, _EMPTY):
            return 8
    return 1


# Walk the messages of a TubeMQ answer: note where bodies, keys and attributes are, check every length.
#
# Faults are returned as the numbers of `penstock.protocols.tubemq.kernels.interface.TubeFault`.
_BELOW_NUMBERS: Final = -(1 << 61)
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
    exact = minute = int64(_BELOW_NUMBERS)
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
            if minute <= _BELOW_NUMBERS:
                minute = minute_of(data, value, value_to)
        elif kind >= 7:
            null, seen = int64(kind == 7), seen | 128
    time = int64(_NO_TIME)
    if exact > _BELOW_NUMBERS:
        time = exact
    elif minute > _BELOW_NUMBERS:
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


# Note where the names and values of TubeMQ's headers are, and copy texts together, decoded.
_FILTER_HEADER: Final = np.frombuffer(FILTER_HEADER, np.uint8)
_FILTER_HEADER_SIZE: Final = len(FILTER_HEADER)


@compiled(
    BYTES, INT32S, INT32S, INT32S, INT, INT, OUT_INT32S, OUT_INT32S, OUT_BYTES, OUT_INT32S, OUT_INT32S, OUT_BYTES,
)  # fmt: skip
def walk_attributes(
    data: Bytes, attributes_at: Int32s, attributes_to: Int32s, header_ends: Int32s, first: int, last: int,
    name_at: Int32s, name_ends: Int32s, name_texts: Bytes, value_at: Int32s, value_ends: Int32s, value_texts: Bytes,
) -> None:  # fmt: skip
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.walk_attributes`."""
    for row in range(first, last):
        header, stop = int64(header_ends[row]), int64(header_ends[row + 1])
        at, end, seen = int64(attributes_at[row]), int64(attributes_to[row]), int64(0)
        while header < stop and at < end:
            name, name_to, value, value_to, at = element(data, at, end)
            if name < 0:
                continue
            kind = classify(data, name, name_to, value, value_to, seen)
            if kind == 0 or kind > 3:
                seen |= 1 << min(kind, 7)
                continue
            if kind == 3:
                dot = dot_of(data, value, value_to)
                name_at[header], name_ends[header + 1] = value, name_ends[header] + (dot - value) * 3 // 4
                value_at[header] = dot + 1 if dot < value_to else -1
                value_ends[header + 1] = value_ends[header] + (value_to - dot - 1) * 3 // 4
                if dot == value_to:
                    value_ends[header + 1] = value_ends[header]
                name_texts[header] = value_texts[header] = 1
            else:
                size = _FILTER_HEADER_SIZE if kind == 2 else name_to - name
                name_at[header], name_ends[header + 1] = 0 if kind == 2 else name, name_ends[header] + size
                value_at[header], value_ends[header + 1] = value, value_ends[header] + (value_to - value)
                name_texts[header], value_texts[header] = 2 if kind == 2 else 0, 0
            header += 1


@compiled(BYTES, INT32S, INT32S, BYTES, INT, INT, OUT_BYTES)
def gather_texts(data: Bytes, at: Int32s, ends: Int32s, texts: Bytes, first: int, last: int, out: Bytes) -> None:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.gather_texts`."""
    for row in range(first, last):
        to, stop = int64(ends[row]), int64(ends[row + 1])
        if stop <= to:
            continue
        if texts[row] == 0:
            copy_bytes(out, to, data, int64(at[row]), stop - to)
        elif texts[row] == 1:
            read_base64(data, int64(at[row]), out, to, stop)
        else:
            copy_bytes(out, to, _FILTER_HEADER, int64(0), stop - to)


# Write TubeMQ payloads: what a record has besides its value becomes attributes.

_OURS: Final = np.frombuffer(OURS, np.uint8)
_TYPE_NAME: Final = np.frombuffer(MSG_TYPE, np.uint8)
_TIME_NAME: Final = np.frombuffer(MSG_TIME, np.uint8)
_MSG_TYPE_PREFIX: Final = np.frombuffer(MSG_TYPE + b"=", np.uint8)
_MSG_TIME_PREFIX: Final = np.frombuffer(MSG_TIME + b"=", np.uint8)
_KEY_PREFIX: Final = np.frombuffer(KEY + b"=", np.uint8)
_TIME_PREFIX: Final = np.frombuffer(TIME + b"=", np.uint8)
_HEADER_PREFIX: Final = np.frombuffer(HEADER + b"=", np.uint8)
_NULL_ATTRIBUTE: Final = np.frombuffer(VALUE + b"=null", np.uint8)
_EMPTY_ATTRIBUTE: Final = np.frombuffer(VALUE + b"=empty", np.uint8)

_MINUTE_MS: Final = 60_000
_FIRST_MS: Final = -62_135_596_800_000  # the years 1 to 9999
_LAST_MS: Final = 253_402_300_799_999


@inlined
def _there(valid: Bytes, row: int) -> bool:
    return len(valid) == 0 or valid[row] != 0


@inlined
def _begins(data: Bytes, at: int, end: int, word: Bytes) -> bool:
    return end - at >= len(word) and same(data, at, at + len(word), word)


@inlined
def _is_plain(data: Bytes, at: int, end: int) -> bool:
    """Whether every reader of attributes gets the text back as it is, and takes it for nothing else."""
    if at == end:
        return True
    if byte_at(data, at) <= 32 or byte_at(data, end - 1) <= 32:
        return False
    for place in range(at, end):
        byte = byte_at(data, place)
        if byte in (44, 61):
            return False
        if byte == 36 and (
            _begins(data, place, end, _TYPE_NAME)
            or _begins(data, place, end, _TIME_NAME)
            or (place == at and _begins(data, place, end, _OURS))
        ):
            return False
    return is_utf8(data, at, end)


@inlined
def _put(out: Bytes, at: int, word: Bytes, begin: int, length: int) -> int:
    if length > 0:
        copy_bytes(out, at, word, begin, length)
    return at + length


@inlined
def _start(out: Bytes, start: int, at: int, word: Bytes) -> int:
    """Write a comma, unless this is the first element, and the element's beginning."""
    if at > start:
        out[at] = 44
        at += 1
    return _put(out, at, word, int64(0), int64(len(word)))


@inlined
def _put_digits(out: Bytes, at: int, value: int, digits: int) -> int:
    for place in range(digits - 1, -1, -1):
        out[at + place] = np.uint8(48 + value % 10)
        value //= 10
    return at + digits


@inlined
def _put_number(out: Bytes, at: int, value: int) -> int:
    if value < 0:
        out[at] = 45
        at += 1
        value = -value
    digits, rest = 1, value // 10
    while rest:
        rest //= 10
        digits += 1
    return _put_digits(out, at, value, digits)


@inlined
def _put_minute(out: Bytes, at: int, time_ms: int) -> int:
    """Write ``yyyyMMddHHmm``; the calendar is counted from the 1st of March of year 0, so leap days come last."""
    minutes = time_ms // _MINUTE_MS
    days = minutes // 1440 + 719_468
    minutes -= minutes // 1440 * 1440
    era = days // 146_097
    day = days - era * 146_097
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month = month + 3 if month < 10 else month - 9
    year = year + era * 400 + (1 if month <= 2 else 0)
    at = _put_digits(out, at, year, 4)
    at = _put_digits(out, at, month, 2)
    at = _put_digits(out, at, day + 1, 2)
    at = _put_digits(out, at, minutes // 60, 2)
    return _put_digits(out, at, minutes % 60, 2)


@inlined
def _put_coded(
    out: Bytes, start: int, at: int, names: Bytes, name: int, name_to: int,
    values: Bytes, value: int, value_to: int, there: bool,
) -> int:  # fmt: skip
    at = _start(out, start, at, _HEADER_PREFIX)
    at = write_base64(names, name, name_to, out, at)
    if there:
        out[at] = 46
        at = write_base64(values, value, value_to, out, at + 1)
    return at


@inlined
def _filter_of(
    first: int, last: int, names: Bytes, name_ends: Int32s, values: Bytes, value_ends: Int32s, valid: Bytes
) -> int:
    """Return the number of the header that becomes the filter item, -1 for none."""
    for header in range(first, last):
        value, value_to = int64(value_ends[header]), int64(value_ends[header + 1])
        if (
            same(names, int64(name_ends[header]), int64(name_ends[header + 1]), _FILTER_HEADER)
            and _there(valid, header)
            and value < value_to
            and _is_plain(values, value, value_to)
        ):
            return int64(header)
    return int64(-1)


@inlined
def _put_headers(
    out: Bytes, start: int, at: int, first: int, last: int, chosen: int, minute: bool, time_ms: int,
    names: Bytes, name_ends: Int32s, values: Bytes, value_ends: Int32s, valid: Bytes,
) -> int:  # fmt: skip
    for header in range(first, last):
        name, name_to = int64(name_ends[header]), int64(name_ends[header + 1])
        value, value_to = int64(value_ends[header]), int64(value_ends[header + 1])
        there = _there(valid, header)
        if header == chosen:
            at = _start(out, start, at, _MSG_TYPE_PREFIX)
            at = _put(out, at, values, value, value_to - value)
            if minute:
                at = _put_minute(out, _start(out, start, at, _MSG_TIME_PREFIX), time_ms)
        elif (
            there
            and name < name_to
            and not same(names, name, name_to, _FILTER_HEADER)
            and _is_plain(names, name, name_to)
            and _is_plain(values, value, value_to)
        ):
            if at > start:
                out[at] = 44
                at += 1
            at = _put(out, at, names, name, name_to - name)
            out[at] = 61
            at = _put(out, at + 1, values, value, value_to - value)
        else:
            at = _put_coded(out, start, at, names, name, name_to, values, value, value_to, there)
    return at


@compiled(
    BYTES, INT32S, BYTES, BYTES, INT32S, BYTES, INT64S, INT32S, BYTES, INT32S, BYTES, INT32S, BYTES, OUT_BYTES,
    OUT_INT32S, OUT_INT32S, OUT_INT32S,
)  # fmt: skip
def encode_payloads(
    keys: Bytes, key_ends: Int32s, key_valid: Bytes, values: Bytes, value_ends: Int32s, value_valid: Bytes,
    timestamps: Int64s, header_ends: Int32s, names: Bytes, name_ends: Int32s,
    header_values: Bytes, header_value_ends: Int32s, header_valid: Bytes,
    out: Bytes, payload_ends: Int32s, flags: Int32s, filter_headers: Int32s,
) -> None:  # fmt: skip
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.encode_payloads`."""
    payload_ends[0] = 0
    begin = first = last = int64(0)
    for row in range(len(timestamps)):
        start = at = begin + 4
        chosen, time_ms = int64(-1), timestamps[row]
        minute = time_ms != _NO_TIME and _FIRST_MS <= time_ms <= _LAST_MS
        whole = minute and time_ms % _MINUTE_MS == 0
        if len(header_ends):
            first, last = int64(header_ends[row] - header_ends[0]), int64(header_ends[row + 1] - header_ends[0])
            chosen = _filter_of(first, last, names, name_ends, header_values, header_value_ends, header_valid)
        filter_headers[row] = chosen
        if whole and chosen < 0:
            at = _put_minute(out, _start(out, start, at, _MSG_TIME_PREFIX), time_ms)
        at = _put_headers(
            out, start, at, first, last, chosen, minute, time_ms,
            names, name_ends, header_values, header_value_ends, header_valid,
        )  # fmt: skip
        if _there(key_valid, row):
            at = _start(out, start, at, _KEY_PREFIX)
            at = write_base64(keys, int64(key_ends[row]), int64(key_ends[row + 1]), out, at)
        if time_ms != _NO_TIME and not whole:
            at = _put_number(out, _start(out, start, at, _TIME_PREFIX), time_ms)
        value, length = int64(value_ends[row]), int64(value_ends[row + 1]) - int64(value_ends[row])
        if not _there(value_valid, row):
            at, length = _start(out, start, at, _NULL_ATTRIBUTE), int64(0)
        elif length == 0:
            at = _start(out, start, at, _EMPTY_ATTRIBUTE)
        flags[row] = 1 if at > start else 0
        if at > start:
            size = at - start
            out[begin], out[begin + 1] = np.uint8(size >> 24 & 255), np.uint8(size >> 16 & 255)
            out[begin + 2], out[begin + 3] = np.uint8(size >> 8 & 255), np.uint8(size & 255)
        else:
            at = begin
        begin = _put(out, at, values, value, length)
        payload_ends[row + 1] = begin


# Checksums of TubeMQ payloads, and payloads as messages of an answer.
@compiled(BYTES, INT32S, OUT_INT32S)
def checksums(data: Bytes, ends: Int32s, out: Int32s) -> None:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.checksums`."""
    for row in range(len(out)):
        out[row] = crc32(data, int64(ends[row]), int64(ends[row + 1])) & 0x7FFFFFFF


@compiled(BYTES, INT32S, INT32S, INT32S, INT64S, OUT_BYTES)
def wrap_messages(data: Bytes, ends: Int32s, flags: Int32s, sums: Int32s, message_ids: Int64s, out: Bytes) -> int:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.wrap_messages`."""
    at = int64(0)
    for row in range(len(message_ids)):
        begin = int64(ends[row])
        length = int64(ends[row + 1]) - begin
        message_id, checksum, flag = message_ids[row], int64(sums[row]), int64(flags[row])
        size = 4 + unsigned_size(message_id) + unsigned_size(checksum) + unsigned_size(flag)
        size += unsigned_size(length) + length
        out[at] = 0x22
        at = write_unsigned(out, at + 1, size)
        out[at] = 0x08
        at = write_unsigned(out, at + 1, message_id)
        out[at] = 0x10
        at = write_unsigned(out, at + 1, checksum)
        out[at] = 0x1A
        at = write_unsigned(out, at + 1, length)
        if length:
            copy_bytes(out, at, data, begin, length)
        at += length
        out[at] = 0x20
        at = write_unsigned(out, at + 1, flag)
    return at
