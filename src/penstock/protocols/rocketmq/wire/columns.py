"""Decode stored messages to Arrow columns, without a Python object per message unless something in it is unusual."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from pyarrow._compute import SetLookupOptions, call_function

from penstock import kernels
from penstock.errors import CorruptBatch, ProtocolViolation
from penstock.kernels.interface import Int32s, Int64s
from penstock.protocols.rocketmq.config import COMMIT_LOG_OFFSET, NODE, QUEUE, RECONSUME_TIMES, STORE_TIME
from penstock.protocols.rocketmq.kernels.interface import (
    LEAST_BYTES,
    STORED_COLUMNS,
    Stored,
    StoredFault,
    rocket_kernel,
)
from penstock.protocols.rocketmq.wire.message_format import (
    COMPRESSED,
    IN_BATCH,
    WORDS,
    SysFlag,
    inflated,
    is_inner_batch,
    read_stored,
    unwrapped,
    write_stored,
)
from penstock.protocols.rocketmq.wire.properties import (
    FLAG,
    NOT_KEPT,
    PREPARED,
    RECONSUMED,
    SYS_FLAG,
    Said,
    read_record,
    sent_ms,
)
from penstock.records import arrow
from penstock.records.arrow import TYPES, record_columns, schema
from penstock.records.batch import Bytes, BytesLike, as_array, as_view

__all__ = ["FACTS", "MAX_INFLATED_BYTES", "Decoded", "decode", "with_facts", "with_kept"]

# What a broker knows of a message beyond a record's columns, added to its headers as text. The further columns of
# `config.COLUMNS` are taken from there.
FACTS: Final = {
    STORE_TIME: Stored.STORE_MS,
    RECONSUME_TIMES: Stored.RECONSUME_TIMES,
    QUEUE: Stored.QUEUE_ID,
    COMMIT_LOG_OFFSET: Stored.PHYSICAL_OFFSET,
}
"""Headers that hold a number; times are in milliseconds."""


def with_facts(headers: pa.Array, table: npt.NDArray[np.int64], node: str) -> pa.Array:
    """Return a headers column with the facts after each row's own headers."""
    rows, each = len(table), len(FACTS) + 1
    ends = np.frombuffer(headers.buffers()[1], np.int32, rows + 1)
    pairs = headers.values
    total = len(pairs)
    behind = np.insert(
        np.arange(total, dtype=np.int64), np.repeat(ends[1:], each), total + np.arange(rows * each, dtype=np.int64)
    )
    names = pa.concat_arrays(
        [pairs.field(0), arrow.binary_array([*map(str.encode, FACTS), NODE.encode()] * rows, pa.string())]
    )
    values = pa.concat_arrays([pairs.field(1), _values(table, node)])
    places = pa.Array.from_buffers(pa.int64(), len(behind), [None, pa.py_buffer(behind)])
    moved = ends + np.arange(rows + 1, dtype=np.int32) * np.int32(each)
    return arrow.headers_over(
        call_function("take", [names, places]), call_function("take", [values, places]), moved, rows
    )


def _values(table: npt.NDArray[np.int64], node: str) -> pa.Array:
    """Return the values of all rows' facts, row by row."""
    numbers = np.ascontiguousarray(table[:, list(FACTS.values())]).tolist()
    name = node.encode()
    return arrow.binary_array([part for row in numbers for part in (*map(_text, row), name)])


def _text(number: int) -> bytes:
    return b"%d" % number


# Headers as a node's own log keeps them: all properties but `NOT_KEPT`, then the message's numbers. The result equals
# that of `wire/log_records.record_of`, in columns.
_NUMBERS: Final = (
    (FLAG, Stored.FLAG, -1),
    (RECONSUMED, Stored.RECONSUME_TIMES, -1),
    (SYS_FLAG, Stored.SYS_FLAG, int(SysFlag.TRANSACTION)),
    (PREPARED, Stored.PREPARED_OFFSET, -1),
)
"""Header, column of its number, and which of its bits count."""
_LEFT_OUT: Final = pa.array(sorted(NOT_KEPT), pa.string())


