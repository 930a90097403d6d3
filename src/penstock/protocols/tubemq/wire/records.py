"""Messages one by one: records to messages and back, answers as they come, what other clients wrote as it is."""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from penstock.errors import CorruptBatch, ProtocolViolation
from penstock.protocols.tubemq.kernels import tube_kernel
from penstock.protocols.tubemq.kernels.interface import (
    MINUTE_MS,
    NO_TIME,
    decoded,
    minute_of,
    read_attributes,
    write_attributes,
)
from penstock.protocols.tubemq.wire.messages import GetMessageResponseB2C
from penstock.protocols.tubemq.wire.protobuf import decode, delimited, field_end
from penstock.records.batch import Bytes, as_array

if TYPE_CHECKING:
    from penstock.protocols.tubemq.config import MsgTimeZone
    from penstock.records.scalar_writer import FewRows

__all__ = [
    "ATTRIBUTES_HEADER",
    "FILTER_HEADER",
    "FLAG_HEADER",
    "HAS_ATTRIBUTES",
    "FewPayloads",
    "MessageSet",
    "Run",
    "Said",
    "Unpacked",
    "checksum",
    "encode_few",
    "pack",
    "part_of",
    "payload_of",
    "places",
    "read_messages",
    "said_by",
    "stored_payload",
    "unpack",
]

# One message at a time: for a front, which gets them so, and for looking into one.
HAS_ATTRIBUTES: Final = 1
"""The bit of ``flag`` that says that a payload begins with attributes."""

_LENGTH: Final = 4


class Unpacked(NamedTuple):
    """What a payload holds. ``timestamp_ms`` -1: none said; ``filter_item`` also stands among the headers."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    filter_item: str | None


def checksum(payload: bytes | memoryview) -> int:
    """Return a payload's checksum: CRC-32 (IEEE 802.3) without its highest bit."""
    return zlib.crc32(payload) & 0x7FFFFFFF


def pack(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
    timestamp_ms: int = NO_TIME,
) -> tuple[bytes, int]:
    """Return (payload, flag) of one record."""
    attributes, _ = write_attributes(key, value, timestamp_ms, [(name.encode(), text) for name, text in headers])
    body = value or b""
    if not attributes:
        return body, 0
    return len(attributes).to_bytes(_LENGTH, "big") + attributes + body, HAS_ATTRIBUTES


def unpack(payload: bytes | memoryview, flag: int) -> Unpacked:
    """Read one payload. Raises CorruptBatch where its attributes are longer than it is."""
    source = bytes(payload)
    if not flag & HAS_ATTRIBUTES:
        return _around(_NOTHING_SAID, source)
    length = int.from_bytes(source[:_LENGTH], "big", signed=True)
    if len(source) < _LENGTH or not 0 <= length <= len(source) - _LENGTH:
        raise CorruptBatch(f"a message of {len(source)} bytes says that {length} of them are attributes")
    body = _LENGTH + length
    attributes = source[_LENGTH:body]
    return _around(_read_said(attributes), source[body:])


class _Said(NamedTuple):
    """What attributes say, whatever the body is."""

    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    filter_item: str | None
    is_null: bool


_NOTHING_SAID: Final = _Said(None, (), NO_TIME, None, False)


def _around(said: _Said, body: bytes) -> Unpacked:
    value = None if said.is_null and not body else body
    return Unpacked(said.key, value, said.headers, said.timestamp_ms, said.filter_item)


def _read_said(attributes: bytes) -> _Said:
    found = read_attributes(attributes, 0, len(attributes))
    headers = tuple(
        (
            decoded(attributes, header.name_at, header.name_size, header.name_text).decode(errors="replace"),
            None if header.value_at < 0 else decoded(attributes, header.value_at, header.value_size, header.value_text),
        )
        for header in found.headers
    )
    item = None if found.filter_at < 0 else attributes[found.filter_at : found.filter_to].decode(errors="replace")
    key = None if found.key_at < 0 else decoded(attributes, found.key_at, found.key_size, 1)
    return _Said(key, headers, found.time_ms, item, found.is_null)


# A handful of records to TubeMQ payloads, one by one: below a hundred, that costs less than columns and a kernel.
#
# The same bytes as `record_columns.encode` makes.

_LAST_MS: Final = (2**63 - 1) // 1_000


class FewPayloads(Struct, frozen=True):
    """As `encoding.Payloads`, in lists."""

    data: list[bytes]
    flags: list[int]
    checksums: list[int]
    filters: list[str | None] | None
    times_ms: list[int]

    def __len__(self) -> int:
        return len(self.data)

    @property
    def size(self) -> int:
        """Bytes of all payloads."""
        return sum(map(len, self.data))

    def sizes(self) -> list[int]:
        """Bytes of each."""
        return [*map(len, self.data)]

    def payload(self, row: int) -> bytes:
        """What goes into ``SendMessageRequestP2B.data``."""
        return self.data[row]

    def msg_type(self, row: int) -> str | None:
        """The record's filter item."""
        return None if self.filters is None else self.filters[row]

    def msg_time(self, row: int) -> str | None:
        """The record's minute, ``yyyyMMddHHmm``, where it has a filter item (as in its attributes)."""
        return None if self.msg_type(row) is None else minute_of(self.times_ms[row]).decode() or None


