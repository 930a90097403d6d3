"""The codec of a node's own topics: keys and values to record batches v2 and back, a few at a time, in plain Python.

Neither Arrow nor NumPy is loaded for a commit. What must not live here: what keys and values say.
Source: Kafka protocol, record batch v2 (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from penstock.columnar.batch import HEADER_BYTES, BatchHeader, batches, verify_crc
from penstock.columnar.checked import Checked
from penstock.columnar.few import FewRows, encode_few
from penstock.columnar.one import encode_one
from penstock.columnar.plain_fields import read_bytes, read_record
from penstock.columnar.producing import Producing
from penstock.columnar.transactions import ABORT, COMMIT, control_type
from penstock.errors import CorruptBatch
from penstock.model import Codec

__all__ = ["Ended", "Entry", "Noted", "batch_of", "entries_of"]

Entry = tuple[bytes, bytes | None]
"""Key and value of a record; None takes away what the key stands for."""

_MAX_INFLATED_BYTES: Final = 256 << 20


class Noted(NamedTuple):
    """An entry as it stands in the log, at offset ``position``; ``producer_id`` is whose transaction it is part of.

    That is -1 for none. ``key`` is None only where somebody else wrote to the log.
    """

    position: int
    key: bytes | None
    value: bytes | None
    producer_id: int = -1


class Ended(NamedTuple):
    """The end of a producer's transaction."""

    position: int
    producer_id: int
    commit: bool


def batch_of(entries: Sequence[Entry], now_ms: int, producer_id: int = -1, epoch: int = -1) -> Checked:
    """One uncompressed batch v2 of all entries; with a producer id, one of its transaction, without sequence."""
    if len(entries) == 1 and producer_id < 0:
        key, value = entries[0]
        return encode_one(key, value, (), now_ms)
    rows = FewRows([key for key, _ in entries], [value for _, value in entries], [now_ms] * len(entries))
    return Checked(encode_few(rows, producing=Producing(producer_id, epoch, transactional=producer_id >= 0)))


def entries_of(data: bytes | bytearray | memoryview) -> Iterator[Noted | Ended]:
    """What whole batches say, in order. Raises CorruptBatch."""
    view = bytes(data)
    for header in batches(view):
        verify_crc(view, header)
        if not header.control:
            yield from _noted(view, header)
            continue
        kind = control_type(memoryview(view)[header.position + HEADER_BYTES : header.end])
        if kind in (ABORT, COMMIT):
            yield Ended(header.base_offset, header.producer_id, kind == COMMIT)


def _noted(data: bytes, header: BatchHeader) -> Iterator[Noted]:
    at, end = header.position + HEADER_BYTES, header.end
    if header.codec is not Codec.NONE:  # never written by us
        from penstock.columnar.compression import inflate  # loads Arrow

        data = bytes(inflate(header.codec, memoryview(data)[at:end], _MAX_INFLATED_BYTES))
        at, end = 0, len(data)
    producer_id = header.producer_id if header.transactional else -1
    for _ in range(header.record_count):
        _, delta, body, stop = read_record(data, at, end, header.base_offset)
        if not 0 <= delta <= header.last_offset_delta:
            raise CorruptBatch(
                f"offset delta {delta} in a batch of {header.last_offset_delta}", offset=header.base_offset
            )
        key, body = read_bytes(data, body, stop)
        value, _ = read_bytes(data, body, stop)
        yield Noted(header.base_offset + delta, key, value, producer_id)
        at = stop