def with_kept(headers: pa.Array, table: npt.NDArray[np.int64]) -> pa.Array:
    """Return a headers column without the properties that are not kept, and with the numbers that are not 0."""
    rows = len(table)
    ends = np.frombuffer(headers.buffers()[1], np.int32, rows + 1)
    pairs = headers.values
    names, values = pairs.field(0), pairs.field(1)
    left_out = call_function("is_in", [names], SetLookupOptions(_LEFT_OUT))
    wanted = ~np.asarray(left_out.to_numpy(zero_copy_only=False), np.bool_)
    kept = np.zeros(len(wanted) + 1, np.int32)
    np.cumsum(wanted, out=kept[1:])
    if not wanted.all():
        places = pa.array(np.flatnonzero(wanted))
        names, values = call_function("take", [names, places]), call_function("take", [values, places])
    found = arrow.headers_over(names, values, kept[ends], rows)
    if not any((table[:, at] & bits).any() for _, at, bits in _NUMBERS):
        return found
    return arrow.headers_array([_numbered(*each) for each in zip(found.to_pylist(), table.tolist(), strict=True)])


def _numbered(pairs: list[object], row: list[int]) -> list[tuple[str, bytes | None]]:
    own = [(pair["key"], pair["value"]) for pair in pairs]  # type: ignore[index]
    return own + [(name, b"%d" % (row[at] & bits)) for name, at, bits in _NUMBERS if row[at] & bits]


MAX_INFLATED_BYTES: Final = 256 << 20
"""The limit of all inflated bodies of one call together."""

_LAST_MS: Final = (2**63 - 1) // 1000
_CREATE_TIME: Final = 0

Table = npt.NDArray[np.int64]


class Decoded(Struct, frozen=True):
    """The rows of some responses: the requested record columns, and how many messages tags ``filtered`` out.

    ``messages`` counts all of them, those outside of the requested offsets included.
    """

    batch: pa.RecordBatch
    messages: int
    filtered: int


def decode(
    bodies: Sequence[BytesLike],
    *,
    start: int | None = None,
    stop: int | None = None,
    columns: Sequence[str] | None = None,
    tags: Collection[str] = (),
    node: str | None = None,
    kept: bool = False,
    check_crcs: bool = True,
) -> Decoded:
    """Decode the messages of one queue from the bodies of pull responses, in order.

    Only offsets from ``start`` on and before ``stop`` count. ``columns`` names record columns (topic and partition are
    ignored here); None means all. ``tags`` are compared once more, because brokers only compare hashes. With a ``node``
    (a broker's name), headers are all properties and the other facts about a message (`FACTS`). With ``kept`` they are
    those that a node's own log keeps.

    Raises ProtocolViolation for messages with a bad structure, CorruptBatch for a bad checksum or a body that cannot be
    inflated; nothing is returned then.
    """
    messages = _Messages(_joined(bodies), check_crcs)
    there = len(messages.table)
    messages.keep(_between(messages.table[:, Stored.QUEUE_OFFSET], start, stop))
    before = len(messages.table)
    if tags:
        messages.keep(messages.tagged({tag.encode() for tag in tags}))
    names = record_columns(columns)
    batch = pa.RecordBatch.from_arrays([messages.column(name, node, kept=kept) for name in names], schema=schema(names))
    return Decoded(batch, there, before - len(messages.table))


def _joined(bodies: Sequence[BytesLike]) -> Bytes:
    return as_array(bodies[0] if len(bodies) == 1 else b"".join(map(as_view, bodies)))


def _between(offsets: Int64s, start: int | None, stop: int | None) -> npt.NDArray[np.bool_]:
    wanted = np.ones(len(offsets), np.bool_)
    if start is not None:
        wanted &= offsets >= start
    if stop is not None:
        wanted &= offsets < stop
    return wanted


