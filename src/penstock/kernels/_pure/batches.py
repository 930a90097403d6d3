"""Lists record batches, checks their checksums, and gathers pieces of them, in Python and NumPy."""

from __future__ import annotations

import struct
from typing import Final

import google_crc32c
import numpy as np
import numpy.typing as npt

from penstock.kernels.interface import Batch, Bytes, Fault, Int32s
from penstock.kernels.lengths import last_whole

__all__ = ["check_crcs", "gather", "gathered", "last_batch", "scan_batches"]

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
_FEW_BATCHES: Final = 8
"""For so few headers a loop is faster than NumPy."""
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
    good, wrong = (_list_many if len(places) > _FEW_BATCHES else _list)(data, places, table)
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


# Checksums of many batches, with one call of google-crc32c each.
_START: Final = 21  # earlier bytes are stamped by the log, or are the checksum itself


def check_crcs(data: Bytes, table: npt.NDArray[np.int64]) -> int:
    """See `penstock.kernels.interface.Kernel.check_crcs`."""
    value = google_crc32c.value
    columns = table[:, Batch.POSITION], table[:, Batch.LENGTH], table[:, Batch.CRC]
    for row, (begin, length, crc) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        if value(data[begin + _START : begin + length]) != crc:
            return row
    return len(table)


# Copying scattered pieces into one buffer: as rows of a table if all have one length, else by Arrow's own loop.
_FEW_PIECES: Final = 200
"""For so few pieces a loop is faster than NumPy."""
_FEW_FOR_ARROW: Final = 1_000
"""The first use of Arrow's loop takes some milliseconds."""
_LONG: Final = 1 << 12
"""With so many bytes per piece, copying dominates in any kind of loop."""


def gathered(data: Bytes, at: Int32s, ends: Int32s, first: int, last: int) -> Bytes | None:
    """See `penstock.kernels.interface.Kernel.gathered`."""
    begins, stops = at[first:last], ends[first : last + 1]
    lengths = np.diff(stops)
    if len(lengths) <= _FEW_PIECES or int(stops[-1]) - int(stops[0]) > _LONG * len(lengths):
        return None
    length = int(lengths[0])
    if (lengths == length).all():
        return _rows(data, begins, length) if length else None
    return _by_arrow(data, begins, lengths) if len(lengths) > _FEW_FOR_ARROW else None


def gather(data: Bytes, at: Int32s, ends: Int32s, first: int, last: int, out: Bytes) -> None:
    """See `penstock.kernels.interface.Kernel.gather`."""
    source, target = data.data, out.data
    stops = ends[first : last + 1].tolist()
    pieces = [
        source[begin : begin + stop - start]
        for begin, start, stop in zip(at[first:last].tolist(), stops[:-1], stops[1:], strict=True)
        if stop > start
    ]
    target[stops[0] : stops[-1]] = b"".join(pieces)


def _rows(data: Bytes, begins: Int32s, length: int) -> Bytes:
    pieces: npt.NDArray[np.void] = np.ndarray((len(data) - length + 1,), f"V{length}", data, strides=(1,))
    return pieces[begins].view(np.uint8)


def _by_arrow(data: Bytes, begins: Int32s, lengths: Int32s) -> Bytes | None:
    """Take every other one of the pieces and the gaps between them; None if they are not in order."""
    import pyarrow as pa
    from pyarrow._compute import call_function  # importing pyarrow.compute takes 0.1 s more

    bounds = np.empty(2 * len(begins), np.int32)
    bounds[0::2], bounds[1::2] = begins, begins + lengths
    bounds[0::2][lengths == 0] = 0  # empty pieces and nulls have no position
    bounds[1::2][lengths == 0] = 0
    ordered = np.maximum.accumulate(bounds)
    if (ordered != bounds)[np.repeat(lengths > 0, 2)].any():
        return None
    places = np.arange(0, len(bounds), 2, dtype=np.int32)
    pieces = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(ordered), pa.py_buffer(data)])
    wanted = pa.Array.from_buffers(pa.int32(), len(places), [None, pa.py_buffer(places)])
    taken = call_function("take", [pieces, wanted])
    return np.frombuffer(taken.buffers()[2], np.uint8, int(lengths.sum()))
