"""Partitions' status: what the engine's parts know of each partition, in the words of `penstock.client.status`."""

from __future__ import annotations

from penstock.client._partitions import Partitions, PartitionState
from penstock.client._puller import is_unbooked
from penstock.client.status import PartitionStatus, ReadState
from penstock.seams import BatchMembership

__all__ = ["standing"]


def standing(partitions: Partitions, membership: BatchMembership | None, now: float) -> list[PartitionStatus]:
    """One row a partition, in order of their arrival. ``membership``: of a log that hands out batches."""
    return [_status(state, membership, now) for state in partitions]


def _status(state: PartitionState, membership: BatchMembership | None, now: float) -> PartitionStatus:
    end = None if membership is None else membership.end_offset(state.partition)
    if end is None:
        end = state.high_watermark if state.high_watermark >= 0 else None
    return PartitionStatus(state.partition, _read_state(state, membership, now), state.position, end, state.drained)


def _read_state(state: PartitionState, membership: BatchMembership | None, now: float) -> ReadState:
    if state.paused:
        return ReadState.PAUSED
    if state.buffer or state.failure is not None:
        return ReadState.BUFFERED
    if state.handout.context:
        return ReadState.IN_USE
    if state.position is None or (membership is not None and is_unbooked(state)):
        return ReadState.STARTING
    if state.retry_at > now or (membership is not None and membership.rests(state.partition)):
        return ReadState.WAITING
    return ReadState.READING
