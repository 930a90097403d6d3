"""A connection to a name server, a broker or a proxy: nothing is said before the first request; servers may ask, too.

What a server asks for (39, 40, 220, 221, 307, 309, 326) is the business of whoever made the dialect.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.protocols.rocketmq.command import ONE_WAY, RESPONSE, RemotingCommand, encode
from penstock.protocols.rocketmq.framing import RocketFraming, command_of
from penstock.seams.channel import Connection
from penstock.seams.framing import Buffers, Frame

__all__ = ["Asked", "RocketDialect", "unheard"]

Asked = Callable[[Connection, RemotingCommand], RemotingCommand | None]
"""Takes a server's request; returns its answer (its number is filled in), or None: then nothing is written."""


def unheard(connection: Connection, asked: RemotingCommand) -> None:
    """Take no notice of what servers ask, for those who are no member of anything."""
    del connection, asked


class RocketDialect:
    """``penstock.seams.channel.Dialect``: greeting finds nothing out, ``asked`` hears what servers ask for."""

    def __init__(self, asked: Asked = unheard) -> None:
        self._asked = asked

    def framing(self) -> RocketFraming:
        """A fresh receiving side."""
        return RocketFraming(answers=True)

    async def greet(self, connection: Connection) -> None:
        """No first words."""
        del connection

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        """Have the request heard; write its answer in its form, unless nobody waits for one."""
        request = command_of(frame)
        answer = self._asked(connection, request)
        if answer is None or request.is_one_way:
            return None
        return encode(
            answer._replace(opaque=request.opaque, flag=(answer.flag | RESPONSE) & ~ONE_WAY, compact=request.compact)
        )
