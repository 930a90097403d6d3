"""Arrow columns to TubeMQ payloads, encoded by the kernel: no Python object a record until one is sent."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock._dataclasses import dataclass
from penstock.errors import UsageError
from penstock.kernels.interface import SLACK_BYTES, Bytes, Int32s, Int64s
from penstock.protocols.tubemq.kernels import tube_kernel
from penstock.protocols.tubemq.kernels.attributes import minute_of
from penstock.protocols.tubemq.kernels.interface import (
    MAX_ATTRIBUTES_OVERHEAD,
    MAX_HEADER_ATTRIBUTE_OVERHEAD,
    MAX_WRAP_OVERHEAD,
    NO_TIME,
)
from penstock.protocols.tubemq.records.handful import FewPayloads, encode_few
from penstock.records.arrow import Binary, binary_input, column_of, headers_input, timestamps_of
from penstock.records.scalar_writer import FewRows

if TYPE_CHECKING:
    from penstock.protocols.tubemq.msg_time import MsgTimeZone

__all__ = ["Payloads", "encode", "encode_in_zone", "write_messages"]

_MOST_BYTES: Final = (1 << 31) - 1
_LAST_MS: Final = (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class Payloads:
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