def encode_few(rows: FewRows, zone: MsgTimeZone | None = None) -> FewPayloads:
    """Encode ``rows``, whose minutes are written in ``zone`` (None: UTC)."""
    data, flags, filters = [], [], []
    times = [max(-_LAST_MS, min(each, _LAST_MS)) for each in rows.timestamps]
    shown = times if zone is None else [each if each == NO_TIME else zone.local_ms(each) for each in times]
    for row, (key, value, time_ms) in enumerate(zip(rows.keys, rows.values, times, strict=True)):
        headers = [(name.encode(), text) for name, text in rows.headers.get(row, ())]
        local_ms = None if zone is None or time_ms == NO_TIME else shown[row]
        attributes, chosen = write_attributes(key, value, time_ms, headers, local_ms)
        body = value or b""
        data.append(b"%b%b%b" % (len(attributes).to_bytes(_LENGTH, "big"), attributes, body) if attributes else body)
        flags.append(HAS_ATTRIBUTES if attributes else 0)
        filters.append(None if chosen < 0 else str(headers[chosen][1] or b"", "utf-8"))
    found = filters if any(each is not None for each in filters) else None
    return FewPayloads(data, flags, [*map(checksum, data)], found, shown)


# An answer to GET_MESSAGE in two parts: its few fields, and where its messages lie, undecoded.
#
# The messages are most of the answer's bytes; the protobuf library would make a Python object of each of them.
_MESSAGES: Final = 0x22  # field 4, bytes
_MOST_RUNS: Final = 64
"""Messages stand together. They need not (protobuf lets fields stand anywhere), but no known client or server scatters
them."""


class Run(Struct, frozen=True):
    """Messages that follow each other: where the first one begins, and how many there are."""

    at: int
    count: int


class MessageSet(Struct, frozen=True):
    """``answer`` has every field but the messages; ``data`` is the whole answer, in which ``runs`` are messages."""

    answer: GetMessageResponseB2C
    data: Bytes
    runs: tuple[Run, ...]

    @property
    def count(self) -> int:
        """How many messages the answer has, corrupt ones too."""
        return sum(run.count for run in self.runs)

    @property
    def size(self) -> int:
        """Bytes of the answer."""
        return len(self.data)


def read_messages(payload: memoryview) -> MessageSet:
    """Take an answer to GET_MESSAGE apart. Raises ProtocolViolation."""
    data = as_array(payload)
    kernel = tube_kernel(len(payload))
    runs: list[Run] = []
    rest = bytearray()
    at = 0
    while at < len(payload):
        if payload[at] == _MESSAGES:
            count, after = kernel.count_messages(data, at, len(payload))
            if not count or len(runs) == _MOST_RUNS:
                raise ProtocolViolation(
                    f"the message at byte {at} of an answer of {len(payload)} is cut off, or scattered"
                )
            runs.append(Run(at, int(count)))
            at = int(after)
        else:
            after = field_end(payload, at)
            rest += payload[at:after]
            at = after
    answer = decode(GetMessageResponseB2C, rest)
    if answer.messages:
        raise ProtocolViolation("an answer has messages behind a tag that is not written as others write it")
    return MessageSet(answer, data, tuple(runs))


def places(messages: MessageSet) -> list[int]:
    """Where each message begins."""
    view, found = messages.data.data, list[int]()
    for run in messages.runs:
        at = run.at
        for _ in range(run.count):
            found.append(at)
            at = delimited(view, at + 1)[1]
    return found


def part_of(messages: MessageSet, at: Sequence[int], first: int, last: int) -> MessageSet:
    """The messages from number ``first`` to before ``last``, which begin ``at`` these places."""
    runs, number = [], 0
    for run in messages.runs:
        begin, end = max(first, number), min(last, number + run.count)
        if begin < end:
            runs.append(Run(at[begin], end - begin))
        number += run.count
    return MessageSet(messages.answer, messages.data, tuple(runs))


# Messages of other TubeMQ clients that our own way of writing attributes does not bring back byte for byte.
#
# A record says a message's key, time, filter item and headers, and from these its attributes are written again. Where
# that does not give the bytes that the producer sent (``$`` in a name, another order, blanks, an element without ``=``,
# a filter item that stands in the request only), the record also keeps the attributes as they came, in a header of
# their own, and readers over TubeMQ get those. Readers over other protocols see one header more. Source: Apache InLong
# TubeMQ 2.x; a broker stores payload and flag as they come and looks into neither.
FILTER_HEADER: Final = "tubemq.filter"
ATTRIBUTES_HEADER: Final = "tubemq.attributes"
"""The attributes as they were sent; null: the message has none."""
FLAG_HEADER: Final = "tubemq.flag"
"""The message's flag in decimal, where it has other bits than the one that says that there are attributes."""


_REMEMBERED_BYTES: Final = 128
_BODY: Final = b"x"

