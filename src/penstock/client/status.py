"""Where each partition of a consumer stands, and why a poll came back with nothing. Data and one rule; no requests."""

from __future__ import annotations

import enum
from collections.abc import Collection

from penstock._dataclasses import dataclass
from penstock.model import Partition

__all__ = ["EmptyReason", "PartitionStatus", "ReadState", "empty_reason"]


class ReadState(enum.Enum):
    """What a partition waits for."""

    STARTING = "starting"
    """Where to begin is being looked up; TubeMQ: its broker is being asked for it."""
    READING = "reading"
    """The next records are being asked for, or will be in a moment; maybe again and again, because there are none."""
    BUFFERED = "buffered"
    """Records (or an error) are here, for the next poll."""
    IN_USE = "in use"
    """Its batch is with the application, and nothing more comes before that is confirmed. TubeMQ's groups only."""
    WAITING = "waiting"
    """Left alone for a while: after an error; TubeMQ: for flow control."""
    PAUSED = "paused"
    """Held back by ``pause``."""


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition. ``position`` is the offset of the next record that poll returns (TubeMQ: of the next batch behind
    the last confirmed one); ``end_offset`` that of the next record to be written, as the log said last. None: unknown.
    ``drained``: the log was asked for what comes next, and had nothing (that this reader may see yet).
    """

    partition: Partition
    state: ReadState
    position: int | None
    end_offset: int | None
    drained: bool = False

    @property
    def caught_up(self) -> bool:
        """Whether everything that the log was last known to have has been read."""
        return self.position is not None and self.end_offset is not None and self.position >= self.end_offset


class EmptyReason(enum.Enum):
    """Why a poll returned nothing; in brackets the code that TubeMQ's Java client gives."""

    NONE_ASSIGNED = "no partition is assigned"
    """(406) The group has given this consumer nothing, now or yet."""
    ALL_PAUSED = "all partitions are paused"
    """(405)"""
    ALL_IN_USE = "all partitions wait for their batches to be confirmed"
    """(408) Commit what polls returned. TubeMQ's groups only."""
    ALL_WAITING = "no partition may be read just now"
    """(407) Each is left alone for a while, in use or being looked up: flow control, errors, the beginning."""
    NOT_YET = "some partitions have not been read to their ends yet"
    """(404) Records may be there: an answer is under way, or a partition is left alone for a while. Poll again."""
    NOTHING_NEW = "there is nothing new"
    """(404) All partitions were read to their ends, but those that are paused or in use."""


def empty_reason(statuses: Collection[PartitionStatus]) -> EmptyReason:
    """What keeps a poll from returning anything, where partitions stand like this."""
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
