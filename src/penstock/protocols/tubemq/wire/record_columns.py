"""Arrow columns to messages and back, encoded and decoded by the kernel: no Python object a record."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from penstock import kernels
from penstock.errors import ProtocolViolation, UsageError
from penstock.interfaces.framing import Buffer
from penstock.kernels.interface import (
    SLACK_BYTES,
    WANT_HEADERS,
    WANT_KEY,
    WANT_OFFSET,
    WANT_TIMESTAMP,
    WANT_VALUE,
    Bytes,
    Int32s,
    Int64s,
)
from penstock.model import TimestampType
from penstock.protocols.tubemq.kernels import tube_kernel
from penstock.protocols.tubemq.kernels.interface import (
    FOUND_COLUMNS,
    MAX_ATTRIBUTES_OVERHEAD,
    MAX_HEADER_ATTRIBUTE_OVERHEAD,
    MAX_WRAP_OVERHEAD,
    MINUTE_MS,
    NO_TIME,
    TIME,
    Found,
    Text,
    TubeFault,
    minute_of,
)
from penstock.protocols.tubemq.wire.messages import TransferedMessage
from penstock.protocols.tubemq.wire.protobuf import decode as decode_message
from penstock.protocols.tubemq.wire.protobuf import delimited
from penstock.protocols.tubemq.wire.records import (
    ATTRIBUTES_HEADER,
    FewPayloads,
    MessageSet,
    encode_few,
    places,
    said_by,
    stored_payload,
)
from penstock.protocols.tubemq.wire.strings import INDEX_BYTES
from penstock.records import arrow
from penstock.records.arrow import (
    TYPES,
    Binary,
    binary_input,
    column_of,
    headers_input,
    record_columns,
    schema,
    timestamps_of,
)
from penstock.records.scalar_writer import FewRows

if TYPE_CHECKING:
    from penstock.protocols.tubemq.config import MsgTimeZone

__all__ = [
    "Bulk",
    "Decoded",
    "Payloads",
    "as_sent",
    "bulk_of",
    "decode",
    "encode",
    "encode_in_zone",
    "keeping_as_sent",
    "without_log_times",
    "write_messages",
]

# Arrow columns to TubeMQ payloads, encoded by the kernel: no Python object a record until one is sent.
_MOST_BYTES: Final = (1 << 31) - 1
_LAST_MS: Final = (2**63 - 1) // 1000


class Payloads(Struct, frozen=True):
    """Encoded records: row ``i`` is ``data[ends[i]:ends[i + 1]]``, with its flag, checksum and filter item."""

    data: Bytes
    ends: Int32s
    flags: Int32s
    checksums: Int32s
    filters: tuple[str | None, ...] | None
    times_ms: Int64s

    def __len__(self) -> int:
        return len(self.flags)

    @property
    def size(self) -> int:
        """Bytes of all payloads."""
        return int(self.ends[-1])

    def sizes(self) -> list[int]:
        """Bytes of each."""
        return list((self.ends[1:] - self.ends[:-1]).tolist())

    def payload(self, row: int) -> memoryview:
        """What goes into ``SendMessageRequestP2B.data``."""
        return self.data.data[self.ends[row] : self.ends[row + 1]]

    def msg_type(self, row: int) -> str | None:
        """The record's filter item."""
        return None if self.filters is None else self.filters[row]

    def msg_time(self, row: int) -> str | None:
        """The record's minute, ``yyyyMMddHHmm`` in UTC, where it has a filter item (as in its attributes)."""
        return None if self.msg_type(row) is None else minute_of(int(self.times_ms[row])).decode() or None


