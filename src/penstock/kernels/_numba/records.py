"""The compiled kernel for record batches v2: walk and write records and their headers, check batches, gather pieces.

Faults are returned as the numbers of `penstock.kernels.interface.Fault`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from penstock.kernels import _pure
from penstock.kernels._numba.compiling import (
    BYTES,
    CHUNK,
    INT,
    INT32S,
    INT64S,
    OUT_BYTES,
    OUT_INT32S,
    OUT_INT64S,
    OUT_TABLE,
    address_of,
    byte_at,
    compiled,
    copy_bytes,
    copy_chunk,
    inlined,
    int64,
    uint64,
)
from penstock.kernels.interface import Bytes, Int32s, Int64s

__all__ = [
    "check_crcs",
    "encode_records",
    "gather",
    "gathered",
    "last_batch",
    "read_varint",
    "scan_batches",
    "varint_size",
    "walk_headers",
    "walk_records",
    "write_varint",
]


# Zigzag varints, at most ten bytes.
@inlined
def read_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return (value, position after it); the position is -1 if the varint is cut off or longer than ten bytes."""
    if at >= end:
        return 0, -1
    byte = byte_at(data, at)
    if byte < 128:  # the usual case for lengths, deltas and counts
        return (byte >> 1) ^ -(byte & 1), at + 1
    bits = uint64(byte & 127)
    shift = uint64(7)
    at += 1
    while at < end and shift < uint64(70):
        byte = byte_at(data, at)
        at += 1
        bits |= uint64(byte & 127) << shift
        if byte < 128:
            return int64(bits >> uint64(1)) ^ -int64(bits & uint64(1)), at
        shift += uint64(7)
    return 0, -1


@inlined
def varint_size(value: int) -> int:
    """Return how many bytes ``value`` takes."""
    bits = uint64((value << 1) ^ (value >> 63))
    size = 1
    while bits > uint64(127):
        bits >>= uint64(7)
        size += 1
    return size


@inlined
def write_varint(out: Bytes, at: int, value: int) -> int:
    """Write ``value`` at ``at``; return the position after it."""
    bits = uint64((value << 1) ^ (value >> 63))
    while bits > uint64(127):
        out[at] = np.uint8((bits & uint64(127)) | uint64(128))
        bits >>= uint64(7)
        at += 1
    out[at] = np.uint8(bits)
    return at + 1


_LAST_MS = (2**63 - 1) // 1000


@inlined
def _skip_headers(data: Bytes, count: int, at: int, after: int) -> tuple[int, int]:
    """Return (position after the headers, 0), or (position of the wrong field, fault)."""
    for _ in range(count):
        field = at
        length, at = read_varint(data, field, after)
        if at < 0 or length < 0 or length > after - at:
            return field, 15
        field = at + length
        length, at = read_varint(data, field, after)
        if at < 0 or length < -1 or length > after - at:
            return field, 16
        at += max(length, 0)
    return at, 0


