"""The stopwatch of a consumer: it starts with the first batch, whose records it does not count, and adds up checksums.

So start-up, connecting and compiling kernels are excluded for all clients, and measured separately.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.topics import BASE_MS, Digest

__all__ = ["Meter"]

_WORD = (1 << 64) - 1


class Meter:
    """Takes every batch (columns value, offset, timestamp) as soon as it has been read.

    ``thorough`` also binds values to offsets, which costs time, and so is only for rounds that are thrown away.
    """

    def __init__(self, *, thorough: bool) -> None:
        self._thorough = thorough
        self._born = time.perf_counter()
        self._begun: float | None = None
        self._cpu_begun = 0.0
        self._first = 0
        self._offsets = self._timestamps = self._binding = 0
        self.records = 0

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Count a batch. Timestamps may be integers of milliseconds or Arrow timestamps in microseconds."""
        if self._begun is None:
            self._begun, self._cpu_begun = time.perf_counter(), time.process_time()
            self._first = batch.num_rows
        self.records += batch.num_rows
        self._offsets += pc.sum(batch.column("offset")).as_py()
        timestamps = batch.column("timestamp")
        if pa.types.is_timestamp(timestamps.type):
            self._timestamps += pc.sum(pc.subtract(timestamps.cast(pa.int64()), BASE_MS * 1000)).as_py() // 1000
        else:
            self._timestamps += pc.sum(pc.subtract(timestamps, BASE_MS)).as_py()
        if self._thorough:
            self._bind(batch)

    def _bind(self, batch: pa.RecordBatch | pa.Table) -> None:
        for part in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
            if not part.num_rows:
                continue
            value = part.column("value").cast(pa.binary())
            _, ends, data = value.buffers()
            edges = np.frombuffer(ends, np.int32, len(value) + 1, 4 * value.offset).astype(np.int64)
            summed = np.add.reduceat(np.frombuffer(data, np.uint8), edges[:-1], dtype=np.uint64)
            if edges[-1] < len(data):  # otherwise the last sum would include the rest of the buffer
                summed[-1] = np.frombuffer(data, np.uint8)[edges[-2] : edges[-1]].sum(dtype=np.uint64)
            offsets = np.asarray(part.column("offset")).astype(np.uint64) + np.uint64(1)
            self._binding = (self._binding + int((offsets * summed).sum(dtype=np.uint64))) & _WORD

    @property
    def digest(self) -> Digest:
        """The sums so far."""
        return Digest(self.records, self._offsets, self._timestamps, self._binding if self._thorough else None)

    def result(self) -> dict[str, object]:
        """Stop. ``records`` and ``seconds`` without the first batch; CPU seconds of this process in that time."""
        seconds, cpu = time.perf_counter(), time.process_time()
        begun = self._begun or seconds
        digest = self.digest
        return {
            "records": self.records - self._first,
            "seconds": seconds - begun,
            "cpu_s": cpu - self._cpu_begun,
            "start_s": begun - self._born,
            "digest": [digest.records, digest.offsets, digest.timestamps, digest.binding],
        }
