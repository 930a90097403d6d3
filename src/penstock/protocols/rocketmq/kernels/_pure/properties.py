"""Find keys, tags and headers among the properties of stored messages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from penstock.kernels.interface import Bytes, Int32s
from penstock.protocols.rocketmq.kernels.interface import KIND_OF, Kind, Stored

__all__ = ["find_properties", "walk_headers"]

_NO_HEADER = {Kind.OWN, Kind.KEY}


def find_properties(
    data: Bytes, table: npt.NDArray[np.int64], every: int, key_at: Int32s, key_ends: Int32s, tag_at: Int32s,
    tag_sizes: Int32s, header_ends: Int32s, coded: Bytes,
) -> None:  # fmt: skip
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.find_properties`."""
    source, keys, headers = data.tobytes(), 0, 0
    key_ends[0] = header_ends[0] = 0
    for row, (begin, size) in enumerate(_places(table)):
        key = tag = -1
        key_size = tag_size = has_coded = 0
        for name_at, value_at, end, kind in _entries(source, begin, begin + size):
            if kind == Kind.CODED:
                has_coded = 1
                continue
            if kind == Kind.KEY:
                key, key_size = value_at, end - value_at
            elif kind == Kind.TAG:
                tag, tag_size = value_at, end - value_at
            headers += every or kind not in _NO_HEADER
            del name_at
        keys += key_size
        key_at[row], key_ends[row + 1], header_ends[row + 1] = key, keys, headers
        tag_at[row], tag_sizes[row], coded[row] = tag, tag_size, has_coded


def walk_headers(
    data: Bytes, table: npt.NDArray[np.int64], every: int, header_ends: Int32s, name_at: Int32s, name_ends: Int32s,
    value_at: Int32s, value_ends: Int32s,
) -> None:  # fmt: skip
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.walk_headers`."""
    source, header = data.tobytes(), 0
    del header_ends
    name_ends[0] = value_ends[0] = 0
    for begin, size in _places(table):
        for name, value, end, kind in _entries(source, begin, begin + size):
            if kind != Kind.CODED and (every or kind not in _NO_HEADER):
                name_at[header], value_at[header] = name, value
                name_ends[header + 1] = name_ends[header] + (value - 1 - name)
                value_ends[header + 1] = value_ends[header] + (end - value)
                header += 1


def _places(table: npt.NDArray[np.int64]) -> list[list[int]]:
    places: list[list[int]] = table[:, [Stored.PROPERTIES_AT, Stored.PROPERTIES_SIZE]].tolist()
    return places


def _entries(source: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int, Kind]]:
    """Yield (name's position, value's position, value's end, kind) of each property with a name and a value."""
    while at < stop:
        end = source.find(b"\x02", at, stop)
        end = stop if end < 0 else end
        middle = source.find(b"\x01", at, end)
        if middle > at and middle + 1 < end:
            yield at, middle + 1, end, KIND_OF.get(source[at:middle], Kind.HEADER)
        at = end + 1
