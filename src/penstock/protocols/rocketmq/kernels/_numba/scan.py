"""Walk stored messages: note where their parts are, check every length; and their checksums.

Faults are returned as the numbers of `penstock.protocols.rocketmq.kernels.interface.StoredFault`; columns of the table
are those of ``Stored``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels._numba.crc32 import crc32
from penstock.kernels._numba.jit import BYTES, INT, OUT_TABLE, compiled, inlined
from penstock.kernels._numba.memory import byte_at, int64
from penstock.kernels.interface import Bytes

__all__ = ["check_sums", "scan_messages"]

_LEAST: Final = 91
_MAGIC_1: Final = -626843481
_MAGIC_2: Final = -626843477


@inlined
def _int16(data: Bytes, at: int) -> int:
    value = byte_at(data, at) << 8 | byte_at(data, at + 1)
    return (value ^ 0x8000) - 0x8000


@inlined
def _int32(data: Bytes, at: int) -> int:
    value = byte_at(data, at) << 24 | byte_at(data, at + 1) << 16 | byte_at(data, at + 2) << 8 | byte_at(data, at + 3)
    return (value ^ 0x80000000) - 0x80000000


@inlined
def _int64(data: Bytes, at: int) -> int:
    return _int32(data, at) << 32 | (_int32(data, at + 4) & 0xFFFFFFFF)


@compiled(BYTES, INT, INT, OUT_TABLE)
def scan_messages(data: Bytes, at: int, end: int, table: npt.NDArray[np.int64]) -> tuple[int, int, int]:
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.scan_messages`."""
    row = int64(0)
    while at < end and row < len(table):
        if end - at < _LEAST:
            return row, at, 1
        size = _int32(data, at)
        if size < _LEAST or size > end - at:
            return row, at, 1
        magic = _int32(data, at + 4)
        if magic not in (_MAGIC_1, _MAGIC_2):
            return row, at + 4, 2
        stop = at + size
        sys_flag = _int32(data, at + 36)
        stored_at = at + 48 + (20 if sys_flag & 0x10 else 8)
        after = stored_at + 8 + (20 if sys_flag & 0x20 else 8)
        body = after + 16
        if body > stop:
            return row, at, 1
        body_size = _int32(data, body - 4)
        if body_size < 0 or body_size > stop - body:
            return row, body - 4, 3
        topic = body + body_size
        if magic == _MAGIC_1:
            if stop - topic < 1:
                return row, topic, 4
            topic_size = byte_at(data, topic)
            topic += 1
            if topic_size > stop - topic:
                return row, topic - 1, 4
        else:
            if stop - topic < 2:
                return row, topic, 4
            topic_size = _int16(data, topic)
            topic += 2
            if topic_size < 0 or topic_size > stop - topic:
                return row, topic - 2, 4
        properties = topic + topic_size
        if stop - properties < 2:
            return row, properties, 5
        properties_size = _int16(data, properties)
        properties += 2
        if properties_size < 0 or properties_size > stop - properties:
            return row, properties - 2, 5
        if properties + properties_size != stop:
            return row, properties + properties_size, 6
        table[row, 0], table[row, 1], table[row, 2] = at, size, _int32(data, at + 8)
        table[row, 3], table[row, 4] = _int32(data, at + 12), _int32(data, at + 16)
        table[row, 5], table[row, 6] = _int64(data, at + 20), _int64(data, at + 28)
        table[row, 7], table[row, 8], table[row, 9] = sys_flag, _int64(data, at + 40), at + 48
        table[row, 10], table[row, 11] = _int64(data, stored_at), stored_at + 8
        table[row, 12], table[row, 13] = _int32(data, after), _int64(data, after + 4)
        table[row, 14], table[row, 15], table[row, 16], table[row, 17] = body, body_size, topic, topic_size
        table[row, 18], table[row, 19] = properties, properties_size
        at = stop
        row += 1
    return row, at, 0


@compiled(BYTES, OUT_TABLE)
def check_sums(data: Bytes, table: npt.NDArray[np.int64]) -> int:
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.check_sums`."""
    for row in range(len(table)):
        begin = table[row, 14]
        if (crc32(data, begin, begin + table[row, 15]) & 0x7FFFFFFF) != table[row, 2]:
            return row
    return len(table)
