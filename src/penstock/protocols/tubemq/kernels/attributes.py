"""The attributes of one TubeMQ message: what they say of key, time, null value, filter item and headers, both ways.

Plain Python for one message: the pure kernel's inner part, and the whole of it for those who have only one.
"""

from __future__ import annotations

import base64
import calendar
import re
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

from penstock.protocols.tubemq.kernels.interface import (
    FILTER_HEADER,
    HEADER,
    KEY,
    MINUTE_MS,
    MSG_TIME,
    MSG_TYPE,
    NO_TIME,
    OURS,
    TIME,
    VALUE,
    Text,
)

__all__ = [
    "NOTHING",
    "Attributes",
    "Header",
    "decoded",
    "decoded_size",
    "encoded_size",
    "minute_of",
    "read_attributes",
    "write_attributes",
]

_BLANKS: Final = bytes(range(33))
_BASE64: Final = re.compile(rb"[A-Za-z0-9_-]*")
_MINUTE: Final = re.compile(rb"[0-9]{12}")
_MILLISECONDS: Final = re.compile(rb"-?[0-9]{1,16}")
_MOST_MS: Final = (2**63 - 1) // 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS: Final = -62_135_596_800_000  # the years 1 to 9999
_LAST_MS: Final = 253_402_300_799_999
_SEPARATORS: Final = frozenset(b",=")


class Header(NamedTuple):
    """Where a header's name and value are (-1: null), their size once decoded, and how they are written."""

    name_at: int
    name_size: int
    name_text: int
    value_at: int
    value_size: int
    value_text: int


class Attributes(NamedTuple):
    """What one message's attributes say: ``key_at`` -1 for null, ``filter_at`` -1 without a filter item.

    ``is_null`` counts only where the body is empty.
    """

    key_at: int
    key_size: int
    time_ms: int
    is_null: bool
    filter_at: int
    filter_to: int
    headers: list[Header]


NOTHING: Final = Attributes(-1, 0, NO_TIME, False, -1, -1, [])


def read_attributes(source: bytes, begin: int, end: int) -> Attributes:
    """Read ``source[begin:end]``. What is reserved but makes no sense, or comes again, is an ordinary header."""
    key_at, key_size, exact, minute, is_null, marked, filter_at, filter_to = -1, 0, None, None, False, False, -1, -1
    headers: list[Header] = []
    at = begin
    while at < end:
        comma = source.find(b",", at, end)
        stop = end if comma < 0 else comma
        equals = source.find(b"=", at, stop)
        element, at = at, stop + 1
        if equals < 0:
            continue
        first, last = _trimmed(source, element, equals)
        value, value_to = _trimmed(source, equals + 1, stop)
        name, text = source[first:last], source[value:value_to]
        if name == MSG_TYPE:
            if text:
                headers.append(Header(0, 13, Text.FILTER, value, len(text), Text.PLAIN))
                if filter_at < 0:
                    filter_at, filter_to = value, value_to
            continue
        if name == MSG_TIME:
            minute = minute if minute is not None else _minute(text)
            continue
        if name == KEY and key_at < 0 and _is_base64(text):
            key_at, key_size = value, decoded_size(len(text))
            continue
        if name == TIME and exact is None and (exact := _milliseconds(text)) is not None:
            continue
        if name == VALUE and not marked and text in {b"null", b"empty"}:
            is_null, marked = text == b"null", True
            continue
        coded = _coded_header(text, value) if name == HEADER else None
        headers.append(coded or Header(first, len(name), Text.PLAIN, value, len(text), Text.PLAIN))
    time_ms = exact if exact is not None else minute if minute is not None else NO_TIME
    return Attributes(key_at, key_size, time_ms, is_null, filter_at, filter_to, headers)


def decoded_size(characters: int) -> int:
    """Return how many bytes unpadded base64 stands for."""
    return characters * 3 // 4


def encoded_size(size: int) -> int:
    """Return how many characters unpadded base64 takes."""
    return (size * 4 + 2) // 3


def decoded(source: bytes, at: int, size: int, text: int) -> bytes:
    """Return the ``size`` bytes that are written as ``text`` (a `Text`) at ``at``."""
    if text == Text.FILTER:
        return FILTER_HEADER
    if text == Text.PLAIN:
        return source[at : at + size]
    written = source[at : at + encoded_size(size)]
    return base64.urlsafe_b64decode(written + b"=" * (-len(written) % 4))


