"""The job of a consumer case, and the conversion of rows of Python clients to Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from bench.metering import Meter

__all__ = ["POLL_AT_MOST", "SILENCE_S", "ConsumerCase", "Job", "to_arrow"]

POLL_AT_MOST = 10_000
SILENCE_S = 20.0
"""A case fails if the broker sends nothing for so long."""


@dataclass(frozen=True, slots=True)
class Job:
    """Read ``count`` records of these partitions, from their start."""

    bootstrap: str
    topic: str
    partitions: Sequence[int]
    count: int


ConsumerCase: TypeAlias = Callable[[Job, Meter], None]
"""Reads the job's records and passes every batch to the meter."""


def to_arrow(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    offsets: Sequence[int | None],
    timestamps: Sequence[int],
) -> pa.RecordBatch:
    """The four columns that every case builds."""
    columns = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(offsets, pa.int64()),
        pa.array(timestamps, pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "offset", "timestamp"])