@compiled(
    BYTES, OUT_TABLE, INT, INT, INT, INT, INT, OUT_INT32S, OUT_INT32S, OUT_INT32S, OUT_INT32S,
    OUT_INT64S, OUT_INT64S, OUT_INT32S, OUT_INT32S,
)  # fmt: skip
def walk_records(
    data: Bytes, spans: npt.NDArray[np.int64], row: int, headers: int, start: int, stop: int, want: int,
    key_at: Int32s, key_ends: Int32s, value_at: Int32s, value_ends: Int32s,
    offsets: Int64s, timestamps: Int64s, header_at: Int32s, header_ends: Int32s,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """See `penstock.kernels.interface.Kernel.walk_records`."""
    want_key, want_value = (want & 1) != 0, (want & 2) != 0
    want_offset, want_timestamp, want_headers = (want & 4) != 0, (want & 8) != 0, (want & 16) != 0
    key_total = int64(key_ends[row]) if want_key else 0
    value_total = int64(value_ends[row]) if want_value else 0
    for number in range(len(spans)):
        at, end, count = spans[number, 0], spans[number, 1], spans[number, 2]
        base, last, timestamp, moving = spans[number, 3], spans[number, 4], spans[number, 5], 1 - spans[number, 6]
        for _ in range(count):
            field = at
            length, at = read_varint(data, field, end)
            if at < 0 or length < 6 or length > end - at:
                return row, headers, 7, field, number
            after = at + length
            field = at + 1
            timestamp_delta, at = read_varint(data, field, after)
            if at < 0:
                return row, headers, 11, field, number
            field = at
            offset_delta, at = read_varint(data, field, after)
            if at < 0 or offset_delta < 0 or offset_delta > last:
                return row, headers, 10, field, number
            field = at
            key_length, key_begin = read_varint(data, field, after)
            if key_begin < 0 or key_length < -1 or key_length > after - key_begin:
                return row, headers, 12, field, number
            field = key_begin + max(key_length, 0)
            value_length, value_begin = read_varint(data, field, after)
            if value_begin < 0 or value_length < -1 or value_length > after - value_begin:
                return row, headers, 13, field, number
            field = value_begin + max(value_length, 0)
            header_count, header_begin = read_varint(data, field, after)
            if header_begin < 0 or header_count < 0 or header_count > (after - header_begin) >> 1:
                return row, headers, 14, field, number
            at = header_begin
            if header_count:
                at, fault = _skip_headers(data, header_count, at, after)
                if fault:
                    return row, headers, fault, at, number
            if at != after:
                return row, headers, 8, at, number
            offset = base + offset_delta
            if offset < start or offset >= stop:
                continue
            if want_key:
                key_at[row] = key_begin if key_length >= 0 else -1
                key_total += max(key_length, 0)
                key_ends[row + 1] = key_total
            if want_value:
                value_at[row] = value_begin if value_length >= 0 else -1
                value_total += max(value_length, 0)
                value_ends[row + 1] = value_total
            if want_offset:
                offsets[row] = offset
            if want_timestamp:
                timestamps[row] = max(-_LAST_MS, min(timestamp + timestamp_delta * moving, _LAST_MS)) * 1000
            headers += header_count
            if want_headers:
                header_at[row] = header_begin
                header_ends[row + 1] = headers
            row += 1
        if at != end:
            return row, headers, 9, at, number
        spans[number, 7] = row
    return row, headers, 0, 0, 0


# Names and values of record headers.
@compiled(BYTES, INT32S, INT32S, INT, INT, OUT_INT32S, OUT_INT32S, OUT_INT32S, OUT_INT32S)
def walk_headers(
    data: Bytes,
    header_at: Int32s,
    header_ends: Int32s,
    first: int,
    last: int,
    name_at: Int32s,
    name_ends: Int32s,
    value_at: Int32s,
    value_ends: Int32s,
) -> None:
    """See `penstock.kernels.interface.Kernel.walk_headers`."""
    size = len(data)
    for row in range(first, last):
        at = int64(header_at[row])
        for header in range(header_ends[row], header_ends[row + 1]):
            length, at = read_varint(data, at, size)
            name_at[header] = at
            name_ends[header + 1] = name_ends[header] + length
            at += length
            length, at = read_varint(data, at, size)
            value_at[header] = at if length >= 0 else -1
            length = max(length, 0)
            value_ends[header + 1] = value_ends[header] + length
            at += length


# Writing records.
_LONG = 512


@inlined
def _length(ends: Int32s, valid: Bytes, row: int) -> int:
    """Return the length of a row, -1 for null."""
    if len(valid) and not valid[row]:
        return int64(-1)
    return int64(ends[row + 1]) - int64(ends[row])


@inlined
def _size(length: int) -> int:
    return varint_size(length) + max(length, 0)


@inlined
def _put(out: Bytes, at: int, data: Bytes, begin: int, length: int) -> int:
    at = write_varint(out, at, length)
    if length <= 0:
        return at
    if length <= _LONG and begin + length <= len(data) - CHUNK:
        done = int64(0)
        while done < length:
            copy_chunk(out, at + done, data, begin + done)
            done += CHUNK
    else:
        copy_bytes(out, at, data, begin, length)
    return at + length


@inlined
def _headers_size(first: int, last: int, name_ends: Int32s, header_value_ends: Int32s, header_valid: Bytes) -> int:
    size = int64(0)
    for header in range(first, last):
        size += _size(int64(name_ends[header + 1]) - int64(name_ends[header]))
        size += _size(_length(header_value_ends, header_valid, header))
    return size


@compiled(
    BYTES, INT32S, BYTES, BYTES, INT32S, BYTES, INT64S, INT32S, BYTES, INT32S, BYTES, INT32S, BYTES, OUT_BYTES, INT,
)  # fmt: skip
def encode_records(
    keys: Bytes, key_ends: Int32s, key_valid: Bytes, values: Bytes, value_ends: Int32s, value_valid: Bytes,
    timestamp_deltas: Int64s, header_ends: Int32s, names: Bytes, name_ends: Int32s,
    header_values: Bytes, header_value_ends: Int32s, header_valid: Bytes, out: Bytes, at: int,
) -> int:  # fmt: skip
    """See `penstock.kernels.interface.Kernel.encode_records`."""
    first = last = int64(0)
    for row in range(len(timestamp_deltas)):
        key_length, value_length = _length(key_ends, key_valid, row), _length(value_ends, value_valid, row)
        if len(header_ends):
            first, last = int64(header_ends[row] - header_ends[0]), int64(header_ends[row + 1] - header_ends[0])
        delta = timestamp_deltas[row]
        size = 1 + varint_size(delta) + varint_size(row) + _size(key_length) + _size(value_length)
        size += varint_size(last - first) + _headers_size(first, last, name_ends, header_value_ends, header_valid)
        at = write_varint(out, at, size)
        out[at] = 0
        at = write_varint(out, at + 1, delta)
        at = write_varint(out, at, row)
        at = _put(out, at, keys, int64(key_ends[row]), key_length)
        at = _put(out, at, values, int64(value_ends[row]), value_length)
        at = write_varint(out, at, last - first)
        for header in range(first, last):
            begin = int64(name_ends[header])
            at = _put(out, at, names, begin, int64(name_ends[header + 1]) - begin)
            length = _length(header_value_ends, header_valid, header)
            at = _put(out, at, header_values, int64(header_value_ends[header]), length)
    return at


# Listing record batches, of which only the 61-byte headers are read.
_LAST_OFFSET = 2**63 - 2


@inlined
def _integer(data: Bytes, at: int, size: int) -> int:
    value = byte_at(data, at)
    if value >= 128:
        value -= 256
    for i in range(1, size):
        value = (value << 8) | byte_at(data, at + i)
    return value


@compiled(BYTES, INT, INT, OUT_TABLE)
def scan_batches(data: Bytes, at: int, end: int, table: npt.NDArray[np.int64]) -> tuple[int, int, int]:
    """See `penstock.kernels.interface.Kernel.scan_batches`."""
    batches = 0
    while end - at >= 17:
        if byte_at(data, at + 16) != 2:
            return batches, at, 1
        rest = _integer(data, at + 8, 4)
        if rest < 49:
            return batches, at, 2
        if rest + 12 > end - at:
            break
        base, last = _integer(data, at, 8), _integer(data, at + 23, 4)
        attributes, count = _integer(data, at + 21, 2), _integer(data, at + 57, 4)
        if last < 0:
            return batches, at, 4
        if base < 0 or base > _LAST_OFFSET - last:
            return batches, at, 5
        if attributes & 7 > 4:
            return batches, at, 6
        if count < 0:
            return batches, at, 3
        table[batches, 0] = at
        table[batches, 1] = rest + 12
        table[batches, 2] = base
        table[batches, 3] = last
        table[batches, 4] = attributes
        table[batches, 5] = _integer(data, at + 27, 8)
        table[batches, 6] = _integer(data, at + 35, 8)
        table[batches, 7] = _integer(data, at + 43, 8)
        table[batches, 8] = count
        table[batches, 9] = _integer(data, at + 17, 4) & 0xFFFFFFFF
        batches += 1
        at += rest + 12
    return batches, at, 0


@compiled(BYTES, INT, INT)
def last_batch(data: Bytes, at: int, end: int) -> int:
    """See `penstock.kernels.interface.Kernel.last_batch`."""
    last = -1
    while end - at >= 17:
        length = _integer(data, at + 8, 4)
        if length < 14 or length + 12 > end - at:
            break
        last = at
        at += length + 12
    return last


# Checksums of many batches in one call: compiled code calls the C function of the google-crc32c package.
#
# Slicing an array and calling into Python takes a microsecond, as long as the checksum of a batch of 16 KiB. The
# function's address is an argument, not a part of the compiled code, which outlives the process. If there is no such
# function (the package was built in another way), each batch is a call from Python. Source: google/crc32c 1.1,
# ``crc32c.h``.
_EXAMPLE: Final = b"123456789"
_OF_EXAMPLE: Final = 0xE3069283


def _address() -> int:
    """Return the address of ``uint32_t crc32c_value(const uint8_t *data, size_t count)``; 0 if it is not available."""
    try:
        library = ctypes.CDLL(import_module("google_crc32c._crc32c").__file__)
        function = library.crc32c_value  # also found in libraries that the module was linked with
    except (ImportError, OSError, AttributeError, TypeError):
        return 0
    function.restype, function.argtypes = ctypes.c_uint32, (ctypes.c_char_p, ctypes.c_size_t)
    if ctypes.sizeof(ctypes.c_size_t) != 8 or function(_EXAMPLE, len(_EXAMPLE)) != _OF_EXAMPLE:
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


_ADDRESS: Final = _address()


@intrinsic
def _crc_at(typing_context: Any, address: Any, data: Any, at: Any, length: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(8).as_pointer(), ir.IntType(64)])
        function = builder.inttoptr(args[0], kind.as_pointer())
        begin = address_of(context, builder, signature.args[1], args[1], args[2])
        return builder.zext(builder.call(function, [begin, args[3]]), ir.IntType(64))

    return types.int64(types.int64, data, types.int64, types.int64), generate


