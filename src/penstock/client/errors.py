"""Errors that only the engine raises: what the log itself cannot know. The rest are `penstock.errors`."""

from __future__ import annotations

from penstock.errors import LocalError, RemoteError, RequestTimeout

__all__ = ["BufferFull", "CommitFailed", "DeliveryTimeout", "NoOffset", "TransactionAborted", "WakeUp"]


class BufferFull(LocalError):
    """Records come faster than the log takes them: ``buffer_memory_bytes`` stayed full for ``max_block_ms``."""

    retriable = True


class CommitFailed(RemoteError):
    """The group went on without this consumer, or is sharing out: others may have its partitions and be further.

    Nothing was committed. ``poll()`` joins again; what was not committed comes again to whoever has the partitions.
    Java's CommitFailedException and RebalanceInProgressException.
    """


class DeliveryTimeout(RequestTimeout):
    """A record was not acknowledged within ``delivery_timeout_ms``; it may or may not be stored."""


class NoOffset(LocalError):
    """A partition has no committed offset, and ``auto_offset_reset`` is none."""


class TransactionAborted(LocalError):
    """A record was not stored, or is hidden for ever, because the transaction it was put into was aborted."""


class WakeUp(LocalError):
    """``Consumer.wakeup()`` was called: the consumer is as it was, and may go on or be closed."""