def encode(rows: pa.RecordBatch, *, timestamp_ms: int = NO_TIME) -> Payloads:
    """Encode ``rows``: columns key, value[, timestamp, headers] as in `penstock.records.encoding.encode_v2`.

    Rows without a timestamp get ``timestamp_ms`` (-1: none). Raises UsageError.
    """
    count = rows.num_rows
    key, value = (
        binary_input(column_of(rows, "key"), count, "key"),
        binary_input(column_of(rows, "value"), count, "value"),
    )
    header_ends, names, header_values = headers_input(column_of(rows, "headers"))
    times = np.clip(timestamps_of(column_of(rows, "timestamp"), count, timestamp_ms), -_LAST_MS, _LAST_MS)
    headers = int(header_ends[-1]) if len(header_ends) else 0
    texts = key.size + names.size + header_values.size
    most = value.size + (texts * 4) // 3 + count * MAX_ATTRIBUTES_OVERHEAD + headers * MAX_HEADER_ATTRIBUTE_OVERHEAD
    if most + SLACK_BYTES > _MOST_BYTES:
        raise UsageError(f"{count} records of together {most} bytes are too many at once", hint="Split them")
    out = np.frombuffer(pa.allocate_buffer(most + SLACK_BYTES), np.uint8)
    ends, flags = np.empty(count + 1, np.int32), np.empty(count, np.int32)
    filter_headers, sums = np.empty(count, np.int32), np.empty(count, np.int32)
    kernel = tube_kernel(most)
    kernel.encode_payloads(
        key.data, key.ends, key.valid, value.data, value.ends, value.valid, times,
        header_ends, names.data, names.ends, header_values.data, header_values.ends, header_values.valid,
        out, ends, flags, filter_headers,
    )  # fmt: skip
    kernel.checksums(out, ends, sums)
    return Payloads(out, ends, flags, sums, _filters(header_values, filter_headers), times)


def encode_in_zone(rows: pa.RecordBatch, zone: MsgTimeZone, *, timestamp_ms: int = NO_TIME) -> FewPayloads:
    """As `encode`, with minutes in ``zone``: in Python, row by row, at some 5 µs each."""
    count = rows.num_rows
    keys, values = (_bytes(binary_input(column_of(rows, name), count, name)) for name in ("key", "value"))
    times = np.clip(timestamps_of(column_of(rows, "timestamp"), count, timestamp_ms), -_LAST_MS, _LAST_MS).tolist()
    ends, names, texts = headers_input(column_of(rows, "headers"))
    headers: dict[int, list[tuple[str, bytes | None]]] = {}
    if len(ends):
        pairs = [((name or b"").decode(), text) for name, text in zip(_bytes(names), _bytes(texts), strict=True)]
        first = int(ends[0])
        bounds = (ends - first).tolist()
        headers = {row: pairs[a:b] for row, (a, b) in enumerate(pairwise(bounds)) if a < b}
    return encode_few(FewRows(keys, values, times, headers), zone)


def _bytes(column: Binary) -> list[bytes | None]:
    data, bounds = column.data.data, [*pairwise(column.ends.tolist())]
    valid = column.valid.tolist() or [1] * len(bounds)
    return [bytes(data[a:b]) if there else None for (a, b), there in zip(bounds, valid, strict=True)]


def _filters(values: Binary, chosen: Int32s) -> tuple[str | None, ...] | None:
    if not len(chosen) or int(chosen.max()) < 0:
        return None
    texts, ends = values.data.data, values.ends.tolist()
    return tuple(
        None if number < 0 else str(texts[ends[number] : ends[number + 1]], "utf-8") for number in chosen.tolist()
    )


def write_messages(payloads: Payloads, message_ids: Int64s) -> memoryview:
    """Return the payloads as the messages of an answer to GET_MESSAGE: its field 4, as often as there are rows.

    Put behind the encoded other fields, it makes the whole answer: protobuf lets fields stand in any order.
    """
    size = int(payloads.ends[-1]) + len(payloads) * MAX_WRAP_OVERHEAD + SLACK_BYTES
    out = np.frombuffer(pa.allocate_buffer(size), np.uint8)
    end = tube_kernel(size).wrap_messages(
        payloads.data, payloads.ends, payloads.flags, payloads.checksums, message_ids, out
    )
    return out.data[:end]


# The messages of one answer to Arrow columns, with no Python object a message.
#
# One call of the kernel walks all messages and notes where bodies, keys and attributes are, and one call a column
# copies the bytes together.
_WANT: Final = {
    "key": WANT_KEY,
    "value": WANT_VALUE,
    "offset": WANT_OFFSET,
    "timestamp": WANT_TIMESTAMP,
    "timestampType": WANT_TIMESTAMP,
    "headers": WANT_HEADERS,
}
_MINUTE_US: Final = MINUTE_MS * 1_000
_EXACT: Final = re.compile(rb"(?:^|,)[\0- ]*" + re.escape(TIME) + rb"[\0- ]*=[\0- ]*-?[0-9]{1,16}[\0- ]*(?:,|$)")
"""An attribute that says the time to the millisecond; it counts before ``$msgTime$``."""