def _trimmed(source: bytes, begin: int, end: int) -> tuple[int, int]:
    text = source[begin:end]
    begin += len(text) - len(text.lstrip(_BLANKS))
    return begin, max(begin, end - len(text) + len(text.rstrip(_BLANKS)))


def _is_base64(text: bytes) -> bool:
    return len(text) % 4 != 1 and _BASE64.fullmatch(text) is not None


def _coded_header(text: bytes, at: int) -> Header | None:
    """Return the header that ``name.value`` or ``name`` (a null value), both base64, stands for."""
    name, dot, value = text.partition(b".")
    if not _is_base64(name) or not _is_base64(value):
        return None
    value_at = at + len(name) + 1 if dot else -1
    return Header(at, decoded_size(len(name)), Text.BASE64, value_at, decoded_size(len(value)), Text.BASE64)


def _milliseconds(text: bytes) -> int | None:
    if not _MILLISECONDS.fullmatch(text) or abs(int(text)) > _MOST_MS:
        return None
    return int(text)


def _minute(text: bytes) -> int | None:
    """Return the milliseconds of ``yyyyMMddHHmm`` in UTC."""
    if not _MINUTE.fullmatch(text):
        return None
    year, month, day, hour, minute = (int(text[a:b]) for a, b in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12)))
    if not (
        year and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1] and hour < 24 and minute < 60
    ):
        return None
    days = date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()
    return ((days * 24 + hour) * 60 + minute) * 60_000


def write_attributes(
    key: bytes | None,
    value: bytes | None,
    time_ms: int,
    headers: list[tuple[bytes, bytes | None]],
    local_ms: int | None = None,
) -> tuple[bytes, int]:
    """Return a record's attributes, and the number of the header that became its filter item, -1 for none.

    Whole minutes are written as others write them, so that their messages come back with the attributes they had. With
    ``local_ms``, the time as another zone's clock shows it, that one's minute is written, and the exact time as well.
    """
    chosen = next((number for number, (name, text) in enumerate(headers) if _is_filter(name, text)), -1)
    minute = minute_of(time_ms if local_ms is None else local_ms)
    whole = minute != b"" and time_ms % MINUTE_MS == 0 and local_ms is None
    elements: list[bytes] = []
    if whole and chosen < 0:
        elements.append(MSG_TIME + b"=" + minute)
    for number, (name, text) in enumerate(headers):
        if number == chosen:
            elements.append(MSG_TYPE + b"=" + (text or b""))
            if minute:
                elements.append(MSG_TIME + b"=" + minute)
        elif text is not None and name and name != FILTER_HEADER and _is_plain(name) and _is_plain(text):
            elements.append(name + b"=" + text)
        else:
            coded = _base64(name) if text is None else _base64(name) + b"." + _base64(text)
            elements.append(HEADER + b"=" + coded)
    if key is not None:
        elements.append(KEY + b"=" + _base64(key))
    if time_ms != NO_TIME and not whole:
        elements.append(TIME + b"=%d" % time_ms)
    if not value:
        elements.append(VALUE + b"=" + (b"null" if value is None else b"empty"))
    return b",".join(elements), chosen


def _is_filter(name: bytes, text: bytes | None) -> bool:
    return name == FILTER_HEADER and bool(text) and _is_plain(text or b"")


def _is_plain(text: bytes) -> bool:
    """Whether every reader of attributes gets ``text`` back as it is, and takes it for nothing else.

    Java's refuses names and values that contain one of its two reserved names; what begins as ours do may be ours.
    """
    if not text:
        return True
    if text[0] <= 32 or text[-1] <= 32 or not _SEPARATORS.isdisjoint(text):
        return False
    if b"$" in text and (MSG_TYPE in text or MSG_TIME in text or text.startswith(OURS)):
        return False
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def minute_of(time_ms: int) -> bytes:
    """Return ``yyyyMMddHHmm`` in UTC; empty for no time, and outside of the years 1 to 9999."""
    if time_ms == NO_TIME or not _FIRST_MS <= time_ms <= _LAST_MS:
        return b""
    # Not strftime: its %Y has four digits only on some platforms.
    when = _EPOCH + timedelta(milliseconds=time_ms)
    return b"%04d%02d%02d%02d%02d" % (when.year, when.month, when.day, when.hour, when.minute)
