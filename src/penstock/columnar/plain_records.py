"""Record batches v2 from single records and back, in plain Python: who takes messages one by one needs no Arrow.

What must not live here: what key, value and headers mean to a protocol. Source: Kafka protocol, record batch v2
(KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from penstock.columnar.batch import APPEND_TIME, HEADER_BYTES, BatchHeader, batches
from penstock.columnar.checked import Checked
from penstock.columnar.few import FewRows, encode_few, varint
from penstock.columnar.one import encode_one, header_name
from penstock.columnar.plain_fields import read_bytes, read_record, read_varint
from penstock.columnar.transactions import ABORT, AbortedTransactions, control_type
from penstock.errors import CorruptBatch
from penstock.model import Codec

__all__ = ["MAX_INFLATED_BYTES", "Stored", "encode_batch", "encode_single", "stored_records"]

MAX_INFLATED_BYTES: Final = 256 << 20
_NULL: Final = varint(-1)


class Stored(NamedTuple):
    """One record of the log; ``timed`` where its producer said its time, otherwise it is the log's."""

    offset: int
    timestamp_ms: int
    timed: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def encode_batch(records: Sequence[Stored]) -> memoryview:
    """One uncompressed batch of ``records`` (at least one), numbered from 0 whatever their offsets say.

    Whose time it is can be said of a batch only: it is taken from the first record.
    """
    if len(records) == 1 and not (only := records[0]).headers:
        rows = FewRows((only.key,), (only.value,), (only.timestamp_ms,))
        return encode_few(rows, append_time=not only.timed)
    rows = FewRows(
        [record.key for record in records],
        [record.value for record in records],
        [record.timestamp_ms for record in records],
        {place: record.headers for place, record in enumerate(records) if record.headers},
    )
    return encode_few(rows, append_time=not records[0].timed)


def encode_single(record: Stored) -> Checked:
    """The batch that `encode_batch` makes of one record, sooner, and with its header at hand."""
    _, timestamp_ms, timed, key, value, headers = record
    named: Sequence[bytes] = ()
    if headers:
        named = [header_name(name) + (_NULL if said is None else varint(len(said)) + said) for name, said in headers]
    return encode_one(key, value, named, timestamp_ms, append_time=not timed)


def stored_records(
    data: bytes | bytearray | memoryview, start: int, aborted: Sequence[tuple[int, int]] = ()
) -> Iterator[Stored]:
    """The records of whole batches from offset ``start`` on. Raises CorruptBatch.

    Left out are markers of the log, and what belongs to transactions of ``aborted`` (producer id, first offset).
    """
    transactions = AbortedTransactions(aborted)
    for header in batches(data):
        if header.control:
            if control_type(memoryview(data)[header.position + HEADER_BYTES : header.end]) == ABORT:
                transactions.end(header.producer_id)
            continue
        skipped = transactions.skips(header.producer_id, header.last_offset, transactional=header.transactional)
        if not skipped and header.last_offset >= start:
            yield from _records(_plain(data, header), header, start)


def _plain(data: bytes | bytearray | memoryview, header: BatchHeader) -> bytes:
    packed = memoryview(data)[header.position + HEADER_BYTES : header.end]
    if header.codec is Codec.NONE:
        return bytes(packed)
    from penstock.columnar.compression import inflate  # loads Arrow: who never sees compression does without

    return bytes(inflate(header.codec, packed, MAX_INFLATED_BYTES))


def _records(data: bytes, header: BatchHeader, start: int) -> Iterator[Stored]:
    at, end = 0, len(data)
    append_time = bool(header.attributes & APPEND_TIME)
    for _ in range(header.record_count):
        time_delta, delta, body, stop = read_record(data, at, end, header.base_offset)
        at = stop
        if header.base_offset + delta < start:
            continue
        key, body = read_bytes(data, body, stop)
        value, body = read_bytes(data, body, stop)
        time = header.max_timestamp if append_time else header.base_timestamp + time_delta
        yield Stored(header.base_offset + delta, time, not append_time, key, value, _read_headers(data, body, stop))


def _read_headers(data: bytes, at: int, end: int) -> tuple[tuple[str, bytes | None], ...]:
    count, at = read_varint(data, at, end)
    if not count:
        return ()
    if not 0 < count <= end - at:
        raise CorruptBatch(f"{count} headers with {end - at} bytes left")
    headers = []
    for _ in range(count):
        name, at = read_bytes(data, at, end)
        value, at = read_bytes(data, at, end)
        headers.append(((name or b"").decode("utf-8", "replace"), value))
    return tuple(headers)
