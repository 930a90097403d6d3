"""What a kernel can do for TubeMQ: the functions, the attributes they know and what they report.

As in `penstock.kernels.interface`, both implementations give the same results, and the same fault at the same byte on
bad input.

A message is protobuf's ``TransferedMessage``: id 1, checksum 2, payload 3, flag 4. With flag bit 0 the payload is a
length (4 bytes, big-endian), that many bytes of attributes, and the body; without it the body alone. Attributes are
``name=value`` between commas; blanks around both are cut off, and an element without ``=`` means nothing. Sources:
Apache InLong TubeMQ 2.x, ``DataConverterUtil`` and ``Message``; protobuf encoding guide.
"""

from __future__ import annotations

import base64
import calendar
import enum
import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from penstock.kernels import kernel_of

if TYPE_CHECKING:
    from penstock.kernels.interface import Bytes, Int32s, Int64s

__all__ = [
    "FILTER_HEADER",
    "FOUND_COLUMNS",
    "HEADER",
    "KEY",
    "MAX_ATTRIBUTES_OVERHEAD",
    "MAX_HEADER_ATTRIBUTE_OVERHEAD",
    "MAX_WRAP_OVERHEAD",
    "MINUTE_MS",
    "MSG_TIME",
    "MSG_TYPE",
    "NOTHING",
    "NO_TIME",
    "OURS",
    "TIME",
    "VALUE",
    "Attributes",
    "Found",
    "Header",
    "Text",
    "TubeFault",
    "TubeKernel",
    "decoded",
    "decoded_size",
    "encoded_size",
    "minute_of",
    "read_attributes",
    "tube_kernel",
    "write_attributes",
]

MSG_TYPE: Final = b"$msgType$"
MSG_TIME: Final = b"$msgTime$"
OURS: Final = b"$penstock."
KEY: Final = b"$penstock.key$"
TIME: Final = b"$penstock.time$"
VALUE: Final = b"$penstock.value$"
HEADER: Final = b"$penstock.header$"
FILTER_HEADER: Final = b"tubemq.filter"

MINUTE_MS: Final = 60_000

NO_TIME: Final = -1
"""Milliseconds of a record without a timestamp, as in Kafka."""

MAX_ATTRIBUTES_OVERHEAD: Final = 128
"""What attributes add to a record at most, on top of its headers and 4/3 of its key."""

MAX_HEADER_ATTRIBUTE_OVERHEAD: Final = 32
"""What a header adds at most, on top of 4/3 of its name and value."""

MAX_WRAP_OVERHEAD: Final = 44
"""What a message adds to its payload: five tags, three numbers of up to 10 bytes, two lengths."""


class TubeFault(enum.IntEnum):
    """What is wrong with a message's structure; the position says where the wrong field starts."""

    NONE = 0
    MESSAGE_LENGTH = 1
    TAG = 2
    NUMBER = 3
    LENGTH = 4
    WIRE_TYPE = 5
    REQUIRED = 6


class Found(enum.IntEnum):
    """Where `TubeKernel.walk_messages` reports what it found.

    ``CORRUPT`` counts messages that were left out because of their checksum or attribute length, ``FIRST_CORRUPT`` is
    the number of the first of them in the answer (-1: none); ``FILTERED`` counts those no filter item matched.
    """

    ROWS = 0
    HEADERS = 1
    CORRUPT = 2
    FIRST_CORRUPT = 3
    FILTERED = 4
    FAULT = 5
    POSITION = 6


FOUND_COLUMNS: Final = len(Found)


class Text(enum.IntEnum):
    """How the bytes of a key, a header's name or its value are written: as they are, in base64, or not at all."""

    PLAIN = 0
    BASE64 = 1
    FILTER = 2


