"""Relay: the way past the neutral form. A front hands a frame on to servers that speak its own protocol.

So ids, store times and flags stay what they were, and nothing is transcoded. A front asks its enode once for
``relay(scheme)``; where there is none it goes by batches, as all others do. What must not live here: which requests are
handed on, which each front says in its own table.
"""

from __future__ import annotations

from typing import Protocol

from penstock.seams.enode import Place
from penstock.seams.framing import Frame

__all__ = ["Relay"]


class Relay(Protocol):
    """To the servers behind an enode, over connections that the enode keeps for all clients of this node together."""

    @property
    def scheme(self) -> str:
        """The protocol that is spoken behind: that of the fronts which may use this."""
        ...

    async def hand_on(self, request: Frame, place: Place | None = None, *, held_s: float = 0.0) -> Frame:
        """Ask the node of ``place`` (None: any of them), and return its answer.

        The body goes as it came, and so does the answer's: only the correlation id is one of the enode's own on the
        way, and the request's again in what is returned. A protocol that has the id within the body sets it there.
        ``held_s``: for how long the server may keep the answer on purpose (a long poll). Requests to one place are
        written in the order of the calls. Raises UpstreamLost where the answer did not come; what was asked may then
        have happened. What the server refuses is an answer like any other.
        """
        ...

    async def hand_over(self, message: Frame, place: Place | None = None) -> None:
        """The same for what is never answered. Raises UpstreamLost where it could not be written."""
        ...
