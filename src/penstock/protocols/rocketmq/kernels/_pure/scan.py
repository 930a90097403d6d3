"""Walk stored messages: note where their parts are, check every length; and their checksums."""

from __future__ import annotations

import struct
import zlib
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.kernels.interface import Bytes
from penstock.protocols.rocketmq.kernels.interface import LEAST_BYTES, MAGIC_1, MAGIC_2, Stored, StoredFault

__all__ = ["check_sums", "scan_messages"]

_FIXED: Final = struct.Struct(">iIiiiqqiq")
_AFTER_HOSTS: Final = struct.Struct(">iqi")
_INT64: Final = struct.Struct(">q")
_BORN_IPV6, _STORE_IPV6 = 0x10, 0x20


class _Wrong(Exception):
    def __init__(self, fault: StoredFault, position: int) -> None:
        self.fault = fault
        self.position = position


def scan_messages(data: Bytes, at: int, end: int, table: npt.NDArray[np.int64]) -> tuple[int, int, int]:
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.scan_messages`."""
    source = data.data
    rows: list[tuple[int, ...]] = []
    try:
        while at < end and len(rows) < len(table):
            rows.append(_message(source, at, end))
            at += rows[-1][Stored.SIZE]
    except _Wrong as wrong:
        table[: len(rows)] = np.array(rows, np.int64).reshape(len(rows), table.shape[1])
        return len(rows), wrong.position, wrong.fault
    table[: len(rows)] = np.array(rows, np.int64).reshape(len(rows), table.shape[1])
    return len(rows), at, StoredFault.NONE


def _message(source: memoryview, at: int, end: int) -> tuple[int, ...]:
    if end - at < LEAST_BYTES:
        raise _Wrong(StoredFault.SIZE, at)
    size, magic, crc, queue, flag, offset, physical, sys_flag, born = _FIXED.unpack_from(source, at)
    if not LEAST_BYTES <= size <= end - at:
        raise _Wrong(StoredFault.SIZE, at)
    if magic not in {MAGIC_1, MAGIC_2}:
        raise _Wrong(StoredFault.MAGIC, at + 4)
    stop = at + size
    born_host = at + _FIXED.size
    stored_at = born_host + (20 if sys_flag & _BORN_IPV6 else 8)
    store_host = stored_at + 8
    after = store_host + (20 if sys_flag & _STORE_IPV6 else 8)
    body = after + _AFTER_HOSTS.size
    if body > stop:
        raise _Wrong(StoredFault.SIZE, at)
    (stored,) = _INT64.unpack_from(source, stored_at)
    reconsumed, prepared, body_size = _AFTER_HOSTS.unpack_from(source, after)
    if not 0 <= body_size <= stop - body:
        raise _Wrong(StoredFault.BODY_LENGTH, body - 4)
    length_at = body + body_size
    topic, topic_size = _sized(source, length_at, stop, 1 if magic == MAGIC_1 else 2, StoredFault.TOPIC_LENGTH)
    length_at = topic + topic_size
    properties, properties_size = _sized(source, length_at, stop, 2, StoredFault.PROPERTIES_LENGTH)
    if properties + properties_size != stop:
        raise _Wrong(StoredFault.END, properties + properties_size)
    return (
        at, size, crc, queue, flag, offset, physical, sys_flag, born, born_host, stored, store_host, reconsumed,
        prepared, body, body_size, topic, topic_size, properties, properties_size,
    )  # fmt: skip


def _sized(source: memoryview, at: int, stop: int, width: int, fault: StoredFault) -> tuple[int, int]:
    """Return (position, size) of what stands behind its size of ``width`` bytes; of two bytes it has a sign."""
    if stop - at < width:
        raise _Wrong(fault, at)
    size = int.from_bytes(source[at : at + width], "big", signed=width == 2)
    if not 0 <= size <= stop - at - width:
        raise _Wrong(fault, at)
    return at + width, size


def check_sums(data: Bytes, table: npt.NDArray[np.int64]) -> int:
    """See `penstock.protocols.rocketmq.kernels.interface.RocketKernel.check_sums`."""
    source = data.data
    wanted = table[:, [Stored.BODY_AT, Stored.BODY_SIZE, Stored.CRC]].tolist()
    for row, (at, size, crc) in enumerate(wanted):
        if zlib.crc32(source[at : at + size]) & 0x7FFFFFFF != crc:
            return row
    return len(table)
