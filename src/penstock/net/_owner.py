"""What one client's connection needs of the listener that it came through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.net._server_connection import ServerConnection
    from penstock.net.serving_clock import ServingClock

__all__ = ["Owner"]


class Owner(Protocol):
    """Bounds how many there are, and adds up what they carried."""

    @property
    def clock(self) -> ServingClock:
        """For all that a client may be too slow with."""
        ...

    def admit(self, connection: ServerConnection) -> bool:
        """Whether it may stay."""
        ...

    def tells_of_misdirected(self) -> bool:
        """Whether a warning is due that a client speaks another protocol: one a minute, for some try every second."""
        ...

    def forget(self, connection: ServerConnection) -> None:
        """It is gone."""
        ...
