"""The state of each partition of a consumer, and the reason why a poll returned nothing.

Data and one rule; no requests.
"""

from __future__ import annotations

import enum
from collections.abc import Collection

from penstock.model import Partition, Value

__all__ = ["EmptyReason", "PartitionStatus", "ReadState", "empty_reason"]


class ReadState(enum.Enum):
    """What a partition waits for."""

    STARTING = "starting"
    """Its first offset is being looked up; TubeMQ: its broker is being asked for it."""
    READING = "reading"
    """The next records have been requested, or will be in a moment; perhaps repeatedly, because there are none."""
    BUFFERED = "buffered"
    """Records (or an error) are ready for the next poll."""
    IN_USE = "in use"
    """The application has its batch, and no more records come before that is confirmed. TubeMQ's groups only."""
    WAITING = "waiting"
    """Not read for a while: after an error; TubeMQ: for flow control."""
    PAUSED = "paused"
    """Paused by ``pause``."""


class PartitionStatus(Value, frozen=True):
    """The state of one partition.

    ``position`` is the offset of the next record that poll returns (TubeMQ: of the batch after the last confirmed one).
    ``end_offset`` is the offset of the next record to be written, as the log last reported it. None: unknown.
    ``drained``: the log was asked for the next records and had none (that this reader may see yet).
    """

    partition: Partition
    state: ReadState
    position: int | None
    end_offset: int | None
    drained: bool = False

    @property
    def caught_up(self) -> bool:
        """Whether all records up to the last known end of the log have been read."""
        return self.position is not None and self.end_offset is not None and self.position >= self.end_offset


class EmptyReason(enum.Enum):
    """Why a poll returned nothing; in brackets the error code of TubeMQ's Java client."""

    NONE_ASSIGNED = "no partition is assigned"
    """(406) The group has not assigned any partition to this consumer, now or yet."""
    ALL_PAUSED = "all partitions are paused"
    """(405)"""
    ALL_IN_USE = "all partitions wait for their batches to be confirmed"
    """(408) Commit what polls returned. TubeMQ's groups only."""
    ALL_WAITING = "no partition may be read just now"
    """(407) Every partition is in use, not started, or not read for a while: flow control, errors, the first lookup."""
    NOT_YET = "some partitions have not been read to their ends yet"
    """(404) There may be records: a fetch is in flight, or a partition is not read for a while. Poll again."""
    NOTHING_NEW = "there is nothing new"
    """(404) All partitions were read to their ends, except those that are paused or in use."""


def empty_reason(statuses: Collection[PartitionStatus]) -> EmptyReason:
    """Why a poll returns nothing, from the states of all partitions."""
    if not statuses:
        return EmptyReason.NONE_ASSIGNED
    wanted = [each for each in statuses if each.state is not ReadState.PAUSED]
    if not wanted:
        return EmptyReason.ALL_PAUSED
    if all(each.state is ReadState.IN_USE for each in wanted):
        return EmptyReason.ALL_IN_USE
    reading = [each for each in wanted if each.state in (ReadState.READING, ReadState.BUFFERED)]
    if not reading:
        return EmptyReason.ALL_WAITING
    unread = [each for each in wanted if each.state is not ReadState.IN_USE and not _at_end(each)]
    return EmptyReason.NOT_YET if unread else EmptyReason.NOTHING_NEW


def _at_end(status: PartitionStatus) -> bool:
    return status.state is ReadState.READING and (status.caught_up or status.drained)
