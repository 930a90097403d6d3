"""The attributes of a TubeMQ message: one element at a time, and what kind it is.

Kinds: 0 nothing, 1 a header as it stands, 2 the filter item, 3 a coded header, 4 the key, 5 the time, 6 the minute,
7 a null value, 8 an empty value. ``seen`` has bit 2^kind of those that count once: 4, 5, 6 and 7 (for 7 and 8).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.kernels._numba.compiling import byte_at, inlined
from penstock.kernels._numba.text import is_base64
from penstock.kernels.interface import Bytes
from penstock.protocols.tubemq.kernels.interface import HEADER, KEY, MSG_TIME, MSG_TYPE, TIME, VALUE

__all__ = ["classify", "dot_of", "element", "milliseconds_of", "minute_of", "same"]

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
