"""A fingerprint of the rows a task wrote, independent of their order; makes no Python object per row.

It tells whether a task that is rerun got the same rows; it protects not against forgery but against a different
division of the batch into tasks. So it mixes the length, byte sum, first and last bytes of each row's key and value,
and adds up the rows. What must not live here: what follows from a difference.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Fingerprint"]

Words = npt.NDArray[np.uint64]
_ODD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)
_SEEDS = {"key": 0x1F83D9ABFB41BD6B, "value": 0x5BE0CD19137E2179}


class Fingerprint:
    """Adds up rows: ``add`` them batch by batch, in any order, then take ``text``."""

    def __init__(self) -> None:
        self._sum = np.uint64(0)
        self.rows = 0

    def add(self, topic: str, rows: pa.RecordBatch) -> None:
        """Rows of one topic, with columns key and value as a producer takes them."""
        mixed = np.full(rows.num_rows, np.uint64(_text_seed(topic)))
        for name, seed in _SEEDS.items():
            index = rows.schema.get_field_index(name)
            if index >= 0:
                mixed = _mix(mixed + _of_column(rows.column(index), np.uint64(seed)))
        self._sum = np.uint64((int(self._sum) + int(mixed.sum(dtype=np.uint64))) % 2**64)
        self.rows += rows.num_rows

    @property
    def text(self) -> str:
        """The fingerprint as markers store it."""
        return f"{int(self._sum):016x}"


def _of_column(column: pa.Array, seed: np.uint64) -> Words:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
    column = column.cast(pa.large_binary())
    _, ends, data = column.buffers()
    bounds = np.frombuffer(ends, np.int64, len(column) + 1, 8 * column.offset)
    low, high = int(bounds[0]), int(bounds[-1])
    # Eight zero bytes after it, so that the last bytes of a short row can be taken as a word like all others.
    plain = np.zeros(high - low + 8, np.uint8)
    plain[: high - low] = np.frombuffer(data or b"", np.uint8)[low:high]
    starts, stops = bounds[:-1] - low, bounds[1:] - low
    lengths = (stops - starts).astype(np.uint64)
    if not len(lengths):
        return lengths
    sums: Words = np.add.reduceat(plain, starts, dtype=np.uint64)
    sums[lengths == 0] = 0  # where it has summed the byte of a neighbour
    mixed: Words = _mix(lengths + seed) + sums * np.uint64(_ODD[1])
    # A word at every byte; those of a row shorter than eight bytes reach into the next one, and lose that part.
    words = np.ndarray(len(plain) - 7, "<u8", buffer=plain, strides=(1,))
    short = np.uint64(8) - np.minimum(lengths, np.uint64(8))
    kept = np.where(lengths > 0, np.uint64(2**64 - 1) >> (np.uint64(8) * np.minimum(short, np.uint64(7))), np.uint64(0))
    for at, odd in ((starts, _ODD[2]), (np.maximum(stops - 8, starts), _ODD[3])):
        mixed = _mix(mixed + (words[at] & kept) * np.uint64(odd))
    if column.null_count:
        mixed[~column.is_valid().to_numpy(zero_copy_only=False)] = seed
    return mixed


def _mix(words: Words) -> Words:
    """splitmix64's finalizer: every bit of a row affects every bit of its part of the sum."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(_ODD[1])
    words = (words ^ (words >> np.uint64(27))) * np.uint64(_ODD[2])
    mixed: Words = words ^ (words >> np.uint64(31))
    return mixed


def _text_seed(text: str) -> int:
    seed = _ODD[0]
    for byte in text.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    return seed
