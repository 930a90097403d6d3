"""Message properties: the parts of a record other than its value, written and read one message at a time."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.errors import UsageError
from penstock.protocols.rocketmq.kernels.interface import CODED, KIND_OF, Kind

__all__ = [
    "BORN",
    "BORN_HOST",
    "CLOSE_MS",
    "FLAG",
    "MAX_PROPERTIES_BYTES",
    "NOT_KEPT",
    "NUMBERS",
    "PREPARED",
    "RECONSUMED",
    "SYS_FLAG",
    "TIMESTAMP",
    "Headers",
    "Said",
    "entries",
    "format_properties",
    "parse_properties",
    "read_record",
    "sent_ms",
    "write_record",
]

BORN: Final = "rocketmq.born_timestamp"
BORN_HOST: Final = "rocketmq.born_host"
"""The address of the message's producer, as ``host:port``."""
FLAG: Final = "rocketmq.flag"
RECONSUMED: Final = "rocketmq.reconsume_times"
SYS_FLAG: Final = "rocketmq.sys_flag"
PREPARED: Final = "rocketmq.prepared_transaction_offset"

NUMBERS: Final = frozenset({BORN, FLAG, RECONSUMED, SYS_FLAG, PREPARED})
"""Headers for the fields of a message other than properties, if they are not 0."""

CLOSE_MS: Final = 60_000
"""How far a message's time of birth may be from now to be its record's timestamp.

Brokers delete by the time of storing, but a log's retention goes by records' timestamps. So a message from a wrong
clock, or from long ago, gets the time at which it is stored as its timestamp, and its birth is kept as a header.
"""

NOT_KEPT: Final = frozenset(
    {"CLUSTER", "CONSUME_START_TIME", "KEYS", "MAX_OFFSET", "MIN_OFFSET", "MSG_REGION", "TRACE_ON", "WAIT"}
)
"""Properties that brokers and clients add anew or that concern one send; and the key, which has its own field."""

# Properties are ``name 0x01 value 0x02``, text, never empty; brokers keep neither their order nor duplicates of a name.
# If a header does not fit these rules, all headers of the record go into one property of penstock's. ``README.md`` has
# the mapping as a table. Source: Apache RocketMQ 4.9 and 5.x, ``MessageDecoder.messageProperties2String``.
Headers = Sequence[tuple[str, bytes | None]]

MAX_PROPERTIES_BYTES: Final = 32_767

