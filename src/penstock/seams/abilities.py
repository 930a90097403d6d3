"""Abilities: what an enode can do beyond keeping records in order. Fronts offer what is there, and nothing else."""

from __future__ import annotations

from dataclasses import fields

from penstock._dataclasses import dataclass
from penstock.errors import Unsupported

__all__ = ["Abilities"]


@dataclass(frozen=True, slots=True)
class Abilities:
    """What is impossible gets the protocol's own error, or is not offered where the protocol lets one say so.

    ``records``: the neutral form at all, batches stored and read, the node's own among them. Without it a node serves
    only fronts that the enode relays for (`penstock.seams.relay`), and everything below is for nobody to ask.
    ``sequences``: an idempotent producer's batch is stored once; ``numbered``: it is taken at all. Where it is, though
    there are no ``sequences``, the log does not look at its numbers: one that is sent twice is stored twice, and fronts
    see to it that nothing is stored behind one that failed. ``transactions``:
    batches of open transactions are kept from readers of committed records, and markers end them. ``epochs``: leader
    epochs, and where each ended. ``compaction``: of topics by key. ``deletion`` of records before topics' limits do it.
    ``times``: offsets are found by time, and exactly, for no protocol has a word for "about there": an enode whose
    cluster finds some place near by reads on from it. ``groups``: where groups stand is kept, here or in journals
    beside it. ``topics``: made, grown and deleted from here; ``options`` of them changed. ``sizes`` in bytes, and what
    room there is.
    """

    records: bool = True
    sequences: bool = True
    numbered: bool = True
    transactions: bool = True
    epochs: bool = True
    compaction: bool = True
    deletion: bool = True
    times: bool = True
    groups: bool = True
    topics: bool = True
    options: bool = True
    sizes: bool = True

    def lacks(self, names: frozenset[str]) -> frozenset[str]:
        """Those of ``names`` that are missing."""
        return frozenset(each.name for each in fields(self) if each.name in names and not getattr(self, each.name))

    def need(self, *names: str) -> None:
        """Raise Unsupported unless all of ``names`` are there."""
        missing = self.lacks(frozenset(names))
        if missing:
            raise Unsupported(f"the log behind this node has no {', '.join(sorted(missing))}")
