"""Interceptors: code of yours that sees, and may change, what clients read and send. Names users derive from.

What must not live here: when they are called, and what becomes of what they raise (`_intercepting`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock._dataclasses import dataclass

if TYPE_CHECKING:  # a consumer of a handful of records does without Arrow
    from penstock.client.producer.delivery import RecordMetadata
    from penstock.client.producer.validation import RowsLike
    from penstock.errors import PenstockError
    from penstock.model import Committed, Partition
    from penstock.records import Messages
    from penstock.records.encoding import HeadersLike

__all__ = ["ConsumerInterceptor", "Outgoing", "ProducerInterceptor"]


class ConsumerInterceptor:
    """Derive from it, override what you need, and give consumers a list of them: ``interceptors=[…]``.

    Each gets what the one before it made. What one raises is logged (``penstock.consumer``) and told to
    ``on_callback_error``; records go on as if it had not been there.
    """

    def polled(self, batch: Messages[Any, Any]) -> Messages[Any, Any] | None:
        """``poll`` is about to return this batch, which has records; None leaves it, another one takes its place.

        In the thread that polls. Positions and automatic commits cover what was read, whatever is returned.
        """
        del batch
        return None

    def committed(self, offsets: Mapping[Partition, Committed]) -> None:
        """The group has committed these. Runs on the client's loop: be quick, and wait for nothing."""
        del offsets

    def closed(self) -> None:
        """The consumer is closed."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record as ``send`` got it, before serializers and partitioner; ``dataclasses.replace`` makes a changed one."""

    topic: str
    value: Any = None
    key: Any = None
    headers: HeadersLike | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


class ProducerInterceptor:
    """Derive from it, override what you need, and give producers a list of them: ``interceptors=[…]``.

    Each gets what the one before it made. What one raises is logged (``penstock.producer``) and told to
    ``on_callback_error``; records are sent as if it had not been there.
    """

    def sending(self, record: Outgoing) -> Outgoing | None:
        """``send`` was called; None leaves the record, another one takes its place. In the thread that sends."""
        del record
        return None

    def sending_table(self, topic: str | None, rows: RowsLike) -> RowsLike | None:
        """``send_batch`` was called; None leaves the rows, others take their place. In the thread that sends."""
        del topic, rows
        return None

    def acknowledged(self, topic: str, stored: RecordMetadata | None, error: PenstockError | None) -> None:
        """A record of ``send`` is stored, or has failed for good. Where callbacks of deliveries run."""
        del topic, stored, error

    def closed(self) -> None:
        """The producer is closed."""