class _Messages:
    """The positions of some messages' parts, and the columns made of them."""

    def __init__(self, data: Bytes, check_crcs: bool) -> None:
        self._data = data
        self._kernel = rocket_kernel(len(data))
        self.table = self._scanned(check_crcs)
        if (self.table[:, Stored.SYS_FLAG] & IN_BATCH == IN_BATCH).any():
            self._data = np.frombuffer(b"".join(_unwrapped(data)), np.uint8)
            self.table = self._scanned(check_crcs)

    def _scanned(self, check_crcs: bool) -> Table:
        data = self._data
        table = np.empty((len(data) // LEAST_BYTES, STORED_COLUMNS), np.int64)
        rows, position, fault = self._kernel.scan_messages(data, 0, len(data), table)
        if fault or position < len(data):
            words = WORDS[StoredFault(fault or StoredFault.SIZE)]
            raise ProtocolViolation(f"{words}, at byte {position} of {len(data)}")
        table = table[:rows]
        if check_crcs and (good := self._kernel.check_sums(data, table)) < rows:
            raise CorruptBatch(
                "a message's checksum is not its body's", partition=int(table[good, Stored.QUEUE_ID]),
                offset=int(table[good, Stored.QUEUE_OFFSET]), hint="seek() to an offset behind the damage to go on",
            )  # fmt: skip
        return table

    def keep(self, wanted: npt.NDArray[np.bool_]) -> None:
        """Drop the other rows; call it before `column`."""
        if not wanted.all():
            self.table = self.table[wanted]

    def tagged(self, tags: set[bytes]) -> npt.NDArray[np.bool_]:
        """Which rows have one of these tags."""
        found = _Properties(self._kernel, self._data, self.table, every=False)
        view = self._data.data
        places = zip(found.tag_at.tolist(), found.tag_sizes.tolist(), strict=True)
        return np.fromiter((bytes(view[at : at + size]) in tags for at, size in places), np.bool_, len(self.table))

    def column(self, name: str, node: str | None, *, kept: bool = False) -> pa.Array:
        """Build one column."""
        rows = len(self.table)
        if name == "value":
            return self._values()
        if name == "key":
            return self._keys()
        if name == "headers":
            return self._headers(node, kept=kept)
        if name == "timestamp":
            return arrow.number_array(TYPES[name], rows, np.clip(self._times(), -_LAST_MS, _LAST_MS) * 1000)
        if name == "timestampType":
            return arrow.number_array(TYPES[name], rows, np.full(rows, _CREATE_TIME, np.int32))
        return arrow.number_array(TYPES[name], rows, np.ascontiguousarray(self.table[:, Stored.QUEUE_OFFSET]))

    @cached_property
    def _plain_properties(self) -> _Properties:
        return _Properties(self._kernel, self._data, self.table, every=False)

    @cached_property
    def _said(self) -> list[Said] | None:
        """The records of all messages if one of them has a coded property; None if none has."""
        return self._read(every=False) if self._plain_properties.coded.any() else None

    def _read(self, *, every: bool) -> list[Said]:
        view, bodies = self._data.data, self._bodies()
        places = self.table[:, [Stored.PROPERTIES_AT, Stored.PROPERTIES_SIZE]].tolist()
        return [
            read_record(bytes(view[at : at + size]), body, every=every)
            for (at, size), body in zip(places, bodies, strict=True)
        ]

    def _bodies(self) -> list[bytes]:
        """Every body, inflated."""
        view, left, found = self._data.data, MAX_INFLATED_BYTES, []
        for at, size, sys_flag in self.table[:, [Stored.BODY_AT, Stored.BODY_SIZE, Stored.SYS_FLAG]].tolist():
            found.append(inflated(view[at : at + size], sys_flag, max_bytes=left))
            left -= len(found[-1]) if sys_flag & COMPRESSED else 0
        return found

    def _values(self) -> pa.Array:
        if self._said is not None:
            return arrow.binary_array([said.value for said in self._said])
        if (self.table[:, Stored.SYS_FLAG] & COMPRESSED).any():
            return arrow.binary_array(self._bodies())
        at = self.table[:, Stored.BODY_AT].astype(np.int32)
        return self._gathered(pa.binary(), at, _ends(self.table[:, Stored.BODY_SIZE]))

    def _times(self) -> Int64s:
        """Times in milliseconds: of birth, or a message's own one in a batch."""
        born = self.table[:, Stored.BORN_MS]
        if not (coded := self._plain_properties.coded).any():
            return born
        view, times = self._data.data, born.copy()
        for row in np.flatnonzero(coded).tolist():
            at, size = self.table[row, [Stored.PROPERTIES_AT, Stored.PROPERTIES_SIZE]].tolist()
            said = sent_ms(bytes(view[at : at + size]))
            if said is not None and abs(said) < 1 << 63:
                times[row] = said
        return times

    def _keys(self) -> pa.Array:
        if self._said is not None:
            return arrow.binary_array([said.key for said in self._said])
        return self._gathered(pa.binary(), self._plain_properties.key_at, self._plain_properties.key_ends)

    def _headers(self, node: str | None, *, kept: bool) -> pa.Array:
        every = kept or node is not None
        if self._said is not None:
            said = self._read(every=True) if every else self._said
            headers = arrow.headers_array([each.headers for each in said])
        else:
            headers = self._walked_headers(every)
        if kept:
            return with_kept(headers, self.table)
        return headers if node is None else with_facts(headers, self.table, node)

    def _walked_headers(self, every: bool) -> pa.Array:
        rows = len(self.table)
        found = _Properties(self._kernel, self._data, self.table, every=True) if every else self._plain_properties
        total = int(found.header_ends[rows])
        name_at, value_at = np.empty(total, np.int32), np.empty(total, np.int32)
        name_ends, value_ends = arrow.pool_int32s(total + 1), arrow.pool_int32s(total + 1)
        self._kernel.walk_headers(
            self._data, self.table, int(every), found.header_ends, name_at, name_ends, value_at, value_ends
        )
        names = self._gathered(pa.string(), name_at, name_ends)
        return arrow.headers_over(names, self._gathered(pa.binary(), value_at, value_ends), found.header_ends, rows)

    def _gathered(self, kind: pa.DataType, at: Int32s, ends: Int32s) -> pa.Array:
        if not len(at):
            return pa.nulls(0, kind)
        return arrow.binary(kernels.kernel(len(self._data)), kind, [(self._data, 0, len(at))], at, ends)


class _Properties:
    """The kernel's findings about the properties of some messages."""

    def __init__(self, kernel: object, data: Bytes, table: Table, *, every: bool) -> None:
        rows = len(table)
        self.key_at, self.tag_at = np.empty(rows, np.int32), np.empty(rows, np.int32)
        self.tag_sizes = np.empty(rows, np.int32)
        self.key_ends, self.header_ends = arrow.pool_int32s(rows + 1), arrow.pool_int32s(rows + 1)
        self.coded = np.empty(rows, np.uint8)
        rocket_kernel(len(data)).find_properties(
            data, table, int(every), self.key_at, self.key_ends, self.tag_at, self.tag_sizes, self.header_ends,
            self.coded,
        )  # fmt: skip


def _ends(sizes: Int64s) -> Int32s:
    ends = arrow.pool_int32s(len(sizes) + 1)
    ends[0] = 0
    np.cumsum(sizes, out=ends[1:])
    return ends


def _unwrapped(data: Bytes) -> Iterator[bytes]:
    """Yield every message by itself, also those in a stored batch."""
    for message in read_stored(data, check_crcs=True):
        for each in unwrapped(message) if is_inner_batch(message.sys_flag) else (message,):
            yield write_stored(each)
