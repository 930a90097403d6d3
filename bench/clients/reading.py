"""What a consumer case is given and how rows of Python clients become Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from bench.metering import Meter

__all__ = ["POLL_AT_MOST", "SILENCE_S", "ConsumerCase", "Job", "to_arrow"]

POLL_AT_MOST = 10_000
SILENCE_S = 20.0
"""A broker that sends nothing for so long fails the case."""


@dataclass(frozen=True, slots=True)
class Job:
    """Read ``count`` records of these partitions, all from their beginning."""

    bootstrap: str
    topic: str
    partitions: Sequence[int]
    count: int


ConsumerCase: TypeAlias = Callable[[Job, Meter], None]
"""Reads the job's records and gives every batch to the meter."""


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
