"""Straight: a record that came alone, received by the thread whose poll returns it, without a buffer in between.

Nothing was there before it, so it is what the poll has waited for. Its position moves on when it is taken, as that of
buffered records: a poll that an interrupt has ended in between leaves it for the next one.
What must not live here: receiving, and what more than one record needs (`_buffer`).
"""

from __future__ import annotations

from penstock.client._partitions import Partitions, PartitionState
from penstock.columnar import Messages
from penstock.errors import PenstockError
from penstock.seams import Fetched

__all__ = ["Straight"]


class Straight:
    """At most one, of one consumer. Used by who has the hold of its reads, or in the thread that polls."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: tuple[PartitionState, int, Messages] | None = None

    def keep(self, state: PartitionState, answer: Fetched) -> bool:
        """Whether ``answer`` is one record, the next one of its partition, and kept here now."""
        end = answer.offset + 1
        if answer.next_offset != end or state.position != answer.offset or state.buffer or self.held is not None:
            return False
        try:
            messages, found_end = answer.decode()
        except PenstockError:
            return False  # whoever takes it from the buffer is told
        if found_end != end or len(messages) != 1:
            return False
        state.high_watermark = answer.high_watermark
        state.drained = False
        state.fetch_offset = end
        self.held = state, state.version, messages
        return True

    def take(self, partitions: Partitions) -> Messages | None:
        """It, if there is one, and it is still what comes next."""
        if self.held is None:
            return None
        state, version, messages = self.held
        self.held = None
        if state.version != version or partitions.get(state.partition) is not state:
            return None  # the application went elsewhere
        if state.paused:
            state.refetch()
            return None
        state.position = state.fetch_offset
        return messages
