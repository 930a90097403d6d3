"""Read a few records of the common kind at the speed plain Python has: no headers, and no field of more than two bytes.

Nothing is compared with the record's end until the end: positions only grow, so if the last field ends exactly where
the record does, every byte before was inside it. What is not of that kind, or wrong, is left for `read_record`.
"""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["Fields", "read_plain_records"]

Fields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int]
"""The fields of `penstock.kernels._pure.record.Record`."""


def read_plain_records(source: bytes, at: int, end: int, count: int, last: int, found: list[Fields]) -> int:
    """Append records to ``found`` until it has ``count`` or one is not plain; returns the position after the last."""
    append = found.append
    try:
        for _ in range(count - len(found)):
            length = source[at]
            i = at + 1
            if length > 127:
                length += (source[i] << 7) - 128
                i += 1
            after = i + (length >> 1)
            timestamp = source[i + 1]  # i is at the attributes
            i += 2
            if timestamp > 127:
                timestamp += (source[i] << 7) - 128
                i += 1
            offset = source[i]
            i += 1
            if offset > 127:
                offset += (source[i] << 7) - 128
                i += 1
            key = source[i]
            i += 1
            if key > 127:
                key += (source[i] << 7) - 128
                i += 1
            key_at = i
            if key != 1:
                i += key >> 1
            value = source[i]
            i += 1
            if value > 127:
                value += (source[i] << 7) - 128
                i += 1
            value_at = i
            if value != 1:
                i += value >> 1
            # A second byte above 127 makes a number of 16384 or more: a third byte follows, so this is not plain. An
            # odd number is negative, which only the null of a key or a value (1) may be.
            if (
                source[i]
                or i + 1 != after
                or after > end
                or (length | timestamp | offset | key | value) > 16383
                or (length | offset) & 1
                or offset >> 1 > last
                or (key & 1 and key != 1)
                or (value & 1 and value != 1)
            ):
                break
            append(
                (
                    (timestamp >> 1) ^ -(timestamp & 1), offset >> 1,
                    key_at, (key >> 1) ^ -(key & 1), value_at, (value >> 1) ^ -(value & 1), after, 0, after,
                )
            )  # fmt: skip
            at = after
    except IndexError:
        pass  # the last record of the data, and it is wrong
    return at