_CODED_HEADERS, _CODED_KEY, _CODED_VALUE, TIMESTAMP = (name.decode() for name in CODED)
_NAME_END: Final = "\x01"
_VALUE_END: Final = "\x02"
_NO_BYTES: Final = b"empty"
"""The value for no bytes, since a property needs one; it is not base64, whose length is never 4 n + 1."""
_SIZE: Final = struct.Struct(">i")
_LONGEST_NUMBER: Final = 19
_FROM_USERS: Final = frozenset({"DELAY", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS"})
"""RocketMQ's own properties that applications of producers set; headers of these names become them."""


class Said(NamedTuple):
    """The record's key, value and headers that a message's properties and body contain."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def format_properties(properties: Mapping[str, str] | Iterable[tuple[str, str]]) -> str:
    """Return properties in wire form, without the last 0x02, as 4.9 writes them. Raises UsageError."""
    pairs = properties.items() if isinstance(properties, Mapping) else properties
    written = []
    for name, value in pairs:
        if not _is_plain(name) or not _is_plain(value):
            raise UsageError(f"the property {name!r} is empty, or has a byte 1 or 2 in its name or value")
        written.append(f"{name}{_NAME_END}{value}")
    text = _VALUE_END.join(written)
    if len(text) > MAX_PROPERTIES_BYTES // 4 and len(text.encode()) > MAX_PROPERTIES_BYTES:
        raise UsageError(
            f"key, headers and tags take {len(text.encode())} bytes; {MAX_PROPERTIES_BYTES} are allowed",
            hint="Put what is large into the value",
        )
    return text


def parse_properties(text: str) -> dict[str, str]:
    """Return properties by name; the last one of a name counts, as in Java."""
    return dict(_entries(text))


def entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (name, value) of each property that has both, in order and with duplicates."""
    for entry in data.split(b"\x02"):
        name, _, value = entry.partition(b"\x01")
        if name and value:
            yield name, value


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for entry in text.split(_VALUE_END):
        name, _, value = entry.partition(_NAME_END)
        if name and value:
            yield name, value


def write_record(key: bytes | None, value: bytes | None, headers: Headers = ()) -> list[tuple[str, str]]:
    """Return the properties that a record needs besides its body. Raises UsageError."""
    written: list[tuple[str, str]] = []
    if key is not None:
        text = _plain(key)
        written.append(("KEYS", text) if text is not None else (_CODED_KEY, _base64(key)))
    if not value:
        written.append((_CODED_VALUE, "null" if value is None else "empty"))
    sent = [(name, header) for name, header in headers if _is_sent(name, key)]
    plain = [(name, None if header is None else _plain(header)) for name, header in sent]
    names = {name for name, _ in plain}
    if len(names) == len(plain) and all(_is_plain(name) and text is not None for name, text in plain):
        return [*written, *((name, text) for name, text in plain if text is not None)]
    # RocketMQ itself reads these, so they stay properties whatever happens to the others.
    known = {name: text for name, text in plain if name.encode() in KIND_OF and text is not None}
    return [*written, *known.items(), (_CODED_HEADERS, _base64(_packed(sent)))]


def read_record(properties: bytes, body: bytes, *, every: bool = False) -> Said:
    """Return a message's record. Headers are all properties with ``every``, else those that are not RocketMQ's own.

    Invalid codings are ignored.
    """
    key: bytes | None = None
    coded_key = coded_headers = marked = None
    headers: list[tuple[str, bytes | None]] = []
    for name, value in entries(properties):
        kind = KIND_OF.get(name, Kind.HEADER)
        if kind == Kind.CODED:
            if name == CODED[0]:
                coded_headers = _unpacked(value)
            elif name == CODED[1]:
                coded_key = _decoded(value)
            elif name == CODED[2]:
                marked = value
            continue
        if kind == Kind.KEY:
            key = value
        if every or kind in {Kind.HEADER, Kind.TAG}:
            headers.append((name.decode(errors="replace"), value))
    if coded_headers is not None:
        own = [pair for pair in headers if KIND_OF.get(pair[0].encode(), Kind.HEADER) not in {Kind.HEADER, Kind.TAG}]
        headers = coded_headers + (own if every else [])
    value_read = None if marked == b"null" else b"" if marked == b"empty" else body
    return Said(coded_key if coded_key is not None else key, value_read, headers)


def sent_ms(properties: bytes) -> int | None:
    """Return the record's own time in milliseconds, if it has one: messages of a batch share one time of birth."""
    text = dict(entries(properties)).get(CODED[3], b"")
    if len(text) > _LONGEST_NUMBER or not text.removeprefix(b"-").isdigit():
        return None
    return int(text)


def _is_sent(name: str, key: bytes | None) -> bool:
    """Whether a header goes into the message; headers that brokers and producers write themselves do not."""
    kind = KIND_OF.get(name.encode("utf-8", "surrogatepass"), Kind.HEADER)
    if kind == Kind.KEY:
        return key is None
    return name in _FROM_USERS or (kind in {Kind.HEADER, Kind.TAG} and not name.startswith("rocketmq."))


def _plain(data: bytes) -> str | None:
    """Return bytes as a property's value; None if they cannot be one."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if _is_plain(text) else None


def _is_plain(text: str) -> bool:
    return bool(text) and _NAME_END not in text and _VALUE_END not in text


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode() or _NO_BYTES.decode()


def _decoded(text: bytes) -> bytes | None:
    if text == _NO_BYTES:
        return b""
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


def _packed(headers: Headers) -> bytes:
    """Return names and values in turn, each after its size; size -1 is null."""
    packed = bytearray()
    for name, value in headers:
        for part in (name.encode(), value):
            packed += _SIZE.pack(-1) if part is None else _SIZE.pack(len(part)) + part
    return bytes(packed)


def _unpacked(text: bytes) -> list[tuple[str, bytes | None]] | None:
    data = _decoded(text)
    if data is None:
        return None
    parts: list[bytes | None] = []
    at = 0
    while at < len(data):
        if len(data) - at < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        if not -1 <= size <= len(data) - at:
            return None
        parts.append(None if size < 0 else data[at : at + size])
        at += max(size, 0)
    if len(parts) % 2 or None in parts[::2]:
        return None
    return [
        ((name or b"").decode(errors="replace"), value) for name, value in zip(parts[::2], parts[1::2], strict=True)
    ]
