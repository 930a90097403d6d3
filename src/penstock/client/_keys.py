"""Partitions for many keys at once. The protocol's Sender says what a key's partition is; this only asks it less often.

A sender that hashes as Kafka's Java producer does (murmur2, seed 0x9747b28c) is recognised by a few probes, and its
hash is then computed for whole columns. Any other is asked once for each different key of a column.
What must not live here: partitions for records without keys.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.arrays import binary_of
from penstock.columnar.inputs import integers_of, valid_of
from penstock.seams import Sender

__all__ = ["KeyPartitions", "murmur2"]

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)
_MOST: Final = 2**31 - 1
_PROBES: Final = (b"", b"a", b"penstock", b"a key of thirty-three letters ...")

UInt32s = npt.NDArray[np.uint32]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class KeyPartitions:
    """The partitions that one sender gives to keys."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        # With 2^31-1 partitions the partition is nearly the hash itself: four agreements are no coincidence.
        hashes = murmur2(binary_of(_PROBES)) & np.uint32(_MOST)
        self._vectorised = [sender.partition_for(key, _MOST) for key in _PROBES] == [
            int(each) % _MOST for each in hashes
        ]

    def one(self, key: bytes, count: int) -> int:
        """The partition of one key, of ``count``."""
        return self._sender.partition_for(key, count) if count > 1 else 0

    def partitions(self, keys: pa.Array, count: int) -> Int32s:
        """The partition of each key, of ``count``; what a null key gets means nothing."""
        if count == 1:
            return np.zeros(len(keys), np.int32)
        if self._vectorised:
            hashed: Int32s = ((murmur2(keys) & np.uint32(_MOST)) % np.uint32(count)).astype(np.int32)
            return hashed
        distinct = keys.dictionary_encode()
        by_name = [
            0 if key is None else self._sender.partition_for(key, count) for key in distinct.dictionary.to_pylist()
        ]
        places = integers_of(distinct.indices) * valid_of(distinct.indices)
        asked: Int32s = np.array(by_name or [0], np.int32)[places]
        return asked


def murmur2(keys: pa.Array) -> UInt32s:
    """The hash of each value of a binary column (nulls hash as what lies under them).

    All keys advance together, four bytes a step, the longest ones alone in the end; they are sorted by length for that.
    """
    _, ends_buffer, data_buffer = keys.buffers()
    ends = np.frombuffer(ends_buffer, np.int32, len(keys) + 1, 4 * keys.offset).astype(np.int64)
    starts, lengths = ends[:-1], np.diff(ends)
    # Three spare bytes: the last bytes of the last key are read as a word, and masked.
    data = np.zeros((int(ends[-1]) if len(keys) else 0) + 4, np.uint8)
    if data_buffer is not None:
        data[:-4] = np.frombuffer(data_buffer, np.uint8, len(data) - 4)
    words = np.ndarray(len(data) - 3, "<u4", data, strides=(1,))
    with np.errstate(over="ignore"):
        return _hash(words, starts, lengths)


def _hash(words: npt.NDArray[Any], starts: Int64s, lengths: Int64s) -> UInt32s:
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    hashes = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    whole = lengths // 4
    for step in range(int(whole[0]) if len(whole) else 0):
        alive = int(np.searchsorted(-whole, -step, side="left"))
        block = words[starts[:alive] + 4 * step] * _M
        block ^= block >> np.uint32(24)
        hashes[:alive] = hashes[:alive] * _M ^ block * _M
    rest = (lengths % 4).astype(np.uint32)
    tails = words[starts + 4 * whole] & ((np.uint32(1) << (rest * np.uint32(8))) - np.uint32(1))
    hashes = np.where(rest > 0, (hashes ^ tails) * _M, hashes)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    result = np.empty_like(hashes)
    result[order] = hashes
    return result
