"""What both client transports share: a greeted connection, and its numbers."""

from __future__ import annotations

from typing import Generic, TypeVar

from penstock._dataclasses import dataclass
from penstock.seams.channel import Connection

__all__ = ["LARGEST_CORRELATION", "NO_ADDRESS", "OpenLink"]

State = TypeVar("State")
AnyConnection = TypeVar("AnyConnection", bound=Connection)

LARGEST_CORRELATION = 2**31 - 1
"""Correlation ids are positive 32-bit integers in all three protocols; after the last one comes 1 again."""

NO_ADDRESS = (OSError, ValueError, OverflowError)
"""What connecting raises: besides the system's errors, a host that is no name and a port that is no port, which a peer
may have told us."""


@dataclass(frozen=True, slots=True)
class OpenLink(Generic[AnyConnection, State]):
    """``penstock.seams.channel.Link``."""

    connection: AnyConnection
    state: State
