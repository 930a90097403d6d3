"""Messages as bytes for another process: Arrow's stream format, which carries what the rows need and no more.

A slice shares the buffers of all it was cut from, and pickling those would send the whole fetch with ten rows of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import pyarrow as pa

__all__ = ["Packed", "packed", "unpacked"]

Packed = tuple[pa.Buffer, tuple[int, ...]]
"""A stream, and how many rows each batch has that is in it."""

_SMALL_BYTES: Final = 1 << 16
"""Batches smaller than this travel as one: each has a kilobyte of description."""


def packed(batches: Sequence[pa.RecordBatch]) -> list[Packed]:
    """The batches, those in a row that have the same columns in one stream."""
    return [_packed(list(run)) for _, run in groupby(batches, key=lambda batch: batch.schema)]


def unpacked(streams: Sequence[Packed]) -> Iterator[pa.RecordBatch]:
    """The batches again; nothing is copied."""
    for stream, counts in streams:
        with pa.ipc.open_stream(stream) as reader:
            found = list(reader)
        if len(found) == len(counts):
            yield from found
            continue
        first = 0
        for rows in counts:
            yield found[0].slice(first, rows)
            first += rows


def _packed(batches: Sequence[pa.RecordBatch]) -> Packed:
    sink = pa.BufferOutputStream()
    small = len(batches) > 1 and sum(batch.nbytes for batch in batches) < _SMALL_BYTES * len(batches)
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in [pa.concat_batches(batches)] if small else batches:
            writer.write_batch(batch)
    return sink.getvalue(), tuple(batch.num_rows for batch in batches)
