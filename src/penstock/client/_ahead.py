"""Ahead: how much is fetched before anybody takes it, as bytes that are held and bytes that are on their way.

What must not live here: who is asked (`_fetcher`).
"""

from __future__ import annotations

from typing import Final

from penstock._dataclasses import dataclass
from penstock.config import ConsumerConfig

__all__ = ["Ahead"]

_ANSWERS: Final = 2
"""Answers that may wait, of each node that is read from: one that is being taken, one that comes meanwhile. More would
make no reader faster, only larger."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """For one consumer that reads from so many nodes and partitions now; all in bytes.

    ``bound``: the most that all may hold ahead, with what was asked for. ``share``: a partition is asked for while no
    more of it waits. ``most``: what one node is asked for. ``least``: with less room than that, no node is asked.
    """

    bound: int
    share: int
    most: int
    least: int

    @classmethod
    def of(cls, config: ConsumerConfig, nodes: int, partitions: int) -> Ahead:
        """The limits that leave every node something to be asked for at the same time, however many there are."""
        each = config.max_partition_fetch_bytes
        bound = min(config.fetch_buffer_bytes, _ANSWERS * max(config.fetch_max_bytes, each) * nodes)
        most = min(config.fetch_max_bytes, max(bound // nodes, 1))
        # While one answer of a partition waits, the next one may come: no node is asked for less than it could send.
        share = max(bound // max(partitions, 1), 2 * each) - each
        return cls(bound, share, most, min(each, most))

    def room(self, taken: int) -> int:
        """How much may be asked for where ``taken`` is held or on its way; 0 for not now.

        Where there is nothing, there is room: a bound smaller than one answer must not stop everything.
        """
        room = self.bound - taken
        return 0 if taken and room < self.least else min(self.most, max(room, self.least))
