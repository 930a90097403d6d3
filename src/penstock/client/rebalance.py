"""RebalanceListener: an application's callbacks for partitions that are assigned or taken away."""

from __future__ import annotations

from collections.abc import Awaitable, Collection

from penstock.model import Partition

__all__ = ["RebalanceListener"]


class RebalanceListener:
    """Derive from it, override the methods you need, and pass it to ``subscribe``.

    Methods run inside ``poll`` (and ``close``), in the thread that called it; they may commit, seek and pause. With an
    AsyncConsumer they may also be coroutine functions. ``poll`` raises an exception of theirs when the rebalance is
    complete.

    >>> class Printer(RebalanceListener):
    ...     def assigned(self, partitions):
    ...         print("new:", sorted(map(str, partitions)))
    >>> Printer().assigned([Partition("flights", 0)])
    new: ['flights-0']
    """

    def assigned(self, partitions: Collection[Partition]) -> Awaitable[None] | None:
        """This consumer has these partitions from now on; a ``seek`` here overrides the committed offset."""
        del partitions
        return None

    def revoked(self, partitions: Collection[Partition]) -> Awaitable[None] | None:
        """These partitions are given up when this method returns; until then their offsets can be committed."""
        del partitions
        return None

    def lost(self, partitions: Collection[Partition]) -> Awaitable[None] | None:
        """Other members already have these partitions, so a commit would fail. Calls ``revoked`` unless overridden."""
        return self.revoked(partitions)
