"""Interceptors: base classes for user code that sees, and may change, the records that clients read and send.

When they are called, and what happens to their exceptions, is in `penstock.client.intercepting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.model import HeadersLike, Value

if TYPE_CHECKING:  # a consumer of a handful of records needs no Arrow
    from penstock.client.producer.delivery import RecordMetadata
    from penstock.client.producer.validation import RowsLike
    from penstock.errors import PenstockError
    from penstock.model import Committed, Partition
    from penstock.records import Messages

__all__ = ["ConsumerInterceptor", "Outgoing", "ProducerInterceptor"]


class ConsumerInterceptor:
    """Derive from it, override the methods you need, and pass a list of instances to consumers: ``interceptors=[…]``.

    Each interceptor gets the result of the one before it. An exception is logged (``penstock.consumer``) and passed to
    ``on_callback_error``; the records continue as if the interceptor were not there.
    """

    def polled(self, batch: Messages[Any, Any]) -> Messages[Any, Any] | None:
        """``poll`` is about to return this batch, which has records. Return another batch to replace it, or None.

        Runs in the thread that polls. Positions and automatic commits cover the records that were read, whatever you
        return.
        """
        del batch
        return None

    def committed(self, offsets: Mapping[Partition, Committed]) -> None:
        """The group has committed these offsets. Runs on the client's event loop: be quick, and never block."""
        del offsets

    def closed(self) -> None:
        """The consumer has been closed."""


class Outgoing(Value, frozen=True):
    """The arguments of ``send``, before serializers and partitioner; ``dataclasses.replace`` makes a changed copy."""

    topic: str
    value: Any = None
    key: Any = None
    headers: HeadersLike | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


class ProducerInterceptor:
    """Derive from it, override the methods you need, and pass a list of instances to producers: ``interceptors=[…]``.

    Each interceptor gets the result of the one before it. An exception is logged (``penstock.producer``) and passed to
    ``on_callback_error``; the records are sent as if the interceptor were not there.
    """

    def sending(self, record: Outgoing) -> Outgoing | None:
        """``send`` was called. Return another record to replace this one, or None. Runs in the thread that sends."""
        del record
        return None

    def sending_table(self, topic: str | None, rows: RowsLike) -> RowsLike | None:
        """``send_batch`` was called. Return other rows to replace these, or None. Runs in the thread that sends."""
        del topic, rows
        return None

    def acknowledged(self, topic: str, stored: RecordMetadata | None, error: PenstockError | None) -> None:
        """A record of ``send`` is stored, or has finally failed. Runs where the callbacks of deliveries run."""
        del topic, stored, error

    def closed(self) -> None:
        """The producer has been closed."""
