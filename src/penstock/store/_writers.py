"""How a batch changes what a log knows about its writers: idempotent producers, open and aborted transactions.

Appending and recovery take the same steps. What must not live here: I/O.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from penstock.columnar.batch import CONTROL, HEADER_BYTES, BatchHeader
from penstock.columnar.transactions import ABORT, COMMIT, control_type
from penstock.store._directory import Buffer
from penstock.store._log_state import LogState
from penstock.store._walks import Step
from penstock.store.aborted import Aborted
from penstock.store.producers import KnownBatch, SequencedBatch, sequence_of

__all__ = ["Entry", "Marker", "check", "entry_of", "note"]


class Marker(NamedTuple):
    """The end of a producer's transaction in this partition."""

    producer_id: int
    epoch: int
    commit: bool


Entry: TypeAlias = SequencedBatch | Marker | None


def entry_of(header: BatchHeader, batch: Buffer) -> Entry:
    """What ``batch``, with its ``header``, says about its writer; None if it says nothing. Raises CorruptBatch."""
    if not header.attributes & CONTROL:
        return None if header.producer_id < 0 else sequence_of(header)
    kind = control_type(memoryview(batch)[HEADER_BYTES:])
    if header.producer_id < 0 or kind not in (ABORT, COMMIT):
        return None
    return Marker(header.producer_id, header.producer_epoch, kind == COMMIT)


def check(state: LogState, entry: Entry, *, transaction_v2: bool = False) -> KnownBatch | None:
    """The batch that ``entry`` repeats; None if ``entry`` may be appended. See `ProducerTable.check`.

    Raises StaleProducerEpoch, OutOfOrderSequence, OutsideTransaction.
    """
    if isinstance(entry, Marker):
        state.producers.check_marker(entry.producer_id, entry.epoch)
        return None
    return None if entry is None else state.producers.check(entry, transaction_v2=transaction_v2)


def note(state: LogState, entry: Entry, step: Step, now_ms: int) -> None:
    """Update ``state``: the entry's batch is in the log, at ``step``."""
    if isinstance(entry, Marker):
        first = state.producers.end(entry.producer_id, entry.epoch, now_ms)
        if first is not None and not entry.commit:
            first_open = state.producers.first_open
            stable = step.last_offset + 1 if first_open is None else first_open
            state.aborted.add(Aborted(entry.producer_id, first, step.last_offset, stable))
    elif entry is not None:
        state.producers.record(entry, step.base_offset, step.last_offset, step.max_timestamp, now_ms)
