"""RebalanceListener: how an application hears that partitions come and go."""

from __future__ import annotations

from collections.abc import Awaitable, Collection

from penstock.model import Partition

__all__ = ["RebalanceListener"]


class RebalanceListener:
    """Derive from it, override what you need, and give it to ``subscribe``.

    Methods run inside ``poll`` (and ``close``), in the thread that called it; they may commit, seek and pause. Under an
    AsyncConsumer they may also be coroutine functions. An exception is raised from that ``poll``, once the rebalance is
    through.

    >>> class Told(RebalanceListener):
    ...     def assigned(self, partitions):
    ...         print("new:", sorted(map(str, partitions)))
    >>> Told().assigned([Partition("flights", 0)])
    new: ['flights-0']
    """

    def assigned(self, partitions: Collection[Partition]) -> Awaitable[None] | None:
        """These are this consumer's from now on; a ``seek`` here wins over the committed offset."""
        del partitions
        return None

    def revoked(self, partitions: Collection[Partition]) -> Awaitable[None] | None:
        """These will be given up when this returns; they can still be committed."""
        del partitions
        return None

    def lost(self, partitions: Collection[Partition]) -> Awaitable[None] | None:
        """These belong to others already; committing them would fail. Calls ``revoked`` unless overridden."""
        return self.revoked(partitions)