class TubeKernel(Protocol):
    """The loops over TubeMQ's bytes. Every length is checked against what is left before it is used."""

    def count_messages(self, data: Bytes, at: int, end: int) -> tuple[int, int]:
        """Count the messages (field 4 of an answer) that follow each other from ``at`` on.

        Returns (messages, position after the last); stops at another field, and before a message that is cut off.
        """
        ...

    def walk_messages(
        self,
        data: Bytes,
        at: int,
        count: int,
        number: int,
        want: int,
        check_crcs: int,
        filters: Bytes,
        filter_ends: Int32s,
        row: int,
        key_at: Int32s,
        key_ends: Int32s,
        value_at: Int32s,
        value_ends: Int32s,
        numbers: Int64s,
        timestamps: Int64s,
        timestamp_types: Int32s,
        attributes_at: Int32s,
        attributes_to: Int32s,
        header_ends: Int32s,
        message_ids: Int64s,
        found: Int64s,
    ) -> None:
        """Walk ``count`` messages that `count_messages` found at ``at``; note where their parts are, from ``row`` on.

        ``number`` is that of the first one in its answer. ``want`` has bits of `penstock.kernels.interface`
        (``WANT_OFFSET`` stands for ``numbers``); arrays whose bit is missing are not touched, ``message_ids`` always
        are. ``key_at`` and ``value_at`` are -1 for null; keys are base64, and ``key_ends`` counts decoded bytes.
        ``timestamps`` are microseconds, those without one `NO_TIME` milliseconds and type -1. ``attributes_at`` and
        ``attributes_to`` bound a record's attributes for `walk_attributes`. With ``filters`` (joined, with their
        ends), messages whose ``$msgType$`` is none of them are left out. ``found`` is added to, see `Found`;
        ``HEADERS`` must hold ``header_ends[row]``.
        """
        ...

    def walk_attributes(
        self,
        data: Bytes,
        attributes_at: Int32s,
        attributes_to: Int32s,
        header_ends: Int32s,
        first: int,
        last: int,
        name_at: Int32s,
        name_ends: Int32s,
        name_texts: Bytes,
        value_at: Int32s,
        value_ends: Int32s,
        value_texts: Bytes,
    ) -> None:
        """Note where names and values of the headers of rows ``first`` to ``last`` are, and how they are written."""
        ...

    def gather_texts(
        self, data: Bytes, at: Int32s, ends: Int32s, texts: Bytes, first: int, last: int, out: Bytes
    ) -> None:
        """Like `penstock.kernels.interface.Kernel.gather`, with a `Text` a row."""
        ...

    def encode_payloads(
        self,
        keys: Bytes,
        key_ends: Int32s,
        key_valid: Bytes,
        values: Bytes,
        value_ends: Int32s,
        value_valid: Bytes,
        timestamps: Int64s,
        header_ends: Int32s,
        names: Bytes,
        name_ends: Int32s,
        header_values: Bytes,
        header_value_ends: Int32s,
        header_valid: Bytes,
        out: Bytes,
        payload_ends: Int32s,
        flags: Int32s,
        filter_headers: Int32s,
    ) -> None:
        """Write a payload a timestamp (milliseconds) into ``out``; ``payload_ends`` gets rows + 1 positions.

        Columns are given as for `penstock.kernels.interface.Kernel.encode_records`. ``filter_headers`` gets the number
        of the header that became ``$msgType$``, -1 where none did.
        """
        ...

    def checksums(self, data: Bytes, ends: Int32s, out: Int32s) -> None:
        """Write the checksum of each ``data[ends[row]:ends[row + 1]]``: CRC-32 (IEEE 802.3) without its highest bit."""
        ...

    def wrap_messages(
        self, data: Bytes, ends: Int32s, flags: Int32s, sums: Int32s, message_ids: Int64s, out: Bytes
    ) -> int:
        """Write each payload as a message of an answer (field 4); returns the position after the last.

        ``out`` needs `MAX_WRAP_OVERHEAD` a message on top of the payloads, and `SLACK_BYTES`.
        """
        ...


# The attributes of one TubeMQ message: what they say of key, time, null value, filter item and headers, both ways.
#
# Plain Python for one message: the pure kernel's inner part, and the whole of it for those who have only one.
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


# Which of TubeMQ's kernels runs: chosen as all are, by `penstock.kernels`.
_HOME: Final = __name__.rpartition(".")[0]


def tube_kernel(size: int | None = None) -> TubeKernel:
    """Return the kernel for a piece of work of ``size`` bytes; None means "the chosen one, now"."""
    return cast("TubeKernel", kernel_of(_HOME, size))
