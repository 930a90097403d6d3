"""List record batches: only their 61-byte headers are read. Those of many are read at once."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels.interface import Batch, Bytes, Fault
from penstock.kernels.lengths import last_whole

__all__ = ["last_batch", "scan_batches"]

# baseOffset, batchLength, leaderEpoch, magic, crc, attributes, lastOffsetDelta, baseTimestamp, maxTimestamp,
# producerId, producerEpoch, baseSequence, recordCount
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_HEADERS: Final = np.dtype(
    {
        "names": ["base", "length", "crc", "attributes", "last", "first_ms", "max_ms", "producer", "count"],
        "formats": [">i8", ">i4", ">u4", ">i2", ">i4", ">i8", ">i8", ">i8", ">i4"],
        "offsets": [0, 8, 17, 21, 23, 27, 35, 43, 57],
        "itemsize": _HEADER.size,
    }
)
_FIELDS: Final = {
    Batch.LENGTH: "length",
    Batch.BASE_OFFSET: "base",
    Batch.LAST_OFFSET_DELTA: "last",
    Batch.ATTRIBUTES: "attributes",
    Batch.BASE_TIMESTAMP: "first_ms",
    Batch.MAX_TIMESTAMP: "max_ms",
    Batch.PRODUCER_ID: "producer",
    Batch.RECORD_COUNT: "count",
    Batch.CRC: "crc",
}
_PREFIX: Final = 17  # baseOffset, batchLength, leaderEpoch, magic
_LENGTH_AND_MAGIC: Final = struct.Struct(">i4xb")
_FEW: Final = 8
"""Headers that a loop has read before NumPy has started."""
_LAST_OFFSET: Final = (1 << 63) - 2
_CODECS: Final = 5
_LENGTH_AT: Final = 8
_LENGTH_AFTER: Final = 12


def scan_batches(data: Bytes, at: int, end: int, table: npt.NDArray[np.int64]) -> tuple[int, int, int]:
    """See `penstock.kernels.interface.Kernel.scan_batches`."""
    view, unpack = data.data, _LENGTH_AND_MAGIC.unpack_from
    places: list[int] = []
    fault = Fault.NONE
    while end - at >= _PREFIX:
        rest, magic = unpack(view, at + _LENGTH_AT)
        if magic != 2:
            fault = Fault.MAGIC
            break
        if rest < _HEADER.size - _LENGTH_AFTER:
            fault = Fault.BATCH_LENGTH
            break
        if rest + _LENGTH_AFTER > end - at:
            break
        places.append(at)
        at += rest + _LENGTH_AFTER
    good, wrong = (_list_many if len(places) > _FEW else _list)(data, places, table)
    return (good, places[good], wrong) if wrong else (good, at, fault)


def _list(data: Bytes, places: list[int], table: npt.NDArray[np.int64]) -> tuple[int, Fault]:
    view = data.data
    for row, at in enumerate(places):
        base, rest, _, _, crc, attributes, last, first_ms, max_ms, producer, _, _, count = _HEADER.unpack_from(view, at)
        fault = _judge(base, attributes, last, count)
        if fault:
            return row, fault
        table[row] = (at, rest + _LENGTH_AFTER, base, last, attributes, first_ms, max_ms, producer, count, crc)
    return len(places), Fault.NONE


def _list_many(data: Bytes, places: list[int], table: npt.NDArray[np.int64]) -> tuple[int, Fault]:
    headers: npt.NDArray[np.void] = np.ndarray((len(data) - _HEADER.size + 1,), _HEADERS, data, strides=(1,))
    found, rows = headers[np.array(places)], table[: len(places)]
    rows[:, Batch.POSITION] = places
    for column, name in _FIELDS.items():
        rows[:, column] = found[name]
    rows[:, Batch.LENGTH] += _LENGTH_AFTER
    base, last = rows[:, Batch.BASE_OFFSET], rows[:, Batch.LAST_OFFSET_DELTA]
    wrong = (last < 0) | (base < 0) | (base > _LAST_OFFSET - last)
    wrong |= (rows[:, Batch.ATTRIBUTES] & 7 >= _CODECS) | (rows[:, Batch.RECORD_COUNT] < 0)
    if not wrong.any():
        return len(places), Fault.NONE
    row = int(np.argmax(wrong))
    columns = Batch.BASE_OFFSET, Batch.ATTRIBUTES, Batch.LAST_OFFSET_DELTA, Batch.RECORD_COUNT
    return row, _judge(*rows[row, columns].tolist())


def _judge(base: int, attributes: int, last: int, count: int) -> Fault:
    if last < 0:
        return Fault.LAST_OFFSET_DELTA
    if base < 0 or base > _LAST_OFFSET - last:
        return Fault.BASE_OFFSET
    if attributes & 7 >= _CODECS:
        return Fault.CODEC
    if count < 0:
        return Fault.RECORD_COUNT
    return Fault.NONE


def last_batch(data: Bytes, at: int, end: int) -> int:
    """See `penstock.kernels.interface.Kernel.last_batch`."""
    return last_whole(data.data, at, end)
