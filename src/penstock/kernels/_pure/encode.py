"""Write records of v2 batches."""

from __future__ import annotations

from itertools import pairwise

from penstock.kernels._pure.varint import write_varint
from penstock.kernels.interface import Bytes, Int32s, Int64s

__all__ = ["encode_records"]


def encode_records(
    keys: Bytes,
    key_ends: Int32s,
    key_valid: Bytes,
    values: Bytes,
    value_ends: Int32s,
    value_valid: Bytes,
    timestamp_deltas: Int64s,
    header_ends: Int32s,
    names: Bytes,
    name_ends: Int32s,
    header_values: Bytes,
    header_value_ends: Int32s,
    header_valid: Bytes,
    out: Bytes,
    at: int,
) -> int:
    """See `penstock.kernels.interface.Kernel.encode_records`."""
    key_parts = _parts(keys, key_ends, key_valid)
    value_parts = _parts(values, value_ends, value_valid)
    name_parts = _parts(names, name_ends, header_valid[:0])
    header_parts = _parts(header_values, header_value_ends, header_valid)
    bounds = header_ends.tolist() or [0] * (len(timestamp_deltas) + 1)
    shift = bounds[0]
    target = out.data
    for row, delta in enumerate(timestamp_deltas.tolist()):
        body = bytearray(1)
        write_varint(body, delta)
        write_varint(body, row)
        _write(body, key_parts[row])
        _write(body, value_parts[row])
        write_varint(body, bounds[row + 1] - bounds[row])
        for header in range(bounds[row] - shift, bounds[row + 1] - shift):
            _write(body, name_parts[header])
            _write(body, header_parts[header])
        length = bytearray()
        write_varint(length, len(body))
        target[at : at + len(length)] = length
        at += len(length)
        target[at : at + len(body)] = body
        at += len(body)
    return at


def _parts(data: Bytes, ends: Int32s, valid: Bytes) -> list[bytes | None]:
    source, bounds = bytes(data), ends.tolist()
    parts: list[bytes | None] = [source[a:b] for a, b in pairwise(bounds)]
    for row, is_valid in enumerate(valid.tolist()):
        if not is_valid:
            parts[row] = None
    return parts


def _write(body: bytearray, part: bytes | None) -> None:
    if part is None:
        body.append(1)  # zigzag of -1
        return
    write_varint(body, len(part))
    body += part