crc_at = cast(Callable[[int, Bytes, int, int], int], _crc_at)
"""``crc_at(address, data, at, length)``: the CRC-32C of ``data[at : at + length]``, by the function at ``address``."""


@compiled(BYTES, OUT_TABLE, INT)
def _check(data: Bytes, table: npt.NDArray[np.int64], address: int) -> int:
    for row in range(len(table)):
        if crc_at(address, data, table[row, 0] + 21, table[row, 1] - 21) != table[row, 9]:
            return row
    return len(table)


def check_crcs(data: Bytes, table: npt.NDArray[np.int64]) -> int:
    """See `penstock.kernels.interface.Kernel.check_crcs`."""
    return _check(data, table, _ADDRESS) if _ADDRESS else _pure.check_crcs(data, table)


# Copying scattered pieces into one buffer, 16 bytes at a time.


@compiled(BYTES, INT32S, INT32S, INT, INT, OUT_BYTES)
def gather(data: Bytes, at: Int32s, ends: Int32s, first: int, last: int, out: Bytes) -> None:
    """See `penstock.kernels.interface.Kernel.gather`.

    A chunk may overwrite bytes after its piece, because the next piece is written later and ``out`` has slack. It must
    not read beyond the end of ``data``, so pieces close to it are copied exactly.
    """
    safe = len(data) - CHUNK
    for row in range(first, last):
        begin, to = int64(at[row]), int64(ends[row])
        length = int64(ends[row + 1]) - to
        if length <= _LONG and begin + length <= safe:
            done = int64(0)
            while done < length:
                copy_chunk(out, to + done, data, begin + done)
                done += CHUNK
        elif length > 0:
            copy_bytes(out, to, data, begin, length)


def gathered(data: Bytes, at: Int32s, ends: Int32s, first: int, last: int) -> Bytes | None:
    """See `penstock.kernels.interface.Kernel.gathered`. None: writing into the caller's array is as fast."""
    del data, at, ends, first, last
    return None
