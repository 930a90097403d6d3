"""A connection to a master or a broker: nothing is said before the first request.

Source: Apache InLong TubeMQ 2.x, RPC protocol. Servers never speak first.
"""

from __future__ import annotations

from penstock.errors import ProtocolViolation
from penstock.interfaces.channel import Connection
from penstock.interfaces.framing import Buffers, Frame
from penstock.protocols.tubemq.framing import TubeFraming

__all__ = ["TubeDialect"]


class TubeDialect:
    """``penstock.interfaces.channel.Dialect``: greeting finds nothing out."""

    def framing(self) -> TubeFraming:
        """A fresh receiving side."""
        return TubeFraming(answers=True)

    async def greet(self, connection: Connection) -> None:
        """No first words."""
        del connection

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        """Servers never speak first."""
        del connection, frame
        raise ProtocolViolation("a server sent something that is no answer")
