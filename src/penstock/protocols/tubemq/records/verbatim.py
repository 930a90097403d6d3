"""Messages of other TubeMQ clients that our own way of writing attributes does not bring back byte for byte.

A record says a message's key, time, filter item and headers, and from these its attributes are written again. Where
that does not give the bytes that the producer sent (``$`` in a name, another order, blanks, an element without ``=``,
a filter item that stands in the request only), the record also keeps the attributes as they came, in a header of their
own, and readers over TubeMQ get those. Readers over other protocols see one header more.
Source: Apache InLong TubeMQ 2.x; a broker stores payload and flag as they come and looks into neither.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.protocols.tubemq.kernels.interface import MINUTE_MS, NO_TIME
from penstock.protocols.tubemq.records.single import HAS_ATTRIBUTES, pack, unpack

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.protocols.tubemq.records.answer import MessageSet
    from penstock.protocols.tubemq.records.decoding import Decoded
    from penstock.protocols.tubemq.records.encoding import Payloads

__all__ = [
    "ATTRIBUTES_HEADER",
    "FILTER_HEADER",
    "FLAG_HEADER",
    "Said",
    "as_sent",
    "keeping_as_sent",
    "payload_of",
    "said_by",
]

FILTER_HEADER: Final = "tubemq.filter"
ATTRIBUTES_HEADER: Final = "tubemq.attributes"
"""The attributes as they were sent; null: the message has none."""
FLAG_HEADER: Final = "tubemq.flag"
"""The message's flag in decimal, where it has other bits than the one that says that there are attributes."""

_LENGTH: Final = 4
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
    """What a message says beside its body. ``timestamp_ms`` -1: no time. ``is_null``: its empty body stands for null.

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
    read = _remembered if size <= _REMEMBERED_BYTES else _read
    return read(payload[:size], flag, msg_type, size < len(payload))


def _read(head: bytes, flag: int, msg_type: str, has_body: bool) -> Said:
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
_remembered = functools.lru_cache(256)(_read)


def payload_of(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]], timestamp_ms: int = NO_TIME
) -> tuple[bytes, int]:
    """Return (payload, flag) of one record: as it was sent, where the record says so."""
    for name, _ in headers:
        if name == ATTRIBUTES_HEADER:
            return _as_sent(value or b"", dict(headers))
    return pack(key, value, headers, timestamp_ms)


def _as_sent(body: bytes, headers: dict[str, bytes | None]) -> tuple[bytes, int]:
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


def as_sent(payloads: Payloads, rows: pa.RecordBatch) -> Payloads:
    """``payloads`` as `encoding.encode` made them of ``rows``, with those in their place that are kept as sent."""
    import numpy as np
    import pyarrow.compute as pc

    from penstock.protocols.tubemq.kernels import tube_kernel
    from penstock.protocols.tubemq.records.encoding import Payloads
    from penstock.records.arrow import headers_input

    column = rows.column("headers")
    found = np.flatnonzero(pc.equal(column.flatten().field(0), ATTRIBUTES_HEADER).to_numpy(zero_copy_only=False))
    if not len(found):
        return payloads
    ends, _, _ = headers_input(column)
    pieces: list[bytes | memoryview] = [payloads.payload(row) for row in range(len(payloads))]
    flags = payloads.flags.copy()
    for row in np.unique(np.searchsorted(ends, found, "right") - 1).tolist():
        named = {each["key"]: each["value"] for each in column[row].as_py()}
        pieces[row], flags[row] = _as_sent(rows.column("value")[row].as_py() or b"", named)
    data = np.frombuffer(b"".join(pieces), np.uint8)
    ends, sums = np.cumsum([0, *map(len, pieces)], dtype=np.int32), np.empty(len(flags), np.int32)
    tube_kernel(len(data)).checksums(data, ends, sums)
    return Payloads(data, ends, flags, sums, payloads.filters, payloads.times_ms)


def keeping_as_sent(messages: MessageSet, decoded: Decoded) -> pa.RecordBatch:
    """The rows of an answer, all of them, with the headers that messages need to come back as they were sent.

    All messages are written again and compared at once. Only where that differs each is looked at.
    """
    import numpy as np
    import pyarrow as pa

    from penstock.protocols.tubemq.messages.broker import TransferedMessage
    from penstock.protocols.tubemq.messages.codec import decode
    from penstock.protocols.tubemq.records.answer import places
    from penstock.protocols.tubemq.records.encoding import encode, write_messages
    from penstock.protocols.tubemq.wire_fields import delimited

    rows = decoded.batch
    written = write_messages(as_sent(encode(rows), rows), np.asarray(decoded.message_ids, np.int64))
    begin = messages.runs[0].at
    if len(messages.runs) == 1 and messages.data.data[begin : begin + len(written)] == written:
        return rows
    headers = []
    for at in places(messages):
        message = decode(TransferedMessage, delimited(messages.data.data, at + 1)[0])
        headers.append([*said_by(message.pay_load_data, message.flag, "").headers])
    place = rows.schema.get_field_index("headers")
    return rows.set_column(place, rows.schema.field(place), pa.array(headers, rows.schema.field(place).type))
