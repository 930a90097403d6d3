"""Errors that only the client's engines raise, because the log cannot know of them. All others: `penstock.errors`."""

from __future__ import annotations

from penstock.errors import LocalError, RemoteError, RequestTimeout

__all__ = ["BufferFull", "CommitFailed", "DeliveryTimeout", "NoOffset", "TransactionAborted", "WakeUp"]


class BufferFull(LocalError):
    """Records come faster than the log stores them: ``buffer_memory_bytes`` stayed in use for ``max_block_ms``."""

    retriable = True


class CommitFailed(RemoteError):
    """The group continued without this consumer, or is rebalancing: other members may have its partitions by now.

    Nothing was committed. ``poll()`` joins again; records that were not committed are delivered again to the new owner
    of the partitions. Java's CommitFailedException and RebalanceInProgressException.
    """


class DeliveryTimeout(RequestTimeout):
    """A record was not acknowledged within ``delivery_timeout_ms``; it may or may not be stored."""


class NoOffset(LocalError):
    """A partition has no committed offset, and ``auto_offset_reset`` is none."""


class TransactionAborted(LocalError):
    """A record was not stored, or stays hidden for ever, because its transaction was aborted."""


class WakeUp(LocalError):
    """``Consumer.wakeup()`` was called: the consumer is unchanged, and may be used further or closed."""
