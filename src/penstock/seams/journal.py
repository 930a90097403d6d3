"""Journals: what a node itself keeps (groups, offsets, transactional ids, settings), apart from the data it serves.

A journal is a named log of keys and values in some places (partitions): the last value of a key counts. Where journals
lie is the node's choice, and may be a cluster, so that the node keeps nothing of its own. There their names begin with
`OWN_TOPICS` and the node's number: a cluster has a ``__consumer_offsets`` of its own, and other nodes have theirs. What
keys and values say is their owner's business; a protocol may lend its own formats, so that its tools read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from penstock.columnar.entries import Ended, Entry, Noted
from penstock.model import Partition

__all__ = ["OWN_TOPICS", "Compose", "Ended", "Entry", "Follow", "Journal", "Journals", "Noted", "Within"]

OWN_TOPICS: Final = "__penstock_"
"""How topics of nodes begin, where the log is not theirs alone: then the node's number, then the journal's name."""

Compose = Callable[[], Sequence[Entry]]
"""Says what is to be written, when nothing can come between that and the order of the log. It may look whether it is
still right to write it; what it raises is raised, and nothing is written then."""

Follow = Callable[[int, Noted | Ended], None]
"""Is told what stands in the log: its place, and what it is."""


class Within(NamedTuple):
    """The producer whose open transaction entries are part of."""

    producer_id: int
    epoch: int


class Journal(Protocol):
    """One log of a node's own. Errors: StoreError and its kin; ConnectionLost where it lies elsewhere."""

    async def places(self) -> int:
        """How many places it has; it is made when it is first asked for that."""
        ...

    async def partition(self, place: int) -> Partition:
        """The place as a partition that takes part in transactions."""
        ...

    async def replay(self, follow: Follow) -> None:
        """Tell everything, each place in its order, before anything is appended.

        From then on ``follow`` is told what turned out to stand in the log although its append did not return: it
        failed in doubt, or its caller was gone. It may be told a thing twice.
        """
        ...

    async def settled(self) -> None:
        """Return when nothing is in doubt: ``follow`` has been told all that stands in the log."""
        ...

    async def append(self, place: int, compose: Compose, within: Within | None = None) -> Sequence[int]:
        """Write entries; durable when this returns. Returns where each of them stands, nothing for none.

        Appends of one place stand in the log in the order of these calls. An answer that gets lost is no failure: it is
        looked up in the log whether the entries are there. A request that lands only after that look, though its call
        has failed, is noticed with the next append; what it says of a key counts from then on, as the log says it.
        """
        ...

    async def mark(self, place: int, marker: bytes) -> None:
        """Write the end of a producer's transaction, which is a batch of its own."""
        ...


class Journals(Protocol):
    """All journals of a node, by name."""

    def journal(self, name: str, *, places: int, config: Mapping[str, str]) -> Journal:
        """The journal of that name. ``places`` and ``config`` count when it is made, and stay."""
        ...
