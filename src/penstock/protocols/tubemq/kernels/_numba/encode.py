"""Write TubeMQ payloads: what a record has beside its value becomes attributes."""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.kernels._numba.compiling import (
    BYTES,
    INT32S,
    INT64S,
    OUT_BYTES,
    OUT_INT32S,
    byte_at,
    compiled,
    copy_bytes,
    inlined,
    int64,
)
from penstock.kernels._numba.text import is_utf8, write_base64
from penstock.kernels.interface import Bytes, Int32s, Int64s
from penstock.protocols.tubemq.kernels._numba.attributes import same
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

__all__ = ["encode_payloads"]

_FILTER_HEADER: Final = np.frombuffer(FILTER_HEADER, np.uint8)
_OURS: Final = np.frombuffer(OURS, np.uint8)
_TYPE_NAME: Final = np.frombuffer(MSG_TYPE, np.uint8)
_TIME_NAME: Final = np.frombuffer(MSG_TIME, np.uint8)
_MSG_TYPE: Final = np.frombuffer(MSG_TYPE + b"=", np.uint8)
_MSG_TIME: Final = np.frombuffer(MSG_TIME + b"=", np.uint8)
_KEY: Final = np.frombuffer(KEY + b"=", np.uint8)
_TIME: Final = np.frombuffer(TIME + b"=", np.uint8)
_HEADER: Final = np.frombuffer(HEADER + b"=", np.uint8)
_NULL: Final = np.frombuffer(VALUE + b"=null", np.uint8)
_EMPTY: Final = np.frombuffer(VALUE + b"=empty", np.uint8)
_NO_TIME: Final = -1
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
    at = _start(out, start, at, _HEADER)
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
            at = _start(out, start, at, _MSG_TYPE)
            at = _put(out, at, values, value, value_to - value)
            if minute:
                at = _put_minute(out, _start(out, start, at, _MSG_TIME), time_ms)
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
            at = _put_minute(out, _start(out, start, at, _MSG_TIME), time_ms)
        at = _put_headers(
            out, start, at, first, last, chosen, minute, time_ms,
            names, name_ends, header_values, header_value_ends, header_valid,
        )  # fmt: skip
        if _there(key_valid, row):
            at = _start(out, start, at, _KEY)
            at = write_base64(keys, int64(key_ends[row]), int64(key_ends[row + 1]), out, at)
        if time_ms != _NO_TIME and not whole:
            at = _put_number(out, _start(out, start, at, _TIME), time_ms)
        value, length = int64(value_ends[row]), int64(value_ends[row + 1]) - int64(value_ends[row])
        if not _there(value_valid, row):
            at, length = _start(out, start, at, _NULL), int64(0)
        elif length == 0:
            at = _start(out, start, at, _EMPTY)
        flags[row] = 1 if at > start else 0
        if at > start:
            size = at - start
            out[begin], out[begin + 1] = np.uint8(size >> 24 & 255), np.uint8(size >> 16 & 255)
            out[begin + 2], out[begin + 3] = np.uint8(size >> 8 & 255), np.uint8(size & 255)
        else:
            at = begin
        begin = _put(out, at, values, value, length)
        payload_ends[row + 1] = begin