_PLAIN: Final = rb"[^,=$\x00-\x20](?:[^,=$]*[^,=$\x00-\x20])?"
_HEADER: Final = rb"%b=(?:%b)?" % (_PLAIN, _PLAIN)
_MINUTE: Final = rb"\$msgTime\$=[0-9]{12}"
_KEY: Final = rb"\$penstock\.key\$=(?:[\w-]{4})*(?:[\w-][AQgw]|[\w-]{2}[AEIMQUYcgkosw048])?"
_OWN_TIME: Final = rb"\$penstock\.time\$=[1-9][0-9]{12}"
_usual: Final = re.compile(
    rb"(?:\$msgType\$=%b(?:,%b)?|%b|%b)(?:,%b)*" % (_PLAIN, _MINUTE, _MINUTE, _HEADER, _HEADER)  # Java's, mostly
    + rb"|%b(?:,%b)?|%b" % (_KEY, _OWN_TIME, _OWN_TIME)  # our own clients'
).fullmatch
"""Attributes that are written again as they are, if they are UTF-8 and their time is one; most are."""

Headers = tuple[tuple[str, bytes | None], ...]


class Said(NamedTuple):
    """What a message says besides its body. ``timestamp_ms`` -1: no time. ``is_null``: its empty body stands for null.

    ``size``: how many bytes of the payload stand before the body.
    """

    key: bytes | None
    headers: Headers
    timestamp_ms: int
    is_null: bool
    size: int


def said_by(payload: bytes, flag: int, msg_type: str) -> Said:
    """Read what stands before a message's body; ``msg_type`` counts where its attributes name no filter item.

    Raises CorruptBatch where the attributes are longer than the message.
    """
    size = 0
    if flag & HAS_ATTRIBUTES:
        size = _LENGTH + int.from_bytes(payload[:_LENGTH], "big", signed=True)
        if not _LENGTH <= size <= len(payload):
            unpack(payload, flag)  # raises, and says what is wrong
    read = _remembered if size <= _REMEMBERED_BYTES else _read_head
    return read(payload[:size], flag, msg_type, size < len(payload))


def _read_head(head: bytes, flag: int, msg_type: str, has_body: bool) -> Said:
    body = _BODY if has_body else b""
    found = unpack(head + body, flag)
    headers = found.headers
    if found.filter_item is None and msg_type.strip():
        headers = ((FILTER_HEADER, msg_type.strip().encode()), *headers)
    if (
        headers is found.headers
        and has_body
        and flag == HAS_ATTRIBUTES
        and _is_usual(head[_LENGTH:], found.timestamp_ms)
    ):
        return Said(found.key, headers, found.timestamp_ms, False, len(head))
    if payload_of(found.key, found.value, headers, found.timestamp_ms) != (head + body, flag):
        # Both, and last: a sender's own attributes may have these names, too.
        attributes = head[_LENGTH:] if flag & HAS_ATTRIBUTES else None
        headers = (*headers, (ATTRIBUTES_HEADER, attributes))
        if flag & ~HAS_ATTRIBUTES or any(name == FLAG_HEADER for name, _ in headers):
            headers = (*headers, (FLAG_HEADER, b"%d" % flag))
    return Said(found.key, headers, found.timestamp_ms, found.value is None, len(head))


def _is_usual(attributes: bytes, timestamp_ms: int) -> bool:
    """Whether they surely come back as they are: this is five times sooner known than by writing them again."""
    if _usual(attributes) is None or b"tubemq." in attributes or not attributes.isascii():
        return False
    if b"$penstock.time$" in attributes:
        return timestamp_ms % MINUTE_MS != 0
    return timestamp_ms != NO_TIME or b"$msgTime$" not in attributes


# Java's producers say the filter item and the minute, so what comes in one minute mostly says the same.
_remembered = functools.lru_cache(256)(_read_head)


def payload_of(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]], timestamp_ms: int = NO_TIME
) -> tuple[bytes, int]:
    """Return (payload, flag) of one record: as it was sent, where the record says so."""
    for name, _ in headers:
        if name == ATTRIBUTES_HEADER:
            return stored_payload(value or b"", dict(headers))
    return pack(key, value, headers, timestamp_ms)


def stored_payload(body: bytes, headers: dict[str, bytes | None]) -> tuple[bytes, int]:
    """Return (payload, flag) of a record with `ATTRIBUTES_HEADER`: as it was sent."""
    attributes, flag = headers[ATTRIBUTES_HEADER], _flag(headers.get(FLAG_HEADER))
    if attributes is None:
        return body, flag & ~HAS_ATTRIBUTES
    return len(attributes).to_bytes(_LENGTH, "big") + attributes + body, flag | HAS_ATTRIBUTES


def _flag(written: bytes | None) -> int:
    """The flag that a header names; 0 for anything that is no flag, since clients of other protocols may write one."""
    text = written or b""
    if len(text) > 11 or not text.removeprefix(b"-").isdigit():
        return 0
    flag = int(text)
    return flag if -(1 << 31) <= flag < 1 << 31 else 0