_WORDS: Final = {
    TubeFault.MESSAGE_LENGTH: "a message goes beyond its answer",
    TubeFault.TAG: "a field's tag is cut off or too large",
    TubeFault.NUMBER: "a number is cut off or too long",
    TubeFault.LENGTH: "a field goes beyond its message",
    TubeFault.WIRE_TYPE: "a field has a type that does not exist",
    TubeFault.REQUIRED: "a message has not all required fields",
}


class Decoded(Struct, frozen=True):
    """The rows of one answer.

    ``batch`` has the record columns that were asked for, ``message_ids`` an id a row. ``corrupt`` messages (checksum,
    attribute length) were left out, ``first_corrupt`` is the number of the first of them in the answer (-1: none);
    ``filtered`` ones were left out because no filter item matched.
    """

    batch: pa.RecordBatch
    message_ids: pa.Array
    corrupt: int
    first_corrupt: int
    filtered: int


def decode(
    messages: MessageSet,
    *,
    offset: int | None = None,
    step: int = INDEX_BYTES,
    columns: Sequence[str] | None = None,
    filters: Collection[str] = (),
    check_crcs: bool = True,
    zone: MsgTimeZone | None = None,
) -> Decoded:
    """Decode all messages of an answer.

    ``offset`` is the first one's (None: what the answer says); each further one gets ``step`` more. With one partition
    a store that is its offset exactly; with several, or with filters at the broker, it is a lower bound that still
    grows from row to row and stays below the next batch's. ``columns`` names record columns (topic and partition are
    ignored here); None means all. ``filters`` are compared once more, because brokers compare hash codes only.
    ``zone`` is that of ``$msgTime$`` (None: UTC).

    Raises ProtocolViolation for messages that are no protobuf; nothing is returned then.
    """
    names = record_columns(columns)
    want = sum({_WANT[name] for name in names})
    by_zone = zone is not None and bool(want & WANT_TIMESTAMP)
    walk = _Walk(messages, want | WANT_HEADERS if by_zone else want)
    walk.run(messages, filters, check_crcs)
    if zone is not None and by_zone:
        walk.move_minutes(zone)
    base = messages.answer.curr_offset if offset is None else offset
    batch = pa.RecordBatch.from_arrays([walk.column(name, base, step) for name in names], schema=schema(names))
    ids = arrow.number_array(pa.int64(), walk.rows, walk.message_ids)
    found = walk.found.tolist()
    return Decoded(batch, ids, found[Found.CORRUPT], found[Found.FIRST_CORRUPT], found[Found.FILTERED])


