"""Lateness: what is said of a record that was not acknowledged in time."""

from __future__ import annotations

from penstock.client.errors import DeliveryTimeout
from penstock.errors import PenstockError
from penstock.model import Partition

__all__ = ["too_late"]


def too_late(partition: Partition, timeout_ms: int, cause: PenstockError | None) -> DeliveryTimeout:
    """The error of a record whose delivery time is over; ``cause`` is what its last attempt met."""
    error = DeliveryTimeout(
        f"not acknowledged within delivery_timeout_ms={timeout_ms}" + (f"; the last attempt: {cause}" if cause else ""),
        topic=partition.topic,
        partition=partition.id,
        hint="The record may be stored all the same" if cause else "It was never sent",
    )
    error.__cause__ = cause
    return error
