"""Looking up records by timestamp, exact to the record.

A batch header has only the largest timestamp, so the batch that may hold the answer is decoded (only offsets and
timestamps). Timestamps from producers may go back and forth: "the first record at or after t" is the one with the
smallest offset. A segment with unchecked headers, from an older version, is decoded as a whole. A transaction marker
counts as a record with a timestamp, as in Kafka's broker: a reader that starts there misses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from penstock.errors import CorruptBatch
from penstock.model import TimestampType
from penstock.records import decode_v2
from penstock.records.batch import BatchHeader, parse_header, verify_crc
from penstock.records.validation import plain_records, record_heads
from penstock.store.errors import StoreDamaged
from penstock.store.log_state import LogState
from penstock.store.segment import NOTHING, Segment, Stamp, Step

__all__ = ["first_since", "newest"]


def first_since(state: LogState, timestamp_ms: int) -> tuple[int, int] | None:
    """(offset, timestamp ms) of the first record of that time or later that can be read."""
    start = state.start_offset
    for segment in state.segments:
        checked = state.heads_checked(segment)
        if segment.next_offset <= start or (checked and segment.newest.timestamp_ms < timestamp_ms):
            continue
        for step in segment.since(timestamp_ms) if checked else segment.walk():
            if step.last_offset >= start:
                offsets, timestamps = _records(segment, step, start)
                rows = np.flatnonzero(timestamps >= timestamp_ms)
                if len(rows):
                    return int(offsets[rows[0]]), int(timestamps[rows[0]])
    return None


def newest(state: LogState) -> tuple[int, int] | None:
    """(offset, timestamp ms) of the first record with the largest timestamp, among those that can be read.

    If no record has a timestamp: the first record, with -1.
    """
    best, home, start = NOTHING, None, state.start_offset
    for segment in state.segments:
        if segment.size and segment.next_offset > start:
            for stamp in _stamps(segment, start, checked=state.heads_checked(segment)):
                if home is None or stamp.timestamp_ms > best.timestamp_ms:
                    best, home = stamp, segment
    step = home.find(max(best.offset, start)) if home else None
    if home is None or step is None:
        return None
    offsets, timestamps = _records(home, step, start)
    if not len(timestamps):
        return None  # a batch that was written without records
    row = int(timestamps.argmax())
    return int(offsets[row]), int(timestamps[row])


def _stamps(segment: Segment, start: int, *, checked: bool) -> Iterator[Stamp]:
    """Candidates for the largest timestamp of the segment's records from offset ``start`` on.

    The segment knows the largest of all its records. If headers are not ``checked``, the records are decoded.
    """
    if checked and segment.base >= start:
        yield segment.newest
        return
    for step in segment.walk():
        if checked and step.base_offset >= start:
            yield Stamp(step.max_timestamp, step.last_offset)
        elif step.last_offset >= start:
            _, timestamps = _records(segment, step, start)
            yield Stamp(int(timestamps.max(initial=-1)), step.last_offset)


def _records(segment: Segment, step: Step, start: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Offsets and timestamps (ms) of a batch's records from offset ``start`` on."""
    raw = segment.batch(step)
    header = parse_header(raw)
    if header.control:  # one record, which decoding skips
        return np.array([step.last_offset]), np.array([step.max_timestamp])
    try:
        rows = decode_v2(raw, columns=["offset", "timestamp"], start=start).batch
    except CorruptBatch as error:
        try:
            return _by_heads(raw, header, start)
        except CorruptBatch:
            raise StoreDamaged(error.message, file=segment.path, position=step.position) from error
    offsets: npt.NDArray[np.int64] = rows.column("offset").to_numpy(zero_copy_only=False)
    micros: npt.NDArray[np.int64] = (
        pc.cast(rows.column("timestamp"), "int64").fill_null(-1_000).to_numpy(zero_copy_only=False)
    )
    return offsets, micros // 1_000


def _by_heads(raw: bytes, header: BatchHeader, start: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The same for a batch with a record that cannot be decoded: only offsets and timestamps are read.

    Raises CorruptBatch.
    """
    verify_crc(raw, header)
    heads = record_heads(bytes(plain_records(raw, header)), header.record_count)
    offsets = np.array([header.base_offset + place for _, place, _ in heads], np.int64)
    times = np.array([max(header.base_timestamp + later, -1) for later, _, _ in heads], np.int64)
    if header.timestamp_type is TimestampType.LOG_APPEND:
        times[:] = header.max_timestamp
    return offsets[offsets >= start], times[offsets >= start]