class _Walk:
    """One walk over an answer's messages: the index arrays the kernel fills, and the columns made from them."""

    def __init__(self, messages: MessageSet, want: int) -> None:
        self._data = messages.data
        self._kernel = tube_kernel(messages.size)
        self._want = want
        count = messages.count
        self._key_at, self._key_ends = self._index(WANT_KEY, count)
        self._value_at, self._value_ends = self._index(WANT_VALUE, count)
        self._attributes_at, self._header_ends = self._index(WANT_HEADERS, count)
        self._attributes_to = np.empty(len(self._attributes_at), np.int32)
        self._numbers = arrow.pool_int64s(count if want & WANT_OFFSET else 0)
        self._timestamps = arrow.pool_int64s(count if want & WANT_TIMESTAMP else 0)
        self._timestamp_types = arrow.pool_int32s(count if want & WANT_TIMESTAMP else 0)
        self.message_ids = arrow.pool_int64s(count)
        self.found: Int64s = np.zeros(FOUND_COLUMNS, np.int64)
        self.found[Found.FIRST_CORRUPT] = -1

    def _index(self, bit: int, rows: int) -> tuple[Int32s, Int32s]:
        rows = rows if self._want & bit else 0
        ends = arrow.pool_int32s(rows + 1)
        ends[0] = 0
        return np.empty(rows, np.int32), ends

    @property
    def rows(self) -> int:
        return int(self.found[Found.ROWS])

    def run(self, messages: MessageSet, filters: Collection[str], check_crcs: bool) -> None:
        items = [item.encode() for item in sorted(set(filters))]
        ends = np.cumsum([0, *map(len, items)], dtype=np.int32)
        joined = np.frombuffer(b"".join(items), np.uint8)
        number = 0
        for run in messages.runs:
            self._kernel.walk_messages(
                self._data, run.at, run.count, number, self._want, int(check_crcs), joined, ends, self.rows,
                self._key_at, self._key_ends, self._value_at, self._value_ends, self._numbers,
                self._timestamps, self._timestamp_types, self._attributes_at, self._attributes_to, self._header_ends,
                self.message_ids, self.found,
            )  # fmt: skip
            if fault := int(self.found[Found.FAULT]):
                raise ProtocolViolation(
                    f"{_WORDS[TubeFault(fault)]}, at byte {self.found[Found.POSITION]} of an answer"
                )
            number += run.count

    def move_minutes(self, zone: MsgTimeZone) -> None:
        """Read the times that ``$msgTime$`` gave in ``zone``: whole minutes of messages that say no exact time."""
        times, view = self._timestamps[: self.rows], self._data.data
        found = np.flatnonzero((times % _MINUTE_US == 0) & (self._timestamp_types[: self.rows] == 0))
        moved = [
            row
            for row in found.tolist()
            if not _EXACT.search(bytes(view[self._attributes_at[row] : self._attributes_to[row]]))
        ]
        if moved:
            minutes, places = np.unique(times[moved], return_inverse=True)
            # Before 1970 as well: what is a whole minute divides without a rest.
            utc = np.array([zone.utc_ms(each // 1_000) * 1_000 for each in minutes.tolist()], np.int64)
            times[moved] = utc[places]

    def column(self, name: str, base: int, step: int) -> pa.Array:
        """Build one column."""
        rows = self.rows
        if name == "value":
            kernel = kernels.kernel(len(self._data))
            pieces = [(self._data, 0, rows)]
            return arrow.binary(kernel, pa.binary(), pieces, self._value_at, self._value_ends)
        if name == "key":
            return self._texts(pa.binary(), rows, self._key_at, self._key_ends, np.full(rows, Text.BASE64, np.uint8))
        if name == "headers":
            return self._headers(rows)
        if name == "timestampType":
            return arrow.number_array(TYPES[name], rows, self._timestamp_types)
        if name == "timestamp":
            return arrow.number_array(TYPES[name], rows, self._timestamps)
        return arrow.number_array(TYPES[name], rows, base + step * self._numbers[:rows])

    def _headers(self, rows: int) -> pa.Array:
        total = int(self._header_ends[rows])
        name_at, value_at = np.empty(total, np.int32), np.empty(total, np.int32)
        name_texts, value_texts = np.empty(total, np.uint8), np.empty(total, np.uint8)
        name_ends, value_ends = arrow.pool_int32s(total + 1), arrow.pool_int32s(total + 1)
        name_ends[0] = value_ends[0] = 0
        if total:
            self._kernel.walk_attributes(
                self._data, self._attributes_at, self._attributes_to, self._header_ends, 0, rows,
                name_at, name_ends, name_texts, value_at, value_ends, value_texts,
            )  # fmt: skip
        names = self._texts(pa.string(), total, name_at, name_ends, name_texts)
        values = self._texts(pa.binary(), total, value_at, value_ends, value_texts)
        return arrow.headers_over(names, values, self._header_ends, rows)

    def _texts(self, kind: pa.DataType, rows: int, at: Int32s, ends: Int32s, texts: Bytes) -> pa.Array:
        total = int(ends[rows])
        buffer = pa.allocate_buffer(total + SLACK_BYTES, resizable=True)
        if total:
            self._kernel.gather_texts(self._data, at, ends, texts, 0, rows, np.frombuffer(buffer, np.uint8))
        return arrow.binary_over(kind, rows, at, ends, buffer.slice(0, total))


# Many records at once from the log to messages as they go over the wire, by columns: the same as `payload_of` for each.
#
# Times that a log stamped are nothing a producer said: messages go on without any, as they came.
def without_log_times(rows: pa.RecordBatch) -> pa.RecordBatch:
    """``rows`` with null as ``timestamp`` where ``timestampType`` says that it is the log's."""
    import pyarrow.compute as pc

    by_log = pc.equal(rows.column("timestampType"), int(TimestampType.LOG_APPEND))
    if not pc.any(by_log).as_py():
        return rows
    at = rows.schema.get_field_index("timestamp")
    times = pc.if_else(by_log, pa.scalar(None, rows.schema.field(at).type), rows.column(at))
    return rows.set_column(at, rows.schema.field(at), times)


_LOG_COLUMNS: Final = ("key", "value", "offset", "timestamp", "timestampType", "headers")


class Bulk(Struct, frozen=True):
    """``count`` messages from record ``first`` on, without holes, encoded as GetMessageResponseB2C's field 4.

    ``size`` in bytes, as the limits count them.
    """

    first: int
    count: int
    encoded: Buffer
    size: int


def bulk_of(
    data: Buffer,
    start: int,
    aborted: Sequence[tuple[int, int]] = (),
    *,
    most_bytes: int,
    most_records: int,
    record_bytes: int,
) -> Bulk | None:
    """The records of whole batches from ``start`` on, up to a hole or a limit; None where there are none.

    The record that crosses ``most_bytes`` is still in; each counts ``record_bytes`` on top of its value. What belongs
    to transactions of ``aborted`` (producer id, first offset) is left out. Raises CorruptBatch.
    """
    import pyarrow.compute as pc

    from penstock.records import decode_v2

    rows = decode_v2(data, start=start, columns=_LOG_COLUMNS, check_crcs=False, aborted=aborted).batch
    if not rows.num_rows:
        return None
    offsets = rows.column("offset").to_numpy()
    holes = np.flatnonzero(np.diff(offsets) != 1)
    count = min(int(holes[0]) + 1 if len(holes) else len(offsets), most_records)
    lengths = pc.fill_null(pc.binary_length(rows.column("value")), 0).to_numpy(zero_copy_only=False)
    sizes = np.cumsum(lengths[:count].astype(np.int64) + record_bytes)
    count = min(count, int(np.searchsorted(sizes, most_bytes)) + 1)
    chosen = rows.slice(0, count)
    payloads = as_sent(encode(without_log_times(chosen)), chosen)
    encoded = write_messages(payloads, np.ascontiguousarray(offsets[:count], np.int64))
    return Bulk(int(offsets[0]), count, encoded, int(sizes[count - 1]))


# Messages of other clients in columns, as they were sent.
def as_sent(payloads: Payloads, rows: pa.RecordBatch) -> Payloads:
    """``payloads`` as `encode` made them of ``rows``, with those in their place that are kept as sent."""
    import pyarrow.compute as pc

    column = rows.column("headers")
    found = np.flatnonzero(pc.equal(column.flatten().field(0), ATTRIBUTES_HEADER).to_numpy(zero_copy_only=False))
    if not len(found):
        return payloads
    ends, _, _ = headers_input(column)
    pieces: list[bytes | memoryview] = [payloads.payload(row) for row in range(len(payloads))]
    flags = payloads.flags.copy()
    for row in np.unique(np.searchsorted(ends, found, "right") - 1).tolist():
        named = {each["key"]: each["value"] for each in column[row].as_py()}
        pieces[row], flags[row] = stored_payload(rows.column("value")[row].as_py() or b"", named)
    data = np.frombuffer(b"".join(pieces), np.uint8)
    ends, sums = np.cumsum([0, *map(len, pieces)], dtype=np.int32), np.empty(len(flags), np.int32)
    tube_kernel(len(data)).checksums(data, ends, sums)
    return Payloads(data, ends, flags, sums, payloads.filters, payloads.times_ms)


def keeping_as_sent(messages: MessageSet, decoded: Decoded) -> pa.RecordBatch:
    """The rows of an answer, all of them, with the headers that messages need to come back as they were sent.

    All messages are written again and compared at once. Only where that differs each is looked at.
    """
    rows = decoded.batch
    written = write_messages(as_sent(encode(rows), rows), np.asarray(decoded.message_ids, np.int64))
    begin = messages.runs[0].at
    if len(messages.runs) == 1 and messages.data.data[begin : begin + len(written)] == written:
        return rows
    headers = []
    for at in places(messages):
        message = decode_message(TransferedMessage, delimited(messages.data.data, at + 1)[0])
        headers.append([*said_by(message.pay_load_data, message.flag, "").headers])
    place = rows.schema.get_field_index("headers")
    return rows.set_column(place, rows.schema.field(place), pa.array(headers, rows.schema.field(place).type))
